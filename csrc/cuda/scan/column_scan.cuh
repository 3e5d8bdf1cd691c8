// Scan kernels for slabs of several columns (reduce-then-scan): the upsweep computes the totals of segments
// and blocks, the downsweep the results. A thread has a segment or a block of one column.
#pragma once

#include "load_store.cuh"

namespace pk::scan::device {

constexpr int LOADS_IN_FLIGHT = 8;

// Call take(row, term) for `rows` rows from element `first` on. LOADS_IN_FLIGHT loads are issued at once.
template <class Term, class Take>
__device__ void for_terms(const ScanParams &params, int64_t first, int64_t rows, unsigned &exceptions,
                          Take take) {
    for (int64_t row = 0; row < rows; row += LOADS_IN_FLIGHT) {
        Term terms[LOADS_IN_FLIGHT];
        const int64_t left = rows - row;
        load_terms(params, first + row * params.inner, params.inner,
                   left < LOADS_IN_FLIGHT ? int(left) : LOADS_IN_FLIGHT, terms, exceptions);
#pragma unroll
        for (int i = 0; i < LOADS_IN_FLIGHT; ++i)
            if (row + i < rows) take(row + i, terms[i]);
    }
}

// A thread's segment of a column of a scan block. Some segments of a short block have no rows.
struct ColumnSegment {
    int64_t column, segment, scan_block;
    ScanBlock in;
    int64_t first, rows;

    __device__ ColumnSegment(const ScanParams &params, int64_t thread)
        : column(thread % params.inner),
          segment(thread / params.inner % params.segments_per_block),
          scan_block(thread / params.inner / params.segments_per_block),
          in(scan_block_at(params, scan_block)),
          first(in.first + segment * SEGMENT * params.inner + column),
          rows(in.rows - segment * SEGMENT < SEGMENT ? in.rows - segment * SEGMENT : SEGMENT) {}
};

// Return the index of a segment's state.
__device__ inline int64_t segment_at(const ScanParams &params, int64_t scan_block, int64_t segment,
                                     int64_t column) {
    return (scan_block * params.segments_per_block + segment) * params.inner + column;
}

// Computes the total of each segment.
template <class Op>
__global__ void upsweep_segments(const __grid_constant__ ScanParams params) {
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= params.scan_blocks * params.segments_per_block * params.inner) return;
    const ColumnSegment at(params, thread);
    if (at.rows <= 0) return;
    typename Op::State state = Op::identity();
    unsigned ignored = 0;
    for_terms<typename Op::Term>(params, at.first, at.rows, ignored,
                                 [&](int64_t, typename Op::Term term) { Op::step(state, term); });
    static_cast<typename Op::State *>(params.segments)[thread] = state;
}

// Computes the total of each scan block from its segments' totals.
template <class Op>
__global__ void upsweep_blocks(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= params.scan_blocks * params.inner) return;
    const int64_t column = thread % params.inner, scan_block = thread / params.inner;
    const ScanBlock in = scan_block_at(params, scan_block);
    const State *const segments = static_cast<const State *>(params.segments);
    State total = Op::identity();
    for (int64_t row = 0, s = 0; row < in.rows; row += SEGMENT, ++s) {
        total = advanced<Op>(params, total, segments[segment_at(params, scan_block, s, column)],
                             in.first + row * params.inner + column,
                             in.rows - row < SEGMENT ? in.rows - row : SEGMENT);
    }
    static_cast<State *>(params.totals)[thread] = total;
}

// Scans each segment from its prefix, and stores the results.
template <class Op>
__global__ void downsweep_segments(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    using Term = typename Op::Term;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= params.scan_blocks * params.segments_per_block * params.inner) return;
    const ColumnSegment at(params, thread);
    if (at.rows <= 0) return;
    const State *const segments = static_cast<const State *>(params.segments);
    State state = Op::identity();
    if (params.blocks > 1)
        state = static_cast<const State *>(params.totals)[at.scan_block * params.inner + at.column];
    for (int64_t s = 0; s < at.segment; ++s) {
        state = advanced<Op>(params, state, segments[segment_at(params, at.scan_block, s, at.column)],
                             at.in.first + s * SEGMENT * params.inner + at.column, SEGMENT);
    }
    unsigned exceptions = 0;
    // An exclusive scan does not store the value after the last row, and so reports nothing about it.
    const int64_t last = (at.in.block + 1) * Slabs::BLOCK >= params.length
                             ? at.in.rows - 1 - at.segment * SEGMENT
                             : int64_t(Slabs::BLOCK);
    double before = rounded(double(Op::value(state)), params.to_type);
    Term earlier = at.in.block == 0 && at.segment == 0 ? identity_of<Op>() : Op::value(state);
    for_terms<Term>(params, at.first, at.rows, exceptions, [&](int64_t row, Term term) {
        Op::step(state, term);
        const Term value = Op::value(state);
        store(params, at.first + row * params.inner, params.is_exclusive ? earlier : value);
        earlier = value;
        if (!params.reports) return;
        const double result = rounded(double(value), params.to_type);
        if (!params.is_exclusive || row != last) exceptions |= scan::raised(double(term), before, result);
        before = result;
    });
    if (exceptions != 0 && (*static_cast<volatile unsigned *>(params.exceptions) & exceptions) != exceptions)
        atomicOr(params.exceptions, exceptions);
}

}  // namespace pk::scan::device
