// One row of float32 that lies on a device: CUB's own order of floats needs neither keys that are made before
// nor zeros that are put in their places after, as other rows do, but has NaN where its sign says.
#include <cub/device/device_radix_sort.cuh>

#include "cuda/sort/device_sort.h"

namespace pk {

namespace {

constexpr int THREADS = 256, BLOCKS = 2048;
constexpr float NAN_LAST = __builtin_nanf("");

// Of sorted elements: how many NaN come first, and where those begin that come last.
struct Ends {
    int64_t before, after;
};

// The first place from which on no element, or each, is NaN.
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

__global__ void find_ends(const float *sorted, int64_t count, Ends *ends) {
    const int64_t before = isnan(sorted[0]) ? where_nan_changes<false>(sorted, count) : 0;
    const float *const rest = sorted + before;
    const int64_t left = count - before;
    const bool is_last = left != 0 && isnan(rest[left - 1]);
    *ends = {before, before + (is_last ? where_nan_changes<true>(rest, left) : left)};
}

__global__ void take_numbers(const float *sorted, const Ends *ends, float *numbers) {
    const auto [before, after] = *ends;
    if (before == 0) return;  // they are in their places
    const int64_t count = after - before, step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        numbers[i] = sorted[before + i];
}

__global__ void put_nan_last(const float *numbers, const Ends *ends, int64_t count, float *sorted) {
    const auto [before, after] = *ends;
    const int64_t known = after - before, step = int64_t(gridDim.x) * blockDim.x;
    const int64_t first = before == 0 ? known : 0;
    for (int64_t i = first + int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        sorted[i] = i < known ? numbers[i] : NAN_LAST;
}

// Where the scratch begins, which CUB has left when the numbers are taken; the ends come before.
constexpr int64_t SCRATCH = 256;

int64_t scratch_for(int64_t count) {
    size_t bytes = 0;
    const float *in = nullptr;
    float *out = nullptr;
    PK_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, bytes, in, out, uint32_t(count)));
    return std::max(int64_t(bytes), count * int64_t(sizeof(float)));
}

}  // namespace

int64_t bytes_of_floats_there(int64_t count) {
    check_there(count);
    return SCRATCH + scratch_for(count);
}

void sort_floats_there(const float *in, float *out, int64_t count, char *memory, cudaStream_t queue) {
    auto *const ends = reinterpret_cast<Ends *>(memory);
    char *const scratch = memory + SCRATCH;
    auto *const numbers = reinterpret_cast<float *>(scratch);
    auto bytes = size_t(scratch_for(count));
    PK_CUDA(cub::DeviceRadixSort::SortKeys(scratch, bytes, in, out, uint32_t(count), 0, 32, queue));
    find_ends<<<1, 1, 0, queue>>>(out, count, ends);
    PK_CUDA(cudaGetLastError());
    const auto blocks = unsigned(std::min<int64_t>((count + THREADS - 1) / THREADS, BLOCKS));
    take_numbers<<<blocks, THREADS, 0, queue>>>(out, ends, numbers);
    PK_CUDA(cudaGetLastError());
    put_nan_last<<<blocks, THREADS, 0, queue>>>(numbers, ends, count, out);
    PK_CUDA(cudaGetLastError());
}

}  // namespace pk
