"""Classic beginners' programs in CUDA C: vectors, counting, printing, structs, templates."""

import numpy as np
import pytest
from helpers.user_kernels import module

import pycudakit as pk
from pycudakit import In, InOut, Out

RNG = np.random.default_rng(6)


def blocks_for(n, block):
    return (n + block - 1) // block, 1


# ---- Vectors ----------------------------------------------------------------------------------------

ADD = r"""
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""


@pytest.mark.smoke
@pytest.mark.parametrize("n", [1, 255, 256, 257, 100_003])
def test_vector_add(engine, n):
    a, b = RNG.standard_normal((2, n), np.float32)
    c = np.full(n, np.nan, np.float32)
    add = module(ADD).get_function("add")
    assert add(In(a), In(b), Out(c), np.int32(n), block=(256, 1, 1), grid=blocks_for(n, 256)) is None
    np.testing.assert_array_equal(c, a + b)
    assert pk.last_call().engine == engine


@pytest.mark.smoke
@pytest.mark.parametrize("wrap", [InOut, lambda a: a], ids=["InOut", "bare"])
def test_doubling_a_matrix(engine, wrap):
    source = r"""
    __global__ void doublify(float *a)
    {
        int idx = threadIdx.x + threadIdx.y*4;
        a[idx] *= 2;
    }
    """
    a = RNG.standard_normal((4, 4)).astype(np.float32)
    expected = a * 2
    module(source).get_function("doublify")(wrap(a), block=(4, 4, 1))
    np.testing.assert_array_equal(a, expected)


SQUARES = r"""
// A grid that fits exactly, and one with threads to spare.
__global__ void square_exactly(double *out, const double *in) {
    const int idx = threadIdx.x + blockDim.x * blockIdx.x;
    out[idx] = in[idx] * in[idx];
}

__global__ void square(double *out, const double *in, int n) {
    const int idx = threadIdx.x + blockDim.x * blockIdx.x;
    if (idx < n) {
        out[idx] = in[idx] * in[idx];
    }
}

__global__ void square_by_striding(double *out, const double *in, int n) {
    for (int idx = threadIdx.x + blockDim.x * blockIdx.x; idx < n; idx += blockDim.x * gridDim.x) {
        out[idx] = in[idx] * in[idx];
    }
}
"""


@pytest.mark.parametrize(("block", "blocks"), [(1, 1), (64, 1), (32, 7), (1024, 3)])
def test_square_of_an_exact_fit(engine, block, blocks):
    x = RNG.standard_normal(block * blocks)
    out = np.zeros_like(x)
    square = module(SQUARES).get_function("square_exactly")
    square(Out(out), In(x), block=(block, 1, 1), grid=(blocks, 1))
    np.testing.assert_array_equal(out, x * x)


@pytest.mark.parametrize("name", ["square", "square_by_striding"])
@pytest.mark.parametrize("n", [1, 31, 128, 129, 5000])
def test_square_with_a_guard(engine, name, n):
    x = RNG.standard_normal(n)
    out = np.full(n, np.nan)
    blocks = blocks_for(n, 128) if name == "square" else (3, 1)
    module(SQUARES).get_function(name)(Out(out), In(x), np.int32(n), block=(128, 1, 1), grid=blocks)
    np.testing.assert_array_equal(out, x * x)


# ---- Counting ---------------------------------------------------------------------------------------

HISTOGRAM = r"""
__global__ void count(const unsigned char *data, unsigned int *bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i]], 1);
}

