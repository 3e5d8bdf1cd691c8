"""Classic reductions and scans in CUDA C, with barriers and with shuffles."""

import numpy as np
import pytest
from helpers.user_kernels import module

from pycudakit import In, InOut, Out

RNG = np.random.default_rng(16)


def blocks_for(n, block):
    return (n + block - 1) // block, 1


# ---- Reductions -------------------------------------------------------------------------------------

SUMS = r"""
#define THREADS 256

// Each block adds up its threads' elements, halving the number of threads that add.
__global__ void sum_of_blocks(const int *in, int *sums, int n) {
    __shared__ int part[THREADS];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

// The same in dynamic shared memory, of floats, two elements a thread.
__global__ void sum_in_dynamic(const float *in, float *sums, int n) {
    extern __shared__ float part_[];
    unsigned int tid = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + tid;
    float mine = i < n ? in[i] : 0.0f;
    if (i + blockDim.x < n) mine += in[i + blockDim.x];
    part_[tid] = mine;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s /= 2) {
        if (tid < s) part_[tid] += part_[tid + s];
        __syncthreads();
    }
    if (tid == 0) sums[blockIdx.x] = part_[0];
}

__inline__ __device__ int sum_of_warp(int value) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

// Warps add by shuffles, and the first one adds the warps' sums.
__global__ void sum_by_shuffles(const int *in, int *total, int n) {
    static __shared__ int of_warps[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    int value = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) value += in[i];
    value = sum_of_warp(value);
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    value = (threadIdx.x < blockDim.x / warpSize) ? of_warps[lane] : 0;
    if (warp == 0) value = sum_of_warp(value);
    if (threadIdx.x == 0) atomicAdd(total, value);
}
"""
LENGTHS = [1, 2, 31, 256, pytest.param(257, marks=pytest.mark.smoke), 1000, 70_001]


@pytest.mark.parametrize("n", LENGTHS)
def test_sum_in_shared_memory(engine, n):
    x = RNG.integers(-1000, 1000, n, np.int32)
    sums = np.zeros(blocks_for(n, 256)[0], np.int32)
    kernel = module(SUMS).get_function("sum_of_blocks")
    kernel(In(x), Out(sums), np.int32(n), block=(256, 1, 1), grid=(len(sums), 1))
    padded = np.zeros(len(sums) * 256, np.int32)
    padded[:n] = x
    np.testing.assert_array_equal(sums, padded.reshape(-1, 256).sum(1))


@pytest.mark.parametrize("threads", [32, 128, 1024])
@pytest.mark.parametrize("n", LENGTHS)
def test_sum_in_dynamic_shared_memory(engine, n, threads):
    x = RNG.integers(-100, 100, n).astype(np.float32)  # sums are exact in float32
    sums = np.zeros(blocks_for(n, 2 * threads)[0], np.float32)
    kernel = module(SUMS).get_function("sum_in_dynamic")
    shape = {"block": (threads, 1, 1), "grid": (len(sums), 1)}
    kernel(In(x), Out(sums), np.int32(n), **shape, shared=threads * 4)
    assert sums.sum() == x.sum()


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("threads", [32, 96, 256])
@pytest.mark.parametrize("n", LENGTHS)
def test_sum_by_warp_shuffles(engine, n, threads, debug):
    x = RNG.integers(-1000, 1000, n, np.int32)
    total = np.full(1, 77, np.int32)
    kernel = module(SUMS, debug=debug).get_function("sum_by_shuffles")
    kernel(In(x), Out(total), np.int32(n), block=(threads, 1, 1), grid=(5, 1))
    assert total[0] == x.sum()


# ---- Blelloch's scan --------------------------------------------------------------------------------

SCAN = r"""
// Sums of the elements before each one, of 2 * blockDim.x elements a block; and the sum of each block.
__global__ void scan_blocks(const int *in, int *out, int *block_sums, int n) {
    extern __shared__ int temp[];
    const int tid = threadIdx.x, width = 2 * blockDim.x, first = blockIdx.x * width;
    temp[2 * tid] = first + 2 * tid < n ? in[first + 2 * tid] : 0;
    temp[2 * tid + 1] = first + 2 * tid + 1 < n ? in[first + 2 * tid + 1] : 0;
    int offset = 1;
    for (int d = width >> 1; d > 0; d >>= 1) {  // up the tree
        __syncthreads();
        if (tid < d) {
            int ai = offset * (2 * tid + 1) - 1, bi = offset * (2 * tid + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (tid == 0) {
        block_sums[blockIdx.x] = temp[width - 1];
        temp[width - 1] = 0;
    }
    for (int d = 1; d < width; d *= 2) {  // and down
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int ai = offset * (2 * tid + 1) - 1, bi = offset * (2 * tid + 2) - 1;
            int t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    if (first + 2 * tid < n) out[first + 2 * tid] = temp[2 * tid];
    if (first + 2 * tid + 1 < n) out[first + 2 * tid + 1] = temp[2 * tid + 1];
}

__global__ void add_offsets(int *out, const int *offsets, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += offsets[blockIdx.x];
}
"""


def exclusive_scan(x, threads, **options):
    """Scan each block, scan the block sums recursively, and add them."""
    mod, width = module(SCAN, **options), 2 * threads
    out = np.zeros_like(x)
    sums = np.zeros(-(-len(x) // width), np.int32)
    grid, n = (len(sums), 1), np.int32(len(x))
    mod.get_function("scan_blocks")(
        In(x), Out(out), Out(sums), n, block=(threads, 1, 1), grid=grid, shared=width * 4
    )
    if len(sums) > 1:
        offsets = exclusive_scan(sums, threads, **options)
        mod.get_function("add_offsets")(InOut(out), In(offsets), n, block=(width, 1, 1), grid=grid)
    return out


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("threads", [16, 128])
@pytest.mark.parametrize("n", [*range(1, 9), 31, 32, 33, 255, 256, 1000, 33_333, LENGTHS[4]])
def test_blelloch_scan(engine, n, threads, debug):
    """The scan is right, also with debug=True, which reports no error."""
    x = RNG.integers(-1000, 1000, n, np.int32)
    np.testing.assert_array_equal(exclusive_scan(x, threads, debug=debug), np.cumsum(x) - x)


def test_blelloch_scan_of_many_blocks(engine):
    x = np.ones(70_000, np.int32)
    np.testing.assert_array_equal(exclusive_scan(x, 4), np.arange(70_000))
