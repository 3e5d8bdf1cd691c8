"""The CUDA dialect against Python: threads, barriers, warps, atomics, random numbers; and compiler errors."""

import errno
import os
import re

import numpy as np
import pytest
from helpers.user_kernels import RNG, run

from pycudakit import engine, errors, wrap
from pycudakit.kernels import In, InOut, Out, SourceModule
from pycudakit.kernels.compiling import compiler_process

# ---- Thread indices and barriers ----

PLACES = r"""
__global__ void places(unsigned *out, dim3 *sizes) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned *own = out + 6 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    own[0] = blockIdx.z; own[1] = blockIdx.y; own[2] = blockIdx.x;
    own[3] = threadIdx.z; own[4] = threadIdx.y; own[5] = threadIdx.x;
    uint3 me = threadIdx;
    BARRIER
    if (me.x != threadIdx.x || me.y != threadIdx.y || me.z != threadIdx.z) own[0] = 1000;
    if (block == 0 && thread == 0) { sizes[0] = gridDim; sizes[1] = blockDim; sizes[2] = dim3(warpSize); }
}
"""


@pytest.mark.smoke
@pytest.mark.parametrize("barrier", ["", "__syncthreads();"])
def test_places(engine, barrier):
    grid, block = (3, 2, 4), (5, 3, 2)
    out, sizes = run(
        PLACES.replace("BARRIER", barrier),
        "places",
        ((24 * 30, 6), np.uint32),
        Out(np.zeros((3, 3), np.uint32)),
        block=block,
        grid=grid,
    )
    shape = (*reversed(grid), *reversed(block))
    np.testing.assert_array_equal(out, np.indices(shape).reshape(6, -1).T)
    np.testing.assert_array_equal(sizes, [grid, block, (32, 1, 1)])


def test_barriers_that_count(engine):
    source = r"""
    __global__ void counts(const int *x, int *out) {
        int i = threadIdx.x, *own = out + 3 * i;
        own[0] = __syncthreads_count(x[i]);
        own[1] = __syncthreads_and(x[i]);
        own[2] = __syncthreads_or(x[i]);
    }
    """
    for x in (RNG.integers(0, 3, 100), np.zeros(100), np.full(100, 7)):
        out = run(source, "counts", In(x.astype(np.int32)), ((100, 3), np.int32), block=(100, 1, 1))
        expected = [np.count_nonzero(x), np.all(x), np.any(x)]
        np.testing.assert_array_equal(out != 0, np.tile(np.array(expected) != 0, (100, 1)))
        np.testing.assert_array_equal(out[:, 0], expected[0])


SHARED = r"""
extern __shared__ float at_file_scope[];

__device__ float sum_of(const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    return sum;
}
__global__ void dynamic(const float *x, float *out) {
    extern __shared__ float own[];
    own[threadIdx.x] = x[threadIdx.x]; // __shared__ in a comment; stays
    __syncthreads();
    out[threadIdx.x] = sum_of(at_file_scope, threadIdx.x + 1);
}
__global__ void rows(const float *x, float *out) {
    extern __shared__ __align__(16) float
        tile[][4];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 4 + threadIdx.x];
    __syncthreads();
    out[threadIdx.x * 4 + threadIdx.y] = tile[threadIdx.y][threadIdx.x];
}
__global__ void fixed(const float *x, float *out) {
    __shared__ float a[32], b[8][4], last;
    static __shared__ volatile int flags[32];
    int i = threadIdx.x;
    a[i] = x[i];
    b[i / 4][i % 4] = 2 * x[i];
    flags[i] = i;
    if (i == 31) last = x[i];
    __syncthreads();
    out[i] = a[31 - i] + b[(31 - i) / 4][(31 - i) % 4] + last + flags[31 - i];
}
"""


def test_shared_memory(engine):
    x = RNG.integers(-50, 50, 32).astype(np.float32)
    np.testing.assert_array_equal(run(SHARED, "dynamic", In(x), (32, np.float32), shared=128), np.cumsum(x))
    turned = run(SHARED, "rows", In(x[:16]), (16, np.float32), block=(4, 4, 1), shared=64)
    np.testing.assert_array_equal(turned, x[:16].reshape(4, 4).T.ravel())
    out = run(SHARED, "fixed", In(x), (32, np.float32))
    np.testing.assert_array_equal(out, 3 * x[::-1] + x[31] + np.arange(31, -1, -1))


# ---- Warps ----

SHUFFLES = r"""
__global__ void shuffles(const T *x, T *out, int width, int by) {
    int n = blockDim.x, i = threadIdx.x;
    unsigned all = 0xffffffffu;
    out[i] = __shfl_sync(all, x[i], by, width);
    out[n + i] = __shfl_up_sync(all, x[i], by, width);
    out[2 * n + i] = __shfl_down_sync(all, x[i], by, width);
    out[3 * n + i] = __shfl_xor_sync(all, x[i], by, width);
}
"""


