// Kernels around CUB's radix sort: they encode elements as keys, count digits of keys, and decode the
// results.
#pragma once

#include <cstdint>

#include "common/sort.h"
#include "common/visit_type.h"

namespace pk::device {

constexpr int THREADS = 256;
constexpr int BINS = 2048, DIGIT = 11;

__device__ inline int64_t thread_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// Loads elements from `begin` on as keys, and their indices. A Sorted is a key, or wider.
template <class Order, class Key, class Sorted>
__global__ void load(Order order, const Key *elements, int64_t begin, int64_t count, Sorted *keys,
                     uint32_t *indices) {
    const int64_t i = thread_index();
    if (i >= count) return;
    keys[i] = order.key(elements[begin + i]);
    if (indices != nullptr) indices[i] = uint32_t(begin + i);
}

// Loads elements by their indices as keys.
template <class Order, class Key, class Sorted>
__global__ void gather(Order order, const Key *elements, const uint32_t *indices, int64_t count,
                       Sorted *keys) {
    const int64_t i = thread_index();
    if (i < count) keys[i] = order.key(elements[indices[i]]);
}

// A RuntimeKeyEncoding whose width is known at run time only, so that CUB's selection is compiled once for
// all types. Functions that depend on the width are not inlined, or CUB's kernels would repeat them many
// times.
struct UntypedKeyEncoding {
    int bytes;
    bool of_floats, one_zero;
    uint64_t sign_mask, descending_mask;

