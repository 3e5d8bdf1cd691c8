// In-core sort of one row of float32 by CUB's own order of floats, which needs no encoding of keys and leaves
// zeros in their order. CUB sorts NaN with a sign first and other NaN last; three more kernels move all NaN
// to the end.
#include <cub/device/device_radix_sort.cuh>

#include "cuda/runtime/launch.h"
#include "cuda/sort/device_sort.h"

namespace pk {

namespace {

constexpr int THREADS = 256, BLOCKS = 2048;
constexpr float NAN_LAST = __builtin_nanf("");

// The range of the numbers in the sorted row, between the NaN at its begin and those at its end.
struct NanBounds {
    int64_t first_number, end_numbers;
};

// Return the first index from which on every element is NaN, or none is, by binary search.
template <bool is_nan_after>
__device__ int64_t where_nan_changes(const float *sorted, int64_t count) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (isnan(sorted[middle]) == is_nan_after)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Finds where the numbers begin and end.
__global__ void find_nan_bounds(const float *sorted, int64_t count, NanBounds *bounds) {
    const int64_t first_number = isnan(sorted[0]) ? where_nan_changes<false>(sorted, count) : 0;
    const float *const rest = sorted + first_number;
    const int64_t left = count - first_number;
    const bool is_last = left != 0 && isnan(rest[left - 1]);
    *bounds = {first_number, first_number + (is_last ? where_nan_changes<true>(rest, left) : left)};
}

// Copies the numbers out, if NaN precede them.
__global__ void copy_numbers(const float *sorted, const NanBounds *bounds, float *numbers) {
    const auto [first_number, end_numbers] = *bounds;
    if (first_number == 0) return;  // in place already
    const int64_t count = end_numbers - first_number, step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        numbers[i] = sorted[first_number + i];
}

// Writes the numbers back at the begin of the row, and NaN after them.
__global__ void move_nan_last(const float *numbers, const NanBounds *bounds, int64_t count, float *sorted) {
    const auto [first_number, end_numbers] = *bounds;
    const int64_t number_count = end_numbers - first_number, step = int64_t(gridDim.x) * blockDim.x;
    const int64_t first = first_number == 0 ? number_count : 0;
    for (int64_t i = first + int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        sorted[i] = i < number_count ? numbers[i] : NAN_LAST;
}

// The offset of the scratch, after the bounds. The numbers are copied to it when CUB is done with it.
constexpr int64_t SCRATCH = 256;

int64_t scratch_for(int64_t count) {
    size_t bytes = 0;
    const float *in = nullptr;
    float *out = nullptr;
    PK_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, bytes, in, out, uint32_t(count)));
    return std::max(int64_t(bytes), count * int64_t(sizeof(float)));
}

}  // namespace

int64_t temporary_bytes_float32(int64_t count) {
    check_device_elements(count);
    return SCRATCH + scratch_for(count);
}

void sort_float32_on_device(const float *in, float *out, int64_t count, char *memory, cudaStream_t stream) {
    auto *const bounds = reinterpret_cast<NanBounds *>(memory);
    char *const scratch = memory + SCRATCH;
    auto *const numbers = reinterpret_cast<float *>(scratch);
    auto bytes = size_t(scratch_for(count));
    PK_CUDA(cub::DeviceRadixSort::SortKeys(scratch, bytes, in, out, uint32_t(count), 0, 32, stream));
    find_nan_bounds<<<1, 1, 0, stream>>>(out, count, bounds);
    PK_CUDA(cudaGetLastError());
    const unsigned blocks = grid_for(count, THREADS, BLOCKS);
    copy_numbers<<<blocks, THREADS, 0, stream>>>(out, bounds, numbers);
    PK_CUDA(cudaGetLastError());
    move_nan_last<<<blocks, THREADS, 0, stream>>>(numbers, bounds, count, out);
    PK_CUDA(cudaGetLastError());
}

}  // namespace pk
