// The sorting family's entries: their arguments, and what the engines share of the work.
#include "sort.h"

#include <utility>
#include <vector>

#include "common/call/status.h"
#include "sort_unique.h"

namespace pk {

namespace {

constexpr int64_t PIECE = 256 << 10;  // elements that a thread takes at once

void check(const Rows &rows) {
    require(rows.count >= 0 && rows.columns >= 0, "rows or columns is negative");
    require(rows.columns == 0 || rows.count <= INT64_MAX / 16 / rows.columns, "there are too many elements");
    require_aligned(rows.in, rows.count * rows.columns, rows.type.bytes);
}

// Where a sorted row has both zeros, puts them in the order in which they came.
template <class Order>
void restore_zeros(const Order &ordering, const Rows &rows, void *out, Call &call) {
    using Key = typename Order::Key;
    const auto *const in = static_cast<const Key *>(rows.in);
    auto *const sorted = static_cast<Key *>(out);
    const Key negative = ordering.key(Order::TOP), positive = ordering.key(0);
    auto mixed_from = [&](const Key *row) -> int64_t {
        auto key_at = [&](int64_t i) { return ordering.key(row[i]); };
        const int64_t first = place_of(key_at, rows.columns, negative, false);
        if (first == rows.columns || key_at(first) != negative) return -1;
        const int64_t next = place_of(key_at, rows.columns, positive, false);
        return next < rows.columns && key_at(next) == positive ? first : -1;
    };
    auto is_zero = [](Key bits) { return Key(bits << 1) == 0; };
    if (rows.columns <= PIECE) {
        in_pieces(call, rows.count, PIECE / rows.columns, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t row = begin * rows.columns; row < end * rows.columns; row += rows.columns) {
                const int64_t first = mixed_from(sorted + row);
                if (first < 0) continue;
                int64_t at = row + first;
                for (int64_t i = row; i < row + rows.columns; ++i) {
                    if (is_zero(in[i])) sorted[at++] = in[i];
                }
            }
        });
        return;
    }
    for (int64_t row = 0; row < rows.count * rows.columns; row += rows.columns) {
        const int64_t first = mixed_from(sorted + row);
        if (first < 0) continue;
        std::vector<int64_t> at(size_t(rows.columns / PIECE + 1));
        in_pieces(call, rows.columns, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
            at[size_t(piece)] = std::count_if(in + row + begin, in + row + end, is_zero);
        });
        int64_t sum = row + first;
        for (int64_t &next : at) next = std::exchange(sum, sum + next);
        in_pieces(call, rows.columns, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
            for (int64_t i = row + begin; i < row + end; ++i) {
                if (is_zero(in[i])) sorted[at[size_t(piece)]++] = in[i];
            }
        });
    }
}

void sort(const Rows &rows, void *out, Call &call) {
    sort_rows(rows, out, call);
    const HostWork timed(call, rows.count * rows.columns);
    with_ordering(rows.type, false, false, [&](auto ordering) {
        if constexpr (decltype(ordering)::of_floats) restore_zeros(ordering, rows, out, call);
    });
}

struct Unique {
    void *values;
    int64_t *index, *inverse, *counts;
    int64_t wanted;
    int64_t *found;
};

// Of both zeros, unique_row() gave -0.0; the first of them is wanted.
template <class Order, class Key = typename Order::Key>
void restore_zero(const Order &ordering, const Rows &row, Key *values, int64_t found, Call &call) {
    auto key_at = [&](int64_t i) { return ordering.key(values[i]); };
    const int64_t place = place_of(key_at, found, ordering.key(0), false);
    if (place == found || values[place] != Order::TOP) return;
    const auto *const in = static_cast<const Key *>(row.in);
    std::atomic<int64_t> first{row.columns};
    in_pieces(call, row.columns, PIECE, [&](int64_t, int64_t begin, int64_t end) {
        if (begin > first) return;
        for (int64_t i = begin; i < end; ++i) {
            if (Key(in[i] << 1) != 0) continue;
            for (int64_t known = first; i < known && !first.compare_exchange_weak(known, i);) {
            }
            return;
        }
    });
    values[place] = in[first];
}

