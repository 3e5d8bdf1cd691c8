// The kernel that brings transposed (column-major) operands into the C order of the call.
#pragma once

#include "cuda/runtime/cuda.h"
#include "cuda/runtime/launch.h"

namespace pk::device {

// A chunk of whole rows. Planes have `height` rows; of each plane the chunk's elements are stored column
// after column. The chunk begins at row `first_row` of its plane.
struct TransposeParams {
    const char *from;
    char *to;
    int64_t first_row, height, count, columns;
};

template <class Word>
__global__ void transpose(const TransposeParams params) {
    const auto i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= params.count) return;
    const auto columns = unsigned(params.columns), rows = unsigned(params.count) / columns;
    const unsigned row = unsigned(i) / columns, column = unsigned(i) % columns;
    const int64_t plane =
        (params.first_row + row) / params.height * params.height - params.first_row;  // its first row
    const int64_t first = plane < 0 ? 0 : plane;
    const int64_t end = plane + params.height < rows ? plane + params.height : rows;
    reinterpret_cast<Word *>(params.to)[i] =
        reinterpret_cast<const Word *>(params.from)[first * columns + column * (end - first) + row - first];
}

// Enqueue the transposition of elements of `item` bytes. A chunk has fewer than 2^31 elements.
inline void transpose(const TransposeParams &params, int64_t item, cudaStream_t stream) {
    constexpr int THREADS = 256;
    const unsigned blocks = grid_for(params.count, THREADS);
    switch (item) {
        case 1: transpose<uint8_t><<<blocks, THREADS, 0, stream>>>(params); break;
        case 2: transpose<uint16_t><<<blocks, THREADS, 0, stream>>>(params); break;
        case 4: transpose<uint32_t><<<blocks, THREADS, 0, stream>>>(params); break;
        default: transpose<uint64_t><<<blocks, THREADS, 0, stream>>>(params); break;
    }
    PK_CUDA(cudaGetLastError());
}

}  // namespace pk::device
