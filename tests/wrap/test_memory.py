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
