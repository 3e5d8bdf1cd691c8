"""The CUDA dialect in typical sources: C functions, atomics, votes, headers, options, names."""

import numpy as np
import pytest
from helpers.user_kernels import module

from pycudakit import In, InOut, Out

RNG = np.random.default_rng(1666)


# ---- Common functions -------------------------------------------------------------------------------

LEANS = r"""
#include <math.h>
#include <stdint.h>
#include <float.h>
#include <limits.h>

// Threads that have nothing to do leave before the barrier.
__global__ void leave_early(const int *in, int *out, int n) {
    __shared__ int last;
    int i = threadIdx.x;
    if (i >= n) return;
    if (i == n - 1) last = in[i];
    __syncthreads();
    out[i] = last;
}

// Two arrays in one piece of dynamic shared memory.
__global__ void carve(const double *x, int *places, double *sorted, int n) {
    extern __shared__ unsigned char raw[];
    double *values = (double *)raw;
    int *rank = (int *)(values + n);
    int i = threadIdx.x;
    values[i] = x[i];
    rank[i] = 0;
    __syncthreads();
    for (int k = 0; k < n; k++) if (values[k] < values[i] || (values[k] == values[i] && k < i)) ++rank[i];
    __syncthreads();
    sorted[rank[i]] = values[i];
    places[i] = rank[i];
}

__device__ float largest;
__device__ void raise_to(float *address, float value) {
    int *as_int = (int *)address;
    int old = *as_int, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(as_int, assumed, __float_as_int(value));
    } while (assumed != old);
}

__global__ void atomics(const int *x, int *out, float *floats, double *doubles,
                        unsigned long long *wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&out[0], x[i]);
    atomicMin(&out[1], x[i]);
    atomicMax(&out[2], x[i]);
    atomicAnd(&out[3], ~(1 << (x[i] & 15)));
    atomicOr(&out[4], 1 << (x[i] & 15));
    atomicXor(&out[5], x[i]);
    atomicSub(&out[6], 1);
    atomicInc((unsigned int *)&out[7], 99u);
    atomicAdd(floats, 0.5f);
    atomicAdd(doubles, 0.25);
    atomicAdd(wide, 1ull << 33);
    raise_to(floats + 1, (float)x[i]);
}

__global__ void votes(const int *x, int *out) {
    int i = threadIdx.x, lane = i & 31;
    unsigned ballot = __ballot_sync(0xffffffffu, x[i] > 0);
    int next = __shfl_xor_sync(0xffffffffu, x[i], 1);
    int before = __shfl_up_sync(0xffffffff, x[i], 2, 8);
    int counted = __syncthreads_count(x[i] > 0);
    out[i * 8] = __popc(ballot & ((1u << lane) - 1));
    out[i * 8 + 1] = next;
    out[i * 8 + 2] = before;
    out[i * 8 + 3] = counted;
    out[i * 8 + 4] = __any_sync(0xffffffffu, x[i] == 3) * 2 + __all_sync(0xffffffffu, x[i] < 1000);
    out[i * 8 + 5] = __ffs(x[i]) * 100 + __clz(x[i]);
    out[i * 8 + 6] = __shfl_sync(0xffffffffu, x[i], 5);
    out[i * 8 + 7] = __syncthreads_or(x[i] == 7) * 2 + __syncthreads_and(x[i] > -100);
}

__global__ void functions(const float *x, float *out, int n) {
    int i = threadIdx.x;
    float v = x[i];
    out[i] = fminf(v, 1.0f) + max(v, 2.0f) + fabsf(v);
    out[n + i] = sqrtf(fabs(v)) * rsqrtf(1.0f + v * v) + __expf(-v * v);
    out[2 * n + i] = powf(2.0f, v) + atan2f(v, 1.0f) + floorf(v) + M_PI;
    out[3 * n + i] = isnan(v / 0.0f * 0.0f) ? FLT_MAX : -INFINITY;
    out[4 * n + i] = __fdividef(v, 3.0f) + fmodf(v, 0.75f) + copysignf(1.0f, v) + rintf(v);
    out[5 * n + i] = min(INT_MAX, i) + abs(-i) + (int8_t)200 + (uint16_t)70000;
}

__global__ void places(int *out) {
    const dim3 all(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
    uint3 at = make_uint3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                          blockIdx.z * blockDim.z + threadIdx.z);
    out[(at.z * all.y + at.y) * all.x + at.x] = (at.x << 16) + (at.y << 8) + at.z;
}

__global__ void newer(int *out) {
    constexpr int N = 4;
    const int table[N] = {3, 1, 4, 1};
    auto twice = [](auto v) { return v + v; };
    int sum = 0;
    for (auto v : table) sum += twice(v);
    long long began = clock64();
    __threadfence();
    out[threadIdx.x] = sum + (clock64() >= began ? 0 : 1);
}
"""


