// Kernels that combine and finalize the partials of device-resident values on the device, in the order of the
// tree in which Partials combines them on the host.
#pragma once

#include "block_partials.cuh"
#include "common/reduce.h"
#include "common/reduce_results.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/execution_context.h"

namespace pk::reduction {

// The partials of a region, by slab, block and column.
struct RegionPartials {
    char *partials;
    Slabs slabs;
};

// Where the results of a region's columns go: to one dense array, which has the `columns` results of each
// outer index, of all regions. Region::result() is the index of a slab's first result. The slabs that are
// finalized begin at `first_slab`.
struct Results {
    char *d_data;
    int type;
    int64_t item, tiles, columns, first_column, first_slab = 0;

    // The results of a whole region, in memory laid out like the result operand.
    Results(char *d_data, const View &result, const Region &region)
        : d_data(d_data),
          type(result.type),
          item(result.item),
          tiles(region.tiles),
          columns(region.columns),
          first_column(region.first_column) {}
    // The results of some slabs, next to each other.
    Results(char *d_data, const View &result, const Slabs &slabs)
        : d_data(d_data),
          type(result.type),
          item(result.item),
          tiles(slabs.count),
          columns(0),
          first_column(0) {}
};

namespace device {

// The partial of a block.
template <class Op>
struct Partial {
    typename Op::Word words[Op::PARTIAL];
};

constexpr int WARP = 32;

// The number of threads in a block of combine(), a power of two. Each thread combines two partials first.
template <class Op>
constexpr int PAIRS = sizeof(Partial<Op>) <= 32 ? 1024 : 512;

template <class Op>
__device__ Partial<Op> *partial_of(const RegionPartials &region_partials, int64_t slab, int64_t block,
                                   int64_t column) {
    const Slabs &slabs = region_partials.slabs;
    return reinterpret_cast<Partial<Op> *>(region_partials.partials) +
           (slab * slabs.blocks() + block) * slabs.inner + column;
}

// Write the result of a column of a slab, of which one partial is left.
template <class Op>
__device__ void write_column(const RegionPartials &region_partials, const pk_reduction &spec,
                             const Results &results, int64_t slab, int64_t column, Partial<Op> partial) {
    const int64_t result_slab = slab + results.first_slab;
    const int64_t index = result_slab / results.tiles * results.columns + results.first_column +
                          result_slab % results.tiles * region_partials.slabs.inner + column;
    write_result<Op>(spec, partial.words, region_partials.slabs.length, results.type,
                     results.d_data + index * results.item);
}

// A level of the combine tree. Each column has `num_partials` left, `stride` blocks apart. A group combines
// 2 * pairs_per_group of them, a power of two.
struct CombineLevel {
    int64_t num_partials, stride, num_groups;
    int pairs_per_group;
};

// Combine the partials of `width` threads of a warp in a tree of pairs. `index` is the thread's among them,
// and `num_active` of them have a partial. The first thread gets the result.
template <class Op>
__device__ void combine_neighbours(Partial<Op> &partial, int index, int width, int64_t num_active) {
    for (int step = 1; step < width; step *= 2) {
        Partial<Op> next;
        for (int w = 0; w < Op::PARTIAL; ++w) next.words[w] = shuffled_down(partial.words[w], step, WARP);
        if ((index & (2 * step - 1)) == 0 && index + step < num_active) Op::merge(partial.words, next.words);
    }
}

// Combines the partials of each group of a column of a slab. If one group is left, it writes the results.
template <class Op>
__global__ void __launch_bounds__(PAIRS<Op>)
    combine(RegionPartials region_partials, CombineLevel level, pk_reduction spec, Results results) {
    __shared__ Partial<Op> combined[PAIRS<Op> / WARP];
    const int64_t stride = level.stride, groups = level.num_groups, inner = region_partials.slabs.inner;
    const int width = level.pairs_per_group, pair = int(threadIdx.x) & (width - 1), lane = pair % WARP;
    const int64_t index = blockIdx.x * int64_t(PAIRS<Op> / width) + int(threadIdx.x) / width;
    int64_t column = 0, group = index, slab = 0;
    if (region_partials.slabs.count * inner != 1) {  // division is slower than everything else here
        column = index % inner;
        group = index / inner % groups;
        slab = index / inner / groups;
    }
    const int64_t first = group * 2 * width * stride;
    const bool is_active = group < groups && slab < region_partials.slabs.count;
    const int64_t left = is_active ? level.num_partials - group * 2 * width : 0;
    Partial<Op> all{}, next{};
    if (2 * pair < left) all = *partial_of<Op>(region_partials, slab, first + 2 * pair * stride, column);
    if (2 * pair + 1 < left)
        next = *partial_of<Op>(region_partials, slab, first + (2 * pair + 1) * stride, column);
    if (2 * pair + 1 < left) Op::merge(all.words, next.words);
    combine_neighbours<Op>(all, lane, min(width, WARP), (left + 1) / 2 - (pair - lane));
    if (width > WARP) {
        if (lane == 0) combined[threadIdx.x / WARP] = all;
        __syncthreads();
        const int warps = width / WARP;
        if (pair < warps) all = combined[threadIdx.x / WARP + pair];
        if (pair < WARP) combine_neighbours<Op>(all, pair, warps, ceil_div(left, 2 * WARP));
    }
    if (pair != 0 || left == 0) return;
    if (groups == 1) {
        write_column<Op>(region_partials, spec, results, slab, column, all);
    } else {
        *partial_of<Op>(region_partials, slab, first, column) = all;
    }
}

// Writes the results of columns of which one partial is left.
template <class Op>
__global__ void finalize(RegionPartials region_partials, pk_reduction spec, Results results) {
    const int64_t inner = region_partials.slabs.inner, index = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= region_partials.slabs.count * inner) return;
    const int64_t slab = index / inner, column = index % inner;
    write_column<Op>(region_partials, spec, results, slab, column,
                     *partial_of<Op>(region_partials, slab, 0, column));
}

}  // namespace device

