// The kernels of scans. A thread has a segment of a column, a block of one, or a column.
#pragma once

#include <cuda_runtime.h>

#include "common/scan.h"

namespace pk::scan {

// A chunk, as its kernels see it. Its parts are blocks of slabs, counted through all slabs.
struct Given {
    const char *from;
    char *to;
    unsigned *met;
    void *segments, *totals;  // states, of each column: of each part's segments, and before each part
    void *running;            // before the chunk's first part, if that doesn't begin a slab
    int64_t start;            // elements before the chunk
    int64_t first_part, parts;
    int64_t length, inner, blocks, segments_a_part;
    double instead_of_nan;
    int from_type, to_type;
    bool narrows, skips_nan, is_exclusive, reports;
};

struct Part {
    int64_t first, rows, block;  // its first element in the chunk
};

namespace device {

constexpr int THREADS = 128, AHEAD = 8;

__device__ inline Part part_of(const Given &given, int64_t index) {
    const int64_t part = given.first_part + index, slab = part / given.blocks, block = part % given.blocks;
    const int64_t row = slab * given.length + block * Slabs::BLOCK,
                  left = given.length - block * Slabs::BLOCK;
    return {row * given.inner - given.start, left < Slabs::BLOCK ? left : Slabs::BLOCK, block};
}

template <class T>
__device__ T element(const char *array, int64_t index) {
    return reinterpret_cast<const T *>(array)[index];
}

__device__ inline double float_at(const Given &given, int64_t index) {
    switch (given.from_type) {
        case PK_FLOAT16: return double(half::to_float(element<uint16_t>(given.from, index)));
        case PK_FLOAT32: return double(element<float>(given.from, index));
        default: return element<double>(given.from, index);
    }
}

__device__ inline uint64_t integer_at(const Given &given, int64_t index) {
    switch (given.from_type) {
        case PK_BOOL: return element<uint8_t>(given.from, index) != 0;
        case PK_INT8: return uint64_t(int64_t(element<int8_t>(given.from, index)));
        case PK_INT16: return uint64_t(int64_t(element<int16_t>(given.from, index)));
        case PK_INT32: return uint64_t(int64_t(element<int32_t>(given.from, index)));
        case PK_UINT8: return element<uint8_t>(given.from, index);
        case PK_UINT16: return element<uint16_t>(given.from, index);
        case PK_UINT32: return element<uint32_t>(given.from, index);
        default: return element<uint64_t>(given.from, index);
    }
}

// An integer as another type holds it.
__device__ inline uint64_t narrowed(uint64_t bits, int type) {
    switch (type) {
        case PK_BOOL: return bits != 0;
        case PK_INT8: return uint64_t(int64_t(int8_t(bits)));
        case PK_INT16: return uint64_t(int64_t(int16_t(bits)));
        case PK_INT32: return uint64_t(int64_t(int32_t(bits)));
        case PK_UINT8: return uint8_t(bits);
        case PK_UINT16: return uint16_t(bits);
        case PK_UINT32: return uint32_t(bits);
        default: return bits;
    }
}

template <class T>
__device__ uint64_t cast_to(double value, unsigned &met) {
    if (!arith::fits<T>(value)) met |= PK_INVALID;
    return uint64_t(int64_t(arith::cast<T>(value)));
}

__device__ inline uint64_t as_integer(double value, int type, unsigned &met) {
    switch (type) {
        case PK_BOOL: return value != 0;
        case PK_INT8: return cast_to<int8_t>(value, met);
        case PK_INT16: return cast_to<int16_t>(value, met);
        case PK_INT32: return cast_to<int32_t>(value, met);
        case PK_INT64: return cast_to<int64_t>(value, met);
        case PK_UINT8: return cast_to<uint8_t>(value, met);
        case PK_UINT16: return cast_to<uint16_t>(value, met);
        case PK_UINT32: return cast_to<uint32_t>(value, met);
        default: return cast_to<uint64_t>(value, met);
    }
}

template <class Term>
__device__ Term term_at(const Given &given, int64_t index, unsigned &met) {
    constexpr bool is_float = std::is_floating_point<Term>::value;
    if (is_float_type(given.from_type)) {
        double value = float_at(given, index);
        if (given.skips_nan && value != value) value = given.instead_of_nan;
        if constexpr (is_float)
            return value;
        else
            return Term(as_integer(value, given.to_type, met));
    }
    const uint64_t bits = integer_at(given, index);
    if constexpr (is_float) {
        const bool is_signed = given.from_type >= PK_INT8 && given.from_type <= PK_INT64;
        return is_signed ? double(int64_t(bits)) : double(bits);
    } else {
        return Term(given.narrows ? narrowed(bits, given.to_type) : bits);
    }
}

__device__ inline void store(const Given &given, int64_t index, double value) {
    switch (given.to_type) {
        case PK_FLOAT16:
            reinterpret_cast<uint16_t *>(given.to)[index] = half::from_float(half::to_odd(value));
            break;
        case PK_FLOAT32: reinterpret_cast<float *>(given.to)[index] = float(value); break;
        default: reinterpret_cast<double *>(given.to)[index] = value;
    }
}

__device__ inline void store(const Given &given, int64_t index, uint64_t value) {
    switch (size_of(given.to_type)) {
        case 1: reinterpret_cast<uint8_t *>(given.to)[index] = uint8_t(value); break;
        case 2: reinterpret_cast<uint16_t *>(given.to)[index] = uint16_t(value); break;
        case 4: reinterpret_cast<uint32_t *>(given.to)[index] = uint32_t(value); break;
        default: reinterpret_cast<uint64_t *>(given.to)[index] = value;
    }
}
__device__ inline void store(const Given &given, int64_t index, int64_t value) {
    store(given, index, uint64_t(value));
}

// Calls take(row, term) for the rows from element `first` on, each of which is asked for well ahead.
template <class Term, class Take>
__device__ void for_terms(const Given &given, int64_t first, int64_t rows, unsigned &met, Take take) {
    for (int64_t row = 0; row < rows; row += AHEAD) {
        Term terms[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (row + i < rows) terms[i] = term_at<Term>(given, first + (row + i) * given.inner, met);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (row + i < rows) take(row + i, terms[i]);
    }
}

template <class Op>
__device__ typename Op::State taken(const Given &given, const typename Op::State &before,
                                    const typename Op::State &total, int64_t first, int64_t rows) {
    return after<Op>(before, total, rows, [&](int64_t row) {
        unsigned ignored = 0;
        return term_at<typename Op::Term>(given, first + row * given.inner, ignored);
    });
}

// A thread's segment of a column of a part; of some, there are no rows.
struct Place {
    int64_t column, segment, part;
    Part in;
    int64_t first, rows;

    __device__ Place(const Given &given, int64_t thread)
        : column(thread % given.inner),
          segment(thread / given.inner % given.segments_a_part),
          part(thread / given.inner / given.segments_a_part),
          in(part_of(given, part)),
          first(in.first + segment * SEGMENT * given.inner + column),
          rows(in.rows - segment * SEGMENT < SEGMENT ? in.rows - segment * SEGMENT : SEGMENT) {}
};

__device__ inline int64_t segment_at(const Given &given, int64_t part, int64_t segment, int64_t column) {
    return (part * given.segments_a_part + segment) * given.inner + column;
}

template <class Op>
__global__ void total_segments(const __grid_constant__ Given given) {
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= given.parts * given.segments_a_part * given.inner) return;
    const Place at(given, thread);
    if (at.rows <= 0) return;
    typename Op::State state = Op::identity();
    unsigned ignored = 0;
    for_terms<typename Op::Term>(given, at.first, at.rows, ignored,
                                 [&](int64_t, typename Op::Term term) { Op::step(state, term); });
    static_cast<typename Op::State *>(given.segments)[thread] = state;
}

template <class Op>
__global__ void total_parts(const __grid_constant__ Given given) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= given.parts * given.inner) return;
    const int64_t column = thread % given.inner, part = thread / given.inner;
    const Part in = part_of(given, part);
    const State *const segments = static_cast<const State *>(given.segments);
    State total = Op::identity();
    for (int64_t row = 0, s = 0; row < in.rows; row += SEGMENT, ++s) {
        total = taken<Op>(given, total, segments[segment_at(given, part, s, column)],
                          in.first + row * given.inner + column,
                          in.rows - row < SEGMENT ? in.rows - row : SEGMENT);
    }
    static_cast<State *>(given.totals)[thread] = total;
}