@pytest.mark.parametrize("n", [1, 33, 96, 100])
def test_threads_that_leave_before_the_barrier(engine, n):
    x, out = RNG.integers(0, 99, n, np.int32), np.full(n, -1, np.int32)
    module(LEANS).get_function("leave_early")(In(x), Out(out), n, block=(128, 1, 1))
    np.testing.assert_array_equal(out, x[-1])


@pytest.mark.parametrize("n", [1, 2, 77, 512])
def test_shared_memory_that_is_carved(engine, n):
    x = RNG.integers(0, 50, n).astype(float)
    places, ordered = np.zeros(n, np.int32), np.zeros(n)
    module(LEANS).get_function("carve")(In(x), Out(places), Out(ordered), n, block=(n, 1, 1), shared=n * 12)
    np.testing.assert_array_equal(ordered, np.sort(x))
    np.testing.assert_array_equal(places[np.argsort(x, kind="stable")], np.arange(n))


@pytest.mark.smoke
@pytest.mark.parametrize("n", [1, 1000])
def test_atomics(engine, n):
    x = RNG.integers(-5000, 5000, n, np.int32)
    out = np.array([0, 2**31 - 1, -(2**31), -1, 0, 0, 0, 0], np.int32)
    floats, doubles, wide = np.array([0, -1e9], np.float32), np.zeros(1), np.zeros(1, np.uint64)
    module(LEANS).get_function("atomics")(
        In(x), InOut(out), InOut(floats), InOut(doubles), InOut(wide), n, block=(128, 1, 1), grid=(8, 1)
    )
    bits = np.bitwise_or.reduce(1 << (x & 15))
    expected = [x.sum(), x.min(), x.max(), ~bits, bits, np.bitwise_xor.reduce(x), -n, n % 100]
    np.testing.assert_array_equal(out, expected)
    assert (*floats, *doubles, *wide) == (n / 2, x.max(), n / 4, n << 33)


@pytest.mark.smoke
def test_votes_and_shuffles(engine):
    x = RNG.integers(-50, 50, 64, np.int32)
    out = np.zeros((64, 8), np.int32)
    module(LEANS).get_function("votes")(In(x), Out(out), block=(64, 1, 1))
    warps, positive = x.reshape(2, 32), (x > 0).reshape(2, 32)
    np.testing.assert_array_equal(out[:, 0], (np.cumsum(positive, 1) - positive).ravel())
    np.testing.assert_array_equal(out[:, 1], x[np.arange(64) ^ 1])
    lane = np.arange(64)
    np.testing.assert_array_equal(out[:, 2], x[np.where(lane % 8 >= 2, lane - 2, lane)])
    np.testing.assert_array_equal(out[:, 3], positive.sum())
    any_all = (warps == 3).any(1) * 2 + (warps < 1000).all(1)
    np.testing.assert_array_equal(out[:, 4], any_all.repeat(32))
    first = [0 if v == 0 else (v & -v).bit_length() for v in x.tolist()]
    zeros = [32 - (v % 2**32).bit_length() for v in x.tolist()]
    np.testing.assert_array_equal(out[:, 5], np.array(first) * 100 + zeros)
    np.testing.assert_array_equal(out[:, 6], warps[:, 5].repeat(32))
    np.testing.assert_array_equal(out[:, 7], 2 * (x == 7).any() + (x > -100).all())


