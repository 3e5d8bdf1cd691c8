// What is before each part of slabs of several blocks, by the parts' totals: groups side by side, and then
// what is before each, one after the other. A thread has a column.
#pragma once

#include "load_store.cuh"

namespace pk::scan::device {

constexpr int THREADS = 128;

// Calls take(state's place, state) for some that lie so far apart. Where each waits for the one before, they
// wait for nothing else: the next ones are on their way.
template <class State, class Take>
__device__ void for_states(const State *states, int64_t stride, int64_t first, int64_t end, Take take) {
    constexpr int AHEAD = 256 / int(sizeof(State));  // as many as registers hold twice
    State now[AHEAD], next[AHEAD];
    auto ask = [&](int64_t at) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (at + i < end) next[i] = states[(at + i) * stride];
    };
    ask(first);
    for (int64_t at = first; at < end; at += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) now[i] = next[i];
        ask(at + AHEAD);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (at + i < end) take(at + i, now[i]);
    }
}

// Those of a group's parts that are in the chunk, and whether it began before that.
struct Group {
    int64_t first, end;
    bool has_begun;

    __device__ Group(const Given &given, int64_t index) {
        const int64_t group = given.first_group + index, slab = group / given.groups_a_slab;
        const int64_t before = given.first_slab * given.blocks + given.first_block;  // parts, of all slabs
        const int64_t behind = (slab + 1) * given.blocks - before;
        first = slab * given.blocks + group % given.groups_a_slab * GROUP - before;
        end = first + GROUP < behind ? first + GROUP : behind;
        has_begun = first < 0;
        if (has_begun) first = 0;
        if (end > given.parts) end = given.parts;
    }
};

template <class Op>
__device__ typename Op::State after_part(const Given &given, const typename Op::State &before,
                                         const typename Op::State &total, int64_t part, int64_t column) {
    return Op::must_run(before, total) ? run_part<Op>(given, before, total, part, column)
                                       : Op::combine(before, total);
}

template <class Op>
__global__ void total_groups(const __grid_constant__ Given given) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= given.group_count * given.inner) return;
    const int64_t column = thread % given.inner;
    const Group group(given, thread / given.inner);
    State total =
        group.has_begun ? static_cast<const Carry<Op> *>(given.carries)[column].total : Op::identity();
    for_states(static_cast<const State *>(given.totals) + column, given.inner, group.first, group.end,
               [&](int64_t, const State &part) { total = Op::combine(total, part); });
    static_cast<State *>(given.groups)[thread] = total;
}

// Makes of the groups' totals what is before the first of their parts in the chunk. A thread has a slab's.
template <class Op>
__global__ void run_groups(const __grid_constant__ Given given) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t column = thread % given.inner, slab = given.first_slab + thread / given.inner;
    const int64_t first = slab * given.groups_a_slab - given.first_group, end = first + given.groups_a_slab;
    if (first >= given.group_count) return;
    Carry<Op> carry;
    if (first <= 0 && given.first_block != 0) {  // which has begun
        carry = static_cast<const Carry<Op> *>(given.carries)[column];
        carry.begin(given.first_block);
    }
    const bool is_cut = first <= 0 && given.first_block % GROUP != 0;  // the first group
    const State *const parts = static_cast<const State *>(given.totals) + column;
    State *const groups = static_cast<State *>(given.groups) + column;
    State before = carry.group;
    for_states(groups, given.inner, first < 0 ? 0 : first, end < given.group_count ? end : given.group_count,
               [&](int64_t index, const State &total) {
                   State state = index == 0 && is_cut ? carry.running : before;
                   groups[index * given.inner] = state;
                   if (!Op::must_run(before, total)) {
                       before = Op::combine(before, total);
                       return;
                   }
                   const Group group(given, index);
                   for (int64_t part = group.first; part < group.end; ++part)
                       state = after_part<Op>(given, state, parts[part * given.inner], part, column);
                   before = state;
               });
}

// Makes of the parts' totals what is before each. A thread has a group's.
template <class Op>
__global__ void run_parts(const __grid_constant__ Given given) {
    using State = typename Op::State;
    const int64_t thread = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (thread >= given.group_count * given.inner) return;
    const int64_t column = thread % given.inner, index = thread / given.inner;
    const Group group(given, index);
    const bool is_last = index + 1 == given.group_count;
    Carry<Op> &kept = static_cast<Carry<Op> *>(given.carries)[column], carry;
    carry.group = carry.running = static_cast<const State *>(given.groups)[thread];
    if (is_last && group.has_begun) carry = kept;
    State *const totals = static_cast<State *>(given.totals) + column;
    for_states(totals, given.inner, group.first, group.end, [&](int64_t part, const State &total) {
        const State before = carry.running;
        totals[part * given.inner] = before;
        carry.end(total, after_part<Op>(given, before, total, part, column));
    });
    if (is_last) kept = carry;
}

}  // namespace pk::scan::device