template <class Order>
void find_values(const Order &ordering, const Rows &row, const Unique &unique, bool splits_nan, Call &call) {
    *unique.found = unique_row(row, splits_nan, unique.values, call);
    if constexpr (Order::of_floats) {
        const HostWork timed(call, row.columns);
        restore_zero(ordering, row, static_cast<typename Order::Key *>(unique.values), *unique.found, call);
    }
}

// Makes counts of where the runs of `size` elements begin.
void subtract_starts(int64_t *starts, int64_t found, int64_t size, Call &call) {
    std::vector<int64_t> ends(size_t(found / PIECE + 1), size);  // of each piece
    for (int64_t next = PIECE; next < found; next += PIECE) ends[size_t(next / PIECE - 1)] = starts[next];
    in_pieces(call, found, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
        for (int64_t i = begin; i + 1 < end; ++i) starts[i] = starts[i + 1] - starts[i];
        starts[end - 1] = ends[size_t(piece)] - starts[end - 1];
    });
}

// The values, and what else is wanted.
template <class Order>
void find_more(const Order &ordering, const Rows &row, const Unique &unique, bool splits_nan, Call &call) {
    using Key = typename Order::Key;
    const int64_t size = row.columns;
    const auto *const in = static_cast<const Key *>(row.in);
    const bool index = (unique.wanted & PK_UNIQUE_INDEX) != 0;
    const bool inverse = (unique.wanted & PK_UNIQUE_INVERSE) != 0;
    const bool counts = (unique.wanted & PK_UNIQUE_COUNTS) != 0;
    const Scratch<Key> sorted(size);
    const Scratch<int64_t> order(index || inverse ? size : 0);
    if (index || inverse) {
        argsort_rows(row, order.get(), size, false, call);
        in_pieces(call, size, PIECE, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) sorted[i] = in[order[i]];
        });
    } else {
        sort(row, sorted.get(), call);
    }
    const HostWork timed(call, size);
    *unique.found = each_run(call, ordering, sorted.get(), size, splits_nan, [&](const Runs &runs) {
        for (int64_t i = 0; i < runs.count; ++i) {
            static_cast<Key *>(unique.values)[runs.before + i] = sorted[runs.starts[i]];
            if (index) unique.index[runs.before + i] = order[runs.starts[i]];
            if (counts) unique.counts[runs.before + i] = runs.starts[i];
        }
        if (!inverse) return;
        int64_t run = runs.before - 1, next = 0;
        for (int64_t i = runs.begin; i < runs.end; ++i) {
            const bool begins = next < runs.count && runs.starts[next] == i;
            run += begins;
            next += begins;
            unique.inverse[order[i]] = run;
        }
    });
    if (counts) subtract_starts(unique.counts, *unique.found, size, call);
}

int64_t size_or_zero(int64_t rows, int64_t columns) {
    return rows > 0 && columns > 0 && rows <= INT64_MAX / 16 / columns ? rows * columns : 0;
}

int32_t sort_entry(const Rows &rows, void *out, const pk_options *options, pk_report *report) {
    const int64_t size = size_or_zero(rows.count, rows.columns);
    return called(options, report, size, [&](Call &call) {
        check(rows);
        require_aligned(out, size, rows.type.bytes);
        if (size != 0) sort(rows, out, call);
    });
}

int32_t argsort_entry(const Rows &rows, int64_t *order, int64_t kept, int64_t descending,
                      const pk_options *options, pk_report *report) {
    const int64_t size = size_or_zero(rows.count, rows.columns);
    return called(options, report, size, [&](Call &call) {
        check(rows);
        require(kept >= 0 && kept <= rows.columns, "kept is not from 0 to columns");
        require_aligned(order, rows.count * kept, sizeof(int64_t));
        if (size != 0 && kept != 0) argsort_rows(rows, order, kept, descending != 0, call);
    });
}

