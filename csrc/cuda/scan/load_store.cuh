// Shared parts of the scan kernels: parameters, loads of elements as terms, and stores of results.
#pragma once

#include <cuda_runtime.h>

#include "common/scan.h"
#include "common/visit_type.h"

namespace pk::scan {

// The kernels' parameters for a chunk. Its scan blocks are the blocks of all slabs, in order.
struct ScanParams {
    const char *from;
    char *to;
    unsigned *exceptions;
    // States, for each column:
    void *segments, *totals;  // segments' totals; blocks' totals, and then their prefixes
    void *groups;             // groups' totals, and then their prefixes
    void *carries;            // Carry before the chunk, if its first block does not begin a slab
    int64_t start;            // elements before the chunk
    int64_t first_slab, first_block, scan_blocks;       // the chunk's first slab and block
    int64_t first_group, groups_per_slab, group_count;  // counted through all slabs, too
    int64_t length, inner, blocks, segments_per_block, blocks_per_tile;
    double instead_of_nan;
    int from_type, to_type;
    uint64_t flipped;  // bits to flip in terms and results: one maximum then serves all minima and maxima
    bool narrows, skips_nan, is_exclusive, reports;
};

// A block of a slab: its first element in the chunk, its rows, and its index in the slab.
struct ScanBlock {
    int64_t first, rows, block;
};

namespace device {

// Return a scan block of the chunk by its index.
__device__ inline ScanBlock scan_block_at(const ScanParams &params, int64_t index) {
    int64_t slab = params.first_slab, block = params.first_block + index;
    if (params.blocks == 1) {  // division is slower than everything else here
        slab += block;
        block = 0;
    } else if (block >= params.blocks) {
        slab += block / params.blocks;
        block %= params.blocks;
    }
    const int64_t row = slab * params.length + block * Slabs::BLOCK,
                  left = params.length - block * Slabs::BLOCK;
    return {row * params.inner - params.start, left < Slabs::BLOCK ? left : Slabs::BLOCK, block};
}

// Return an integer as another dtype holds it, extended to 64 bits.
__device__ inline uint64_t narrowed(uint64_t bits, int type) {
    return visit_stored_type(type, [bits](auto stored) -> uint64_t {
        using T = decltype(stored);
        if constexpr (std::is_same_v<T, Bool>) return bits != 0;
        if constexpr (std::is_integral_v<T>) return uint64_t(T(bits));
        return bits;
    });
}

// The result of casting a float to an integer or bool, and the exceptions raised.
struct Integer {
    uint64_t bits;
    unsigned exceptions;
};
static __device__ __noinline__ Integer as_integer(double value, int type) {
    return visit_stored_type(type, [value](auto stored) -> Integer {
        using T = decltype(stored);
        if constexpr (!std::is_integral_v<T>)
            return {value != 0, 0};
        else
            return {uint64_t(arith::cast<T>(value)), arith::fits<T>(value) ? 0u : unsigned(PK_FPE_INVALID)};
    });
}

// Convert an element to a term: NaN are replaced if the scan skips them, and floats cast if it is of
// integers.
template <class Term, class T>
__device__ Term term_of(const ScanParams &params, T element, unsigned &exceptions) {
    constexpr bool is_float = std::is_floating_point<Term>::value;
    if constexpr (std::is_floating_point<T>::value) {
        double value = double(element);
        if (params.skips_nan && value != value) value = params.instead_of_nan;
        if constexpr (is_float) {
            return value;
        } else {
            const Integer integer = as_integer(value, params.to_type);
            exceptions |= integer.exceptions;
            return Term(integer.bits);
        }
    } else if constexpr (is_float) {
        return double(element);
    } else {
        return Term(uint64_t(element));
    }
}

template <class Term>
__device__ Term flip(const ScanParams &params, Term term) {
    return bit_cast<Term>(bit_cast<uint64_t>(term) ^ params.flipped);
}

// Load elements that are `stride` apart as terms. All loads are issued before the first element is used.
template <int MAX_COUNT, class Term>
__device__ void load_terms(const ScanParams &params, int64_t first, int64_t stride, int count,
                           Term (&terms)[MAX_COUNT], unsigned &exceptions) {
    visit_stored_type(params.from_type, [&](auto stored) {
        using T = decltype(stored);
        const T *const from = reinterpret_cast<const T *>(params.from) + first;
        T elements[MAX_COUNT];
#pragma unroll
        for (int i = 0; i < MAX_COUNT; ++i)
            if (i < count) elements[i] = from[i * stride];
#pragma unroll
        for (int i = 0; i < MAX_COUNT; ++i)
            if (i < count) terms[i] = term_of<Term>(params, element_value(elements[i]), exceptions);
    });
    if constexpr (!std::is_floating_point<Term>::value) {
        if (params.narrows) {
#pragma unroll
            for (int i = 0; i < MAX_COUNT; ++i)
                if (i < count) terms[i] = narrowed(terms[i], params.to_type);
        }
    }
#pragma unroll
    for (int i = 0; i < MAX_COUNT; ++i)
        if (i < count) terms[i] = flip(params, terms[i]);
}

template <class Term>
__device__ Term term_at(const ScanParams &params, int64_t index, unsigned &exceptions) {
    Term terms[1];
    load_terms(params, index, 1, 1, terms, exceptions);
    return terms[0];
}

__device__ inline void store(const ScanParams &params, int64_t index, double result) {
    const double value = flip(params, result);
    switch (params.to_type) {
        case PK_FLOAT16:
            reinterpret_cast<uint16_t *>(params.to)[index] = half::from_float(half::to_odd(value));
            break;
        case PK_FLOAT32: reinterpret_cast<float *>(params.to)[index] = float(value); break;
        default: reinterpret_cast<double *>(params.to)[index] = value;
    }
}

__device__ inline void store(const ScanParams &params, int64_t index, uint64_t result) {
    const uint64_t value = flip(params, result);
    switch (size_of(params.to_type)) {
        case 1: reinterpret_cast<uint8_t *>(params.to)[index] = uint8_t(value); break;
        case 2: reinterpret_cast<uint16_t *>(params.to)[index] = uint16_t(value); break;
        case 4: reinterpret_cast<uint32_t *>(params.to)[index] = uint32_t(value); break;
        default: reinterpret_cast<uint64_t *>(params.to)[index] = value;
    }
}

// Return the state after some rows that have this total.
template <class Op>
__device__ typename Op::State advanced(const ScanParams &params, const typename Op::State &before,
                                       const typename Op::State &total, int64_t first, int64_t rows) {
    return after<Op>(before, total, rows, [&](int64_t row) {
        unsigned ignored = 0;
        return term_at<typename Op::Term>(params, first + row * params.inner, ignored);
    });
}

// advanced() for a whole block. Not inlined: it is rare, and finding the block takes longest.
template <class Op>
__device__ __noinline__ typename Op::State rerun_block(const ScanParams &params, typename Op::State before,
                                                       typename Op::State total, int64_t scan_block,
                                                       int64_t column) {
    const ScanBlock in = scan_block_at(params, scan_block);
    return advanced<Op>(params, before, total, in.first + column, in.rows);
}

}  // namespace device
}  // namespace pk::scan