def test_functions_of_c(engine):
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    out = np.zeros((6, 64), np.float32)
    module(LEANS).get_function("functions")(In(x), Out(out), 64, block=(64, 1, 1))
    v, i = x.astype(float), np.arange(64)
    expected = [
        np.minimum(v, 1) + np.maximum(v, 2) + np.abs(v),
        np.sqrt(np.abs(v)) / np.sqrt(1 + v * v) + np.exp(-v * v),
        2.0**v + np.arctan2(v, 1) + np.floor(v) + np.pi,
        np.full(64, np.finfo(np.float32).max),
        v / 3 + np.fmod(v, 0.75) + np.copysign(1, v) + np.rint(v),
        i + i - 56 + 4464,
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_three_dimensions(engine):
    out = np.full((6, 6, 10), -1, np.int32)
    module(LEANS).get_function("places")(Out(out), block=(5, 2, 3), grid=(2, 3, 2))
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, (x << 16) + (y << 8) + z)


def test_newer_dialects(engine):
    out = np.zeros(3, np.int32)
    module(LEANS).get_function("newer")(Out(out), block=(3, 1, 1))
    np.testing.assert_array_equal(out, 18)


# ---- Options, variables, headers --------------------------------------------------------------------

BUILT = r"""
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

#ifndef WIDTH
#define WIDTH 2
#endif

__constant__ REAL weights[WIDTH];
__device__ int calls;

__global__ void weigh(const REAL *x, REAL *out) {
    REAL sum = 0;
    for (int k = 0; k < WIDTH; ++k) sum += weights[k] * x[threadIdx.x + k];
    out[threadIdx.x] = sum;
    if (threadIdx.x == 0) ++calls;
}
__global__ void count(int *out) { *out = ++calls; }

__global__ void halves(const half *x, __half *out) {
    int i = threadIdx.x;
    out[i] = __float2half(__half2float(x[i]) * 2.0f) + x[i];
}

__global__ void reversed(int *x) {
    extern __shared__ int own[];
    cg::thread_block block = cg::this_thread_block();
    own[block.thread_rank()] = x[block.thread_rank()];
    block.sync();
    x[block.thread_rank()] = own[block.size() - 1 - block.thread_rank()];
}
"""


@pytest.mark.parametrize("real", ["float", "double"])
def test_options_and_constants(engine, real):
    mod = module(BUILT, options=(f"-DREAL={real}", "-DWIDTH=3"))
    weights = np.array([1, -2, 0.5], real.replace("float", "f4").replace("double", "f8"))
    x = RNG.integers(-9, 10, 10).astype(weights.dtype)
    out = np.zeros(8, weights.dtype)
    mod.get_function("weigh")(In(x), Out(out), block=(8, 1, 1), symbols={"weights": weights})
    np.testing.assert_array_equal(out, x[:8] - 2 * x[1:9] + x[2:] / 2)


def test_variables_are_a_calls_own(engine):
    count = module(BUILT, options=("-DREAL=float",)).get_function("count")
    out = np.zeros(1, np.int32)
    for value in (41, 6):
        count(Out(out), block=(1, 1, 1), symbols={"calls": np.int32(value)})
        assert out[0] == value + 1
    count(Out(out), block=(1, 1, 1))
    assert out[0] == 1


def test_halves(engine):
    x = RNG.standard_normal(32).astype(np.float16)
    out = np.zeros_like(x)
    module(BUILT, options=("-DREAL=float",)).get_function("halves")(In(x), Out(out), block=(32, 1, 1))
    np.testing.assert_array_equal(out, (2 * x.astype(np.float32)).astype(np.float16) + x)


def test_cooperative_groups(engine):
    x = np.arange(100, dtype=np.int32)
    mod = module(BUILT, options=("-DREAL=float",))
    mod.get_function("reversed")(InOut(x), block=(100, 1, 1), shared=400)
    np.testing.assert_array_equal(x, np.arange(100)[::-1])


# ---- Complex numbers --------------------------------------------------------------------------------