int32_t search_entry(const Search &given, const pk_options *options, pk_report *report) {
    return called(options, report, std::max<int64_t>(given.count, 0), [&](Call &call) {
        require(given.size >= 0 && given.count >= 0, "size or count is negative");
        require_aligned(given.sorted, given.size, given.type.bytes);
        require_aligned(given.values, given.count, given.type.bytes);
        require_aligned(given.places, given.count, sizeof(int64_t));
        if (given.count != 0) search(given, call);
    });
}

int32_t unique_entry(const Rows &rows, const Unique &wanted, const pk_options *options, pk_report *report) {
    const int64_t size = size_or_zero(1, rows.columns);
    return called(options, report, size, [&](Call &call) {
        check(rows);
        require_aligned(wanted.values, size, rows.type.bytes);
        require(wanted.wanted >= 0 && wanted.wanted < 2 * PK_UNIQUE_EQUAL_NAN, "wanted has an unknown flag");
        for (const auto &[flag, array] :
             {std::pair(PK_UNIQUE_INDEX, wanted.index), std::pair(PK_UNIQUE_INVERSE, wanted.inverse),
              std::pair(PK_UNIQUE_COUNTS, wanted.counts)}) {
            require_aligned(array, (wanted.wanted & flag) != 0 ? size : 0, sizeof(int64_t));
        }
        require_aligned(wanted.found, 1, sizeof(int64_t));
        *wanted.found = 0;
        if (size == 0) return;
        const bool splits_nan = (wanted.wanted & PK_UNIQUE_EQUAL_NAN) == 0;
        const bool only_values = (wanted.wanted & ~PK_UNIQUE_EQUAL_NAN) == 0;
        with_ordering(rows.type, false, true, [&](auto ordering) {
            if (only_values) {
                find_values(ordering, rows, wanted, splits_nan, call);
            } else {
                find_more(ordering, rows, wanted, splits_nan, call);
            }
        });
    });
}

template <class T>
constexpr KeyType type_of_keys(bool is_float) {
    return {int(sizeof(T)), std::is_signed_v<T>, is_float};
}

}  // namespace
}  // namespace pk

#define PK_DEFINE(name, T, is_float)                                                                       \
    int32_t pk_sort_##name(const T *in, T *out, int64_t rows, int64_t columns, const pk_options *options,  \
                           pk_report *report) {                                                            \
        return pk::sort_entry({pk::type_of_keys<T>(is_float), in, rows, columns}, out, options, report);   \
    }                                                                                                      \
    int32_t pk_argsort_##name(const T *in, int64_t *order, int64_t rows, int64_t columns, int64_t kept,    \
                              int64_t descending, const pk_options *options, pk_report *report) {          \
        return pk::argsort_entry({pk::type_of_keys<T>(is_float), in, rows, columns}, order, kept,          \
                                 descending, options, report);                                             \
    }                                                                                                      \
    int32_t pk_searchsorted_##name(const T *sorted, int64_t size, const T *values, int64_t *places,        \
                                   int64_t count, int64_t right, const pk_options *options,                \
                                   pk_report *report) {                                                    \
        return pk::search_entry(                                                                           \
            {pk::type_of_keys<T>(is_float), sorted, size, values, places, count, right != 0}, options,     \
            report);                                                                                       \
    }                                                                                                      \
    int32_t pk_unique_##name(const T *in, int64_t size, int64_t wanted, T *values, int64_t *index,         \
                             int64_t *inverse, int64_t *counts, int64_t *found, const pk_options *options, \
                             pk_report *report) {                                                          \
        return pk::unique_entry({pk::type_of_keys<T>(is_float), in, 1, size},                              \
                                {values, index, inverse, counts, wanted, found}, options, report);         \
    }

PK_DEFINE(i8, int8_t, false)
PK_DEFINE(i16, int16_t, false)
PK_DEFINE(i32, int32_t, false)
PK_DEFINE(i64, int64_t, false)
PK_DEFINE(u8, uint8_t, false)
PK_DEFINE(u16, uint16_t, false)
PK_DEFINE(u32, uint32_t, false)
PK_DEFINE(u64, uint64_t, false)
PK_DEFINE(f16, uint16_t, true)
PK_DEFINE(f32, float, true)
PK_DEFINE(f64, double, true)
