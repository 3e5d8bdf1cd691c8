"""User kernels: launches, transfers, programs and compilation, against NumPy and, on a GPU, PyCUDA.

Each row that has a required figure ends with ok or SHORT.
"""

import functools
import itertools
import os
import statistics
import sys

import numpy as np
from harness import Allowance, Harness, link_seconds

import pycudakit as pk
from pycudakit import In, InOut, Out, SourceModule

M = 1_000_000

ADD = r"""
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
PRODUCT = r"""
#define TILE 16

__global__ void product(const float *a, const float *b, float *c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[ty][tx] = a[row * n + t + tx];
        bs[ty][tx] = b[(t + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""
STEP = r"""
__global__ void step(const float *from, float *to, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) to[i] = from[i] * 0.5f + 1.0f;
}
"""
SAXPY = r"""
__global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    y[i] = a * x[i] + y[i];
}
"""
SUM = r"""
__global__ void sum(const float *x, float *sums, int n) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float own = 0;
    for (int i = t + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) own += x[i];
    s[t] = own;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}
"""
HEAT = r"""
#define TILE 16
__global__ void heat(const float *from, float *to, int size, float alpha) {
    __shared__ float t[TILE + 2][TILE + 2];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    const int i = threadIdx.x + 1, j = threadIdx.y + 1;
    const bool inside = x < size && y < size;
    if (inside) {
        const float *mine = from + y * size + x;
        t[j][i] = *mine;
        if (i == 1 && x > 0) t[j][0] = mine[-1];
        if (i == TILE && x < size - 1) t[j][TILE + 1] = mine[1];
        if (j == 1 && y > 0) t[0][i] = mine[-size];
        if (j == TILE && y < size - 1) t[TILE + 1][i] = mine[size];
    }
    __syncthreads();
    if (inside && x > 0 && x < size - 1 && y > 0 && y < size - 1) {
        const float around = t[j][i - 1] + t[j][i + 1] + t[j - 1][i] + t[j + 1][i];
        to[y * size + x] = t[j][i] + alpha * (around - 4 * t[j][i]);
    }
}
"""
LIFE = r"""
__global__ void life(const unsigned char *cells, unsigned char *next, int size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= size || y >= size) return;
    const int left = x == 0 ? size - 1 : x - 1, right = x == size - 1 ? 0 : x + 1;
    const unsigned char *row = cells + y * size;
    const unsigned char *up = cells + (y == 0 ? size - 1 : y - 1) * size;
    const unsigned char *down = cells + (y == size - 1 ? 0 : y + 1) * size;
    const int neighbours = up[left] + up[x] + up[right] + row[left] + row[right]
                         + down[left] + down[x] + down[right];
    next[y * size + x] = neighbours == 3 || (neighbours == 2 && row[x]);
}
"""
TRIPLE = "__global__ void triple(float *x) {{ x[threadIdx.x] *= 3; }}  // {}\n"


def blocks_of(n, block=256):
    return {"block": (block, 1, 1), "grid": ((n + block - 1) // block, 1)}


def pycudas(source, name):
    """Return PyCUDA's driver and its function, or None without PyCUDA."""
    try:
        import pycuda.autoprimaryctx  # noqa: F401, PLC0415
        from pycuda import compiler, driver  # noqa: PLC0415
    except ImportError:
        return None
    return driver, compiler.SourceModule(source).get_function(name)


def add(harness, work, n, at_least):
    """Time a vector add with all arrays transferred."""
    if not harness.wanted(work):
        return
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n), np.float32)
    c, theirs = np.empty((2, n), np.float32)
    kernel = SourceModule(ADD).get_function("add")
    shape, count = blocks_of(n), np.int32(n)

    def ours():
        kernel(In(a), In(b), Out(c), count, **shape)
        return c

    others = {"NumPy": lambda: a + b}
    found = pycudas(ADD, "add") if harness.engine == "cuda" else None
    if found:
        driver, function = found

        def by_pycuda():
            function(driver.In(a), driver.In(b), driver.Out(theirs), count, **shape)
            return theirs

        others["PyCUDA"] = by_pycuda
    figures = {k: v for k, v in at_least.items() if getattr(k, "of", k) in others}
    harness.compare(work, n, ours, others, at_least=figures)


def program(harness, n, launches=1000):
    """Time a program against the sum of its kernels' times and of its transfers."""
    work = f"program of {launches}"
    if not harness.wanted(work):
        return
    x = np.random.default_rng(0).random(n, np.float32)
    step = SourceModule(STEP).get_function("step")
    p = pk.Program()
    u, v = p.inout("u", n, np.float32), p.temp("v", n, np.float32)
    with p.repeat(launches // 2):
        p.launch(step, u, v, n, **blocks_of(n))
        p.launch(step, v, u, n, **blocks_of(n))
    result = np.empty_like(x)

    def ours():
        p(u=x, out={"u": result})
        return result

    def by_numpy():
        y = x
        for _ in range(launches):
            before, y = y, y * np.float32(0.5) + np.float32(1)
            if np.array_equal(before, y):  # a fixed point: nothing changes any more
                return y
        return y

    pk.set_engine(harness.engine)
    y = np.empty_like(x)
    times = [step(In(x), Out(y), np.int32(n), **blocks_of(n), time_kernel=True) for _ in range(21)]
    milliseconds = statistics.median(times)
    moved = 0.0
    if harness.engine == "cuda":
        moved = link_seconds(x.nbytes, 0) + link_seconds(0, x.nbytes)
    allowed = Allowance("1.1 its kernels", "NumPy", 0.0, 1.1 * (launches * milliseconds * 1e-3 + moved))
    at_least = {allowed: 1.0} if harness.engine == "cuda" else None
    harness.compare(work, n, ours, {"NumPy": by_numpy}, at_least=at_least, rounds=3)


def product(harness, n=512):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (2, n, n)).astype(np.float32)  # float32 holds the products exactly
    c = np.empty_like(a)
    kernel = SourceModule(PRODUCT).get_function("product")

    def ours():
        kernel(In(a), In(b), Out(c), np.int32(n), block=(16, 16, 1), grid=(n // 16, n // 16))
        return c

    figures = {"NumPy": 0.1} if harness.engine == "cpu" else None
    harness.compare(f"tiled product {n}", n * n, ours, {"NumPy": lambda: a @ b}, at_least=figures, rounds=3)


def saxpy(harness, n):
    rng = np.random.default_rng(0)
    x, y = rng.random((2, n), np.float32)
    kernel, result = SourceModule(SAXPY).get_function("saxpy"), np.empty_like(y)

    def ours():
        np.copyto(result, y)
        kernel(np.float32(2), In(x), InOut(result), np.int32(n), **blocks_of(n))
        return result

    def by_numpy():
        np.copyto(result, y)
        return np.add(result, np.float32(2) * x, out=result)

    figures = {"NumPy": 0.8} if harness.engine == "cpu" else None
    harness.compare("saxpy", n, ours, {"NumPy": by_numpy}, at_least=figures)


def reduction(harness, n):
    """Time a sum in blocks, of numbers whose sums are exact."""
    x = np.random.default_rng(0).integers(0, 2, n).astype(np.float32)
    kernel, sums = SourceModule(SUM).get_function("sum"), np.empty(1000, np.float32)

    def ours():
        kernel(In(x), Out(sums), np.int32(n), block=256, grid=sums.size)
        return sums.sum()

    figures = {Allowance("30 ms", "NumPy", 0.0, 30e-3): 1.0} if harness.engine == "cpu" else None
    harness.compare("block reduction", n, ours, {"NumPy": x.sum}, at_least=figures)


def steps_of(kernel, start, steps, arguments, shape):
    """Return a program of so many steps, in which two buffers take turns."""
    p = pk.Program()
    u, v = p.inout("u", start.shape, start.dtype), p.temp("v", start.shape, start.dtype)
    with p.repeat(steps // 2):
        p.launch(kernel, u, v, *arguments, **shape)
        p.launch(kernel, v, u, *arguments, **shape)
    return lambda: p(u=start.copy())["u"]


def heat(harness, steps, size=129):
    alpha = np.float32(0.2)
    start = np.zeros((size, size), np.float32)
    start[1:-1, 1:-1] = np.random.default_rng(0).random((size - 2, size - 2))
    shape = {"block": (16, 16, 1), "grid": (-(-size // 16), -(-size // 16))}
    ours = steps_of(SourceModule(HEAT).get_function("heat"), start, steps, (size, alpha), shape)

    def by_numpy():
        plate = start.copy()
        for _ in range(steps):
            around = plate[1:-1, :-2] + plate[1:-1, 2:] + plate[:-2, 1:-1] + plate[2:, 1:-1]
            plate[1:-1, 1:-1] += alpha * (around - 4 * plate[1:-1, 1:-1])
        return plate

    limit = {Allowance("0.5 s", "NumPy", 0.0, 0.5): 1.0} if harness.engine == "cpu" else None
    harness.compare(
        f"heat, {steps} steps", size**2, ours, {"NumPy": by_numpy}, at_least=limit, within=1e-5, rounds=3
    )


def life(harness, steps, size=640):
    start = np.random.default_rng(0).integers(0, 2, (size, size)).astype(np.uint8)
    shape = {"block": (32, 8, 1), "grid": (-(-size // 32), -(-size // 8))}
    ours = steps_of(SourceModule(LIFE).get_function("life"), start, steps, (size,), shape)

    def by_numpy():
        board = start
        for _ in range(steps):
            rows = np.roll(board, 1, 0) + board + np.roll(board, -1, 0)
            neighbours = np.roll(rows, 1, 1) + rows + np.roll(rows, -1, 1) - board
            board = ((neighbours == 3) | ((neighbours == 2) & (board == 1))).astype(np.uint8)
        return board

    limit = {Allowance("3 s", "NumPy", 0.0, 3.0): 1.0} if harness.engine == "cpu" else None
    harness.compare(f"life, {steps} steps", size**2, ours, {"NumPy": by_numpy}, at_least=limit, rounds=3)


def compilation(harness):
    """Time a small kernel from source to result: compiled, and from the cache in memory."""
    x = np.arange(32, dtype=np.float32)
    numbers = itertools.count(os.getpid() * M)

    def run(number):
        y = x.copy()
        SourceModule(TRIPLE.format(number)).get_function("triple")(InOut(y), block=(32, 1, 1))
        return y

    for work, ours, seconds, rounds in (
        ("compile", lambda: run(next(numbers)), 2.0, 3),
        ("compile, cached", functools.partial(run, 0), 5e-3, None),
    ):
        figures = {Allowance(f"{seconds * 1e3:g} ms", "NumPy", 0.0, seconds): 1.0}
        harness.compare(work, 32, ours, {"NumPy": lambda: x * 3}, at_least=figures, rounds=rounds)


def main():
    harness = Harness(__doc__.splitlines()[0], 6)
    pk.set_engine(harness.engine)
    if harness.engine == "cuda":
        launch = {Allowance("30 us", "NumPy", 0.0, 30e-6): 1.0, "PyCUDA": 1.0}
        add(harness, "launch of 1K", 1024, launch)
        add(harness, "In, In, Out", harness.size(64 * M), {"PyCUDA": 4.0})
    else:
        add(harness, "launch of 1K", 1024, {})
        add(harness, "vector add", harness.size(32 * M), {Allowance("1.5 NumPy", "NumPy", 1.5): 1.0})
    saxpy(harness, harness.size(16 * M))
    reduction(harness, harness.size(16 * M))
    product(harness, 128 if harness.quick else 512)
    heat(harness, 100 if harness.quick else 1000)
    life(harness, 50 if harness.quick else 1104)
    program(harness, harness.size(16 * M if harness.engine == "cuda" else 160_000))
    compilation(harness)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
