// Transposed operands, which come column after column, in the order of the call.
#pragma once

#include "cuda/runtime/cuda.h"

namespace pk::device {

// Elements of whole rows. Those of a plane, which has `height` rows, lie side by side, column after column;
// the first row is row `into` of its plane.
struct Transposed {
    const char *from;
    char *to;
    int64_t into, height, count, columns;
};

template <class Word>
__global__ void transpose(const Transposed given) {
    const auto i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= given.count) return;
    const auto columns = unsigned(given.columns), rows = unsigned(given.count) / columns;
    const unsigned row = unsigned(i) / columns, column = unsigned(i) % columns;
    const int64_t plane = (given.into + row) / given.height * given.height - given.into;  // its first row
    const int64_t first = plane < 0 ? 0 : plane;
    const int64_t end = plane + given.height < rows ? plane + given.height : rows;
    reinterpret_cast<Word *>(given.to)[i] =
        reinterpret_cast<const Word *>(given.from)[first * columns + column * (end - first) + row - first];
}

// Queues it for elements of so many bytes. A chunk has less than 2^31 of them.
inline void transpose(const Transposed &given, int64_t item, cudaStream_t queue) {
    constexpr int THREADS = 256;
    const auto blocks = unsigned((given.count + THREADS - 1) / THREADS);
    switch (item) {
        case 1: transpose<uint8_t><<<blocks, THREADS, 0, queue>>>(given); break;
        case 2: transpose<uint16_t><<<blocks, THREADS, 0, queue>>>(given); break;
        case 4: transpose<uint32_t><<<blocks, THREADS, 0, queue>>>(given); break;
        default: transpose<uint64_t><<<blocks, THREADS, 0, queue>>>(given); break;
    }
    PK_CUDA(cudaGetLastError());
}

}  // namespace pk::device
