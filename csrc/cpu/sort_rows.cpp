// Sorting of rows on the CPU: long rows by an LSD radix sort with all threads, short rows by one thread each.
#include <mutex>
#include <vector>

#include "binary_searches.h"
#include "common/sort_unique.h"
#include "sort_radix.h"

namespace pk {

const int HOST_STAGE = PK_STAGE_COMPUTE;

namespace {

constexpr int64_t LONG_ROW = 64 << 10;          // elements
constexpr int64_t PIECE = 16 << 10;             // elements, or values to search, that a thread takes at once
constexpr int64_t LEAST_SEARCHED = 512;         // values that a thread searches at least
constexpr int64_t LONGEST_NARROW = UINT32_MAX;  // the longest row whose indices have 32 bits

// A parallel loop: calls sort_row(row, a, b) for each of many short rows; a and b are scratch for one row.
template <class E, class SortRow>
void each_short_row(Call &call, const Rows &rows, SortRow sort_row) {
    parallel_for_pieces(call, rows.count, std::max<int64_t>(1, PIECE / rows.columns),
                        [&](int64_t, int64_t begin, int64_t end) {
                            std::vector<E> a(size_t(rows.columns)), b(size_t(rows.columns));
                            for (int64_t row = begin; row < end; ++row) sort_row(row, a.data(), b.data());
                            call.advance((end - begin) * rows.columns);
                        });
}

// Finds the insertion points of some values. Floats are compared as they are; NaN, which comes last and is
// less than nothing, is searched by its key.
template <bool right, class Order, class Bits = typename Order::Key>
void find_insertion_points(const Order &ordering, const SearchRequest &request, int64_t begin, int64_t end) {
    const auto *const sorted = static_cast<const Bits *>(request.sorted);
    const auto *const values = static_cast<const Bits *>(request.values);
    for (int64_t i = begin; i < end; i += SEARCH_WIDTH) {
        const int64_t count = std::min(SEARCH_WIDTH, end - i);
        if constexpr (Order::of_floats && sizeof(Bits) >= sizeof(float)) {  // compared as they are
            using Float = std::conditional_t<sizeof(Bits) == sizeof(float), float, double>;
            const auto *const floats = static_cast<const Float *>(request.sorted);
            const auto *const keys = static_cast<const Float *>(request.values) + i;
            const auto key_at = [&](int64_t at) { return floats[at]; };
            insertion_points<right>(key_at, request.size, keys, count, request.places + i);
        } else {
            Bits keys[SEARCH_WIDTH];
            for (int64_t j = 0; j < count; ++j) keys[j] = ordering.key(values[i + j]);
            const auto key_at = [&](int64_t at) { return ordering.key(sorted[at]); };
            insertion_points<right>(key_at, request.size, keys, count, request.places + i);
        }
    }
    for (int64_t i = begin; Order::of_floats && i < end; ++i) {
        if (!is_nan_bits(values[i])) continue;
        const auto key_at = [&](int64_t at) { return ordering.key(sorted[at]); };
        request.places[i] = place_of(key_at, request.size, ordering.key(values[i]), right);
    }
}

// Sorts each row; `other` is scratch for a long row.
template <class Order, class Key = typename Order::Key>
void sort_each(const Order &ordering, const Rows &rows, Key *out, Key *other, Call &call) {
    const auto *const in = static_cast<const Key *>(rows.in);
    const int64_t size = rows.columns;
    if (size < LONG_ROW) {
        return each_short_row<Key>(call, rows, [&](int64_t row, Key *keys, Key *room) {
            for (int64_t i = 0; i < size; ++i) keys[i] = ordering.key(in[row * size + i]);
            sort_short(keys, room, size);
            for (int64_t i = 0; i < size; ++i) out[row * size + i] = ordering.bits(keys[i]);
        });
    }
    for (int64_t row = 0; row < rows.count; ++row) {
        const Key *const from = in + row * size;
        Key *const to = out + row * size;
        radix_sort<Key>(
            call, size, [=](int64_t i) { return ordering.key(from[i]); },
            [=](Key key) { return ordering.bits(key); }, to,
            [&](int left) { return left % 2 == 0 ? to : other; });
    }
}

// The first `kept` elements, in order, of those that are offered (top-k).
template <class Key>
class TopK {
   public:
    using Item = Pair<Key, int64_t>;
    explicit TopK(int64_t kept) : kept_(size_t(kept)), room_(std::max<size_t>(2 * kept_, 256)) {
        items_.reserve(room_);
    }
    // For ascending indices: of equal keys, the later ones come after.
    void offer(const Item &item) {
        if (!is_full_ || item.key < bound_.key) add(item);
    }
    // Merges the sorted elements of another thread.
    void take(const std::vector<Item> &items) {
        for (const Item &item : items) {
            if (is_full_ && !is_less(item, bound_)) return;
            add(item);
        }
    }
    const std::vector<Item> &sorted() {
        shrink();
        std::sort(items_.begin(), items_.end(), is_less<Key, int64_t>);
        return items_;
    }