def shuffled(x, width, by):
    lane = np.arange(x.size) % 32
    first, within = x.size // 32 * 0 + np.arange(x.size) // 32 * 32 + lane // width * width, lane % width
    own = np.arange(x.size)
    exchanged = own // 32 * 32 + (lane ^ by)
    return [
        x[first + by % width],
        x[np.where(by > within, own, own - by)],
        x[np.where(within + by >= width, own, np.minimum(own + by, x.size - 1))],
        x[np.where(exchanged >= first + width, own, exchanged)],
    ]


@pytest.mark.parametrize(("kind", "dtype"), [("int", np.int32), ("double", np.float64), ("short", np.int16)])
def test_shuffles(engine, kind, dtype):
    source = SHUFFLES.replace("T *", f"{kind} *")
    if kind == "short":  # CUDA shuffles no 16-bit integers
        source = source.replace("x[i]", "(int)x[i]")
    x = RNG.integers(-1000, 1000, 64).astype(dtype)
    for width, by in ((32, 1), (32, 16), (8, 3), (16, 9), (2, 1), (32, 31)):
        out = run(source, "shuffles", In(x), ((4, 64), dtype), width, by, block=(64, 1, 1))
        np.testing.assert_array_equal(out, shuffled(x, width, by))


def test_votes_and_matches(engine):
    source = r"""
    __global__ void votes(const int *x, unsigned *out) {
        int n = blockDim.x, i = threadIdx.x, all;
        unsigned mask = __ballot_sync(0xffffffffu, 1);
        out[i] = mask;
        out[n + i] = __ballot_sync(mask, x[i] > 2);
        out[2 * n + i] = __any_sync(mask, x[i] == 0);
        out[3 * n + i] = __all_sync(mask, x[i] < 5);
        out[4 * n + i] = __match_any_sync(mask, x[i]);
        out[5 * n + i] = __match_all_sync(mask, x[i], &all);
        out[6 * n + i] = all;
        __syncwarp();
    }
    """
    x = RNG.integers(0, 5, 80).astype(np.int32)  # the last warp has 16 lanes
    x[32:64] = 3
    out = run(source, "votes", In(x), ((7, 80), np.uint32), block=(80, 1, 1))
    for first in (0, 32, 64):
        own = x[first : first + 32]
        bits = 1 << np.arange(own.size, dtype=np.uint64)
        same, present = bool(np.all(own == own[0])), bits.sum()
        expected = [
            [present] * own.size,
            [bits[own > 2].sum()] * own.size,
            [np.any(own == 0)] * own.size,
            [np.all(own < 5)] * own.size,
            [bits[own == value].sum() for value in own],
            [present * same] * own.size,
            [same] * own.size,
        ]
        np.testing.assert_array_equal(out[:, first : first + 32], np.array(expected, np.uint32))


@pytest.mark.smoke
def test_lanes_of_a_branch(engine):
    source = r"""
    __global__ void branch(int *out) {
        int i = threadIdx.x;
        if (i % 3 == 0) {
            unsigned mask = __activemask();
            int rank = __popc(mask & ((1u << i) - 1));
            out[i] = __shfl_sync(mask, rank, 0) * 1000 + __popc(mask) * 0 + (mask >> i & 1);
        } else if (i % 3 == 1) {
            unsigned mask = 0x92492492u;
            out[i] = __shfl_down_sync(mask, i, 3);
        }
    }
    """
    out = run(source, "branch", Out(np.zeros(32, np.int32)))
    i = np.arange(32)
    np.testing.assert_array_equal(out[i % 3 == 0], 1)
    np.testing.assert_array_equal(out[(i % 3 == 1) & (i < 28)], i[(i % 3 == 1) & (i < 28)] + 3)


def test_more_groups_at_once_than_one(engine):
    source = r"""
    __global__ void groups(int *out) {
        int i = threadIdx.x, sum = i;
        unsigned half = i % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
        for (int round = 0; round < i / 16 % 2 + 3; ++round) sum += __shfl_xor_sync(half, sum, 1);
        for (int by = 16; by != 0; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
        out[i] = sum;
    }
    """
    sums = np.arange(64).reshape(2, 2, 8, 2)
    totals = sums.sum(axis=-1, keepdims=True).repeat(2, axis=-1)
    factors = np.array([4, 8]).reshape(1, 2, 1, 1)
    expected = (totals * factors).sum(axis=(1, 2, 3)).repeat(32)
    np.testing.assert_array_equal(run(source, "groups", (64, np.int32), block=(64, 1, 1)), expected)


