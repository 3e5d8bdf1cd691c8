// Scan kernels for slabs of one column (reduce-then-scan). A block of threads has a tile, which is some scan
// blocks next to each other. It loads the tile into shared memory as terms; each thread scans a segment
// in it; and the results are stored from it, so that loads and stores are coalesced.
#pragma once

#include "load_store.cuh"

namespace pk::scan::device {

constexpr int TILE = 2048, TILE_THREADS = 128, TERMS_AT_ONCE = 8;
constexpr int PADDED_TILE = TILE + TILE / int(SEGMENT);
// Tiles on a multiprocessor at once, as registers allow.
template <class Op>
constexpr int TILES_AT_ONCE = sizeof(typename Op::State) == 8 ? 8 : 4;
static_assert(TILE % Slabs::BLOCK == 0, "a tile is made of blocks");

// Return the index in shared memory of an element of a tile: padded, so that neighbouring threads' segments
// are in different banks.
__device__ inline int padded(int index) { return index + int(unsigned(index) / unsigned(SEGMENT)); }

// Return how many scan blocks of slabs of this length make up a tile.
inline int64_t blocks_per_tile(int64_t length) { return TILE / std::min(length, Slabs::BLOCK); }

// The tile of a block of threads.
struct Tile {
    int64_t scan_block, first;  // its first scan block, and its first element in the chunk
    int scan_blocks, elements, segments;

    __device__ explicit Tile(const ScanParams &params)
        : scan_block(int64_t(blockIdx.x) * params.blocks_per_tile),
          first(scan_block_at(params, scan_block).first) {
        const int64_t left = params.scan_blocks - scan_block;
        scan_blocks = int(left < params.blocks_per_tile ? left : params.blocks_per_tile);
        const ScanBlock last = scan_block_at(params, scan_block + scan_blocks - 1);
        elements = int(last.first + last.rows - first);
        segments = scan_blocks * int(params.segments_per_block);
    }
};

// A segment of one of a tile's scan blocks. Some segments of a short block have no rows.
struct TileSegment {
    ScanBlock scan_block;
    int first, rows, segment;  // its first element in the tile, its rows, its number in the scan block