// Enqueue the finalization of partials, of which each slab has one.
template <class Op>
void finalize(const RegionPartials &region_partials, const pk_reduction &spec, const Results &results,
              cudaStream_t stream) {
    constexpr int64_t THREADS = 128;
    const int64_t columns = region_partials.slabs.count * region_partials.slabs.inner;
    device::finalize<Op><<<grid_for(columns, THREADS), THREADS, 0, stream>>>(region_partials, spec, results);
    PK_CUDA(cudaGetLastError());
}

inline void finalize(const Reduction &reduction, const RegionPartials &region_partials,
                     const Results &results, cudaStream_t stream) {
    visit_kind(reduction.spec.kind, reduction.type, reduction.masked,
               [&](auto op) { finalize<decltype(op)>(region_partials, reduction.spec, results, stream); });
}

// Enqueue the combination and finalization of a region's partials. Each run of `combined` blocks shares a
// partial already.
inline void combine_on_device(const Reduction &reduction, const Slabs &slabs, char *partials,
                              int64_t combined, const Results &results, cudaStream_t stream) {
    const RegionPartials region_partials{partials, slabs};
    const int64_t blocks = slabs.blocks(), columns = slabs.count * slabs.inner;
    visit_kind(reduction.spec.kind, reduction.type, reduction.masked, [&](auto op) {
        using Op = decltype(op);
        constexpr int PAIRS = device::PAIRS<Op>;
        int64_t stride = combined;
        while (stride < blocks) {
            const int64_t left = ceil_div(blocks, stride);
            int64_t width = 1;
            while (width < PAIRS && 2 * width < left) width *= 2;
            const int64_t groups = ceil_div(left, 2 * width);
            const int64_t blocks_needed = ceil_div(groups * columns * width, PAIRS);
            device::combine<Op><<<unsigned(blocks_needed), PAIRS, 0, stream>>>(
                region_partials, {left, stride, groups, int(width)}, reduction.spec, results);
            PK_CUDA(cudaGetLastError());
            stride *= 2 * width;
        }
        if (combined >= blocks)
            finalize<Op>(region_partials, reduction.spec, results, stream);  // else the last combine() did
    });
}

}  // namespace pk::reduction
