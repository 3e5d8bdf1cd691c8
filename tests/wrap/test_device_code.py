"""Device code of wrapped sources that the CPU engine runs by special means: volatile accesses, inline PTX."""

import platform

import numpy as np
import pytest
from helpers.thorough_cases import thorough

import pycudakit as pk
from pycudakit import errors

# NVIDIA's reduction, whose last warp is in step by its volatile accesses alone. The host's code has accesses
# of all kinds, too: atomic, volatile, and plain ones between launches.
REDUCTION = """
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>
WARP
__global__ void block_sums(const float *x, float *sums, int n) {
    __shared__ float s[256];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 32; half >>= 1) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t < 32) last_warp(s, t);
    if (t == 0) sums[blockIdx.x] = s[0];
}
static std::atomic<int> calls{0};
static volatile int launches;
extern "C" {
float total(const float *x, int n) {
    if (n < 1) throw std::invalid_argument("n is " + std::to_string(n));
    const int blocks = (n + 255) / 256;
    std::vector<float> sums(blocks);
    float *d_x, *d_sums;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&d_sums, blocks * sizeof(float));
    cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; ++i) {
        block_sums<<<blocks, 256>>>(d_x, d_sums, n);
        launches = launches + 1;
    }
    cudaMemcpy(sums.data(), d_sums, blocks * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
    cudaFree(d_sums);
    calls += 1;
    float sum = 0;
    for (float one : sums) sum += one;
    return sum;
}
int count(void) { return 1000 * calls.load() + launches; }
}
"""
WARP = """
__device__ void last_warp(volatile float *s, int t) {
    s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4];
    s[t] += s[t + 2]; s[t] += s[t + 1];
}
"""


@pytest.mark.parametrize("place", [*thorough("source", "header"), "header that a macro includes"])
def test_a_reduction_with_volatile_accesses(engine, tmp_path, place):
    (tmp_path / "warp.cuh").write_text(WARP)
    lines = {
        "source": WARP,
        "header": '#include "warp.cuh"',
        "header that a macro includes": '#define WARP_HEADER "warp.cuh"\n#include WARP_HEADER',
    }
    path = tmp_path / "sums.cu"
    path.write_text(REDUCTION.replace("WARP", lines[place], 1))
    library = pk.wrap(path)
    x = np.random.default_rng(1).integers(-9, 9, 10_001).astype(np.float32)
    assert library.total(x, x.size) == x.sum()
    with pytest.raises(errors.DeviceError, match="total threw an exception: n is 0"):
        library.total(x, 0)
    assert library.total(x, 255) == x[:255].sum()
    assert library.count() == 2006


def test_inline_ptx(engine):
    library = pk.wrap(
        """
__global__ void lanes(unsigned *x) {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    x[threadIdx.x] = lane;
}
extern "C" void get(unsigned *x) {
    unsigned *d_x;
    cudaMalloc(&d_x, 64 * sizeof(unsigned));
    lanes<<<1, 64>>>(d_x);
    cudaMemcpy(x, d_x, 64 * sizeof(unsigned), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
}
"""
    )
    x = np.zeros(64, np.uint32)
    library.get(x)
    np.testing.assert_array_equal(x, np.arange(64) % 32)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86")
def test_assembly_of_the_host(engine):
    library = pk.wrap(
        """
extern "C" unsigned long long cycles(void) {
    unsigned low, high;
    asm volatile("lfence\\n\\trdtsc" : "=a"(low), "=d"(high));
    return (unsigned long long)high << 32 | low;
}
"""
    )
    assert library.cycles() < library.cycles()


def test_inline_ptx_that_the_cpu_engine_does_not_run():
    source = """
__global__ void k(unsigned *x) {
    asm("brev.b32 %0, %1;" : "=r"(x[0]) : "r"(x[1]));
}
extern "C" void f(unsigned *x) { k<<<1, 1>>>(x); }
"""
    with pk.engine("cpu"), pytest.raises(errors.CompileError, match=r"source\.cu:3.*\n?.*inline PTX .*brev"):
        pk.wrap(source)
