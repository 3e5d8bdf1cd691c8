// The middle phase of a scan of slabs that have several blocks: it turns the blocks' totals into the blocks'
// prefixes. Groups of blocks are totalled in parallel, their prefixes are computed in sequence, and then
// those of each group's blocks. A thread has one column.
#pragma once

#include "load_store.cuh"

namespace pk::scan::device {

constexpr int THREADS = 128;

// Call take(index, state) for states that are `stride` apart, in order. The loads of the next ones are in
// flight while these are taken, as each take() depends on the one before.
template <class State, class Take>
__device__ void for_states(const State *states, int64_t stride, int64_t first, int64_t end, Take take) {
    constexpr int LOADS_IN_FLIGHT = 256 / int(sizeof(State));  // as many as registers hold twice
    State now[LOADS_IN_FLIGHT], next[LOADS_IN_FLIGHT];
    auto prefetch = [&](int64_t at) {
#pragma unroll
        for (int i = 0; i < LOADS_IN_FLIGHT; ++i)
            if (at + i < end) next[i] = states[(at + i) * stride];
    };
    prefetch(first);
    for (int64_t at = first; at < end; at += LOADS_IN_FLIGHT) {
#pragma unroll
        for (int i = 0; i < LOADS_IN_FLIGHT; ++i) now[i] = next[i];
        prefetch(at + LOADS_IN_FLIGHT);
#pragma unroll
        for (int i = 0; i < LOADS_IN_FLIGHT; ++i)
            if (at + i < end) take(at + i, now[i]);
    }
}

// The blocks of a group that are in the chunk, and whether the group began in an earlier chunk.
struct Group {
    int64_t first, end;
    bool has_begun;

    __device__ Group(const ScanParams &params, int64_t index) {
        const int64_t group = params.first_group + index, slab = group / params.groups_per_slab;
        const int64_t before =
            params.first_slab * params.blocks + params.first_block;  // blocks, of all slabs
        const int64_t behind = (slab + 1) * params.blocks - before;
        first = slab * params.blocks + group % params.groups_per_slab * GROUP - before;
        end = first + GROUP < behind ? first + GROUP : behind;
        has_begun = first < 0;
        if (has_begun) first = 0;
        if (end > params.scan_blocks) end = params.scan_blocks;
    }
};

// Return the state after a block. A block whose total overflowed is run again, element by element.
template <class Op>
__device__ typename Op::State after_block(const ScanParams &params, const typename Op::State &before,
                                          const typename Op::State &total, int64_t scan_block,
                                          int64_t column) {
    return Op::must_run(before, total) ? rerun_block<Op>(params, before, total, scan_block, column)
                                       : Op::combine(before, total);
}

// Computes the total of each group. A thread has a group's column.
template <class Op>
__global__ void upsweep_groups(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= params.group_count * params.inner) return;
    const int64_t column = thread % params.inner;
    const Group group(params, thread / params.inner);
    State total =
        group.has_begun ? static_cast<const Carry<Op> *>(params.carries)[column].total : Op::identity();
    for_states(static_cast<const State *>(params.totals) + column, params.inner, group.first, group.end,
               [&](int64_t, const State &scan_block) { total = Op::combine(total, scan_block); });
    static_cast<State *>(params.groups)[thread] = total;
}

// Replaces the groups' totals by the prefixes of their first blocks in the chunk. A thread has a slab's
// column.
template <class Op>
__global__ void prefix_groups(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t column = thread % params.inner, slab = params.first_slab + thread / params.inner;
    const int64_t first = slab * params.groups_per_slab - params.first_group,
                  end = first + params.groups_per_slab;
    if (first >= params.group_count) return;
    Carry<Op> carry;
    if (first <= 0 && params.first_block != 0) {  // the slab began in an earlier chunk
        carry = static_cast<const Carry<Op> *>(params.carries)[column];
        carry.begin(params.first_block);
    }
    const bool is_cut = first <= 0 && params.first_block % GROUP != 0;  // the first group began in one, too
    const State *const scan_blocks = static_cast<const State *>(params.totals) + column;
    State *const groups = static_cast<State *>(params.groups) + column;
    State before = carry.group;
    for_states(groups, params.inner, first < 0 ? 0 : first,
               end < params.group_count ? end : params.group_count, [&](int64_t index, const State &total) {
                   State state = index == 0 && is_cut ? carry.running : before;
                   groups[index * params.inner] = state;
                   if (!Op::must_run(before, total)) {
                       before = Op::combine(before, total);
                       return;
                   }
                   const Group group(params, index);
                   for (int64_t scan_block = group.first; scan_block < group.end; ++scan_block)
                       state = after_block<Op>(params, state, scan_blocks[scan_block * params.inner],
                                               scan_block, column);
                   before = state;
               });
}

// Replaces the blocks' totals by the blocks' prefixes. A thread has a group's column.
template <class Op>
__global__ void prefix_blocks(const __grid_constant__ ScanParams params) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= params.group_count * params.inner) return;
    const int64_t column = thread % params.inner, index = thread / params.inner;
    const Group group(params, index);
    const bool is_last = index + 1 == params.group_count;
    Carry<Op> &stored = static_cast<Carry<Op> *>(params.carries)[column], carry;
    carry.group = carry.running = static_cast<const State *>(params.groups)[thread];
    if (is_last && group.has_begun) carry = stored;
    State *const totals = static_cast<State *>(params.totals) + column;
    for_states(totals, params.inner, group.first, group.end, [&](int64_t scan_block, const State &total) {
        const State before = carry.running;
        totals[scan_block * params.inner] = before;
        carry.end(total, after_block<Op>(params, before, total, scan_block, column));
    });
    if (is_last) stored = carry;
}

}  // namespace pk::scan::device
