// Kernels of order statistics: counting by the bits of keys, from the highest on.
#pragma once

#include "common/select.h"

namespace pk {

template <class Key>
struct Prefixes {
    int64_t count;
    int known, digits;
    Key at[MOST_GROUPS];
};

namespace device {

// Counters that a block of threads has in shared memory: with so many first digits, NaN of any type has a
// counter of its own.
constexpr int64_t OWN_COUNTERS = 1 << 13;

// Adds the elements that begin with each prefix to its counters, by their next digits.
template <class Key>
__device__ void add_digits(Encoding encoding, const Key *in, int64_t size, const Prefixes<Key> &prefixes,
                           uint32_t *counters) {
    constexpr int WIDTH = 8 * sizeof(Key);
    const int rest = WIDTH - prefixes.known - prefixes.digits;
    const uint64_t mask = (uint64_t(1) << prefixes.digits) - 1;
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
        const uint64_t key = key_of(encoding, in[i]);
        int64_t group = 0;
        if (prefixes.known > 0) {
            const uint64_t prefix = key >> (WIDTH - prefixes.known);
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

template <class Key>
__global__ void count_digits(Encoding encoding, const Key *in, int64_t size,
                             const __grid_constant__ Prefixes<Key> prefixes, uint32_t *counters) {
    add_digits(encoding, in, size, prefixes, counters);
}

// The same of so few counters that each block has its own first: many elements begin alike.
template <class Key>
__global__ void count_few_digits(Encoding encoding, const Key *in, int64_t size,
                                 const __grid_constant__ Prefixes<Key> prefixes, uint32_t *counters) {
    __shared__ uint32_t own[OWN_COUNTERS];
    const int64_t count = prefixes.count << prefixes.digits;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) own[i] = 0;
    __syncthreads();
    add_digits(encoding, in, size, prefixes, own);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        if (own[i] != 0) atomicAdd(counters + i, own[i]);
    }
}

// What select_rows works on. Row i has its own ranks at ranks + i * rank_stride.
template <class Key>
struct Rows {
    Encoding encoding;
    const Key *in;
    int64_t rows, columns;
    const int64_t *ranks;
    int64_t rank_stride, rank_count;
    Key *out;
    int64_t *nans;
};

// A block for each row: counts, for each rank, the elements by eight bits, from the highest on.
template <class Key>
__global__ void select_rows(Rows<Key> given) {
    constexpr int WIDTH = 8 * sizeof(Key), DIGITS = 8;
    __shared__ uint32_t counters[1 << DIGITS];
    __shared__ uint32_t nans;
    __shared__ uint64_t found;
    __shared__ int64_t left;
    for (int64_t row = blockIdx.x; row < given.rows; row += gridDim.x) {
        const Key *in = given.in + row * given.columns;
        const int64_t *ranks = given.ranks + row * given.rank_stride;
        Key *out = given.out + row * given.rank_count;
        if (threadIdx.x == 0) nans = 0;
        __syncthreads();
        if (given.encoding == Encoding::floating) {
            uint32_t own = 0;
            for (int64_t i = threadIdx.x; i < given.columns; i += blockDim.x) {
                own += key_of(given.encoding, in[i]) == Key(~Key(0));
            }
            if (own != 0) atomicAdd(&nans, own);
            __syncthreads();
        }
        if (threadIdx.x == 0) given.nans[row] = nans;
        for (int64_t j = 0; j < given.rank_count; ++j) {
            uint64_t prefix = 0;  // the bits that are known, where the key has them
            int64_t rank = ranks[j];
            for (int shift = WIDTH - DIGITS; shift >= 0; shift -= DIGITS) {
                for (int i = threadIdx.x; i < 1 << DIGITS; i += blockDim.x) counters[i] = 0;
                __syncthreads();
                for (int64_t i = threadIdx.x; i < given.columns; i += blockDim.x) {
                    const uint64_t key = key_of(given.encoding, in[i]);
                    const bool begins_alike =
                        shift + DIGITS == WIDTH || (key ^ prefix) >> (shift + DIGITS) == 0;
                    if (begins_alike) atomicAdd(counters + (key >> shift & ((1 << DIGITS) - 1)), 1u);
                }
                __syncthreads();
                if (threadIdx.x == 0) {
                    int bin = 0;
                    for (; bin < (1 << DIGITS) - 1 && rank >= counters[bin]; ++bin) rank -= counters[bin];
                    found = uint64_t(bin);
                    left = rank;
                }
                __syncthreads();
                prefix |= found << shift;
                rank = left;
            }
            if (threadIdx.x == 0) out[j] = bits_of_key(given.encoding, Key(prefix));
        }
        __syncthreads();  // before the next row's nans
    }
}

}  // namespace device

}  // namespace pk