// Each block counts for itself first.
__global__ void count_in_shared(const unsigned char *data, unsigned int *bins, int n) {
    __shared__ unsigned int own[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&own[data[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(bins + b, own[b]);
}
"""


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["count", "count_in_shared"])
@pytest.mark.parametrize("n", [1, 1000, 100_001])
def test_histogram(engine, name, n):
    """An Out buffer starts as zeros, whatever the array contains."""
    data = RNG.integers(0, 256, n, np.uint8)
    bins = np.full(256, 12345, np.uint32)
    blocks = blocks_for(n, 256) if name == "count" else (6, 1)
    module(HISTOGRAM).get_function(name)(In(data), Out(bins), np.int32(n), block=(256, 1, 1), grid=blocks)
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))


def test_counts_that_are_added_to(engine):
    data = RNG.integers(0, 256, 1000, np.uint8)
    bins = np.ones(256, np.uint32)
    count = module(HISTOGRAM).get_function("count")
    count(In(data), InOut(bins), np.int32(1000), block=(256, 1, 1), grid=(4, 1))
    np.testing.assert_array_equal(bins, 1 + np.bincount(data, minlength=256))


# ---- Printing ---------------------------------------------------------------------------------------

HELLO = r"""
#include <stdio.h>

__global__ void say_hi()
{
    printf("I am %d.%d of %s\n", threadIdx.x, threadIdx.y, "the block");
}

__global__ void tell(const float *x, long long big, unsigned char c)
{
    if (threadIdx.x == 0 && blockIdx.x == 0)
        printf("%5.2f|%-6d|%06.1f|%lld|%x|%c|%e|%%\n", x[0], 42, x[1], big, 255u, c, 12345.678);
}
"""


@pytest.mark.smoke
def test_a_kernel_that_prints(engine, capsys):
    module(HELLO).get_function("say_hi")(block=(4, 4, 1))
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"I am {x}.{y} of the block" for x in range(4) for y in range(4))


def test_numbers_in_printf(engine, capsys):
    x = np.array([3.14159, -2.5], np.float32)
    tell = module(HELLO).get_function("tell")
    tell(In(x), np.int64(-(2**40)), np.uint8(ord("z")), block=(2, 1, 1), grid=(2, 1))
    said = " 3.14|42    |-002.5|-1099511627776|ff|z|1.234568e+04|%\n"
    assert capsys.readouterr().out == said


# ---- Structs ----------------------------------------------------------------------------------------

STRUCTS = r"""
struct Params {
    int n;
    double scale;
    char tag;
    float shift;
};

struct DoubleOperation {
    int datalen, __padding;  // so that 64-bit pointers can be aligned
    float *ptr;
};

typedef struct { float x, y, z; int id; } Particle;

__global__ void scale_and_shift(const float *in, float *out, Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) out[i] = (float)(in[i] * p.scale) + p.shift + p.tag;
}

__global__ void push(Particle *particles, struct Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    particles[i].x += p.shift;
    particles[i].id = -particles[i].id;
}
"""
PARAMS = np.dtype([("n", "i4"), ("scale", "f8"), ("tag", "i1"), ("shift", "f4")], align=True)
PARTICLE = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("id", "i4")])


@pytest.mark.smoke
@pytest.mark.parametrize("n", [1, 300])
def test_a_struct_argument(engine, n):
    x = RNG.standard_normal(n).astype(np.float32)
    out = np.zeros_like(x)
    params = np.array((n, 2.5, 7, -1.25), PARAMS)[()]
    kernel = module(STRUCTS).get_function("scale_and_shift")
    kernel(In(x), Out(out), params, block=(128, 1, 1), grid=blocks_for(n, 128))
    expected = (x * np.float64(2.5)).astype(np.float32) + np.float32(-1.25) + np.float32(7)
    np.testing.assert_array_equal(out, expected)


def test_an_array_of_structs(engine):
    particles = np.zeros(100, PARTICLE)
    particles["x"], particles["y"], particles["id"] = np.arange(100), 7, np.arange(100)
    params = np.array((100, 0, 0, 0.5), PARAMS)[()]
    module(STRUCTS).get_function("push")(InOut(particles), params, block=(64, 1, 1), grid=(2, 1))
    np.testing.assert_array_equal(particles["x"], np.arange(100) + 0.5)
    np.testing.assert_array_equal(particles["y"], 7)
    np.testing.assert_array_equal(particles["id"], -np.arange(100))


# ---- Templates --------------------------------------------------------------------------------------

TEMPLATES = r"""
template <typename T>
__device__ T twice(T x) { return x + x; }

template <typename T, int FACTOR>
__global__ void scale(T *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = twice(data[i]) * FACTOR;
}

// As is done where names must not be mangled.
extern "C" __global__ void twice_of_ints(int *data) { data[threadIdx.x] = twice(data[threadIdx.x]); }
"""


@pytest.mark.parametrize(
    ("name", "dtype", "factor"),
    [("scale<float, 3>", "f4", 3), ("scale<double, 3>", "f8", 3), ("scale<int, -2>", "i4", -2)],
)
def test_a_template(engine, name, dtype, factor):
    x = RNG.integers(-100, 100, 777).astype(dtype)
    expected = 2 * factor * x
    scale = module(TEMPLATES, no_extern_c=True).get_function(name)
    scale(InOut(x), np.int32(777), block=(256, 1, 1), grid=(4, 1))
    np.testing.assert_array_equal(x, expected)


def test_a_template_behind_a_plain_kernel(engine):
    x = np.arange(32, dtype=np.int32)
    module(TEMPLATES, no_extern_c=True).get_function("twice_of_ints")(InOut(x), block=(32, 1, 1))
    np.testing.assert_array_equal(x, 2 * np.arange(32))


# ---- Both engines -----------------------------------------------------------------------------------

ARITHMETIC = r"""
__global__ void arithmetic(const float *a, const float *b, const double *c, const int *i, const int *j,
                           float *f, double *d, long long *k, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    f[t] = (a[t] * b[t] + a[t]) / b[t] - a[t] * a[t];
    d[t] = (c[t] * b[t] + 1.0) / (c[t] * c[t] + a[t]) - c[t];
    unsigned int h = (unsigned int)i[t] * 2654435761u ^ (unsigned int)j[t];
    k[t] = (long long)(h >> 7) * (i[t] % 1000) + (j[t] / 7 - (i[t] << 3));
}
"""


def arithmetic(n):
    """Return the expected results of the kernel, which are the same on every engine."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, n), np.float32)
    c = rng.standard_normal(n)
    i, j = rng.integers(-(2**20), 2**20, (2, n), np.int32)
    outs = np.zeros(n, np.float32), np.zeros(n), np.zeros(n, np.int64)
    kernel = module(ARITHMETIC).get_function("arithmetic")
    arguments = [*map(In, (a, b, c, i, j)), *map(Out, outs), np.int32(n)]
    kernel(*arguments, block=(256, 1, 1), grid=blocks_for(n, 256))
    return (a, b, c, i, j), outs


def test_arithmetic_is_numpys_to_the_bit(engine):
    (a, b, c, i, j), (f, d, k) = arithmetic(100_000)
    np.testing.assert_array_equal(f, (a * b + a) / b - a * a)
    np.testing.assert_array_equal(d, (c * b + 1) / (c * c + a) - c)
    h = i.astype(np.uint32) * np.uint32(2654435761) ^ j.astype(np.uint32)
    expected = (h >> 7).astype(np.int64) * np.fmod(i, 1000) + (np.trunc(j / 7).astype(np.int32) - (i << 3))
    np.testing.assert_array_equal(k, expected)


def test_both_engines_have_the_same_bits(both_engines):
    results = []
    for name in ("cpu", "cuda"):
        with pk.engine(name):
            results.append(arithmetic(100_000)[1])
    for on_cpu, on_cuda in zip(*results, strict=True):
        np.testing.assert_array_equal(on_cpu.view(np.uint8), on_cuda.view(np.uint8))
