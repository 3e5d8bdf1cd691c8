// LSD radix sort (least significant digit first): all threads sort a long row together, digit by digit; a
// short row is sorted by one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/sort.h"

namespace pk {

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

// The shifts of the digits that differ between keys, given the bits that do.
inline std::vector<int> shifts_of(uint64_t varying) {
    std::vector<int> shifts;
    while (varying != 0) {
        const int shift = __builtin_ctzll(varying);
        shifts.push_back(shift);
        varying &= shift + DIGIT >= 64 ? 0 : ~uint64_t(0) << (shift + DIGIT);
    }
    return shifts;
}

// Writes a cache line with non-temporal stores, since it will not be read soon.
inline void put_line(void *to, const void *from) {
#if defined(__SSE2__)
    for (int i = 0; i < 4; ++i) {
        _mm_stream_si128(static_cast<__m128i *>(to) + i,
                         _mm_load_si128(static_cast<const __m128i *>(from) + i));
    }
#else
    std::memcpy(to, from, 64);
#endif
}

// Scatters elements to the bins of their digits, through a write-combining cache line for each bin. It writes
// at most `size` elements, even if another thread writes to the array meanwhile and a bin has more elements
// than were counted.
template <class Out, class Read, class Convert>
void spread(int64_t begin, int64_t end, int shift, Read read, Convert convert, Out *out, int64_t size,
            const int64_t *starts) {
    constexpr int64_t LINE = 64 / sizeof(Out);
    struct alignas(64) Line {
        Out items[LINE];
    };
    Line lines[BINS];
    int64_t first[BINS], next[BINS];
    const auto past_line = int64_t(reinterpret_cast<uintptr_t>(out) % 64 / sizeof(Out));
    Out *const base = out - past_line;
    const int64_t limit = size + past_line;
    for (int bin = 0; bin < BINS; ++bin) first[bin] = next[bin] = starts[bin] + past_line;

    auto copy_rest = [&](int bin, int64_t to) {
        const int64_t from = std::max(first[bin], (to - 1) / LINE * LINE);
        if (to > limit) return;
        std::memcpy(base + from, lines[bin].items + from % LINE, size_t(to - from) * sizeof(Out));
    };
    for (int64_t i = begin; i < end; ++i) {
        const auto element = read(i);
        const int bin = digit_of(element, shift);
        const int64_t at = next[bin]++;
        lines[bin].items[at % LINE] = convert(element);
        if (at % LINE != LINE - 1 || at >= limit) continue;
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

inline int64_t chunk_of(int64_t size) {
    return std::clamp(size / (4 * thread_count()) + 1, SHORTEST_CHUNK, LONGEST_CHUNK);
}

// Touches the pages of an array in order, checking for cancellation: otherwise the first chunk of a pass,
// which writes to all bins, would wait for a page fault in each, perhaps of a huge page.
template <class T>
void touch(Call &call, T *array, int64_t size) {
    constexpr int64_t PIECE = int64_t(8) << 20, PAGE = 4 << 10;
    const int64_t bytes = size * int64_t(sizeof(T));
    auto *const memory = reinterpret_cast<volatile char *>(array);
    parallel_for_pieces(call, bytes, PIECE, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; at += PAGE) memory[at] = memory[at];
    });
}

// One pass: sorts all elements by one digit, stably. It reads them twice.
template <class Out, class Read, class Convert>
void pass(Call &call, int64_t size, int shift, Read read, Convert convert, Out *out) {
    const int64_t chunk = chunk_of(size), chunks = ceil_div(size, chunk);
    std::vector<int64_t> starts(size_t(chunks) * BINS);
    parallel_for_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        constexpr int WAYS = 4;  // separate counters: increments of equal digits would wait for each other
        int64_t counts[WAYS][BINS] = {};
        int64_t i = begin;
        for (; i + WAYS <= end; i += WAYS) {
            for (int way = 0; way < WAYS; ++way) ++counts[way][digit_of(read(i + way), shift)];
        }
        for (; i < end; ++i) ++counts[0][digit_of(read(i), shift)];
        for (int bin = 0; bin < BINS; ++bin) {
            for (const auto &way : counts) starts[size_t(index * BINS + bin)] += way[bin];
        }
        call.advance(end - begin);
    });
    int64_t sum = 0;
    for (int bin = 0; bin < BINS; ++bin) {
        for (int64_t index = 0; index < chunks; ++index) {
            int64_t &start = starts[size_t(index * BINS + bin)];
            start = std::exchange(sum, sum + start);
        }
    }
    parallel_for_pieces(call, size, chunk, [&](int64_t index, int64_t begin, int64_t end) {
        spread(begin, end, shift, read, convert, out, size, &starts[size_t(index * BINS)]);
        call.advance(end - begin);
    });
}

// Passes between buffers use types that do not depend on the order, so that they are compiled once.
template <class E>
struct FromBuffer {
    const E *elements;
    E operator()(int64_t i) const { return elements[i]; }
};
struct Identity {
    template <class E>
    E operator()(const E &element) const {
        return element;
    }
};

// Sorts the elements that `read` returns, in passes between alternating buffers; the last pass writes `out`.
// A buffer may be the memory of `out`. In the end the call has advanced by `size` elements.
template <class E, class Out, class Read, class Convert, class Buffer>
void radix_sort(Call &call, int64_t size, Read read, Convert convert, Out *out, Buffer buffer) {
    const auto first = key_of(read(0));
    std::atomic<uint64_t> varying{0};
    const int64_t chunk = chunk_of(size);
    parallel_for_pieces(call, size, chunk, [&](int64_t, int64_t begin, int64_t end) {
        decltype(key_of(read(0))) bits = 0;
        for (int64_t i = begin; i < end; ++i) bits |= key_of(read(i)) ^ first;
        varying |= bits;
    });
    const std::vector<int> shifts = shifts_of(varying);
    const int passes = int(shifts.size());
    call.begin_passes(std::max(1, 2 * passes));
    if (passes == 0) {
        parallel_for_pieces(call, size, chunk, [&](int64_t, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) out[i] = convert(read(i));
            call.advance(end - begin);
        });
        return;
    }
    E *from = nullptr;
    for (int i = 0; i < passes; ++i) {
        const FromBuffer<E> again{from};
        if (i == passes - 1) {
            touch(call, out, size);
            if (i == 0) return pass(call, size, shifts[size_t(i)], read, convert, out);
            return pass(call, size, shifts[size_t(i)], again, convert, out);
        }
        E *const to = buffer(passes - 1 - i);  // the number of passes before the last
        if (i < 2) touch(call, to, size);
        if (i == 0) {
            pass(call, size, shifts[size_t(i)], read, Identity(), to);
        } else {
            pass(call, size, shifts[size_t(i)], again, Identity(), to);
        }
        from = to;
    }
}

// Sorts a few elements on one thread, stably; `other` is scratch of the same size.
template <class E>
void sort_short(E *elements, E *other, int64_t size) {
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

}  // namespace pk
