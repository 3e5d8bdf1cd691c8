// Sorting on the CPU: long rows by radix, least significant digit first, all threads at each digit; short
// rows each by one thread.
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/sort.h"
#include "common/sort_unique.h"

namespace pk {

const int HOST_STAGE = PK_COMPUTE;

namespace {

constexpr int64_t LONG_ROW = 64 << 10;  // of at least so many elements
constexpr int64_t PIECE = 16 << 10;     // elements that a thread takes at once of what is short
constexpr int64_t SHORTEST_CHUNK = 16 << 10, LONGEST_CHUNK = 4 << 20;
constexpr int DIGIT = 8, BINS = 1 << DIGIT;

template <class K, class I>
struct Pair {
    K key;
    I index;
};
template <class K, class I>
K key_of(const Pair<K, I> &pair) {
    return pair.key;
}
template <class K>
K key_of(K key) {
    return key;
}
template <class K, class I>
bool is_less(const Pair<K, I> &a, const Pair<K, I> &b) {
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}
template <class K>
bool is_less(K a, K b) {
    return a < b;
}
template <class E>
int digit_of(const E &element, int shift) {
    return int(key_of(element) >> shift & (BINS - 1));
}

// Where the digits begin that differ between keys, given the bits that do.
std::vector<int> shifts_of(uint64_t varying) {
    std::vector<int> shifts;
    while (varying != 0) {
        const int shift = __builtin_ctzll(varying);
        shifts.push_back(shift);
        varying &= shift + DIGIT >= 64 ? 0 : ~uint64_t(0) << (shift + DIGIT);
    }
    return shifts;
}

// Copies a line of the cache that will not be read soon.
void put_line(void *to, const void *from) {
#if defined(__SSE2__)
    for (int i = 0; i < 4; ++i) {
        _mm_stream_si128(static_cast<__m128i *>(to) + i,
                         _mm_load_si128(static_cast<const __m128i *>(from) + i));
    }
#else
    std::memcpy(to, from, 64);
#endif
}

// Puts elements into the bins of their digits, by way of a line of the cache for each bin.
template <class Out, class Read, class Convert>
void spread(int64_t begin, int64_t end, int shift, Read read, Convert convert, Out *out,
            const int64_t *starts) {
    constexpr int64_t LINE = 64 / sizeof(Out);
    struct alignas(64) Line {
        Out items[LINE];
    };
    Line lines[BINS];
    int64_t first[BINS], next[BINS];
    const auto past_line = int64_t(reinterpret_cast<uintptr_t>(out) % 64 / sizeof(Out));
    Out *const base = out - past_line;
    for (int bin = 0; bin < BINS; ++bin) first[bin] = next[bin] = starts[bin] + past_line;

    auto copy_rest = [&](int bin, int64_t to) {
        const int64_t from = std::max(first[bin], (to - 1) / LINE * LINE);
        std::memcpy(base + from, lines[bin].items + from % LINE, size_t(to - from) * sizeof(Out));
    };
    for (int64_t i = begin; i < end; ++i) {
        const auto element = read(i);
        const int bin = digit_of(element, shift);
        const int64_t at = next[bin]++;
        lines[bin].items[at % LINE] = convert(element);
        if (at % LINE != LINE - 1) continue;
        if (at - first[bin] >= LINE - 1) {
            put_line(base + at + 1 - LINE, &lines[bin]);
        } else {
            copy_rest(bin, at + 1);
        }
    }
    for (int bin = 0; bin < BINS; ++bin) {
        if (next[bin] % LINE != 0 && next[bin] != first[bin]) copy_rest(bin, next[bin]);
    }
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

int64_t chunk_of(int64_t size) {
    return std::clamp(size / (4 * thread_count()) + 1, SHORTEST_CHUNK, LONGEST_CHUNK);
}

// One digit of all elements.
template <class Out, class Read, class Convert>
void pass(Call &call, int64_t size, int shift, Read read, Convert convert, Out *out) {
    const int64_t chunk = chunk_of(size), chunks = (size + chunk - 1) / chunk;
    std::vector<int64_t> starts(size_t(chunks) * BINS);
    in_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        constexpr int WAYS = 4;  // equal digits side by side would wait for each other
        int64_t counts[WAYS][BINS] = {};
        int64_t i = begin;
        for (; i + WAYS <= end; i += WAYS) {
            for (int way = 0; way < WAYS; ++way) ++counts[way][digit_of(read(i + way), shift)];
        }
        for (; i < end; ++i) ++counts[0][digit_of(read(i), shift)];
        for (int bin = 0; bin < BINS; ++bin) {
            for (const auto &way : counts) starts[size_t(index * BINS + bin)] += way[bin];
        }
    });
    int64_t sum = 0;
    for (int bin = 0; bin < BINS; ++bin) {
        for (int64_t index = 0; index < chunks; ++index) {
            int64_t &start = starts[size_t(index * BINS + bin)];
            start = std::exchange(sum, sum + start);
        }
    }
    in_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        spread(begin, end, shift, read, convert, out, &starts[size_t(index * BINS)]);
    });
}

