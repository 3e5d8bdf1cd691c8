// Histogram kernels: they find the bins of a chunk's elements and count them, in shared memory first.
#pragma once

#include <cuda_runtime.h>

#include "common/histogram_bins.h"
#include "common/visit_type.h"

namespace pk::histogram::device {

// One axis: the offset of its values in the chunk's memory, and its bins, whose edges are on the device.
struct Axis {
    pk_bins bins;
    int64_t offset;
    int32_t type, item;
};

// The parameters of the counting kernels.
struct HistogramParams {
    Axis axes[2];
    int32_t axis_count;
    int32_t total;
    int32_t copies;  // of the table in shared memory, a power of two; 0: there is none
    const char *memory;
    int64_t count;
    unsigned long long *table;  // counts of the bins, of elements out of range, and a flag: beyond the bins
};

// Load the bits of elements `step` apart, up to `end`. All loads are issued before the first is used.
template <int COUNT>
__device__ __forceinline__ void read(const Axis &axis, const char *memory, int64_t first, int64_t step,
                                     int64_t end, uint64_t (&bits)[COUNT]) {
    auto read_as = [&](auto raw) {
        const auto *const elements = reinterpret_cast<const decltype(raw) *>(memory + axis.offset);
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            const int64_t i = first + k * step;
            bits[k] = i < end ? elements[i] : 0;
        }
    };
    switch (axis.item) {
        case 1: return read_as(uint8_t());
        case 2: return read_as(uint16_t());
        case 4: return read_as(uint32_t());
        default: return read_as(uint64_t());
    }
}

__device__ __forceinline__ uint64_t bits_of(const Axis &axis, const char *memory, int64_t i) {
    uint64_t bits[1];
    read(axis, memory, i, 1, i + 1, bits);
    return bits[0];
}

// Call body(raw, type) with an element's bits in the storage type of its dtype.
template <class Body>
__device__ __forceinline__ auto with_element(const Axis &axis, uint64_t bits, Body body) {
    return visit_type(axis.type, [&](auto type) {
        typename bins::element<decltype(type)::value>::Raw raw;
        memcpy(&raw, &bits, sizeof(raw));
        return body(raw, type);
    });
}

template <class T>
__device__ __forceinline__ T value_of(const Axis &axis, uint64_t bits) {
    return with_element(
        axis, bits, [](auto raw, auto type) { return T(bins::element<decltype(type)::value>::value(raw)); });
}

template <class T>
__device__ __forceinline__ int32_t passed_as(const Axis &axis, uint64_t bits, bool or_equals, bool as_bin) {
    const T value = value_of<T>(axis, bits);
    const T *const edges = reinterpret_cast<const T *>(axis.bins.edges);
    const int32_t count = int32_t(axis.bins.count);
    const int32_t passed = bins::search(value, edges, count + 1, or_equals);
    return as_bin ? bins::bin_from_passed(passed, value, edges[count], count) : passed;
}

// Return how many edges are below a value, or equal to it if `or_equals`, by binary search. With `as_bin`,
// return the bin of the value.
__device__ __forceinline__ int32_t passed(const Axis &axis, uint64_t bits, bool or_equals, bool as_bin) {
    switch (bins::compare_type(axis.bins.type)) {
        case bins::AS_INT64: return passed_as<int64_t>(axis, bits, or_equals, as_bin);
        case bins::AS_UINT64: return passed_as<uint64_t>(axis, bits, or_equals, as_bin);
        case bins::AS_DOUBLE: return passed_as<double>(axis, bits, or_equals, as_bin);
        default: return passed_as<float>(axis, bits, or_equals, as_bin);
    }
}

// Return the bin of a value among bins of equal width, by arithmetic.
template <int kind>
__device__ __forceinline__ int32_t by_width_as(const Axis &axis, uint64_t bits, uint32_t &is_beyond_bins) {
    const auto width =
        bins::uniform_bins_with<kind>(axis.bins, reinterpret_cast<const void *>(axis.bins.edges));
    using Edge = typename std::decay<decltype(*width.edges)>::type;
    const uint64_t low = axis.bins.low, high = axis.bins.high;
    const Edge value = with_element(axis, bits, [=](auto raw, auto type) {
        constexpr int code = decltype(type)::value;
        return bins::in_range_or_nan<Edge>(bins::element<code>::value(raw), bins::element_of<code>(low),
                                           bins::element_of<code>(high));
    });
    return width.index(value, is_beyond_bins);
}

// Return the bin of a value on one axis; `count` for none.
__device__ __forceinline__ int32_t bin_of(const Axis &axis, uint64_t bits, uint32_t &is_beyond_bins) {
    if (axis.bins.kind == PK_BINS_INDEX) {
        const int32_t count = int32_t(axis.bins.count);
        return bins::by_index(value_of<int64_t>(axis, bits), count);
    }
    if (axis.bins.kind == PK_BINS_EDGES) return passed(axis, bits, true, true);
    switch (bins::uniform_kind(axis.bins.type, axis.bins.compute_type)) {
        case bins::FLOAT_FLOAT: return by_width_as<bins::FLOAT_FLOAT>(axis, bits, is_beyond_bins);
        case bins::FLOAT_DOUBLE: return by_width_as<bins::FLOAT_DOUBLE>(axis, bits, is_beyond_bins);
        case bins::DOUBLE_DOUBLE: return by_width_as<bins::DOUBLE_DOUBLE>(axis, bits, is_beyond_bins);
        case bins::HALF_HALF: return by_width_as<bins::HALF_HALF>(axis, bits, is_beyond_bins);
        case bins::HALF_FLOAT: return by_width_as<bins::HALF_FLOAT>(axis, bits, is_beyond_bins);
        default: return by_width_as<bins::HALF_DOUBLE>(axis, bits, is_beyond_bins);
    }
}

// Return the index of an element's bin among those of all axes; `total` for none.
__device__ __forceinline__ int32_t place_of(const Axis *axes, int32_t axis_count, int32_t total,
                                            uint64_t bits, uint64_t other_bits, uint32_t &is_beyond_bins) {
    const int32_t at = bin_of(axes[0], bits, is_beyond_bins);
    if (axis_count == 1) return at;
    const int32_t other = bin_of(axes[1], other_bits, is_beyond_bins);
    const int32_t first = int32_t(axes[0].bins.count), second = int32_t(axes[1].bins.count);
    return at == first || other == second ? total : at * second + other;
}

// A block of threads counts in shared memory first. Neighbouring threads count in different copies of the
// table, which are interleaved, so that their atomic additions rarely collide.
extern __shared__ uint32_t counts[];

// Clear the block's tables.
__device__ __forceinline__ void begin_counts(const HistogramParams &params) {
    const int32_t places = (params.total + 1) * params.copies;
    for (int32_t i = int32_t(threadIdx.x); i < places; i += int32_t(blockDim.x)) counts[i] = 0;
    __syncthreads();
}

// Add the block's tables to the call's.
__device__ __forceinline__ void add_counts(const HistogramParams &params) {
    __syncthreads();
    for (int32_t place = int32_t(threadIdx.x); place <= params.total; place += int32_t(blockDim.x)) {
        unsigned long long sum = 0;
        for (int32_t copy = 0; copy < params.copies; ++copy) sum += counts[place * params.copies + copy];
        if (sum != 0) atomicAdd(&params.table[place], sum);
    }
}

