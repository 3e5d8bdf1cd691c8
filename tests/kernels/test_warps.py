"""Warp-synchronous kernels, whose lanes stay in step at volatile accesses, against NumPy."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.thorough_cases import thorough
from helpers.user_kernels import module, python

import pycudakit as pk
from pycudakit import In, InOut, Out, errors

RNG = np.random.default_rng(44)
ROUNDS = 100
TOTAL = r"""
__global__ void total(const float *g, float *o) {
    __shared__ volatile float s[64]; int t = threadIdx.x;
    s[t] = g[t]; __syncthreads();
    if (t < 32) {
        s[t] += s[t+32]; s[t] += s[t+16]; s[t] += s[t+8]; s[t] += s[t+4]; s[t] += s[t+2]; s[t] += s[t+1];
    }
    if (t == 0) o[0] = s[0];
}
"""


def test_sum_of_two_warps(engine):
    total = module(TOTAL).get_function("total")
    for number in range(ROUNDS):
        out = np.zeros(1, np.float32)
        total(In(np.arange(64, dtype=np.float32) + number), Out(out), block=(64, 1, 1))
        assert out[0] == 2016 + 64 * number


UNROLLED = r"""
struct Pair { float x, y; };
template <class T> struct Sum {
    static __device__ void add(volatile T *s, int to, int from) { s[to] += s[from]; }
    static __device__ T zero() { return 0; }
};
template <> struct Sum<Pair> {
    static __device__ void add(volatile Pair *s, int to, int from) {
        s[to].x += s[from].x;
        s[to].y += s[from].y;
    }
    static __device__ Pair zero() { return {0, 0}; }
};
template <class T, int SIZE> __device__ void reduce_warp(volatile T *s, int t) {
    if (SIZE >= 64) Sum<T>::add(s, t, t + 32);
    if (SIZE >= 32) Sum<T>::add(s, t, t + 16);
    if (SIZE >= 16) Sum<T>::add(s, t, t + 8);
    if (SIZE >= 8) Sum<T>::add(s, t, t + 4);
    if (SIZE >= 4) Sum<T>::add(s, t, t + 2);
    if (SIZE >= 2) Sum<T>::add(s, t, t + 1);
}
template <class T, int SIZE> __global__ void reduce(const T *g, T *o) {
    __shared__ T s[SIZE + 32];
    int t = threadIdx.x;
    s[t] = g[blockIdx.x * SIZE + t];
    if (t < 32) s[SIZE + t] = Sum<T>::zero();
    __syncthreads();
    for (int half = SIZE / 2; half > 32; half /= 2) {
        if (t < half) Sum<T>::add(s, t, t + half);
        __syncthreads();
    }
    if (t < 32) reduce_warp<T, SIZE>(s, t);
    if (t == 0) o[blockIdx.x] = s[0];
}
"""
PAIR = np.dtype([("x", np.float32), ("y", np.float32)])


@pytest.mark.parametrize("size", [64, 1024, *thorough(128, 256, 512)])
@pytest.mark.parametrize(
    ("kind", "dtype"), [("int", np.int32), ("float", np.float32), ("double", np.float64), ("Pair", PAIR)]
)
def test_unrolled_reductions(engine, kind, dtype, size):
    reduce = module(UNROLLED, no_extern_c=True).get_function(f"reduce<{kind}, {size}>")
    numbers = RNG.integers(-100, 100, (ROUNDS, size, 2 if kind == "Pair" else 1))
    base = np.float32 if kind == "Pair" else dtype
    out = np.zeros((ROUNDS, numbers.shape[2]), base)
    values = np.ascontiguousarray(numbers.astype(base))
    reduce(In(values.view(dtype).ravel()), Out(out.view(dtype).ravel()), block=(size, 1, 1), grid=(ROUNDS, 1))
    np.testing.assert_array_equal(out, numbers.sum(axis=1).astype(base))


SPELLINGS = {
    "a volatile pointer to a plain array": r"""
        __device__ void warp(volatile double *s, int t) {
            for (int by = 16; by > 0; by /= 2) s[t] += s[t + by];
        }
        __global__ void sums(const double *g, double *o) {
            __shared__ double s[64];
            int t = threadIdx.x;
            s[t] = g[32 * blockIdx.x + t]; s[t + 32] = 0; __syncthreads();
            warp(s, t);
            if (t == 0) o[blockIdx.x] = s[0];
        }""",
    "a typedef and a macro": r"""
        typedef volatile double cell;
        #define STEP(by) s[t] = s[t] + s[t + by]
        __global__ void sums(const double *g, double *o) {
            __shared__ cell s[64];
            int t = threadIdx.x;
            s[t] = g[32 * blockIdx.x + t]; s[t + 32] = 0; __syncthreads();
            STEP(16); STEP(8); STEP(4); STEP(2); STEP(1);
            if (t == 0) o[blockIdx.x] = s[0];
        }""",
    "members": r"""
        struct Cells { volatile double value[64]; };
        __global__ void sums(const double *g, double *o) {
            __shared__ Cells s;
            int t = threadIdx.x;
            s.value[t] = g[32 * blockIdx.x + t]; s.value[t + 32] = 0; __syncthreads();
            s.value[t] += s.value[t + 16]; s.value[t] += s.value[t + 8]; s.value[t] += s.value[t + 4];
            s.value[t] += s.value[t + 2]; s.value[t] += s.value[t + 1];
            if (t == 0) o[blockIdx.x] = s.value[0];
        }""",
    "dynamic shared memory": r"""
        extern __shared__ double memory[];
        __global__ void sums(const double *g, double *o) {
            volatile double *s = memory;
            int t = threadIdx.x;
            s[t] = g[32 * blockIdx.x + t]; s[t + 32] = 0; __syncthreads();
            for (int by = 16; by > 0; by /= 2) s[t] += s[t + by];
            if (t == 0) o[blockIdx.x] = memory[0];
        }""",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_volatile(engine, spelling):
    g = RNG.integers(0, 1000, (ROUNDS, 32)).astype(np.float64)
    out = np.zeros(ROUNDS)
    sums = module(SPELLINGS[spelling]).get_function("sums")
    sums(In(g), Out(out), block=(32, 1, 1), grid=(ROUNDS, 1), shared=512)
    np.testing.assert_array_equal(out, g.sum(axis=1))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_plain_values_are_written_before_volatile_reads(engine, spelling):
    if engine != "cpu":
        pytest.skip("a GPU's lanes need a barrier there")
    g, out = np.arange(32.0), np.zeros(1)
    sums = module(SPELLINGS[spelling].replace("__syncthreads();", "")).get_function("sums")
    sums(In(g), Out(out), block=(32, 1, 1), shared=512)
    assert out[0] == 496


SCAN = r"""
__device__ int scan_warp(volatile int *s, int t) {
    const int lane = t & 31;
    if (lane >= 1) s[t] = s[t - 1] + s[t];
    if (lane >= 2) s[t] = s[t - 2] + s[t];
    if (lane >= 4) s[t] = s[t - 4] + s[t];
    if (lane >= 8) s[t] = s[t - 8] + s[t];
    if (lane >= 16) s[t] = s[t - 16] + s[t];
    return lane > 0 ? s[t - 1] : 0;
}
__global__ void scan(const int *g, int *o) {
    __shared__ int s[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = g[i];
    __syncthreads();
    o[i] = scan_warp(s, t);
}
"""


def test_scan_of_a_warp(engine):
    g = RNG.integers(-50, 50, (ROUNDS, 8, 32)).astype(np.int32)
    out = np.zeros_like(g)
    module(SCAN).get_function("scan")(In(g), Out(out), block=(256, 1, 1), grid=(ROUNDS, 1))
    np.testing.assert_array_equal(out, np.cumsum(g, axis=2) - g)


HALF = r"""
__global__ void half(const float *g, float *o) {
    __shared__ volatile float s[32];
    int t = threadIdx.x;
    s[t] = g[32 * blockIdx.x + t];
    if (t < 16) {
        s[t] += s[t + 16];
        s[t] += s[t ^ 8];
        s[t] += s[t ^ 4];
        s[t] += s[t ^ 2];
        s[t] += s[t ^ 1];
    } else if (t >= 24) {
        return;
    }
    if (t < 16) o[16 * blockIdx.x + t] = s[15 - t];
}
"""


def test_half_of_a_warp(engine):
    g = RNG.integers(0, 100, (ROUNDS, 32)).astype(np.float32)
    out = np.zeros((ROUNDS, 16), np.float32)
    module(HALF).get_function("half")(In(g), Out(out), block=(32, 1, 1), grid=(ROUNDS, 1))
    np.testing.assert_array_equal(out, np.repeat(g.sum(axis=1, keepdims=True), 16, axis=1))


ON_THREADS = """
import test_warps as tests
import pycudakit as pk
with pk.engine("cpu"):
    tests.test_sum_of_two_warps("cpu")
    tests.test_unrolled_reductions("cpu", "Pair", tests.PAIR, 256)
    tests.test_unrolled_reductions("cpu", "double", float, 1024)
    tests.test_spellings_of_volatile("cpu", "members")
    tests.test_scan_of_a_warp("cpu")
    tests.test_half_of_a_warp("cpu")
"""


@pytest.mark.parametrize("threads", [1, 8])
def test_on_threads(engine, threads):
    if engine != "cpu":
        pytest.skip("these are threads of the CPU engine")
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    done = python(ON_THREADS, PYCUDAKIT_THREADS=str(threads), PYTHONPATH=path)
    assert done.returncode == 0, done.stderr


SPIN = r"""
__global__ void relay(volatile int *turn, int *order) {
    int t = threadIdx.x + blockDim.x * threadIdx.y;
    if (t % 32 == 0) {
        while (*turn != t / 32) {}
        order[t / 32] = 100 + *turn;
        __threadfence();
        *turn = t / 32 + 1;
    }
}
__global__ void ahead(volatile int *flag, volatile int *out) {
    int t = threadIdx.x;
    int sum = 0;
    if (t >= 16) { for (int i = 0; i < 1000; ++i) sum += flag[1]; }
    out[t] = sum;
    out[t] += out[t ^ 1];
}
"""


def test_spinning_on_a_volatile_value_yields(engine):
    turn, order = np.zeros(1, np.int32), np.zeros(8, np.int32)
    module(SPIN).get_function("relay")(InOut(turn), InOut(order), block=(32, 8, 1))
    assert turn[0] == 8
    np.testing.assert_array_equal(order, np.arange(8) + 100)


def test_reading_a_volatile_value_often_keeps_the_step(engine):
    flag, out = np.array([0, 1], np.int32), np.zeros(32, np.int32)
    module(SPIN).get_function("ahead")(In(flag), Out(out), block=(32, 1, 1))
    np.testing.assert_array_equal(out, np.repeat([0, 2000], 16))


def test_a_kernel_that_waits_at_volatile_accesses_alone(engine):
    source = """
    typedef volatile int cell;
    __global__ void swap(cell *x) { int t = threadIdx.x, other = x[t ^ 1]; x[t] = other; }
    __global__ void add(int *x) { x[threadIdx.x] += 1; }
    """
    x = np.arange(64, dtype=np.int32)
    module(source).get_function("swap")(InOut(x), block=(64, 1, 1))
    np.testing.assert_array_equal(x, np.arange(64) ^ 1)
    module(source).get_function("add")(InOut(x), block=(64, 1, 1))
    np.testing.assert_array_equal(x, (np.arange(64) ^ 1) + 1)


def test_volatile_in_a_header(engine, tmp_path):
    (tmp_path / "warp_sum.h").write_text(
        "static __device__ void warp_sum(volatile int *s, int t) {"
        " for (int by = 16; by > 0; by /= 2) s[t] += s[t + by]; }"
    )
    source = """
    #include "warp_sum.h"
    __global__ void sum(int *x) {
        __shared__ int s[64];
        int t = threadIdx.x;
        s[t] = x[t]; s[t + 32] = 0;
        __syncthreads();
        warp_sum(s, t);
        x[t] = s[0];
    }
    """
    x = np.arange(32, dtype=np.int32)
    sum_ = pk.SourceModule(source, include_dirs=[tmp_path]).get_function("sum")
    sum_(InOut(x), block=(32, 1, 1))
    assert x[0] == 496


ORDER = r"""
__global__ void order(int *count, int *order) {
    __syncthreads();
    order[threadIdx.x] = atomicAdd(count, 1);
}
"""


def test_threads_leave_a_barrier_in_order(engine):
    if engine != "cpu":
        pytest.skip("a GPU's lanes add in an order of its own")
    out = np.zeros(100, np.int32)
    module(ORDER).get_function("order")(np.zeros(1, np.int32), Out(out), block=(100, 1, 1))
    np.testing.assert_array_equal(out, np.arange(100))


def test_checked_kernels_keep_the_step(engine):
    out = np.zeros(1, np.float32)
    total = module(TOTAL, debug=True).get_function("total")
    total(In(np.arange(64, dtype=np.float32)), Out(out), block=(64, 1, 1))
    assert out[0] == 2016


def test_checked_volatile_accesses_name_invalid_accesses(engine):
    if engine != "cpu":
        pytest.skip("accesses are checked on the CPU engine")
    total = module(TOTAL.replace("o[0] =", "o[2] ="), debug=True).get_function("total")
    out = np.zeros(2, np.float32)
    with pytest.raises(errors.DeviceError, match=r"total.*writes 4 bytes at 'o\[2\]', which has 2 elements"):
        total(In(np.arange(64, dtype=np.float32)), Out(out), block=(64, 1, 1))
    np.testing.assert_array_equal(out, 0)


@pytest.mark.skipif(os.name != "posix", reason="the compiler is a shell script")
class TestOldCompilers:
    """A compiler that cannot tell volatile accesses apart."""

    @pytest.fixture(autouse=True)
    def _compiler(self, tmp_path, monkeypatch, engine):
        if engine != "cpu":
            pytest.skip("the CPU engine has the machine's compiler")
        script = tmp_path / "old-c++"
        script.write_text(
            '#!/bin/sh\ncase "$*" in *tsan*) echo "unknown parameter" >&2; exit 1;; esac\n'
            f'exec {os.environ.get("CXX") or "c++"} "$@"\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("CXX", str(script))

    def test_volatile_shared_memory_is_refused(self):
        with pytest.raises(
            errors.CompileError, match=r"kernel\.cu has volatile shared memory.*old-c\+\+ is too old.*GCC 11"
        ):
            pk.SourceModule(TOTAL)

    def test_other_volatile_values_compile(self):
        source = "__global__ void k(volatile int *x) { x[threadIdx.x] += 1; }"
        x = np.zeros(32, np.int32)
        pk.SourceModule(source).get_function("k")(InOut(x), block=(32, 1, 1))
        np.testing.assert_array_equal(x, 1)
