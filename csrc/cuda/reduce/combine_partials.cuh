// Reductions of values that lie on a device: their partials become results there, in the order in which
// Partials joins them.
#pragma once

#include "block_partials.cuh"
#include "common/reduce.h"
#include "common/reduce_results.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/stream_memory.h"

namespace pk::reduction {

// A region's partials, by slab, block and column.
struct Gathered {
    char *partials;
    Slabs slabs;
};

// Where the results of its columns lie: `columns` in all, dense, those of the region as Region::result says,
// of its slabs from the first that is gathered on.
struct Results {
    char *at;
    int type;
    int64_t item, tiles, columns, first_column, first_slab = 0;

    // Of all of a region, into memory that is like its result's.
    Results(char *at, const View &result, const Region &region)
        : at(at),
          type(result.type),
          item(result.item),
          tiles(region.tiles),
          columns(region.columns),
          first_column(region.first_column) {}
    // Of some slabs, side by side.
    Results(char *at, const View &result, const Slabs &slabs)
        : at(at), type(result.type), item(result.item), tiles(slabs.count), columns(0), first_column(0) {}
};

namespace device {

template <class Op>
struct Partial {
    typename Op::Word words[Op::PARTIAL];
};

constexpr int WARP = 32;

// Threads of a block that joins, each of which has two partials: a power of two.
template <class Op>
constexpr int PAIRS = sizeof(Partial<Op>) <= 32 ? 1024 : 512;

template <class Op>
__device__ Partial<Op> *partial_of(const Gathered &given, int64_t slab, int64_t block, int64_t column) {
    const Slabs &slabs = given.slabs;
    return reinterpret_cast<Partial<Op> *>(given.partials) + (slab * slabs.blocks() + block) * slabs.inner +
           column;
}

// Writes the result of a column of a slab, whose blocks are one.
template <class Op>
__device__ void write_column(const Gathered &given, const pk_reduction &asked, const Results &results,
                             int64_t slab, int64_t column, Partial<Op> partial) {
    const int64_t own = slab + results.first_slab;
    const int64_t place = own / results.tiles * results.columns + results.first_column +
                          own % results.tiles * given.slabs.inner + column;
    write_result<Op>(asked, partial.words, given.slabs.length, results.type,
                     results.at + place * results.item);
}

// What is left of each column's blocks, so far `apart`; twice `width` of them, a power of two, are a group's.
struct Left {
    int64_t count, apart, groups;
    int width;
};

// Joins what `width` threads of a warp have, each at its place among them, of which `left` have any: in
// pairs, and pairs of these. The first then has all.
template <class Op>
__device__ void join_neighbours(Partial<Op> &own, int place, int width, int64_t left) {
    for (int step = 1; step < width; step *= 2) {
        Partial<Op> next;
        for (int w = 0; w < Op::PARTIAL; ++w) next.words[w] = shuffled_down(own.words[w], step, WARP);
        if ((place & (2 * step - 1)) == 0 && place + step < left) Op::merge(own.words, next.words);
    }
}

// Joins each group of a column of a slab; and writes the results, if there is one.
template <class Op>
__global__ void __launch_bounds__(PAIRS<Op>)
    join(Gathered given, Left all_left, pk_reduction asked, Results results) {
    __shared__ Partial<Op> joined[PAIRS<Op> / WARP];
    const int64_t apart = all_left.apart, groups = all_left.groups, inner = given.slabs.inner;
    const int width = all_left.width, pair = int(threadIdx.x) & (width - 1), place = pair % WARP;
    const int64_t own = blockIdx.x * int64_t(PAIRS<Op> / width) + int(threadIdx.x) / width;
    int64_t column = 0, group = own, slab = 0;
    if (given.slabs.count * inner != 1) {  // dividing takes longer than all the rest
        column = own % inner;
        group = own / inner % groups;
        slab = own / inner / groups;
    }
    const int64_t first = group * 2 * width * apart;
    const bool is_there = group < groups && slab < given.slabs.count;
    const int64_t left = is_there ? all_left.count - group * 2 * width : 0;
    Partial<Op> all{}, next{};
    if (2 * pair < left) all = *partial_of<Op>(given, slab, first + 2 * pair * apart, column);
    if (2 * pair + 1 < left) next = *partial_of<Op>(given, slab, first + (2 * pair + 1) * apart, column);
    if (2 * pair + 1 < left) Op::merge(all.words, next.words);
    join_neighbours<Op>(all, place, min(width, WARP), (left + 1) / 2 - (pair - place));
    if (width > WARP) {
        if (place == 0) joined[threadIdx.x / WARP] = all;
        __syncthreads();
        const int warps = width / WARP;
        if (pair < warps) all = joined[threadIdx.x / WARP + pair];
        if (pair < WARP) join_neighbours<Op>(all, pair, warps, (left + 2 * WARP - 1) / (2 * WARP));
    }
    if (pair != 0 || left == 0) return;
    if (groups == 1) {
        write_column<Op>(given, asked, results, slab, column, all);
    } else {
        *partial_of<Op>(given, slab, first, column) = all;
    }
}

template <class Op>
__global__ void write(Gathered given, pk_reduction asked, Results results) {
    const int64_t inner = given.slabs.inner, index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= given.slabs.count * inner) return;
    const int64_t slab = index / inner, column = index % inner;
    write_column<Op>(given, asked, results, slab, column, *partial_of<Op>(given, slab, 0, column));
}

}  // namespace device

// Queues what makes results of partials, of one block each.
template <class Op>
void write(const Gathered &given, const pk_reduction &asked, const Results &results, cudaStream_t queue) {
    constexpr int64_t THREADS = 128;
    const int64_t columns = given.slabs.count * given.slabs.inner;
    device::write<Op>
        <<<unsigned((columns + THREADS - 1) / THREADS), THREADS, 0, queue>>>(given, asked, results);
    PK_CUDA(cudaGetLastError());
}

inline void write(const Reduction &reduction, const Gathered &given, const Results &results,
                  cudaStream_t queue) {
    visit_kind(reduction.asked.kind, reduction.type, reduction.masked,
               [&](auto op) { write<decltype(op)>(given, reduction.asked, results, queue); });
}

// Queues what makes results of partials, of which so many have become one each already.
inline void finish_there(const Reduction &reduction, const Slabs &slabs, char *partials, int64_t joined,
                         const Results &results, cudaStream_t queue) {
    const Gathered given{partials, slabs};
    const int64_t blocks = slabs.blocks(), columns = slabs.count * slabs.inner;
    visit_kind(reduction.asked.kind, reduction.type, reduction.masked, [&](auto op) {
        using Op = decltype(op);
        constexpr int PAIRS = device::PAIRS<Op>;
        int64_t apart = joined;
        while (apart < blocks) {
            const int64_t left = (blocks + apart - 1) / apart;
            int64_t width = 1;
            while (width < PAIRS && 2 * width < left) width *= 2;
            const int64_t groups = (left + 2 * width - 1) / (2 * width);
            const int64_t together = (groups * columns * width + PAIRS - 1) / PAIRS;
            device::join<Op><<<unsigned(together), PAIRS, 0, queue>>>(
                given, {left, apart, groups, int(width)}, reduction.asked, results);
            PK_CUDA(cudaGetLastError());
            apart *= 2 * width;
        }
        if (joined >= blocks) write<Op>(given, reduction.asked, results, queue);  // else the last join did
    });
}

}  // namespace pk::reduction
