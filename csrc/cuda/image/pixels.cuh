// Helpers of the image kernels: launches with a thread for each element.
#pragma once

#include "common/image.h"
#include "common/visit_type.h"
#include "cuda/runtime/cuda.h"
#include "cuda/runtime/launch.h"

namespace pk::image {

constexpr int THREADS = 256;

// Return the thread's index in the grid.
inline __device__ int64_t global_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// Launch a kernel with a thread for each of `count` elements.
template <class Kernel, class... Args>
void launch_for(int64_t count, cudaStream_t stream, Kernel kernel, Args... args) {
    kernel<<<grid_for(count, THREADS), THREADS, 0, stream>>>(args...);
    PK_CUDA(cudaGetLastError());
}

}  // namespace pk::image
