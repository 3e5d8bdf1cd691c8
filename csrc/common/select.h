// Order statistics, as both engines find them: every value has a key, and a rank is narrowed to the key that
// has it, some bits at a time, from the highest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/call/status.h"
#include "portable.h"
#include "pycudakit.h"

namespace pk {

// What the bits of an element mean.
enum class Order { natural, integer, floating };  // unsigned; two's complement; IEEE's

// Unsigned numbers in the order of the values: -0.0 before 0.0, and any NaN last, as the largest key, which
// no other value has.
template <Order order, class Key>
PK_HD Key key_of(Key bits) {
    constexpr Key SIGN = Key(Key(1) << (8 * sizeof(Key) - 1));
    if constexpr (order == Order::natural) {
        return bits;
    } else if constexpr (order == Order::integer) {
        return Key(bits ^ SIGN);
    } else {
        constexpr int MANTISSA = sizeof(Key) == 2 ? 10 : sizeof(Key) == 4 ? 23 : 52;
        constexpr Key INFINITE = Key(Key(SIGN - 1) >> MANTISSA << MANTISSA);
        const Key flipped = select((bits & SIGN) != 0, Key(~bits), Key(bits | SIGN));
        return select(Key(bits & Key(~SIGN)) > INFINITE, Key(~Key(0)), flipped);
    }
}

template <Order order, class Key>
PK_HD Key bits_of_key(Key key) {
    constexpr Key SIGN = Key(Key(1) << (8 * sizeof(Key) - 1));
    if constexpr (order == Order::natural) {
        return key;
    } else if constexpr (order == Order::integer) {
        return Key(key ^ SIGN);
    } else {
        return select((key & SIGN) != 0, Key(key ^ SIGN), Key(~key));
    }
}

// What an entry is asked for.
struct Selection {
    int64_t rows, columns;
    const int64_t *ranks;
    int64_t rank_rows, rank_count;
    int64_t *nans;

    const int64_t *ranks_of(int64_t row) const { return ranks + (rank_rows == 1 ? 0 : row * rank_count); }

    int64_t size() const {
        const bool fits = rows > 0 && columns > 0 && columns <= INT64_MAX / 8 / rows;
        return fits ? rows * columns : 0;
    }

    void check(const void *in, const void *out, size_t bytes) const {
        require(rows >= 0 && columns >= 0 && rank_count >= 0, "a count is negative");
        require(rows == 0 || columns <= INT64_MAX / 8 / rows, "rows times columns is too large");
        require(rows == 0 || rank_count <= INT64_MAX / 8 / rows, "rows times rank_count is too large");
        require(rank_rows == 1 || rank_rows == rows, "rank_rows is neither 1 nor rows");
        require(in != nullptr || rows == 0 || columns == 0, "in is a null pointer");
        require(nans != nullptr || rows == 0, "nans is a null pointer");
        require_aligned(in, size(), bytes);
        require_aligned(nans, rows, sizeof(int64_t));
        if (rows == 0 || rank_count == 0) return;
        require(ranks != nullptr && out != nullptr, "ranks or out is a null pointer");
        require_aligned(ranks, rank_count, sizeof(int64_t));
        require_aligned(out, rank_count, bytes);
        for (int64_t row = 0; row < rank_rows; ++row) {
            const int64_t *own = ranks_of(row);
            require(own[0] >= 0 && own[rank_count - 1] < columns, "a rank is not from 0 to columns - 1");
            require(std::is_sorted(own, own + rank_count), "the ranks of a row are not in ascending order");
        }
    }
};

// The elements whose highest bits are `prefix`, and the ranks that fall among them.
template <class Key>
struct Group {
    Key prefix;
    int64_t count;
    int64_t below;        // how many elements have less
    int64_t first, last;  // of the ranks
};

template <class Key>
struct Level {
    int known;  // bits of the prefixes
    std::vector<Group<Key>> groups;
};

// Bits that are counted at once, and groups: so many counters that they stay in a cache.
constexpr int MOST_DIGITS = 16;
constexpr int64_t MOST_GROUPS = 64, MOST_COUNTERS = 1 << 17;

template <class Key>
int digits_of(const Level<Key> &level) {
    int digits = std::min<int>(MOST_DIGITS, int(8 * sizeof(Key)) - level.known);
    while ((int64_t(level.groups.size()) << digits) > MOST_COUNTERS) --digits;
    return digits;
}

// Finds the keys of the ranks. count(level, digits, counters) counts, for each group, its elements by their
// next bits; collect(level) may find the keys of all of a level's ranks by itself, and then returns true.
template <class Key, class Count, class Collect>
void narrow(int64_t columns, const int64_t *ranks, int64_t rank_count, Key *out, Count count,
            Collect collect) {
    constexpr int WIDTH = 8 * sizeof(Key);
    std::vector<Level<Key>> todo{{0, {{0, columns, 0, 0, rank_count}}}};
    std::vector<int64_t> counters;
    while (!todo.empty()) {
        Level<Key> level = std::move(todo.back());
        todo.pop_back();
        if (level.known > 0 && collect(level)) continue;
        if (int64_t(level.groups.size()) > MOST_GROUPS) {
            const auto half = level.groups.begin() + std::ptrdiff_t(level.groups.size() / 2);
            todo.push_back({level.known, {half, level.groups.end()}});
            level.groups.erase(half, level.groups.end());
            todo.push_back(std::move(level));
            continue;
        }
        const int digits = digits_of(level);
        counters.assign(level.groups.size() << digits, 0);
        count(level, digits, counters.data());
        Level<Key> next{level.known + digits, {}};
        const int64_t *counter = counters.data();
        for (const Group<Key> &group : level.groups) {
            int64_t below = group.below, rank = group.first;
            for (int64_t bin = 0; bin < int64_t(1) << digits; ++bin, below += *counter++) {
                const int64_t first = rank;
                while (rank < group.last && ranks[rank] < below + *counter) ++rank;
                if (rank == first) continue;
                const auto prefix = Key(uint64_t(group.prefix) << digits | uint64_t(bin));
                next.groups.push_back({prefix, *counter, below, first, rank});
            }
        }
        if (next.known < WIDTH) {
            if (!next.groups.empty()) todo.push_back(std::move(next));
        } else {
            for (const Group<Key> &group : next.groups) {
                std::fill(out + group.first, out + group.last, group.prefix);
            }
        }
    }
}

}  // namespace pk

// The entries, each by select<Order, Key>(selection, in, out, options, report).
#define PK_SELECT_ENTRY(name, type, order, key)                                                        \
    int32_t pk_select_##name(const type *in, int64_t rows, int64_t columns, const int64_t *ranks,      \
                             int64_t rank_rows, int64_t rank_count, type *out, int64_t *nans,          \
                             const pk_options *options, pk_report *report) {                           \
        return pk::select_entry<pk::Order::order>({rows, columns, ranks, rank_rows, rank_count, nans}, \
                                                  reinterpret_cast<const key *>(in),                   \
                                                  reinterpret_cast<key *>(out), options, report);      \
    }
#define PK_SELECT_ENTRIES                              \
    PK_SELECT_ENTRY(i8, int8_t, integer, uint8_t)      \
    PK_SELECT_ENTRY(i16, int16_t, integer, uint16_t)   \
    PK_SELECT_ENTRY(i32, int32_t, integer, uint32_t)   \
    PK_SELECT_ENTRY(i64, int64_t, integer, uint64_t)   \
    PK_SELECT_ENTRY(u8, uint8_t, natural, uint8_t)     \
    PK_SELECT_ENTRY(u16, uint16_t, natural, uint16_t)  \
    PK_SELECT_ENTRY(u32, uint32_t, natural, uint32_t)  \
    PK_SELECT_ENTRY(u64, uint64_t, natural, uint64_t)  \
    PK_SELECT_ENTRY(f16, uint16_t, floating, uint16_t) \
    PK_SELECT_ENTRY(f32, float, floating, uint32_t)    \
    PK_SELECT_ENTRY(f64, double, floating, uint64_t)
