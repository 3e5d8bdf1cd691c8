// Sorting, argsort, searchsorted and unique, by way of the functions that each engine implements.
#include "sort.h"

#include <utility>
#include <vector>

#include "common/call/status.h"
#include "sort_unique.h"

namespace pk {

namespace {

constexpr int64_t PIECE = 256 << 10;  // elements that a thread takes at once

// If a sorted row has zeros of both signs, restores their original order. Their number may differ from the
// one counted, if another thread writes to the array meanwhile.
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
        parallel_for_pieces(call, rows.count, PIECE / rows.columns, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t row = begin * rows.columns; row < end * rows.columns; row += rows.columns) {
                const int64_t first = mixed_from(sorted + row);
                if (first < 0) continue;
                int64_t at = row + first;
                for (int64_t i = row; i < row + rows.columns; ++i) {
                    if (is_zero(in[i]) && at < row + rows.columns) sorted[at++] = in[i];
                }
            }
        });
        return;
    }
    for (int64_t row = 0; row < rows.count * rows.columns; row += rows.columns) {
        const int64_t first = mixed_from(sorted + row);
        if (first < 0) continue;
        std::vector<int64_t> at(size_t(rows.columns / PIECE + 1));
        parallel_for_pieces(call, rows.columns, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
            at[size_t(piece)] = std::count_if(in + row + begin, in + row + end, is_zero);
        });
        int64_t sum = row + first;
        for (int64_t &next : at) next = std::exchange(sum, sum + next);
        parallel_for_pieces(call, rows.columns, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
            int64_t &next = at[size_t(piece)];
            for (int64_t i = row + begin; i < row + end; ++i) {
                if (is_zero(in[i]) && next < row + rows.columns) sorted[next++] = in[i];
            }
        });
    }
}

void sort_whole(const Rows &rows, void *out, Call &call) {
    sort_rows(rows, out, call);
    const HostStageTimer timed(call, rows.elements());
    with_key_encoding(rows.type, false, false, [&](auto ordering) {
        if constexpr (decltype(ordering)::of_floats) restore_zeros(ordering, rows, out, call);
    });
}

// unique_row() returns -0.0 for zeros; restores the sign of the first one in the input.
template <class Order, class Key = typename Order::Key>
void restore_zero(const Order &ordering, const Rows &row, Key *values, int64_t found, Call &call) {
    auto key_at = [&](int64_t i) { return ordering.key(values[i]); };
    const int64_t place = place_of(key_at, found, ordering.key(0), false);
    if (place == found || values[place] != Order::TOP) return;
    const auto *const in = static_cast<const Key *>(row.in);
    std::atomic<int64_t> first{row.columns};
    parallel_for_pieces(call, row.columns, PIECE, [&](int64_t, int64_t begin, int64_t end) {
        if (begin > first) return;
        for (int64_t i = begin; i < end; ++i) {
            if (Key(in[i] << 1) != 0) continue;
            for (int64_t known = first; i < known && !first.compare_exchange_weak(known, i);) {
            }
            return;
        }
    });
    if (first < row.columns) values[place] = in[first];
}

template <class Order>
void find_values(const Order &ordering, const UniqueRequest &unique, Call &call) {
    *unique.found = unique_row(unique, unique.splits_nan(), unique.values, call);
    if constexpr (Order::of_floats) {
        const HostStageTimer timed(call, unique.columns);
        restore_zero(ordering, unique, static_cast<typename Order::Key *>(unique.values), *unique.found,
                     call);
    }
}

// Turns the first positions of runs into their lengths, where `size` is the end of the last one.
void subtract_starts(int64_t *starts, int64_t found, int64_t size, Call &call) {
    std::vector<int64_t> ends(size_t(found / PIECE + 1), size);  // of each piece
    for (int64_t next = PIECE; next < found; next += PIECE) ends[size_t(next / PIECE - 1)] = starts[next];
    parallel_for_pieces(call, found, PIECE, [&](int64_t piece, int64_t begin, int64_t end) {
        for (int64_t i = begin; i + 1 < end; ++i) starts[i] = starts[i + 1] - starts[i];
        starts[end - 1] = ends[size_t(piece)] - starts[end - 1];
    });
}

// Computes the values, and the other results that the flags ask for.
template <class Order>
void find_more(const Order &ordering, const UniqueRequest &unique, Call &call) {
    using Key = typename Order::Key;
    const int64_t size = unique.columns;
    const auto *const in = static_cast<const Key *>(unique.in);
    const bool index = unique.wants(PK_UNIQUE_INDEX), inverse = unique.wants(PK_UNIQUE_INVERSE);
    const bool counts = unique.wants(PK_UNIQUE_COUNTS);
    const Scratch<Key> sorted(size);
    const Scratch<int64_t> order(index || inverse ? size : 0);
    // If another thread writes to the array while it is sorted, the order may be invalid.
    auto place_in_order = [&](int64_t i) { return order[i] >= 0 && order[i] < size ? order[i] : 0; };
    if (index || inverse) {
        argsort_rows(unique, order.get(), size, false, call);
        parallel_for_pieces(call, size, PIECE, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) sorted[i] = in[place_in_order(i)];
        });
    } else {
        sort_whole(unique, sorted.get(), call);
    }
    const HostStageTimer timed(call, size);
    *unique.found =
        for_each_run(call, ordering, sorted.get(), size, unique.splits_nan(), [&](const Runs &runs) {
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
                unique.inverse[place_in_order(i)] = run;
            }
        });
    if (counts) subtract_starts(unique.counts, *unique.found, size, call);
}

}  // namespace