// Sorts what `read` reads, by way of buffers that take turns: the last pass is to write `out`. A buffer may
// be `out`'s own memory.
template <class E, class Out, class Read, class Convert, class Buffer>
void radix_sort(Call &call, int64_t size, Read read, Convert convert, Out *out, Buffer buffer) {
    const auto first = key_of(read(0));
    std::atomic<uint64_t> varying{0};
    const int64_t chunk = chunk_of(size);
    in_pieces(call, size, chunk, [&](int64_t, int64_t begin, int64_t end) {
        decltype(key_of(read(0))) bits = 0;
        for (int64_t i = begin; i < end; ++i) bits |= key_of(read(i)) ^ first;
        varying |= bits;
    });
    const std::vector<int> shifts = shifts_of(varying);
    const int passes = int(shifts.size());
    if (passes == 0) {
        in_pieces(call, size, chunk, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) out[i] = convert(read(i));
        });
        return;
    }
    auto same = [](const E &element) { return element; };
    E *from = nullptr;
    for (int i = 0; i < passes; ++i) {
        auto again = [=](int64_t at) { return from[at]; };
        if (i == passes - 1) {
            if (i == 0) return pass(call, size, shifts[size_t(i)], read, convert, out);
            return pass(call, size, shifts[size_t(i)], again, convert, out);
        }
        E *const to = buffer(passes - 1 - i);  // so many passes before the last
        if (i == 0) {
            pass(call, size, shifts[size_t(i)], read, same, to);
        } else {
            pass(call, size, shifts[size_t(i)], again, same, to);
        }
        from = to;
    }
}

// Sorts a few elements on one thread, stably; `other` has room for as many.
template <class E>
void sort_few(E *elements, E *other, int64_t size) {
    constexpr int64_t INSERTED = 32, COMPARED = 512;
    if (size <= INSERTED) {
        for (int64_t i = 1; i < size; ++i) {
            const E element = elements[i];
            int64_t at = i;
            for (; at > 0 && key_of(element) < key_of(elements[at - 1]); --at)
                elements[at] = elements[at - 1];
            elements[at] = element;
        }
        return;
    }
    if (size <= COMPARED) {
        return std::sort(elements, elements + size, [](const E &a, const E &b) { return is_less(a, b); });
    }
    auto varying = key_of(elements[0]);
    varying = 0;
    for (int64_t i = 1; i < size; ++i) varying |= key_of(elements[i]) ^ key_of(elements[0]);
    E *from = elements, *to = other;
    for (int shift : shifts_of(varying)) {
        int64_t next[BINS] = {}, sum = 0;
        for (int64_t i = 0; i < size; ++i) ++next[digit_of(from[i], shift)];
        for (int64_t &start : next) start = std::exchange(sum, sum + start);
        for (int64_t i = 0; i < size; ++i) to[next[digit_of(from[i], shift)]++] = from[i];
        std::swap(from, to);
    }
    if (from != elements) std::memcpy(elements, from, size_t(size) * sizeof(E));
}

// Calls sort_row(row, a, b) for each of many short rows; a and b have room for one.
template <class E, class SortRow>
void each_short_row(Call &call, const Rows &rows, SortRow sort_row) {
    in_pieces(call, rows.count, std::max<int64_t>(1, PIECE / rows.columns),
              [&](int64_t, int64_t begin, int64_t end) {
                  std::vector<E> a(size_t(rows.columns)), b(size_t(rows.columns));
                  for (int64_t row = begin; row < end; ++row) sort_row(row, a.data(), b.data());
                  call.advance((end - begin) * rows.columns);
              });
}