# ---- Atomics ----


def test_atomics_of_integers(engine):
    source = r"""
    __global__ void atomics(const T *x, T *out) {
        T v = x[blockIdx.x * blockDim.x + threadIdx.x];
        atomicAdd(&out[0], v);
        atomicMin(&out[1], v);
        atomicMax(out + 2, v);
        atomicAnd(&out[3], v);
        atomicOr(&out[4], v);
        atomicXor(&out[5], v);
        T old = out[6], seen;
        do { seen = old; old = atomicCAS(&out[6], seen, (T)(seen + 2 * v)); } while (old != seen);
        if (threadIdx.x == 0 && blockIdx.x == 0) out[8] = atomicExch(&out[7], (T)5);
    }
    """
    for kind, dtype in (("int", np.int32), ("unsigned", np.uint32), ("unsigned long long", np.uint64)):
        x = RNG.integers(1, 1000, 512).astype(dtype)
        out = np.array([1, 500, 2, 1023, 0, 0, 3, 9, 0], dtype)
        code = source.replace("T ", f"{kind} ").replace("(T)", f"({kind})")
        run(code, "atomics", In(x), InOut(out), block=(128, 1, 1), grid=(4, 1))
        both = np.bitwise_and.reduce(x) & dtype(1023)
        bits = [both, np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)]
        expected = [x.sum() + 1, min(x.min(), 500), x.max(), *bits, 2 * x.sum() + 3, 5, 9]
        np.testing.assert_array_equal(out, np.array(expected, dtype))


def test_atomics_of_floats_and_counters(engine):
    source = r"""
    __global__ void counters(float *f, double *d, unsigned *c) {
        __shared__ float sum;
        __shared__ unsigned up;
        if (threadIdx.x == 0) sum = 0, up = 0;
        __syncthreads();
        atomicAdd(&sum, 0.5f);
        atomicInc(&up, 6);
        __syncthreads();
        if (threadIdx.x == 0) { atomicAdd(f, sum); c[1] = up; }
        atomicAdd(d, 0.25);
        atomicAdd(&f[1], -1.0f);
        atomicDec(&c[0], 9);
        atomicSub((int *)&c[2], 3);
    }
    """
    f, d = np.zeros(2, np.float32), np.zeros(1)
    c = np.zeros(3, np.uint32)
    run(source, "counters", InOut(f), InOut(d), InOut(c), block=(100, 1, 1), grid=(3, 1))
    np.testing.assert_array_equal(f, [150, -300])
    np.testing.assert_array_equal(d, [75])
    np.testing.assert_array_equal(c.view(np.int32), [0, 100 % 7, -900])


# ---- Random numbers ----

DRAWS = r"""
#include <curand_kernel.h>
extern "C" __global__ void xorwow(unsigned *bits, float *uniform, double *wide, float *normal) {
    curandState state;
    curand_init(1234, threadIdx.x, 7, &state);
    bits[threadIdx.x] = curand(&state);
    uniform[threadIdx.x] = curand_uniform(&state);
    wide[threadIdx.x] = curand_uniform_double(&state);
    normal[threadIdx.x] = curand_normal(&state);
}
extern "C" __global__ void philox(unsigned *bits, float4 *uniform) {
    curandStatePhilox4_32_10_t state;
    curand_init(1234, 0, 7, &state);
    for (int i = 0; i < 6; ++i) bits[i] = curand(&state);
    curand_init(0, 0, 0, &state);
    uint4 four = curand4(&state);
    bits[6] = four.x; bits[7] = four.w;
    curand_init(0, 0, 1, &state);
    *uniform = curand_uniform4(&state);
}
extern "C" __global__ void draws(float *uniform, float *normal, double *wide) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState a;
    curandStatePhilox4_32_10_t b;
    curand_init(5, i, 0, &a);
    curand_init(5, i, 0, &b);
    for (int k = 0; k < 8; ++k) {
        uniform[i * 8 + k] = curand_uniform(&a);
        normal[i * 8 + k] = k % 2 ? curand_normal(&b) : curand_normal2(&a).y;
        wide[i * 8 + k] = curand_normal_double(&b);
    }
}
"""


@pytest.fixture
def curand(engine):
    """Skip if cuRAND's header is not available for the engine."""
    try:
        SourceModule(DRAWS, no_extern_c=True).get_function("draws")
    except errors.CompileError as error:
        if engine == "cpu" or "curand_kernel.h" not in str(error):
            raise
        pytest.skip("cuRAND's headers are not installed")