Rows::Rows(KeyType type, const void *in, int64_t count, int64_t columns)
    : type(type), in(in), count(count), columns(columns) {
    require(count >= 0 && columns >= 0, "rows or columns is negative");
    require(columns == 0 || count <= INT64_MAX / 16 / columns, "there are too many elements");
    require_array(in, elements(), size_t(type.bytes), "in");
}

SortRequest::SortRequest(const Rows &rows, void *out) : Rows(rows), out(out) {
    require_array(out, elements(), size_t(type.bytes), "out");
}

ArgsortRequest::ArgsortRequest(const Rows &rows, int64_t *order, int64_t kept, bool descending)
    : Rows(rows), order(order), kept(kept), descending(descending) {
    require(kept >= 0 && kept <= columns, "limit is not from 0 to columns");
    require_array(order, count * kept, sizeof(int64_t), "order");
}

// Check operands 0 and 1 of a sort, and return the values.
static Rows rows_of(const pk_operand *operands, int result_type, int64_t rows, int64_t columns,
                    int32_t allowed_flags) {
    require(operands != nullptr, "operands is a null pointer");
    const pk_operand &values = operands[0], &result = operands[1];
    require(values.type >= 0 && values.type < PK_TYPE_COUNT, "operand 0 has an unknown type");
    require(result.type == (result_type < 0 ? values.type : result_type), "operand 1 has the wrong type");
    require(((values.flags | result.flags) & ~allowed_flags) == 0, "an operand has unknown flags");
    require(values.flags == result.flags, "one operand is on a device, and the other is not");
    const Encoding encoding = is_float_type(values.type)                          ? Encoding::floating
                              : values.type >= PK_INT8 && values.type <= PK_INT64 ? Encoding::integer
                                                                                  : Encoding::natural;
    Rows checked({size_t(size_of(values.type)), encoding}, reinterpret_cast<const void *>(values.address),
                 rows, columns);
    checked.is_on_device = (values.flags & PK_ON_DEVICE) != 0;
    return checked;
}

SortRequest sort_request(const pk_operand *operands, int64_t rows, int64_t columns, int32_t allowed_flags) {
    const Rows values = rows_of(operands, -1, rows, columns, allowed_flags);
    return {values, reinterpret_cast<void *>(operands[1].address)};
}

ArgsortRequest argsort_request(const pk_operand *operands, int64_t rows, int64_t columns, int64_t limit,
                               bool descending, int32_t allowed_flags) {
    const Rows values = rows_of(operands, PK_INT64, rows, columns, allowed_flags);
    return {values, reinterpret_cast<int64_t *>(operands[1].address), limit, descending};
}

SearchRequest::SearchRequest(KeyType type, const void *sorted, int64_t size, const void *values,
                             int64_t *places, int64_t count, bool right)
    : type(type), sorted(sorted), size(size), values(values), places(places), count(count), right(right) {
    require(size >= 0 && count >= 0, "size or count is negative");
    require_array(sorted, size, size_t(type.bytes), "sorted");
    require_array(values, count, size_t(type.bytes), "values");
    require_array(places, count, sizeof(int64_t), "indices");
}

UniqueRequest::UniqueRequest(const Rows &row, int64_t wanted, void *values, int64_t *index, int64_t *inverse,
                             int64_t *counts, int64_t *found)
    : Rows(row),
      wanted(wanted),
      values(values),
      index(index),
      inverse(inverse),
      counts(counts),
      found(found) {
    require_array(values, columns, size_t(type.bytes), "values");
    require(wanted >= 0 && wanted < int64_t(2) * PK_UNIQUE_EQUAL_NAN, "flags has an unknown bit");
    require_array(index, wants(PK_UNIQUE_INDEX) ? columns : 0, sizeof(int64_t), "index");
    require_array(inverse, wants(PK_UNIQUE_INVERSE) ? columns : 0, sizeof(int64_t), "inverse");
    require_array(counts, wants(PK_UNIQUE_COUNTS) ? columns : 0, sizeof(int64_t), "counts");
    require_array(found, 1, sizeof(int64_t), "unique_count");
}

void sort(const SortRequest &request, Call &call) {
    if (request.elements() != 0) sort_whole(request, request.out, call);
}

void argsort(const ArgsortRequest &request, Call &call) {
    if (request.elements() == 0 || request.kept == 0) return;
    argsort_rows(request, request.order, request.kept, request.descending, call);
}

void search(const SearchRequest &request, Call &call) {
    if (request.count != 0) find_positions(request, call);
}

void find_unique(const UniqueRequest &request, Call &call) {
    *request.found = 0;
    if (request.columns == 0) return;
    const bool only_values = (request.wanted & ~PK_UNIQUE_EQUAL_NAN) == 0;
    with_key_encoding(request.type, false, true, [&](auto ordering) {
        if (only_values) {
            find_values(ordering, request, call);
        } else {
            find_more(ordering, request, call);
        }
    });
}

}  // namespace pk
