// Scans of several columns: a thread has a segment of a column, a block of one, or a column.
#pragma once

#include "load_store.cuh"

namespace pk::scan::device {

constexpr int AHEAD = 8;

// Calls take(row, term) for the rows from element `first` on, each of which is asked for well ahead.
template <class Term, class Take>
__device__ void for_terms(const Given &given, int64_t first, int64_t rows, unsigned &met, Take take) {
    for (int64_t row = 0; row < rows; row += AHEAD) {
        Term terms[AHEAD];
        const int64_t left = rows - row;
        load_terms(given, first + row * given.inner, given.inner, left < AHEAD ? int(left) : AHEAD, terms,
                   met);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (row + i < rows) take(row + i, terms[i]);
    }
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
    Term earlier = at.in.block == 0 && at.segment == 0 ? identity_of<Op>() : Op::value(state);
    for_terms<Term>(given, at.first, at.rows, met, [&](int64_t row, Term term) {
        Op::step(state, term);
        const Term value = Op::value(state);
        store(given, at.first + row * given.inner, given.is_exclusive ? earlier : value);
        earlier = value;
        if (!given.reports) return;
        const double result = rounded(double(value), given.to_type);
        if (!given.is_exclusive || row != last) met |= scan::met(double(term), before, result);
        before = result;
    });
    if (met != 0 && (*static_cast<volatile unsigned *>(given.met) & met) != met) atomicOr(given.met, met);
}

}  // namespace pk::scan::device