COMPLEX = r"""
#include <cuda_runtime.h>
#include <cuComplex.h>

__global__ void of_floats(const cuFloatComplex *a, const cuComplex *b, cuFloatComplex *out,
                          float *sizes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = cuCdivf(cuCsubf(cuCmulf(a[i], b[i]), cuConjf(a[i])), cuCaddf(b[i], make_cuComplex(3.0f, 0.0f)));
    sizes[i] = cuCabsf(a[i]) + cuCrealf(b[i]) - cuCimagf(b[i]);
}

__global__ void of_doubles(cuDoubleComplex *a, cuDoubleComplex by) {
    a[threadIdx.x] = cuCfma(a[threadIdx.x], by, make_cuDoubleComplex(1, -1));
}
"""


def test_complex_numbers(engine):
    a, b = RNG.standard_normal((2, 100, 2)).astype(np.float32).view(np.complex64)[..., 0]
    out, sizes = np.zeros_like(a), np.zeros(100, np.float32)
    arguments = In(a), In(b), Out(out), Out(sizes), 100
    module(COMPLEX).get_function("of_floats")(*arguments, block=(64, 1, 1), grid=(2, 1))
    np.testing.assert_allclose(out, (a * b - a.conj()) / (b + 3), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sizes, np.abs(a) + b.real - b.imag, rtol=1e-4, atol=1e-5)
    c = RNG.standard_normal((8, 2)).view(np.complex128)[:, 0]
    expected = c * (2 - 3j) + (1 - 1j)
    module(COMPLEX).get_function("of_doubles")(InOut(c), np.complex128(2 - 3j), block=(8, 1, 1))
    np.testing.assert_allclose(c, expected, rtol=1e-12)


# ---- Functions of C, as C++ has them ----------------------------------------------------------------

MIXED = r"""
#include <cmath>
#include <cstdio>
#include <cstdlib>

__global__ void mixed(const float *x, double *out, int n) {
    int i = threadIdx.x;
    out[i] = sqrt(i) + pow(2, n) + pow(x[i], 2.0) + exp(1) + atan2(i, 3) + fmax(1.0, x[i]) + round(n);
    out[i] += std::sqrt(x[i]) + std::abs(-x[i]) + std::pow(2.0f, x[i]) + std::isnan(x[i]) + abs(-n);
}
"""


def test_functions_of_integers_and_of_two_types(engine):
    x, i = RNG.random(16).astype(np.float32), np.arange(16)
    out = np.zeros(16)
    module(MIXED).get_function("mixed")(In(x), Out(out), 5, block=(16, 1, 1))
    x = x.astype(float)
    expected = np.sqrt(i) + 32 + x**2 + np.e + np.arctan2(i, 3) + np.fmax(1, x) + 5
    np.testing.assert_allclose(out, expected + np.sqrt(x) + x + 2**x + 5, rtol=1e-5)


# ---- Names that the host's C library has ------------------------------------------------------------

NAMES = r"""
#include <stdio.h>
#include <cooperative_groups.h>

struct Row { int index, count; };
__constant__ float gamma[2] = {1.5f, 2.5f};
__device__ unsigned int random(unsigned int &state) { return state = state * 1664525u + 1013904223u; }
__device__ float rand(float low, float high, unsigned int &state) {
    return low + (high - low) * (random(state) >> 8) / 16777216.0f;
}

__global__ void select(const int *x, int *index, const Row *rows, int link) {
    int read = x[threadIdx.x], remove = rows->count;
    cooperative_groups::this_thread_block().sync();
    index[threadIdx.x] = read * link - remove;
}
__global__ void write(float *out) {
    unsigned int state = threadIdx.x;
    out[threadIdx.x] = gamma[1] * rand(2, 2, state) + gamma[0];
}
"""


def test_names_that_c_has_too(engine):
    mod = module(NAMES)
    rows, index, out = np.array([(3, 7)], "i4,i4"), np.zeros(4, np.int32), np.zeros(4, np.float32)
    mod.get_function("select")(In(np.arange(4, dtype=np.int32)), Out(index), In(rows), 5, block=(4, 1, 1))
    np.testing.assert_array_equal(index, np.arange(4) * 5 - 7)
    mod.get_function("write")(Out(out), block=(4, 1, 1))
    np.testing.assert_array_equal(out, 6.5)
    gamma = np.array([1, 10], np.float32)
    mod.get_function("write")(Out(out), block=(4, 1, 1), symbols={"gamma": gamma})
    np.testing.assert_array_equal(out, 21)