    template <class Key>
    explicit UntypedKeyEncoding(const RuntimeKeyEncoding<Key> &order)
        : bytes(int(sizeof(Key))),
          of_floats(order.of_floats),
          one_zero(order.one_zero),
          sign_mask(order.sign_mask),
          descending_mask(order.descending_mask) {}
};

// Return the key of an element.
static __device__ __noinline__ uint64_t key_at(const void *elements, uint32_t index, int bytes,
                                               bool of_floats, bool one_zero, uint64_t sign_mask,
                                               uint64_t descending_mask) {
    return visit_word(bytes, [&](auto zero) {
        using Key = decltype(zero);
        const RuntimeKeyEncoding<Key> order{of_floats, Key(sign_mask), Key(descending_mask), one_zero};
        return uint64_t(order.key(static_cast<const Key *>(elements)[index]));
    });
}

// Predicate: the element has a key from low to high.
struct KeyInRange {
    UntypedKeyEncoding order;
    const void *elements;
    uint64_t low, high;
    __device__ bool operator()(uint32_t index) const {
        const uint64_t key = key_at(elements, index, order.bytes, order.of_floats, order.one_zero,
                                    order.sign_mask, order.descending_mask);
        return low <= key && key <= high;
    }
};

// Counts the elements in each range of 1 << shift keys from low on: a histogram of the keys' next digit.
template <class Order, class Key>
__global__ void count_keys(Order order, const Key *elements, int64_t count, Key low, Key high, int shift,
                           uint32_t *counts) {
    __shared__ uint32_t block_counts[BINS];
    for (int bin = int(threadIdx.x); bin < BINS; bin += int(blockDim.x)) block_counts[bin] = 0;
    __syncthreads();
    for (int64_t i = thread_index(); i < count; i += int64_t(gridDim.x) * blockDim.x) {
        const Key key = order.key(elements[i]);
        if (low <= key && key <= high) atomicAdd(&block_counts[uint64_t(Key(key - low)) >> shift], 1u);
    }
    __syncthreads();
    for (int bin = int(threadIdx.x); bin < BINS; bin += int(blockDim.x)) {
        if (block_counts[bin] != 0) atomicAdd(&counts[bin], block_counts[bin]);
    }
}

// Counts the elements that have one key, in each `chunk` of elements; that is a multiple of THREADS.
template <class Order, class Key>
__global__ void count_equal(Order order, const Key *elements, int64_t count, Key key, int64_t chunk,
                            uint32_t *counts) {
    const int64_t i = thread_index();
    const bool is_equal = i < count && order.key(elements[i]) == key;
    const int equal = __syncthreads_count(is_equal);
    if (threadIdx.x == 0 && equal != 0) atomicAdd(&counts[i / chunk], uint32_t(equal));
}

// Computes the row of each element, counted from that of `begin`.
static __global__ void find_rows(const uint32_t *indices, int64_t count, int64_t begin, int64_t columns,
                                 uint32_t *rows) {
    const int64_t i = thread_index();
    if (i < count) rows[i] = uint32_t((indices[i] - begin) / columns);
}

// Decodes keys to elements.
template <class Order, class Key>
__global__ void write_keys(Order order, const Key *keys, int64_t count, Key *results) {
    const int64_t i = thread_index();
    if (i < count) results[i] = order.bits(keys[i]);
}

// Predicate on the bits of floats: 0.0 or -0.0.
struct IsZero {
    template <class Key>
    __device__ bool operator()(Key bits) const {
        return Key(bits << 1) == 0;
    }
};

constexpr int ZEROS_BLOCKS = 256;

// Writes the zeros that were selected to their places among the sorted elements.
template <class Order, class Key>
__global__ void write_zeros(Order order, const Key *zeros, const uint32_t *num_selected, Key *sorted,
                            int64_t count) {
    const int64_t zero_count = *num_selected;
    if (zero_count == 0) return;
    const int64_t first =
        place_of([&](int64_t i) { return order.key(sorted[i]); }, count, order.key(Order::TOP), false);
    for (int64_t i = thread_index(); i < zero_count; i += int64_t(gridDim.x) * blockDim.x)
        sorted[first + i] = zeros[i];
}

// Converts the places of an argsort to int64.
static __global__ void widen_indices(const uint32_t *places, int64_t count, int64_t *wide) {
    const int64_t i = thread_index();
    if (i < count) wide[i] = int64_t(places[i]);
}

// Return true if a sorted key differs from the one before it.
static __device__ __noinline__ bool is_first_at(const void *keys, uint32_t index, const void *before,
                                                int bytes, bool of_floats, bool splits_nan,
                                                uint64_t sign_mask) {
    return visit_word(bytes, [&](auto zero) {
        using Key = decltype(zero);
        const RuntimeKeyEncoding<Key> order{of_floats, Key(sign_mask), 0, false},
            one_zero{of_floats, Key(sign_mask), 0, true};
        const Key *const key = static_cast<const Key *>(keys) + index;
        if (splits_nan && *key == order.key(order.NAN_BITS)) return true;
        const Key *const previous = index == 0 ? static_cast<const Key *>(before) : key - 1;
        return previous == nullptr || one_zero.key(order.bits(*key)) != one_zero.key(order.bits(*previous));
    });
}

// Predicate: an ascending key is the first of its kind, where both zeros are one kind. `before` is the key
// that precedes them all, or null.
struct IsFirst {
    UntypedKeyEncoding order;
    bool splits_nan;
    const void *keys, *before;
    __device__ bool operator()(uint32_t index) const {
        return is_first_at(keys, index, before, order.bytes, order.of_floats, splits_nan, order.sign_mask);
    }
};

// Decodes the keys that were selected to elements.
template <class Order, class Key>
__global__ void write_selected(Order order, const Key *keys, const uint32_t *indices,
                               const uint32_t *selected, Key *results) {
    const int64_t count = *selected;
    for (int64_t i = thread_index(); i < count; i += int64_t(gridDim.x) * blockDim.x)
        results[i] = order.bits(keys[indices[i]]);
}

// Saves the last key for the next bucket, and the number of selected keys for the host.
template <class Key>
__global__ void conclude(const Key *keys, int64_t count, const uint32_t *selected, Key *last,
                         uint32_t *num_selected) {
    *last = keys[count - 1];
    *num_selected = *selected;
}

// Gathers elements by their indices.
template <class Key>
__global__ void write_elements(const Key *elements, const uint32_t *indices, int64_t count, Key *results) {
    const int64_t i = thread_index();
    if (i < count) results[i] = elements[indices[i]];
}

// Writes the first `kept` indices of each row as places in the row. `indices` are of elements from `begin`
// on, where a row begins.
static __global__ void write_indices(const uint32_t *indices, int64_t count, int64_t begin, int64_t columns,
                                     int64_t kept, uint32_t *results) {
    const int64_t i = thread_index();
    if (i >= count) return;
    const int64_t row = i / columns, place = i % columns;
    if (place < kept) results[row * kept + place] = uint32_t(indices[i] - begin - row * columns);
}

}  // namespace pk::device