// `other` has room for a long row.
template <class Order, class Key = typename Order::Key>
void sort_each(const Order &ordering, const Rows &rows, Key *out, Key *other, Call &call) {
    const auto *const in = static_cast<const Key *>(rows.in);
    const int64_t size = rows.columns;
    if (size < LONG_ROW) {
        return each_short_row<Key>(call, rows, [&](int64_t row, Key *keys, Key *room) {
            for (int64_t i = 0; i < size; ++i) keys[i] = ordering.key(in[row * size + i]);
            sort_few(keys, room, size);
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
        call.advance(size);
    }
}

// The few that come first.
template <class Key>
class Best {
   public:
    using Item = Pair<Key, int64_t>;
    explicit Best(int64_t kept) : kept_(size_t(kept)), room_(std::max<size_t>(2 * kept_, 256)) {
        items_.reserve(room_);
    }
    // For ascending indices: of equal keys, one that comes later is not among the first.
    void offer(const Item &item) {
        if (!is_full_ || item.key < bound_.key) add(item);
    }
    // What another thread found, sorted, may lie before what is here.
    void take(const std::vector<Item> &found) {
        for (const Item &item : found) {
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
void argsort_few(const Order &ordering, const Rows &rows, int64_t *order, int64_t kept, Call &call) {
    using Key = typename Order::Key;
    const auto *const in = static_cast<const Key *>(rows.in);
    const int64_t size = rows.columns;
    auto find = [&](int64_t row, int64_t begin, int64_t end, Best<Key> &best) {
        for (int64_t i = begin; i < end; ++i) best.offer({ordering.key(in[row * size + i]), i});
        call.advance(end - begin);
    };
    auto put = [&](int64_t row, Best<Key> &best) {
        int64_t *to = order + row * kept;
        for (const auto &item : best.sorted()) *to++ = item.index;
    };
    if (size < LONG_ROW) {
        return in_pieces(call, rows.count, std::max<int64_t>(1, PIECE / size),
                         [&](int64_t, int64_t begin, int64_t end) {
                             for (int64_t row = begin; row < end; ++row) {
                                 Best<Key> best(kept);
                                 find(row, 0, size, best);
                                 put(row, best);
                             }
                         });
    }
    for (int64_t row = 0; row < rows.count; ++row) {
        Best<Key> all(kept);
        std::mutex mutex;
        in_pieces(call, size, std::max(chunk_of(size), 2 * kept), [&](int64_t, int64_t begin, int64_t end) {
            Best<Key> best(kept);
            find(row, begin, end, best);
            const auto &found = best.sorted();
            const std::lock_guard<std::mutex> lock(mutex);
            all.take(found);
        });
        put(row, all);
    }
}

template <class I, class Order>
void argsort_each(const Order &ordering, const Rows &rows, int64_t *order, int64_t kept, Call &call) {
    using Key = typename Order::Key;
    using E = Pair<Key, I>;
    const auto *const in = static_cast<const Key *>(rows.in);
    const int64_t size = rows.columns;
    if (size < LONG_ROW) {
        return each_short_row<E>(call, rows, [&](int64_t row, E *pairs, E *other) {
            for (int64_t i = 0; i < size; ++i) pairs[i] = {ordering.key(in[row * size + i]), I(i)};
            sort_few(pairs, other, size);
            for (int64_t i = 0; i < kept; ++i) order[row * kept + i] = int64_t(pairs[i].index);
        });
    }
    const Scratch<E> a(size), b(size);
    const Scratch<int64_t> whole(kept == size ? 0 : size);
    for (int64_t row = 0; row < rows.count; ++row) {
        const Key *const from = in + row * size;
        int64_t *const to = kept == size ? order + row * size : whole.get();
        radix_sort<E>(
            call, size, [=](int64_t i) { return E{ordering.key(from[i]), I(i)}; },
            [](const E &pair) { return int64_t(pair.index); }, to,
            [&](int left) { return left % 2 == 0 ? a.get() : b.get(); });
        if (kept != size) std::copy_n(to, kept, order + row * kept);
        call.advance(size);
    }
}

}  // namespace

void sort_rows(const Rows &rows, void *out, Call &call) {
    const HostWork timed(call, rows.count * rows.columns);
    with_ordering(rows.type, false, false, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        const Scratch<Key> other(rows.columns < LONG_ROW ? 0 : rows.columns);
        sort_each(ordering, rows, static_cast<Key *>(out), other.get(), call);
    });
}

int64_t unique_row(const Rows &row, bool splits_nan, void *values, Call &call) {
    const HostWork timed(call, row.columns);
    int64_t found = 0;
    with_ordering(row.type, false, false, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        auto *const out = static_cast<Key *>(values);
        const Scratch<Key> sorted(row.columns);
        sort_each(ordering, row, sorted.get(), out, call);
        found = copy_distinct(call, ordering, sorted.get(), row.columns, splits_nan, out);
    });
    return found;
}

void argsort_rows(const Rows &rows, int64_t *order, int64_t kept, bool descending, Call &call) {
    const HostWork timed(call, rows.count * rows.columns);
    with_ordering(rows.type, descending, true, [&](auto ordering) {
        if (kept < rows.columns / 8) {
            argsort_few(ordering, rows, order, kept, call);
        } else if (rows.columns <= int64_t(UINT32_MAX) && rows.type.bytes < 8) {
            argsort_each<uint32_t>(ordering, rows, order, kept, call);
        } else {
            argsort_each<uint64_t>(ordering, rows, order, kept, call);
        }
    });
}

void find_places(const SearchRequest &given, Call &call) {
    const HostWork timed(call, given.count);
    with_ordering(given.type, false, true, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        const auto *const sorted = static_cast<const Key *>(given.sorted);
        const auto *const values = static_cast<const Key *>(given.values);
        auto key_at = [&](int64_t i) { return ordering.key(sorted[i]); };
        in_pieces(call, given.count, PIECE, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                given.places[i] = place_of(key_at, given.size, ordering.key(values[i]), given.right);
            }
            call.advance(end - begin);
        });
    });
}

}  // namespace pk

