// The distinct elements of sorted keys, found by several threads.
#pragma once

#include <utility>
#include <vector>

#include "sort.h"

namespace pk {

// The runs of equal elements that begin in [begin, end).
struct Runs {
    int64_t begin, end;
    int64_t before;  // the number of runs before these
    int64_t count;
    const int64_t *starts;
};

// Calls put(runs) for all runs, a few at a time; returns their number.
template <class Order, class Put>
int64_t for_each_run(Call &call, const Order &, const typename Order::Key *sorted, int64_t size,
                     bool splits_nan, Put put) {
    using Key = typename Order::Key;
    constexpr int64_t PIECE = 256 << 10, BLOCK = 512;
    const bool splits = Order::of_floats && splits_nan;
    // Canonicalizes NaN and -0.0, so that equal elements have equal bits. Branch-free here and below, because
    // a branch would be unpredictable.
    auto bits_of = [](Key bits) {
        if constexpr (Order::of_floats) {
            const auto magnitude = Key(bits & Key(~Order::TOP));
            bits = magnitude > Order::INFINITE ? Order::NAN_BITS : bits;
            bits = magnitude == 0 ? Key(0) : bits;
        }
        return bits;
    };
    auto begins = [=](Key bits, Key before) {
        return int32_t((bits != before) | (splits & (bits == Order::NAN_BITS)));
    };
    std::vector<int64_t> runs_before(size_t(size / PIECE + 1));
    parallel_for_pieces(call, size, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
        int32_t count = begin == 0;
        for (int64_t i = begin + (begin == 0); i < end; ++i) {
            count += begins(bits_of(sorted[i]), bits_of(sorted[i - 1]));
        }
        runs_before[size_t(piece)] = count;
    });
    int64_t run_count = 0;
    for (int64_t &next : runs_before) next = std::exchange(run_count, run_count + next);  // exclusive scan
    parallel_for_pieces(call, size, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
        int64_t starts[BLOCK], before = runs_before[size_t(piece)];
        for (int64_t first = begin; first < end; first += BLOCK) {
            const int64_t last = std::min(end, first + BLOCK);
            int64_t count = first == 0;
            starts[0] = 0;
            Key previous = bits_of(sorted[std::max<int64_t>(first, 1) - 1]);
            for (int64_t i = first + count; i < last; ++i) {
                const Key bits = bits_of(sorted[i]);
                starts[count] = i;
                count += begins(bits, previous);
                previous = bits;
            }
            put(Runs{first, last, before, count, starts});
            before += count;
        }
    });
    return run_count;
}

// Copies one element of each run; returns their number.
template <class Order, class Key = typename Order::Key>
int64_t copy_distinct(Call &call, const Order &ordering, const Key *sorted, int64_t size, bool splits_nan,
                      Key *values) {
    return for_each_run(call, ordering, sorted, size, splits_nan, [=](const Runs &runs) {
        for (int64_t i = 0; i < runs.count; ++i) values[runs.before + i] = sorted[runs.starts[i]];
    });
}

}  // namespace pk
