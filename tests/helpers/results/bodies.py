"""Digest cases of fused functions and user kernels: see `helpers.results`."""

import numpy as np

import pycudakit as pk
from helpers.hashed import ordinary, uniform, whole

_SOURCE = r"""
__global__ void add(const float *a, const float *b, float *out, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) out[i] = a[i] + 2 * b[i];
}
__global__ void count(const int *a, int *bins, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) atomicAdd(&bins[(a[i] % 16 + 16) % 16], 1);
}
__global__ void reversed(const int *a, long long *out, int n) {
    __shared__ int tile[64];
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    tile[threadIdx.x] = i < n ? a[i] : -1;
    __syncthreads();
    out[i] = 3LL * tile[63 - threadIdx.x] + blockIdx.x;
}
__global__ void step(const int *from, int *to, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) to[i] = from[(i + n - 1) % n] + from[(i + 1) % n] - (from[i] >> 1);
}
"""
_N = 1000
_GRID = {"block": (64, 1, 1), "grid": (16, 1)}


def kernels():
    """Yield cases of user kernels: `+ - * /` of floats and integers have the same bits on both engines."""
    module = pk.SourceModule(_SOURCE)
    add, count, reversed_, step = map(module.get_function, ("add", "count", "reversed", "step"))
    a, b, numbers = ordinary("float32", _N, 1), ordinary("float32", _N, 2), whole(_N, -50, 50, 3, "int32")
    out, bins, turned = np.empty(_N, np.float32), np.zeros(16, np.int32), np.empty(1024, np.int64)
    add(pk.In(a), pk.In(b[::-1]), pk.Out(out), np.int32(_N), **_GRID)
    count(pk.In(numbers), pk.InOut(bins), np.int32(_N), **_GRID)
    reversed_(pk.In(numbers), pk.Out(turned), np.int32(_N), **_GRID)
    yield "SourceModule", [out, bins, turned]
    program = pk.Program()
    u, v = program.inout("u", _N, np.int32), program.temp("v", _N, np.int32)
    with program.repeat(9):
        program.launch(step, u, v, _N, **_GRID)
        program.launch(step, v, u, _N, **_GRID)
    yield "Program", [program(u=numbers)["u"]]
    z = np.ones(_N, np.float32)
    pk.ElementwiseKernel("float *z, const float *x, float a", "z[i] = a * x[i] - z[i]")(z, a, 2)
    yield "ElementwiseKernel", [z]
    total = pk.ReductionKernel(np.float32, "0", "a+b", "x[i]*y[i]", "const float *x, const float *y")
    largest = pk.ReductionKernel(np.int32, -(2**31), "a > b ? a : b")
    yield "ReductionKernel", [total(uniform(_N, 4, "f4"), uniform(_N, 5, "f4")), largest(numbers)]
    yield "InclusiveScanKernel", [pk.InclusiveScanKernel(np.float32, "a+b")(uniform(_N, 6, "f4"), "new")]
    yield "ExclusiveScanKernel", [pk.ExclusiveScanKernel(np.int32, "a > b ? a : b", -99)(numbers, "new")]


# ---- Bodies that are fused: x and y are float64, f is float32, i is int64, u is uint8 --------------------


def _arithmetic(x, y, f, i, u):
    return np.sqrt(x * x + y * y) / 2 - f, (x - y) * f, i // 3 + i % 7, u + u, -f


def _functions(x, y, f, i, u):
    return pk.exp(-x * x) * pk.sin(y) + pk.log1p(abs(x)), np.where(x > y, f, i), np.clip(f, -1, 2.5)


def _standardised(x, y, f, i, u):
    return (x - x.mean()) / x.std(), f - f.max(axis=1, keepdims=True), np.sum(y, axis=0) * 2, np.var(x + y)


def _counted(x, y, f, i, u):
    return np.count_nonzero(i > 3), np.argmax(x, axis=1), np.any(f > 15), (i * 2 + 1).sum(axis=-1), np.ptp(x)


def _stencil_in_place(x, y, f, i, u):
    for _ in range(4):
        x[1:-1, 1:-1] = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) / 4
    y += x
    return y * 2