// Of each type the entries: pk_sort_f32, pk_argsort_f32 and so on.
#define PK_ENTRY(t, T, order)                                                                               \
    extern "C" int32_t pk_sort_##t(const T *in, T *out, int64_t rows, int64_t columns,                      \
                                   const pk_options *options, pk_report *report) {                          \
        const auto check = [&] {                                                                            \
            return pk::SortRequest({{sizeof(T), pk::Order::order}, in, rows, columns}, out);                \
        };                                                                                                  \
        return pk::called(options, report, check, pk::sort);                                                \
    }                                                                                                       \
    extern "C" int32_t pk_argsort_##t(const T *in, int64_t *places, int64_t rows, int64_t columns,          \
                                      int64_t kept, int64_t descending, const pk_options *options,          \
                                      pk_report *report) {                                                  \
        const auto check = [&] {                                                                            \
            return pk::ArgsortRequest({{sizeof(T), pk::Order::order}, in, rows, columns}, places, kept,     \
                                      descending != 0);                                                     \
        };                                                                                                  \
        return pk::called(options, report, check, pk::argsort);                                             \
    }                                                                                                       \
    extern "C" int32_t pk_searchsorted_##t(const T *sorted, int64_t size, const T *values, int64_t *places, \
                                           int64_t count, int64_t right, const pk_options *options,         \
                                           pk_report *report) {                                             \
        const auto check = [&] {                                                                            \
            return pk::SearchRequest({sizeof(T), pk::Order::order}, sorted, size, values, places, count,    \
                                     right != 0);                                                           \
        };                                                                                                  \
        return pk::called(options, report, check, pk::search);                                              \
    }                                                                                                       \
    extern "C" int32_t pk_unique_##t(const T *in, int64_t size, int64_t wanted, T *values, int64_t *index,  \
                                     int64_t *inverse, int64_t *counts, int64_t *found,                     \
                                     const pk_options *options, pk_report *report) {                        \
        const auto check = [&] {                                                                            \
            return pk::UniqueRequest({{sizeof(T), pk::Order::order}, in, 1, size}, wanted, values, index,   \
                                     inverse, counts, found);                                               \
        };                                                                                                  \
        return pk::called(options, report, check, pk::find_unique);                                         \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY
