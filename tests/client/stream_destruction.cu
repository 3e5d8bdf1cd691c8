// Enqueues a kernel that takes 300 ms and then writes to pinned memory, and destroys the stream meanwhile.
// Returns 0 if the kernel had ended when the destructor returned: the memory of a stream's work is freed
// after the stream.
#include <cstdio>

#include "cuda/runtime/cuda.h"

__global__ void slow(volatile int *done) {
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < 300000000);
    *done = 1;
}

int main() {
    int *pinned = nullptr;
    if (const cudaError_t error = cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocMapped);
        error != cudaSuccess) {
        std::printf("%s", cudaGetErrorString(error));
        return 2;
    }
    volatile int *done = pinned;
    *done = 0;
    {
        cudaStream_t handle;
        if (cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) != cudaSuccess) return 2;
        const pk::Stream stream(handle);
        slow<<<1, 1, 0, stream.get()>>>(pinned);
        if (cudaGetLastError() != cudaSuccess) return 2;
        if (*done) {
            std::printf("the kernel is not slow");
            return 2;
        }
    }
    const bool ended = *done;
    return ended ? 0 : 1;
}