// What taken() is for a whole part; apart, since finding the part takes longer than all else.
template <class Op>
__device__ __noinline__ typename Op::State run_part(const Given &given, typename Op::State before,
                                                    typename Op::State total, int64_t part, int64_t column) {
    const Part in = part_of(given, part);
    return taken<Op>(given, before, total, in.first + column, in.rows);
}

// Makes of the parts' totals what is before each, one after the other.
template <class Op>
__global__ void run_parts(const __grid_constant__ Given given) {
    using State = typename Op::State;
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= given.inner) return;
    State *const totals = static_cast<State *>(given.totals) + column;
    State *const running = static_cast<State *>(given.running) + column;
    State state = *running;
    int64_t block = given.first_part % given.blocks;
    for (int64_t part = 0; part < given.parts; part += 2 * AHEAD) {
        State ahead[2 * AHEAD];
#pragma unroll
        for (int i = 0; i < 2 * AHEAD; ++i)
            if (part + i < given.parts) ahead[i] = totals[(part + i) * given.inner];
#pragma unroll
        for (int i = 0; i < 2 * AHEAD; ++i) {
            if (part + i >= given.parts) break;
            if (block == 0) state = Op::identity();
            totals[(part + i) * given.inner] = state;
            state = Op::must_run(state, ahead[i]) ? run_part<Op>(given, state, ahead[i], part + i, column)
                                                  : Op::combine(state, ahead[i]);
            block = block + 1 == given.blocks ? 0 : block + 1;
        }
    }
    *running = state;
}

