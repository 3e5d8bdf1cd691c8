// own_scale on a GPU: the kernel and the function that launches it.
#include <cuda_runtime.h>

#include <string>

#include "own.h"

static thread_local std::string message;

OWN_API const char *own_last_error() { return message.c_str(); }

static void check(cudaError_t error) {
    if (error != cudaSuccess) throw error;
}

// Device memory for the duration of a call (RAII).
class DeviceArray {
   public:
    explicit DeviceArray(int64_t count) { check(cudaMalloc(&memory_, size_t(count) * sizeof(float))); }
    ~DeviceArray() { cudaFree(memory_); }
    DeviceArray(const DeviceArray &) = delete;
    float *get() const { return memory_; }

   private:
    float *memory_ = nullptr;
};

__global__ void scale(float *x, int64_t count, float factor) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) x[i] *= factor;
}

OWN_API int32_t own_scale(const float *in, float *out, int64_t count, float factor) try {
    if (count == 0) return 0;
    const size_t bytes = size_t(count) * sizeof(float);
    const DeviceArray x(count);
    check(cudaMemcpy(x.get(), in, bytes, cudaMemcpyHostToDevice));
    scale<<<unsigned((count + 255) / 256), 256>>>(x.get(), count, factor);
    check(cudaGetLastError());
    check(cudaMemcpy(out, x.get(), bytes, cudaMemcpyDeviceToHost));
    return 0;
} catch (cudaError_t error) {
    message = std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
    return 1;
}