// Counts the elements of a chunk into the call's table.
constexpr int LOADS_IN_FLIGHT = 4;
__global__ void count(const __grid_constant__ HistogramParams params) {
    const int32_t copies = params.copies;
    begin_counts(params);
    uint32_t is_beyond_bins = 0;
    const int32_t own = int32_t(threadIdx.x) & (copies - 1);
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count;
         i += LOADS_IN_FLIGHT * step) {
        uint64_t bits[LOADS_IN_FLIGHT], others[LOADS_IN_FLIGHT] = {};
        read(params.axes[0], params.memory, i, step, params.count, bits);
        if (params.axis_count == 2) read(params.axes[1], params.memory, i, step, params.count, others);
#pragma unroll
        for (int k = 0; k < LOADS_IN_FLIGHT; ++k) {
            if (i + k * step >= params.count) break;
            const int32_t at =
                place_of(params.axes, params.axis_count, params.total, bits[k], others[k], is_beyond_bins);
            if (copies != 0) {
                atomicAdd(&counts[at * copies + own], 1u);
            } else {
                atomicAdd(&params.table[at], 1ull);
            }
        }
    }
    if (is_beyond_bins != 0) atomicOr(&params.table[params.total + 1], 1ull);
    if (copies != 0) add_counts(params);
}

// Counts bytes, each of which is its own bin. Loads are of 4 bytes, so that a warp reads whole cache lines.
__global__ void count_bytes(const __grid_constant__ HistogramParams params) {
    const char *const bytes = params.memory + params.axes[0].offset;
    const auto *const words = reinterpret_cast<const uint32_t *>(bytes);
    begin_counts(params);
    const int32_t own = int32_t(threadIdx.x) & (params.copies - 1);
    auto add = [&](uint32_t byte) { atomicAdd(&counts[int32_t(byte) * params.copies + own], 1u); };
    const int64_t first = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, whole = params.count / 4;
    for (int64_t i = first; i < whole; i += int64_t(gridDim.x) * blockDim.x) {
        const uint32_t word = words[i];
        for (int shift = 0; shift < 32; shift += 8) add(word >> shift & 255);
    }
    if (first < params.count % 4) add(uint8_t(bytes[whole * 4 + first]));
    add_counts(params);
}

// The parameters of copy_min_max().
struct CopyMinMaxParams {
    Axis axis;
    const char *memory;
    char *to;  // null: the elements are resident, and not copied
    int64_t count;
    long long *extent;  // keys of the minimum and the maximum
};

// Copies a chunk to the device buffer, and updates the minimum and maximum in the same pass.
__global__ void copy_min_max(const __grid_constant__ CopyMinMaxParams params) {
    __shared__ long long extent[2];
    if (threadIdx.x == 0) {
        extent[0] = INT64_MAX;
        extent[1] = INT64_MIN;
    }
    __syncthreads();
    long long least = INT64_MAX, greatest = INT64_MIN;
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count; i += step) {
        const uint64_t bits = bits_of(params.axis, params.memory, i);
        const long long key = with_element(params.axis, bits, [&](auto raw, auto type) {
            if (params.to != nullptr) reinterpret_cast<decltype(raw) *>(params.to)[i] = raw;
            return static_cast<long long>(bins::key_of<decltype(type)::value>(raw));
        });
        least = min(least, key);
        greatest = max(greatest, key);
    }
    for (int lanes = 16; lanes != 0; lanes /= 2) {
        least = min(least, __shfl_down_sync(0xffffffffu, least, unsigned(lanes)));
        greatest = max(greatest, __shfl_down_sync(0xffffffffu, greatest, unsigned(lanes)));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMin(&extent[0], least);
        atomicMax(&extent[1], greatest);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMin(&params.extent[0], extent[0]);
        atomicMax(&params.extent[1], extent[1]);
    }
}

// The parameters of digitize().
struct DigitizeParams {
    Axis axis;
    bool or_equals, decreasing;
    char *memory;
    int64_t count;
    int64_t result;  // its offset
};

// Writes the index of each value's bin, as numpy.digitize counts them.
__global__ void digitize(const __grid_constant__ DigitizeParams params) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    auto *const to = reinterpret_cast<int64_t *>(params.memory + params.result);
    const int64_t edges = params.axis.bins.count + 1;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < params.count; i += step) {
        const int64_t edges_passed =
            passed(params.axis, bits_of(params.axis, params.memory, i), params.or_equals, false);
        to[i] = params.decreasing ? edges - edges_passed : edges_passed;
    }
}

}  // namespace pk::histogram::device
