"""Classic CUDA C programs on grids: images, matrices, Mandelbrot, Life, n-body, Monte Carlo."""

import numpy as np
import pytest
from helpers.user_kernels import module

import pycudakit as pk
from pycudakit import In, InOut, Out

RNG = np.random.default_rng(66)
TILE = 16


def over(height, width):
    """Return the block and grid with one thread for each element of a matrix, x along its rows."""
    return {"block": (TILE, TILE, 1), "grid": (-(-width // TILE), -(-height // TILE))}


# ---- Images -----------------------------------------------------------------------------------------

IMAGES = r"""
struct Pixel { unsigned char r, g, b; };

__global__ void grey(const Pixel *image, unsigned char *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    Pixel p = image[y * width + x];
    out[y * width + x] = 0.299f * p.r + 0.587f * p.g + 0.114f * p.b;
}

// The mean of the neighbours that there are.
__global__ void blur(const unsigned char *in, unsigned char *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int sum = 0, count = 0;
        for (int dy = -1; dy <= 1; ++dy)
            for (int dx = -1; dx <= 1; ++dx) {
                int nx = x + dx, ny = y + dy;
                if (nx >= 0 && nx < width && ny >= 0 && ny < height) {
                    sum += in[ny * width + nx];
                    ++count;
                }
            }
        out[y * width + x] = (unsigned char)(sum / count);
    }
}

#define TILE 16

// A column more in the tile, so that a column's elements lie in different banks.
__global__ void transpose(const float *in, float *out, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}
"""
SIZES = [(1, 1), (16, 16), pytest.param(5, 37, marks=pytest.mark.smoke), (33, 16), (70, 101)]


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_grey(engine, height, width):
    image = RNG.integers(0, 256, (height, width, 3), np.uint8)
    out = np.zeros((height, width), np.uint8)
    grey = module(IMAGES).get_function("grey")
    grey(In(image), Out(out), np.int32(width), np.int32(height), **over(height, width))
    red, green, blue = np.moveaxis(image.astype(np.float32), -1, 0)
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    expected = weights[0] * red + weights[1] * green + weights[2] * blue
    np.testing.assert_array_equal(out, expected.astype(np.uint8))


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_blur(engine, height, width):
    image = RNG.integers(0, 256, (height, width), np.uint8)
    out = np.zeros_like(image)
    blur = module(IMAGES).get_function("blur")
    blur(In(image), Out(out), np.int32(width), np.int32(height), **over(height, width))

    def sums(a):
        padded = np.pad(a.astype(int), 1)
        return sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3))

    np.testing.assert_array_equal(out, sums(image) // sums(np.ones_like(image)))


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_transpose(engine, height, width):
    x = RNG.standard_normal((height, width)).astype(np.float32)
    out = np.full((width, height), np.nan, np.float32)
    transpose = module(IMAGES).get_function("transpose")
    transpose(In(x), Out(out), np.int32(width), np.int32(height), **over(height, width))
    np.testing.assert_array_equal(out, x.T)


# ---- Products of matrices ---------------------------------------------------------------------------

PRODUCTS = r"""
#define TILE 16

__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && column < n) {
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
        c[row * n + column] = sum;
    }
}

__global__ void matmul_tiled(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; ++t) {
        as[ty][tx] = row < m && t * TILE + tx < k ? a[row * k + t * TILE + tx] : 0;
        bs[ty][tx] = column < n && t * TILE + ty < k ? b[(t * TILE + ty) * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
"""


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("name", ["matmul", "matmul_tiled"])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (16, 16, 16), pytest.param(17, 5, 23, marks=pytest.mark.smoke), (33, 64, 31), (70, 45, 91)],
)
def test_matrix_product(engine, name, m, k, n, debug):
    a = RNG.integers(-9, 10, (m, k)).astype(np.float32)  # products are exact in float32
    b = RNG.integers(-9, 10, (k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    module(PRODUCTS, debug=debug).get_function(name)(In(a), In(b), Out(c), *sizes, **over(m, n))
    np.testing.assert_array_equal(c, a @ b)


def test_matrix_product_of_views(engine):
    """Arrays that are not contiguous are packed for the upload, and unpacked after the download."""
    a = RNG.integers(-9, 10, (40, 20)).astype(np.float32)[::2, ::-1]
    b = RNG.integers(-9, 10, (30, 20)).astype(np.float32).T
    room = np.full((20, 60), -1, np.float32)
    c = room[:, ::2]
    sizes = np.int32(20), np.int32(30), np.int32(20)
    module(PRODUCTS).get_function("matmul_tiled")(In(a), In(b), Out(c), *sizes, **over(20, 30))
    np.testing.assert_array_equal(c, a @ b)
    assert (room[:, 1::2] == -1).all()


# ---- Mandelbrot -------------------------------------------------------------------------------------

MANDELBROT = r"""
__global__ void mandelbrot(int *counts, int width, int height, float x0, float y0, float step, int most) {
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float cx = x0 + px * step, cy = y0 + py * step, x = 0, y = 0;
    int n = 0;
    while (x * x + y * y <= 4.0f && n < most) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        ++n;
    }
    counts[py * width + px] = n;
}
"""


def mandelbrot(width, height, x0, y0, step, most):
    """Compute the kernel's result in NumPy, with the same roundings."""
    x0, y0, step = np.float32(x0), np.float32(y0), np.float32(step)
    cx = np.broadcast_to(x0 + np.arange(width, dtype=np.float32) * step, (height, width))
    cy = np.broadcast_to((y0 + np.arange(height, dtype=np.float32) * step)[:, None], (height, width))
    x, y = np.zeros((2, height, width), np.float32)
    counts = np.zeros((height, width), np.int32)
    for _ in range(most):
        inside = x * x + y * y <= 4
        counts += inside
        x, y = (
            np.where(inside, x * x - y * y + cx, x),
            np.where(inside, 2 * x * y + cy, y),
        )
    return counts


@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), pytest.param(40, 30, marks=pytest.mark.smoke), (133, 65)]
)
def test_mandelbrot(engine, width, height):
    counts = np.zeros((height, width), np.int32)
    where = -2.0, -1.2, 3.0 / width, 80
    module(MANDELBROT).get_function("mandelbrot")(Out(counts), width, height, *where, **over(height, width))
    np.testing.assert_array_equal(counts, mandelbrot(width, height, *where))