def _overlapping_in_place(x, y, f, i, u):
    f[1:] += f[:-1]
    i[:, ::2] = i[:, 1::2] * 3
    x[x > 3] = -1
    y.T[3] = 0.5
    return f, x[::-1] - y


def _recurrence(x, y, f, i, u):
    state = x
    for k in range(12):
        state = state * 0.5 + y / (k + 1)
    return state, state.sum(axis=0)


def _integer_products(x, y, f, i, u):
    return i @ i.T, np.dot(i[0], i[1]), np.einsum("ij,kj->ik", i, i)[:5], np.outer(i[0], i[:, 0])


def _sorted(x, y, f, i, u):
    return np.sort(x, axis=1)[:, ::2] + 1, np.argsort(i, kind="stable"), np.median(y, axis=0), np.unique(u)


def _scanned(x, y, f, i, u):
    return np.cumsum(x, axis=1) - x, np.diff(y, axis=0), np.cumsum(i) * 2, np.maximum.accumulate(f, axis=0)


def _counting(x, y, f, i, u):
    return np.bincount(u.ravel()), np.histogram(x, 8, (-10, 10))[0], np.digitize(y, [-3, 0, 5])


def _gathered(x, y, f, i, u):
    x[[3, 4, 3]] += 1
    np.add.at(i, (u[0] % 60, u[1] % 50), 5)
    return np.take(x, u[0] % 60, axis=0), x[i > 50], f[u[:, 0] % 60], np.nonzero(i > 90)[0]


def _joined(x, y, f, i, u):
    return np.concatenate([x, y * 2]), np.stack([f, f + 1]), np.pad(x, 2, mode="reflect"), np.gradient(y)[0]


def _masked(x, y, f, i, u):
    return np.add(x, y, where=i > 0, out=np.zeros_like(x)), np.max(x, where=y > 0, initial=-9), np.nansum(y)


def _drawn(x, y, f, i, u):
    rng = pk.random.default_rng(7)
    noise = rng.standard_normal(x.shape)
    return x + noise, rng.integers(0, 9, len(i)) * i[:, 0], rng.random(len(f), dtype="f4") + f[:, 0]


def _pictures(x, y, f, i, u):
    return pk.image.box_blur(u, 3) + 1, pk.image.sobel(f), pk.image.resize(u, (30, 25), "area")


def _looks_at_values(x, y, f, i, u):
    return x + y if x.sum() > 0 else x - y, float(f.max()) * f, int(i[3, 4]) + u.astype(int)


_BODIES = [
    _arithmetic, _functions, _standardised, _counted, _stencil_in_place, _overlapping_in_place, _recurrence,
    _integer_products, _sorted, _scanned, _counting, _gathered, _joined, _masked, _drawn, _pictures,
    _looks_at_values,
]  # fmt: skip


def _flat(value):
    return [part for each in value for part in _flat(each)] if isinstance(value, (tuple, list)) else [value]


def fused():
    """Yield cases of fused functions: their results, and their arguments afterwards."""
    for body in [*_BODIES, _with_kernels()]:
        function = pk.fuse(body)
        results = []
        # The second call may use the caches of the first; the third has other shapes.
        for seed, shape in ((1, (60, 50)), (11, (60, 50)), (21, (600, 500))):
            x, y = ordinary("float64", shape, seed), ordinary("float64", shape, seed + 1)
            f, i = ordinary("float32", shape, seed + 2), ordinary("int64", shape, seed + 3)
            given = x, y, f, i, whole(shape, 0, 256, seed + 4, "uint8")
            results += [*_flat(function(*given)), *given]
        yield body.__name__.strip("_"), results


def _with_kernels():
    add = pk.SourceModule(_SOURCE).get_function("add")
    scaled = pk.ElementwiseKernel("float *z, const float *x, float a", "z[i] = a * x[i] - z[i]")

    def with_kernels(x, y, f, i, u):
        a, out = f * 3, np.zeros_like(f)
        add(a, f, out, f.size, block=(64, 1, 1), grid=(-(-f.size // 64), 1))
        scaled(out, a, 2)
        return out + 1

    return with_kernels