template <class Op>
__global__ void run_segments(const __grid_constant__ Given given) {
    using State = typename Op::State;
    using Term = typename Op::Term;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= given.parts * given.segments_a_part * given.inner) return;
    const Place at(given, thread);
    if (at.rows <= 0) return;
    const State *const segments = static_cast<const State *>(given.segments);
    State state = Op::identity();
    if (given.blocks > 1) state = static_cast<const State *>(given.totals)[at.part * given.inner + at.column];
    for (int64_t s = 0; s < at.segment; ++s) {
        state = taken<Op>(given, state, segments[segment_at(given, at.part, s, at.column)],
                          at.in.first + s * SEGMENT * given.inner + at.column, SEGMENT);
    }
    unsigned met = 0;
    // What is after the last row is no result of an exclusive scan.
    const int64_t last = (at.in.block + 1) * Slabs::BLOCK >= given.length
                             ? at.in.rows - 1 - at.segment * SEGMENT
                             : int64_t(Slabs::BLOCK);
    double before = rounded(double(Op::value(state)), given.to_type);
    for_terms<Term>(given, at.first, at.rows, met, [&](int64_t row, Term term) {
        const int64_t index = at.first + row * given.inner;
        if (given.is_exclusive) {
            const bool begins = at.in.block == 0 && at.segment == 0 && row == 0;
            store(given, index, begins ? identity_of<Op>() : Op::value(state));
        }
        Op::step(state, term);
        const Term value = Op::value(state);
        if (!given.is_exclusive) store(given, index, value);
        if (!given.reports) return;
        const double result = rounded(double(value), given.to_type);
        if (!given.is_exclusive || row != last) met |= scan::met(double(term), before, result);
        before = result;
    });
    if (met != 0 && (*static_cast<volatile unsigned *>(given.met) & met) != met) atomicOr(given.met, met);
}

}  // namespace device
}  // namespace pk::scan
