// Radix select kernels (order statistics): they count elements by the digits of their keys, the most
// significant digit first.
#pragma once

#include "common/select.h"

namespace pk {

// The prefixes of a level, in order: elements that begin with one of them are counted by their next `digits`
// bits.
template <class Key>
struct DigitPrefixes {
    int64_t count;
    int prefix_bits, digits;
    Key at[MAX_GROUPS];
};

namespace device {

// The counters that a block of threads has in shared memory. They are enough for NaN of any dtype to have a
// counter of their own in the first level.
constexpr int64_t OWN_COUNTERS = 1 << 13;

// Count the elements that begin with each prefix, by their next digits. A binary search finds an element's
// prefix.
template <class Key>
__device__ void add_digits(Encoding encoding, const Key *in, int64_t size, const DigitPrefixes<Key> &prefixes,
                           uint32_t *counters) {
    constexpr int WIDTH = 8 * sizeof(Key);
    const int rest = WIDTH - prefixes.prefix_bits - prefixes.digits;
    const uint64_t mask = (uint64_t(1) << prefixes.digits) - 1;
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const uint64_t key = key_of(encoding, in[i]);
        int64_t group = 0;
        if (prefixes.prefix_bits > 0) {
            const uint64_t prefix = key >> (WIDTH - prefixes.prefix_bits);
            int64_t end = prefixes.count;
            while (group < end) {
                const int64_t middle = (group + end) / 2;
                if (prefixes.at[middle] < prefix) {
                    group = middle + 1;
                } else {
                    end = middle;
                }
            }
            if (group == prefixes.count || prefixes.at[group] != prefix) continue;
        }
        atomicAdd(counters + (uint64_t(group) << prefixes.digits | (key >> rest & mask)), 1u);
    }
}

// Counts in global memory.
template <class Key>
__global__ void count_digits(Encoding encoding, const Key *in, int64_t size,
                             const __grid_constant__ DigitPrefixes<Key> prefixes, uint32_t *counters) {
    add_digits(encoding, in, size, prefixes, counters);
}

// Counts in shared memory first, for levels with few counters, where many elements have the same prefix.
template <class Key>
__global__ void count_few_digits(Encoding encoding, const Key *in, int64_t size,
                                 const __grid_constant__ DigitPrefixes<Key> prefixes, uint32_t *counters) {
    __shared__ uint32_t block_counters[OWN_COUNTERS];
    const int64_t count = prefixes.count << prefixes.digits;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) block_counters[i] = 0;
    __syncthreads();
    add_digits(encoding, in, size, prefixes, block_counters);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        if (block_counters[i] != 0) atomicAdd(counters + i, block_counters[i]);
    }
}

// The parameters of select_rows(). The ranks of row i begin at ranks + i * rank_stride.
template <class Key>
struct SelectRowsParams {
    Encoding encoding;
    const Key *in;
    int64_t rows, columns;
    const int64_t *ranks;
    int64_t rank_stride, rank_count;
    Key *out;
    int64_t *nans;
};

// Radix select of short rows, one block of threads for each: for each rank it counts eight bits of the keys
// at a time, the most significant first.
template <class Key>
__global__ void select_rows(SelectRowsParams<Key> params) {
    constexpr int WIDTH = 8 * sizeof(Key), DIGITS = 8;
    __shared__ uint32_t counters[1 << DIGITS];
    __shared__ uint32_t nans;
    __shared__ uint64_t digit;
    __shared__ int64_t left;
    for (int64_t row = blockIdx.x; row < params.rows; row += gridDim.x) {
        const Key *in = params.in + row * params.columns;
        const int64_t *ranks = params.ranks + row * params.rank_stride;
        Key *out = params.out + row * params.rank_count;
        if (threadIdx.x == 0) nans = 0;
        __syncthreads();
        if (params.encoding == Encoding::floating) {
            uint32_t thread_nans = 0;
            for (int64_t i = threadIdx.x; i < params.columns; i += blockDim.x) {
                thread_nans += key_of(params.encoding, in[i]) == Key(~Key(0));
            }
            if (thread_nans != 0) atomicAdd(&nans, thread_nans);
            __syncthreads();
        }
        if (threadIdx.x == 0) params.nans[row] = nans;
        for (int64_t j = 0; j < params.rank_count; ++j) {
            uint64_t prefix = 0;  // the key's bits so far, in place
            int64_t rank = ranks[j];
            for (int shift = WIDTH - DIGITS; shift >= 0; shift -= DIGITS) {
                for (int i = threadIdx.x; i < 1 << DIGITS; i += blockDim.x) counters[i] = 0;
                __syncthreads();
                for (int64_t i = threadIdx.x; i < params.columns; i += blockDim.x) {
                    const uint64_t key = key_of(params.encoding, in[i]);
                    const bool begins_alike =
                        shift + DIGITS == WIDTH || (key ^ prefix) >> (shift + DIGITS) == 0;
                    if (begins_alike) atomicAdd(counters + (key >> shift & ((1 << DIGITS) - 1)), 1u);
                }
                __syncthreads();
                if (threadIdx.x == 0) {
                    int bin = 0;
                    for (; bin < (1 << DIGITS) - 1 && rank >= counters[bin]; ++bin) rank -= counters[bin];
                    digit = uint64_t(bin);
                    left = rank;
                }
                __syncthreads();
                prefix |= digit << shift;
                rank = left;
            }
            if (threadIdx.x == 0) out[j] = bits_of_key(params.encoding, Key(prefix));
        }
        __syncthreads();  // before the next row's nans
    }
}

}  // namespace device

}  // namespace pk
