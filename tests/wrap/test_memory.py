"""Device memory of wrapped sources on the CPU engine: large blocks come from the pool of results."""

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

SOURCE = """
#include <string.h>
extern "C" {
// @out y[n]
void copied(const float *x, float *y, int n) {
    float *d_x, *d_y, *pinned;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&d_y, n * sizeof(float));
    cudaMallocHost(&pinned, n * sizeof(float));
    memcpy(pinned, x, n * sizeof(float));
    cudaMemcpy(d_x, pinned, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, d_x, n * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemcpy(y, d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
    cudaFree(d_y);
    cudaFreeHost(pinned);
}
void set(float *x, int n, int byte) {
    float *d_x;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMemset(d_x, byte, n * sizeof(float));
    cudaMemcpy(x, d_x, n * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(d_x);
}
cudaError_t too_long(const float *x, int n) {
    float *d_x;
    cudaMalloc(&d_x, (n - 1) * sizeof(float));
    const cudaError_t error = cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaFree(d_x);
    return error;
}
cudaError_t used_after_free(const float *x, int n) {
    float *d_x;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaFree(d_x);
    return cudaMemcpy(d_x, x, n * sizeof(float), cudaMemcpyHostToDevice);
}
cudaError_t freed_as_host_memory(int n) {
    float *d_x;
    cudaMalloc(&d_x, n * sizeof(float));
    const cudaError_t error = cudaFreeHost(d_x);
    cudaFree(d_x);
    return error;
}
}
"""


@pytest.fixture
def library(engine):
    return pk.wrap(SOURCE)


@pytest.mark.parametrize("count", [1, 1000, 262_143, 262_144, 3_000_001])
def test_copies(library, count):
    x = np.random.default_rng(1).random(count, np.float32)
    for _ in range(2):  # in memory that is new, and in that of the first call
        np.testing.assert_array_equal(library.copied(x, count), x)
        y = np.zeros(count, np.float32)
        library.set(y, count, 255)
        assert (y.view(np.uint32) == 2**32 - 1).all()


@pytest.mark.parametrize("count", [1000, 3_000_000])
def test_misuse_of_memory(library, count):
    x = np.zeros(count, np.float32)
    calls = [lambda: library.too_long(x, count), lambda: library.freed_as_host_memory(count)]
    if count > 1000:  # a GPU does not tell small blocks apart
        calls.append(lambda: library.used_after_free(x, count))
    for call in calls:
        with pytest.raises(errors.DeviceError, match=r": invalid argument"):
            call()


def test_freed_memory_is_kept_and_released():
    with pk.engine("cpu"):
        library = pk.wrap(SOURCE)
    x = np.zeros(3_000_000, np.float32)
    pk.release()
    library.set(x, x.size, 0)
    assert pk.memory_info().results_kept >= x.nbytes
    pk.release()
    assert pk.memory_info().results_kept == 0


def test_rows_with_a_pitch(engine):
    library = pk.wrap(
        """
extern "C" {
// @size rows * cols of x
// @out y[rows * cols]
void copied(const double *x, double *y, int rows, int cols) {
    double *d_x;
    size_t pitch, width = cols * sizeof(double);
    cudaMallocPitch(&d_x, &pitch, width, rows);
    cudaMemset2D(d_x, pitch, 0, width, rows);
    cudaMemcpy2D(d_x, pitch, x, width, width, rows, cudaMemcpyHostToDevice);
    cudaMemset2D(d_x, pitch, 0, sizeof(double), rows);
    cudaMemcpy2D(y, width, d_x, pitch, width, rows, cudaMemcpyDeviceToHost);
    cudaFree(d_x);
}
void too_wide(double *x, int cols) {
    double *d_x;
    cudaMalloc(&d_x, 16 * cols * sizeof(double));
    cudaMemcpy2D(d_x, 8, x, 8, cols * sizeof(double), 1, cudaMemcpyHostToDevice);
    cudaFree(d_x);
}
void wrong_kind(double *x, int cols) {
    double *d_x;
    cudaMalloc(&d_x, cols * sizeof(double));
    cudaMemcpy2D(x, 8, d_x, 8, 8, cols, cudaMemcpyHostToDevice);
    cudaFree(d_x);
}
}
"""
    )
    x = np.random.default_rng(1).random((5, 7))
    expected = x.copy()
    expected[:, 0] = 0
    np.testing.assert_array_equal(library.copied(x, 5, 7).reshape(5, 7), expected)
    with pytest.raises(errors.DeviceError, match="too_wide: invalid argument"):
        library.too_wide(x, 7)
    with pytest.raises(errors.DeviceError, match="wrong_kind: invalid argument"):
        library.wrong_kind(x, 7)


def test_variables_of_the_device(engine):
    library = pk.wrap(
        """
__device__ int counts[4];
__global__ void count() { counts[threadIdx.x] += threadIdx.x; }
// @out x[4]
extern "C" int counted(int *x, int n) {
    int *d_counts;
    size_t bytes;
    if (cudaGetSymbolAddress((void **)&d_counts, counts) != cudaSuccess) return -1;
    cudaGetSymbolSize(&bytes, counts);
    cudaMemset(d_counts, 0, bytes);
    for (int i = 0; i < n; ++i) count<<<1, 4>>>();
    cudaMemcpy(x, d_counts, bytes, cudaMemcpyDeviceToHost);
    int last;
    cudaMemcpyFromSymbolAsync(&last, counts, sizeof(int), 3 * sizeof(int), cudaMemcpyDeviceToHost, 0);
    cudaDeviceSynchronize();
    return last;
}
"""
    )
    for n in (2, 5):
        last, x = library.counted(n)
        assert x.tolist() == [0, n, 2 * n, 3 * n]
        assert last == 3 * n


def test_questions_about_the_device(engine):
    library = pk.wrap(
        """
__global__ void one(float *x) { *x = 1; }
static void CUDART_CB add_two(void *x) { *(float *)x += 2; }
// @inout x[1]
extern "C" int asked(float *x) {
    int warp = 0, processors = 0, blocks = 0, threads = 0, least = 0, version = 0;
    cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    cudaFuncSetAttribute(one, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
    cudaFuncSetCacheConfig(one, cudaFuncCachePreferL1);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one, 128, 0);
    cudaOccupancyMaxPotentialBlockSize(&least, &threads, one, 0, 64);
    cudaRuntimeGetVersion(&version);
    float *mapped, *d_mapped, *managed;
    cudaHostAlloc(&mapped, sizeof(float), cudaHostAllocMapped);
    cudaHostGetDevicePointer((void **)&d_mapped, mapped, 0);
    one<<<1, 1>>>(d_mapped);
    cudaLaunchHostFunc(0, add_two, mapped);
    cudaStreamSynchronize(0);
    *x = *mapped;
    cudaPointerAttributes of_managed, of_x;
    cudaMallocManaged(&managed, 64);
    cudaPointerGetAttributes(&of_managed, managed);
    cudaPointerGetAttributes(&of_x, x);
    cudaFree(managed);
    cudaFreeHost(mapped);
    return warp == 32 && processors > 0 && blocks > 0 && threads >= 1 && threads <= 64 && least > 0 &&
           version >= 12000 && of_managed.type == cudaMemoryTypeManaged &&
           of_x.type == cudaMemoryTypeUnregistered;
}
"""
    )
    x = np.zeros(1, np.float32)
    assert library.asked(x) == 1
    assert x[0] == 3