# ---- Life -------------------------------------------------------------------------------------------

LIFE = r"""
__global__ void step(const unsigned char *cells, unsigned char *next, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int left = (x + width - 1) % width, right = (x + 1) % width;
    int up = (y + height - 1) % height * width, down = (y + 1) % height * width, here = y * width;
    int neighbours = cells[up + left] + cells[up + x] + cells[up + right] + cells[here + left]
                   + cells[here + right] + cells[down + left] + cells[down + x] + cells[down + right];
    next[here + x] = neighbours == 3 || (neighbours == 2 && cells[here + x]);
}
"""


def life(cells, steps):
    for _ in range(steps):
        around = [np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        neighbours = sum(around)
        cells = ((neighbours == 3) | ((neighbours == 2) & (cells == 1))).astype(np.uint8)
    return cells


@pytest.mark.parametrize(
    ("height", "width"), [pytest.param(3, 3, marks=pytest.mark.smoke), (16, 16), (40, 71)]
)
def test_life(engine, height, width):
    cells = RNG.integers(0, 2, (height, width), np.uint8)
    expected = life(cells, 5)
    step = module(LIFE).get_function("step")
    following = np.empty_like(cells)
    for _ in range(5):
        step(In(cells), Out(following), np.int32(height), np.int32(width), **over(height, width))
        cells, following = following, cells
    np.testing.assert_array_equal(cells, expected)


@pytest.mark.parametrize(("height", "width"), [(3, 3), (64, 80)])
def test_life_in_one_call(engine, height, width):
    """The field is uploaded and downloaded once, for any number of steps."""
    cells = RNG.integers(0, 2, (height, width), np.uint8)
    step = module(LIFE).get_function("step")
    p = pk.Program()
    u, v = p.inout("u", cells.shape, np.uint8), p.temp("v", cells.shape, np.uint8)
    sizes = np.int32(height), np.int32(width)
    with p.repeat(10):
        p.launch(step, u, v, *sizes, **over(height, width))
        p.launch(step, v, u, *sizes, **over(height, width))
    result = p(u=cells)["u"]
    if engine == "cuda":
        call = pk.last_call()
        assert (call.bytes_up, call.bytes_down) == (cells.nbytes, cells.nbytes)
    np.testing.assert_array_equal(result, life(cells, 20))


# ---- Bodies -----------------------------------------------------------------------------------------

BODIES = r"""
__device__ float3 interaction(float4 bi, float4 bj, float3 ai) {
    float3 r;
    r.x = bj.x - bi.x;
    r.y = bj.y - bi.y;
    r.z = bj.z - bi.z;
    float distance = r.x * r.x + r.y * r.y + r.z * r.z + 0.01f;
    float inverse = rsqrtf(distance);
    float s = bj.w * inverse * inverse * inverse;
    ai.x += r.x * s;
    ai.y += r.y * s;
    ai.z += r.z * s;
    return ai;
}

__global__ void accelerations(const float4 *bodies, float4 *out, int n) {
    extern __shared__ float4 shared_bodies[];
    int own = blockIdx.x * blockDim.x + threadIdx.x;
    float4 body = own < n ? bodies[own] : make_float4(0, 0, 0, 0);
    float3 a = {0.0f, 0.0f, 0.0f};
    for (int first = 0; first < n; first += blockDim.x) {
        int i = first + threadIdx.x;
        shared_bodies[threadIdx.x] = i < n ? bodies[i] : make_float4(0.f, 0.f, 0.f, 0.f);
        __syncthreads();
        for (int k = 0; k < blockDim.x; ++k) a = interaction(body, shared_bodies[k], a);
        __syncthreads();
    }
    if (own < n) out[own] = make_float4(a.x, a.y, a.z, 0.0f);
}
"""


def accelerations(bodies):
    at, mass = bodies[:, :3].astype(float), bodies[:, 3].astype(float)
    r = at[None] - at[:, None]
    return (r * (mass / ((r * r).sum(-1) + 0.01) ** 1.5)[..., None]).sum(1)


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize(
    ("n", "threads"), [(1, 32), (64, 64), pytest.param(100, 32, marks=pytest.mark.smoke), (257, 128)]
)
def test_bodies(engine, n, threads, debug):
    bodies = RNG.random((n, 4), np.float32)
    out = np.full((n, 4), np.nan, np.float32)
    kernel = module(BODIES, debug=debug).get_function("accelerations")
    shape = {"block": (threads, 1, 1), "grid": (-(-n // threads), 1)}
    kernel(In(bodies), Out(out), np.int32(n), **shape, shared=threads * 16)
    expected = accelerations(bodies)
    np.testing.assert_allclose(out[:, :3], expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max()))
    assert (out[:, 3] == 0).all()


# ---- Monte Carlo ------------------------------------------------------------------------------------

MONTE_CARLO = r"""
#include <curand_kernel.h>

extern "C" {

__global__ void sizes(int *bytes) {
    bytes[0] = sizeof(curandState);
    bytes[1] = sizeof(curandStatePhilox4_32_10_t);
}

__global__ void seed(curandState *states, unsigned long long seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) curand_init(seed, i, 0, &states[i]);
}

// Points of the unit square inside the circle.
__global__ void throw_darts(curandState *states, unsigned int *inside, int throws, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandState state = states[i];
    for (int k = 0; k < throws; ++k) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        inside[i] += x * x + y * y <= 1.0f;
    }
    states[i] = state;
}

__global__ void seed_philox(curandStatePhilox4_32_10_t *states, unsigned long long seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) curand_init(seed, i, 0, &states[i]);
}

__global__ void draw_normal(curandStatePhilox4_32_10_t *states, float *out, int each, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t state = states[i];
    for (int k = 0; k < each; k++) out[k * n + i] = curand_normal(&state);
    states[i] = state;
}

__global__ void draw_bits(curandState *states, curandStatePhilox4_32_10_t *others, unsigned int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = curand(&states[i]);
    out[n + i] = curand(&others[i]);
}

}
"""


def seeded(n, seed):
    """Return the generator states of each thread, XORWOW and Philox."""
    mod = module(MONTE_CARLO, no_extern_c=True)
    sizes = np.zeros(2, np.int32)
    mod.get_function("sizes")(Out(sizes), block=(1, 1, 1))
    shape = {"block": (64, 1, 1), "grid": (-(-n // 64), 1)}
    both = []
    for name, bytes_each in zip(("seed", "seed_philox"), sizes, strict=True):
        states = np.zeros((n, bytes_each), np.uint8)
        mod.get_function(name)(Out(states), np.uint64(seed), np.int32(n), **shape)
        both.append(states)
    return mod, shape, both


@pytest.mark.smoke
def test_monte_carlo(engine):
    n, throws = 512, 400
    mod, shape, (states, _) = seeded(n, 1234)
    total = 0
    for _ in range(2):
        inside = np.zeros(n, np.uint32)
        before = states.copy()
        mod.get_function("throw_darts")(InOut(states), Out(inside), np.int32(throws), np.int32(n), **shape)
        assert (states != before).any(1).all()
        assert len(np.unique(inside)) > 20
        total += int(inside.sum())
    # Within five standard deviations.
    assert abs(4 * total / (2 * n * throws) - np.pi) < 5 * 1.64 / np.sqrt(2 * n * throws)


def test_normal_draws_go_on_from_launch_to_launch(engine):
    n = 256
    mod, shape, (_, states) = seeded(n, 99)
    draw = mod.get_function("draw_normal")
    at_once, first, second = np.zeros((40, n), np.float32), *np.zeros((2, 20, n), np.float32)
    again = states.copy()
    draw(InOut(again), Out(at_once), np.int32(40), np.int32(n), **shape)
    for part in (first, second):
        draw(InOut(states), Out(part), np.int32(20), np.int32(n), **shape)
    np.testing.assert_array_equal(np.concatenate([first, second]), at_once)
    np.testing.assert_array_equal(states, again)
    assert abs(at_once.mean()) < 5 / np.sqrt(at_once.size)
    assert abs(at_once.std() - 1) < 5 / np.sqrt(2 * at_once.size)


def test_both_engines_draw_the_same_bits(both_engines):
    drawn = []
    for name in ("cpu", "cuda"):
        with pk.engine(name):
            mod, shape, (xorwow, philox) = seeded(300, 2**40 + 7)
            out = np.zeros((2, 300), np.uint32)
            mod.get_function("draw_bits")(InOut(xorwow), InOut(philox), Out(out), np.int32(300), **shape)
            drawn.append(out)
    np.testing.assert_array_equal(*drawn)
