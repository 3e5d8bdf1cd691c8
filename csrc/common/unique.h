// The distinct ones of sorted elements, on several threads.
#pragma once

#include <utility>
#include <vector>

#include "sorting.h"

namespace pk {

// Those runs of equal elements that begin in [begin, end).
struct Runs {
    int64_t begin, end;
    int64_t before;  // how many runs begin before those
    int64_t count;
    const int64_t *starts;
};

// Calls put(runs) for all runs, a few at a time; returns how many there are.
template <class Order, class Put>
int64_t each_run(Call &call, const Order &ordering, const typename Order::Key *sorted, int64_t size,
                 bool splits_nan, Put put) {
    using Key = typename Order::Key;
    constexpr int64_t PIECE = 256 << 10, BLOCK = 512;
    Order same = ordering;
    same.one_zero = true;
    const Key nan = same.key(Order::NAN_BITS);
    const bool splits = Order::of_floats && splits_nan;
    // Without a branch, which nobody could predict.
    auto begins = [=](int64_t i) {
        const Key key = same.key(sorted[i]), before = same.key(sorted[i - 1]);
        return int((key != before) | (splits & (key == nan)));
    };
    std::vector<int64_t> at(size_t(size / PIECE + 1));
    in_pieces(call, size, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
        int64_t count = begin == 0;
        for (int64_t i = begin + (begin == 0); i < end; ++i) count += begins(i);
        at[size_t(piece)] = count;
    });
    int64_t found = 0;
    for (int64_t &next : at) next = std::exchange(found, found + next);
    in_pieces(call, size, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
        int64_t starts[BLOCK], before = at[size_t(piece)];
        for (int64_t first = begin; first < end; first += BLOCK) {
            const int64_t last = std::min(end, first + BLOCK);
            int64_t count = first == 0;
            starts[0] = 0;
            for (int64_t i = first + count; i < last; ++i) {
                starts[count] = i;
                count += begins(i);
            }
            put(Runs{first, last, before, count, starts});
            before += count;
        }
    });
    return found;
}

// Copies one element of each run; returns how many.
template <class Order, class Key = typename Order::Key>
int64_t copy_distinct(Call &call, const Order &ordering, const Key *sorted, int64_t size, bool splits_nan,
                      Key *values) {
    return each_run(call, ordering, sorted, size, splits_nan, [=](const Runs &runs) {
        for (int64_t i = 0; i < runs.count; ++i) values[runs.before + i] = sorted[runs.starts[i]];
    });
}

}  // namespace pk
