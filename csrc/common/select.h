// Order statistics by radix select: every value has an order-preserving key, and the key at a rank is found a
// few bits at a time, from the highest, by counting the next bits of the keys with the same prefix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/call/call.h"
#include "pycudakit.h"
#include "radix_key.h"

namespace pk {

// The checked arguments of pk_select_*. `item` is the number of bytes of an element. The encoding is a
// run-time value, because encoding is a small part of the work: so the code is compiled once for each width.
struct SelectRequest {
    Encoding encoding;
    const void *in;
    int64_t rows, columns;
    const int64_t *ranks;
    int64_t rank_rows, rank_count;
    void *out;
    int64_t *nans;

    SelectRequest(Encoding encoding, const void *in, int64_t rows, int64_t columns, const int64_t *ranks,
                  int64_t rank_rows, int64_t rank_count, void *out, int64_t *nans, size_t item);
    int64_t elements() const { return rows * columns; }
    bool may_have_nan() const { return encoding == Encoding::floating; }

    const int64_t *ranks_of(int64_t row) const { return ranks + (rank_rows == 1 ? 0 : row * rank_count); }
};

// The elements whose highest bits are `prefix`, and the ranks that are among them.
template <class Key>
struct PrefixGroup {
    Key prefix;
    int64_t count;
    int64_t below;        // elements with a smaller prefix
    int64_t first, last;  // of the ranks
};

template <class Key>
struct RadixLevel {
    int prefix_bits;  // bits of a prefix
    std::vector<PrefixGroup<Key>> groups;
};

// The bits that are counted at once, and the groups, are limited so that the counters fit in a cache.
constexpr int MAX_DIGITS = 16;
constexpr int64_t MAX_GROUPS = 64, FEW_GROUPS = 8, MAX_COUNTERS = 1 << 17;

template <class Key>
int digits_of(const RadixLevel<Key> &level, int64_t most_counters = MAX_COUNTERS) {
    int digits = std::min<int>(MAX_DIGITS, int(8 * sizeof(Key)) - level.prefix_bits);
    while ((int64_t(level.groups.size()) << digits) > most_counters) --digits;
    return digits;
}

// Finds the keys at the ranks. count(level, digits, counters) counts the elements of each group by their next
// `digits` bits. collect(level) may find all keys of a level directly, and then returns true. If there are
// few groups, at most few_counters counters are used per level.
template <class Key, class Count, class Collect>
void radix_select(int64_t columns, const int64_t *ranks, int64_t rank_count, Key *out, Count count,
                  Collect collect, int64_t few_counters = MAX_COUNTERS) {
    constexpr int WIDTH = 8 * sizeof(Key);
    std::vector<RadixLevel<Key>> todo{{0, {{0, columns, 0, 0, rank_count}}}};
    std::vector<int64_t> counters;
    while (!todo.empty()) {
        RadixLevel<Key> level = std::move(todo.back());
        todo.pop_back();
        if (level.prefix_bits > 0 && collect(level)) continue;
        if (int64_t(level.groups.size()) > MAX_GROUPS) {
            const auto half = level.groups.begin() + std::ptrdiff_t(level.groups.size() / 2);
            todo.push_back({level.prefix_bits, {half, level.groups.end()}});
            level.groups.erase(half, level.groups.end());
            todo.push_back(std::move(level));
            continue;
        }
        const bool are_few = int64_t(level.groups.size()) <= FEW_GROUPS;
        const int digits = digits_of(level, are_few ? few_counters : MAX_COUNTERS);
        counters.assign(level.groups.size() << digits, 0);
        count(level, digits, counters.data());
        RadixLevel<Key> next{level.prefix_bits + digits, {}};
        const int64_t *counter = counters.data();
        for (const PrefixGroup<Key> &group : level.groups) {
            int64_t below = group.below, rank = group.first;
            for (int64_t bin = 0; bin < int64_t(1) << digits; ++bin, below += *counter++) {
                const int64_t first = rank;
                while (rank < group.last && ranks[rank] < below + *counter) ++rank;
                if (rank == first) continue;
                const auto prefix = Key(uint64_t(group.prefix) << digits | uint64_t(bin));
                next.groups.push_back({prefix, *counter, below, first, rank});
            }
        }
        if (next.prefix_bits < WIDTH) {
            if (!next.groups.empty()) todo.push_back(std::move(next));
        } else {
            for (const PrefixGroup<Key> &group : next.groups) {
                std::fill(out + group.first, out + group.last, group.prefix);
            }
        }
    }
}

}  // namespace pk