   private:
    void add(const Item &item) {
        items_.push_back(item);
        if (items_.size() == room_) shrink();
    }
    void shrink() {
        if (items_.size() < kept_) return;
        const auto last = items_.begin() + std::ptrdiff_t(kept_) - 1;
        std::nth_element(items_.begin(), last, items_.end(), is_less<Key, int64_t>);
        bound_ = *last;
        is_full_ = true;
        items_.resize(kept_);
    }

    const size_t kept_, room_;
    std::vector<Item> items_;
    Item bound_{};
    bool is_full_ = false;
};

template <class Order>
void argsort_first(const Order &ordering, const Rows &rows, int64_t *order, int64_t kept, Call &call) {
    using Key = typename Order::Key;
    const auto *const in = static_cast<const Key *>(rows.in);
    const int64_t size = rows.columns;
    auto find = [&](int64_t row, int64_t begin, int64_t end, TopK<Key> &best) {
        for (int64_t i = begin; i < end; ++i) best.offer({ordering.key(in[row * size + i]), i});
        call.advance(end - begin);
    };
    auto put = [&](int64_t row, TopK<Key> &best) {
        int64_t *to = order + row * kept;
        for (const auto &item : best.sorted()) *to++ = item.index;
    };
    if (size < LONG_ROW) {
        return parallel_for_pieces(call, rows.count, std::max<int64_t>(1, PIECE / size),
                                   [&](int64_t, int64_t begin, int64_t end) {
                                       for (int64_t row = begin; row < end; ++row) {
                                           TopK<Key> best(kept);
                                           find(row, 0, size, best);
                                           put(row, best);
                                       }
                                   });
    }
    for (int64_t row = 0; row < rows.count; ++row) {
        TopK<Key> all(kept);
        std::mutex mutex;
        parallel_for_pieces(call, size, std::max(chunk_of(size), 2 * kept),
                            [&](int64_t, int64_t begin, int64_t end) {
                                TopK<Key> best(kept);
                                find(row, begin, end, best);
                                const auto &found = best.sorted();
                                const std::lock_guard<std::mutex> lock(mutex);
                                all.take(found);
                            });
        put(row, all);
    }
}

struct IndexOf {
    template <class E>
    int64_t operator()(const E &pair) const {
        return int64_t(pair.index);
    }
};

// Sorts pairs E of key and index; key_at(i) is the key of an element.
template <class E, class KeyAt>
void argsort_each(KeyAt key_at, const Rows &rows, int64_t *order, int64_t kept, Call &call) {
    using I = decltype(E::index);
    const int64_t size = rows.columns;
    if (size < LONG_ROW) {
        return each_short_row<E>(call, rows, [&](int64_t row, E *pairs, E *other) {
            const KeyAt own = key_at;  // a local copy, which no store can change
            for (int64_t i = 0; i < size; ++i) pairs[i] = {own(row * size + i), I(i)};
            sort_short(pairs, other, size);
            for (int64_t i = 0; i < kept; ++i) order[row * kept + i] = int64_t(pairs[i].index);
        });
    }
    const Scratch<E> a(size), b(size);
    const Scratch<int64_t> whole(kept == size ? 0 : size);
    for (int64_t row = 0; row < rows.count; ++row) {
        int64_t *const to = kept == size ? order + row * size : whole.get();
        radix_sort<E>(
            call, size, [=](int64_t i) { return E{key_at(row * size + i), I(i)}; }, IndexOf(), to,
            [&](int left) { return left % 2 == 0 ? a.get() : b.get(); });
        if (kept != size) std::copy_n(to, kept, order + row * kept);
    }
}

// Argsort of one-byte keys whose first `kept` elements all have the least key, as with bools: their indices
// in order. Returns false if there are too few of them.
bool indices_of_minimum(const KeyEncoding<uint8_t, false> &ordering, const Rows &row, int64_t *order,
                        int64_t kept, Call &call) {
    constexpr int64_t BLOCK = 64;
    const auto *const in = static_cast<const uint8_t *>(row.in);
    const int64_t size = row.columns, chunk = chunk_of(size), chunks = ceil_div(size, chunk);
    std::vector<uint8_t> leasts(size_t(chunks), 0xff);
    parallel_for_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        uint8_t least = 0xff;
        for (int64_t i = begin; i < end; ++i) least = std::min(least, ordering.key(in[i]));
        leasts[size_t(index)] = least;
    });
    const uint8_t minimum = ordering.bits(*std::min_element(leasts.begin(), leasts.end()));
    std::vector<int64_t> starts(size_t(chunks) + 1);
    parallel_for_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        starts[size_t(index) + 1] = std::count(in + begin, in + end, minimum);
    });
    for (size_t i = 0; i < size_t(chunks); ++i) starts[i + 1] += starts[i];
    if (starts.back() < kept) return false;
    parallel_for_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        // Not more than were counted, even if another thread writes to the array meanwhile.
        const int64_t limit = std::min(kept, starts[size_t(index) + 1]);
        int64_t next = starts[size_t(index)], indices[BLOCK];
        for (int64_t block = begin; block < end && next < limit; block += BLOCK) {
            const int64_t last = std::min(end, block + BLOCK);
            int64_t count = 0;
            for (int64_t i = block; i < last; ++i) {
                indices[count] = i;
                count += in[i] == minimum;
            }
            count = std::min(count, limit - next);
            std::copy_n(indices, count, order + next);
            next += count;
        }
        call.advance(end - begin);
    });
    return true;
}