    __device__ TileSegment(const ScanParams &params, const Tile &tile, int thread) {
        const int segments = int(params.segments_per_block), index = thread / segments;
        segment = thread - index * segments;
        scan_block = scan_block_at(params, tile.scan_block + index);
        first = int(scan_block.first - tile.first) + segment * int(SEGMENT);
        const int left = int(scan_block.rows) - segment * int(SEGMENT);
        rows = left < int(SEGMENT) ? left : int(SEGMENT);
    }
};

// Load a tile into shared memory. Like store_tile(), not inlined: it is called once for many elements, and is
// compiled once for all operations.
template <class Term>
__device__ __noinline__ void load_tile(const ScanParams &params, const Tile &at, Term *tile,
                                       unsigned &exceptions) {
    constexpr int MAX_COUNT = TILE / TILE_THREADS;
    Term terms[MAX_COUNT];
    const int thread = int(threadIdx.x), left = at.elements - thread;
    const int count = left <= 0 ? 0 : (left + TILE_THREADS - 1) / TILE_THREADS;
    load_terms(params, at.first + thread, TILE_THREADS, count, terms, exceptions);
#pragma unroll
    for (int i = 0; i < MAX_COUNT; ++i)
        if (i < count) tile[padded(thread + i * TILE_THREADS)] = terms[i];
}

template <class To, class Term, class Convert>
__device__ void store_as(const ScanParams &params, const Tile &at, const Term *tile, Convert convert) {
    To *const to = reinterpret_cast<To *>(params.to) + at.first;
#pragma unroll 4
    for (int index = int(threadIdx.x); index < at.elements; index += TILE_THREADS)
        to[index] = convert(flip(params, tile[padded(index)]));
}

template <class Term>
__device__ __noinline__ void store_tile(const ScanParams &params, const Tile &at, const Term *tile) {
    if constexpr (std::is_floating_point<Term>::value) {
        switch (params.to_type) {
            case PK_FLOAT16:
                return store_as<uint16_t>(params, at, tile,
                                          [](Term value) { return half::from_float(half::to_odd(value)); });
            case PK_FLOAT32:
                return store_as<float>(params, at, tile, [](Term value) { return float(value); });
            default: return store_as<double>(params, at, tile, [](Term value) { return value; });
        }
    } else {
        switch (size_of(params.to_type)) {
            case 1: return store_as<uint8_t>(params, at, tile, [](Term value) { return uint8_t(value); });
            case 2: return store_as<uint16_t>(params, at, tile, [](Term value) { return uint16_t(value); });
            case 4: return store_as<uint32_t>(params, at, tile, [](Term value) { return uint32_t(value); });
            default: return store_as<uint64_t>(params, at, tile, [](Term value) { return uint64_t(value); });
        }
    }
}

// Call take(place, term) for the terms of a segment. TERMS_AT_ONCE are read before any of them is replaced.
template <class Term, class Take>
__device__ void for_segment(Term *tile, const TileSegment &in, Take take) {
    for (int row = 0; row < in.rows; row += TERMS_AT_ONCE) {
        Term terms[TERMS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < TERMS_AT_ONCE; ++i)
            if (row + i < in.rows) terms[i] = tile[padded(in.first + row + i)];
#pragma unroll
        for (int i = 0; i < TERMS_AT_ONCE; ++i)
            if (row + i < in.rows) take(tile[padded(in.first + row + i)], terms[i]);
    }
}

// Return the total of a segment.
template <class Op>
__device__ typename Op::State total_of(typename Op::Term *tile, const TileSegment &in) {
    typename Op::State state = Op::identity();
    for_segment(tile, in, [&](auto &, typename Op::Term term) { Op::step(state, term); });
    return state;
}

// Return the state after some rows of a scan block, from the totals of its segments.
template <class Op>
__device__ typename Op::State run_through(typename Op::State state, const typename Op::State *totals,
                                          const typename Op::Term *tile, int first, int rows) {
    for (int row = 0, s = 0; row < rows; row += int(SEGMENT), ++s) {
        const int left = rows - row;
        state = after<Op>(state, totals[s], left < int(SEGMENT) ? left : int(SEGMENT),
                          [&](int64_t i) { return tile[padded(first + row + int(i))]; });
    }
    return state;
}

// The upsweep, for slabs that have several blocks: computes the total of each scan block.
template <class Op>
__global__ void __launch_bounds__(TILE_THREADS, TILES_AT_ONCE<Op>)
    upsweep_tiles(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    using Term = typename Op::Term;
    __shared__ Term tile[PADDED_TILE];
    __shared__ State totals[TILE_THREADS];
    const int thread = int(threadIdx.x);
    const Tile at(params);

    unsigned ignored = 0;
    load_tile(params, at, tile, ignored);
    __syncthreads();
    if (thread < at.segments) totals[thread] = total_of<Op>(tile, TileSegment(params, at, thread));
    __syncthreads();
    if (thread < at.scan_blocks) {
        const ScanBlock scan_block = scan_block_at(params, at.scan_block + thread);
        static_cast<State *>(params.totals)[at.scan_block + thread] =
            run_through<Op>(Op::identity(), totals + thread * int(params.segments_per_block), tile,
                            int(scan_block.first - at.first), int(scan_block.rows));
    }
}

// Return the exceptions that scanning some rows from an element on raises.
template <class Op>
__device__ __noinline__ unsigned exceptions_from(const ScanParams &params, typename Op::State state,
                                                 int64_t first, int64_t rows) {
    unsigned exceptions = 0, ignored = 0;
    double before = rounded(double(Op::value(state)), params.to_type);
    for (int64_t row = 0; row < rows && before == before; ++row) {
        const typename Op::Term term = term_at<typename Op::Term>(params, first + row, ignored);
        Op::step(state, term);
        const double result = rounded(double(Op::value(state)), params.to_type);
        exceptions |= scan::raised(double(term), before, result);
        before = result;
    }
    return exceptions;
}

// Scan a segment, replacing its terms by results. Return the exceptions raised.
template <class Op>
__device__ unsigned run_segment(const ScanParams &params, const Tile &at, const TileSegment &in,
                                typename Op::Term *tile, const typename Op::State before) {
    using Term = typename Op::Term;
    typename Op::State state = before;
    const bool is_first = in.scan_block.block == 0 && in.segment == 0;
    Term last = is_first ? identity_of<Op>() : Op::value(state);
    unsigned largest = 0;  // the upper half of a result's bits, without the sign: its exponent comes first
    for_segment(tile, in, [&](Term &place, Term term) {
        Op::step(state, term);
        const Term value = Op::value(state);
        place = params.is_exclusive ? last : value;
        last = value;
        const unsigned magnitude = unsigned(bit_cast<uint64_t>(value) >> 32) << 1;
        largest = magnitude > largest ? magnitude : largest;
    });
    if constexpr (std::is_floating_point<Term>::value) {
        // Results whose exponent is below the largest of their dtype have raised nothing.
        const unsigned bound = params.to_type == PK_FLOAT16 ? 15 : params.to_type == PK_FLOAT32 ? 127 : 1023;
        if (!params.reports || largest >> 21 < bound + 1023) return 0;
        // An exclusive scan does not store the value after the last row, and so reports nothing about it.
        const bool ends = (in.scan_block.block + 1) * Slabs::BLOCK >= params.length &&
                          in.segment * SEGMENT + in.rows == in.scan_block.rows;
        return exceptions_from<Op>(params, before, at.first + in.first,
                                   in.rows - (params.is_exclusive && ends));
    } else {
        return 0;  // scans of integers report nothing
    }
}

// The downsweep: scans each segment from its prefix, and stores the results.
template <class Op>
__global__ void __launch_bounds__(TILE_THREADS, TILES_AT_ONCE<Op>)
    downsweep_tiles(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    using Term = typename Op::Term;
    __shared__ Term tile[PADDED_TILE];
    __shared__ State totals[TILE_THREADS];
    const Tile at(params);

    unsigned exceptions = 0;
    load_tile(params, at, tile, exceptions);
    __syncthreads();
    if (params.segments_per_block == 1) {
        State state = Op::identity();
        for (int thread = int(threadIdx.x); thread < at.segments; thread += TILE_THREADS)
            exceptions |= run_segment<Op>(params, at, TileSegment(params, at, thread), tile, state);
    } else {
        const int thread = int(threadIdx.x);  // there are at least as many threads as segments
        const bool has_rows = thread < at.segments;
        const TileSegment in(params, at, has_rows ? thread : 0);
        if (has_rows) totals[thread] = total_of<Op>(tile, in);
        __syncthreads();
        State state = Op::identity();
        if (has_rows) {
            const int scan_block = thread / int(params.segments_per_block), rows = in.segment * int(SEGMENT);
            if (params.blocks > 1)
                state = static_cast<const State *>(params.totals)[at.scan_block + scan_block];
            if (in.rows > 0)
                state = run_through<Op>(state, totals + (thread - in.segment), tile, in.first - rows, rows);
        }
        __syncthreads();
        if (has_rows) exceptions |= run_segment<Op>(params, at, in, tile, state);
    }
    __syncthreads();
    store_tile(params, at, tile);
    if (exceptions != 0 && (*static_cast<volatile unsigned *>(params.exceptions) & exceptions) != exceptions)
        atomicOr(params.exceptions, exceptions);
}

}  // namespace pk::scan::device