def test_the_numbers_of_curand(engine, curand):
    """The expected values are from cuRAND's header, compiled for the host."""
    bits, uniform, wide, normal = run(
        DRAWS,
        "xorwow",
        (4, np.uint32),
        (4, np.float32),
        (4, np.float64),
        (4, np.float32),
        block=(4, 1, 1),
        no_extern_c=True,
    )
    assert bits.tolist() == [3379045701, 3433179576, 402672861, 4271761056]
    np.testing.assert_array_equal(
        uniform, np.array([0.30077213, 0.136307329, 0.648017943, 0.970036328], np.float32)
    )
    expected = [0.57685927422247207, 0.10368333802649504, 0.72952118420053957, 0.40589554788298904]
    np.testing.assert_array_equal(wide, expected)
    expected = [-0.017826112, -0.189703569, 0.435123414, 0.919263542]
    np.testing.assert_allclose(normal, expected, rtol=1e-4, atol=4e-6)

    bits, uniform = run(
        DRAWS, "philox", (8, np.uint32), Out(np.zeros(4, np.float32)), block=(1, 1, 1), no_extern_c=True
    )
    expected = [343858512, 1070188760, 4228315704, 3424062247, 2300394257, 3055983166]
    assert bits[:6].tolist() == expected
    assert bits[6:].tolist() == [0x6627E8D5, 0x9B00DBD8]  # Random123's known answers
    words = np.array([0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.float32)
    np.testing.assert_array_equal(uniform[:3], words * np.float32(2**-32) + np.float32(2**-33))


def test_draws_are_distributed_as_they_say(engine, curand):
    shape = (512, 8)
    uniform, normal, wide = run(
        DRAWS,
        "draws",
        (shape, np.float32),
        (shape, np.float32),
        (shape, np.float64),
        block=(64, 1, 1),
        grid=(8, 1),
        no_extern_c=True,
    )
    assert uniform.min() > 0
    assert uniform.max() <= 1
    assert np.histogram(uniform, 8, (0, 1))[0] == pytest.approx(512, abs=110)
    for draws in (normal, wide):
        assert draws.mean() == pytest.approx(0, abs=0.07)
        assert draws.std() == pytest.approx(1, abs=0.06)
        assert np.unique(draws).size > 4000


@pytest.mark.parametrize(
    ("source", "last"),
    [
        (
            "__global__ void f(float *x) {\n  if (x[0]) {\n    x[1] = 2;\n}\n",
            r"kernel\.cu: a brace is not closed",
        ),
        ("__global__ void f(float *x) { /* \n x[0] = 2; }", r"kernel\.cu:1:.*"),
        ("#include <cub/cub.cuh>\n", r"cub/cub\.cuh is for GPUs: the CPU engine has no such library"),
    ],
)
def test_logs_have_the_lines_of_the_source(source, last):
    with engine("cpu"), pytest.raises(errors.CompileError) as caught:
        SourceModule(source)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("kernel.cu does not compile with ")
    assert re.fullmatch(last, lines[-1])
    assert not any(line.startswith(("the table", "options")) for line in lines)


def test_an_unclosed_brace_in_a_wrapped_file():
    source = 'extern "C" int f(const float *x, int n) {\n    if (n) {\n        return 1;\n}\n'
    with engine("cpu"), pytest.raises(errors.CompileError) as caught:
        wrap(source)
    assert str(caught.value).splitlines()[-1] == "source.cu: a brace is not closed"
    assert "table" not in str(caught.value)


def test_templates_in_a_wrapped_source(engine):
    with pytest.raises(
        errors.CompileError, match=r"needs SourceModule\(\.\.\., no_extern_c=True\)\s*$"
    ) as caught:
        SourceModule("template <class T> __global__ void f(T *x) {}\n__global__ void g(int *x) {}")
    assert "options" not in str(caught.value)


def test_a_path_is_no_source():
    with pytest.raises(errors.InvalidArgument) as caught:
        SourceModule("waves.cu")
    assert str(caught.value) == (
        "source is 'waves.cu'; give the text, Path('waves.cu').read_text(), or for a file with host code use "
        "pk.wrap('waves.cu')"
    )


@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (
            'c++ "-O2',
            r"^CXX is .*, which is not a command \(.*\); set it to a C\+\+ compiler$",
        ),
        ("true", r"^true succeeded, but did not write kernels\.so; set CXX to GCC or Clang$"),
    ],
)
def test_other_programs_than_compilers(compiler, message, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    with engine("cpu"), pytest.raises(errors.CompileError, match=message):
        SourceModule("__global__ void no_compiler(int *x) { x[0] = 1; }")


def test_a_folder_that_a_stopped_compiler_still_writes_to(monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    with monkeypatch.context() as patched, compiler_process.temporary_folder("kernel.cu") as directory:
        patched.setattr(os, "rmdir", refuse)
    os.rmdir(directory)