// Keys of any type, for rows that are too long for 32-bit indices. These are rare, so the code is compiled
// once.
struct WideKeys {
    KeyType type;
    const void *in;
    bool descending;

    uint64_t operator()(int64_t i) const {
        uint64_t key = 0;
        with_key_encoding(type, descending, true, [&](auto ordering) {
            key = ordering.key(static_cast<const typename decltype(ordering)::Key *>(in)[i]);
        });
        return key;
    }
};

}  // namespace

void sort_rows(const Rows &rows, void *out, Call &call) {
    const HostStageTimer timed(call, rows.count * rows.columns);
    with_key_encoding(rows.type, false, false, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        const Scratch<Key> other(rows.columns < LONG_ROW ? 0 : rows.columns);
        sort_each(ordering, rows, static_cast<Key *>(out), other.get(), call);
    });
}

int64_t unique_row(const Rows &row, bool splits_nan, void *values, Call &call) {
    const HostStageTimer timed(call, row.columns);
    int64_t found = 0;
    with_key_encoding(row.type, false, false, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        auto *const out = static_cast<Key *>(values);
        const Scratch<Key> sorted(row.columns);
        sort_each(ordering, row, sorted.get(), out, call);
        found = copy_distinct(call, ordering, sorted.get(), row.columns, splits_nan, out);
    });
    return found;
}

void argsort_rows(const Rows &rows, int64_t *order, int64_t kept, bool descending, Call &call) {
    const HostStageTimer timed(call, rows.count * rows.columns);
    with_key_encoding(rows.type, descending, true, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        if constexpr (sizeof(Key) == 1) {
            const bool is_long = rows.count == 1 && rows.columns >= LONG_ROW;
            if (is_long && indices_of_minimum(ordering, rows, order, kept, call)) return;
        }
        if (kept < rows.columns / 8) return argsort_first(ordering, rows, order, kept, call);
        if (sizeof(Key) < 8 && rows.columns > LONGEST_NARROW) {
            const WideKeys keys{rows.type, rows.in, descending};
            return argsort_each<Pair<uint64_t, uint64_t>>(keys, rows, order, kept, call);
        }
        using Index = std::conditional_t<sizeof(Key) < 8, uint32_t, uint64_t>;
        const auto *const in = static_cast<const Key *>(rows.in);
        auto key_at = [=](int64_t i) { return ordering.key(in[i]); };
        argsort_each<Pair<Key, Index>>(key_at, rows, order, kept, call);
    });
}

void find_positions(const SearchRequest &request, Call &call) {
    const HostStageTimer timed(call, request.count);
    const int64_t fair = ceil_div(request.count, 4 * thread_count());
    with_key_encoding(request.type, false, true, [&](auto ordering) {
        const auto search = [&](int64_t, int64_t begin, int64_t end) {
            if (request.right)
                find_insertion_points<true>(ordering, request, begin, end);
            else
                find_insertion_points<false>(ordering, request, begin, end);
            call.advance(end - begin);
        };
        parallel_for_pieces(call, request.count, std::clamp(fair, LEAST_SEARCHED, PIECE), search);
    });
}

}  // namespace pk
