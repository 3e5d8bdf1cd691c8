// Inner loops of image filters: weighted sums, means, minima, maxima and medians over windows.
#include "common/image_filters.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "table.h"

namespace pk {
namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, ROWS_TOGETHER = 4;  // fits in 32 vector registers
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32, ROWS_TOGETHER = 2;
#else
constexpr int VECTOR_BYTES = 16, ROWS_TOGETHER = 2;
#endif

template <class T>
struct Vector {
    typedef T type __attribute__((vector_size(VECTOR_BYTES)));
    static constexpr int64_t LANES = VECTOR_BYTES / sizeof(T);
};

template <class T>
PK_HD typename Vector<T>::type load(const T *from) {
    typename Vector<T>::type vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
}
template <class T>
PK_HD void store(T *to, const typename Vector<T>::type &vector) {
    std::memcpy(to, &vector, sizeof(vector));
}
template <class T>
PK_HD typename Vector<T>::type all(T value) {
    return value - typename Vector<T>::type{};
}

// sum += weight * x, rounded once.
PK_HD void add_product(Vector<int16_t>::type &sum, const Vector<int16_t>::type &weight,
                       const Vector<int16_t>::type &x) {
    sum += weight * x;
}
PK_HD void add_product(Vector<float>::type &sum, const Vector<float>::type &weight,
                       const Vector<float>::type &x) {
#if defined(__AVX512F__)
    sum = _mm512_fmadd_ps(weight, x, sum);
#elif defined(__FMA__)
    sum = _mm256_fmadd_ps(weight, x, sum);
#else
    for (int64_t i = 0; i < Vector<float>::LANES; ++i) sum[i] = fma(weight[i], x[i], sum[i]);
#endif
}
PK_HD void add_product(Vector<double>::type &sum, const Vector<double>::type &weight,
                       const Vector<double>::type &x) {
#if defined(__AVX512F__)
    sum = _mm512_fmadd_pd(weight, x, sum);
#elif defined(__FMA__)
    sum = _mm256_fmadd_pd(weight, x, sum);
#else
    for (int64_t i = 0; i < Vector<double>::LANES; ++i) sum[i] = fma(weight[i], x[i], sum[i]);
#endif
}

// ---- Sums -----------------------------------------------------------------------------------------------

template <class T, class Sum>
void widen(const void *from, int64_t count, Sum *to) {
    const T *const elements = static_cast<const T *>(from);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = Sum(elements[i]);
}

template <class T, class Sum>
void narrow(const Sum *from, int64_t count, void *to) {
    T *const elements = static_cast<T *>(to);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) elements[i] = image::filters::rounded<T>(from[i]);
}

constexpr int BESIDE = 4;  // independent accumulators: one alone would wait for its own result

// Computes a weighted sum; at(k) is the address of the operand of weight k.
template <class Sum, class At>
PK_HD void weigh(const Sum *weights, int64_t taps, int64_t count, Sum *to, At at) {
    using V = typename Vector<Sum>::type;
    constexpr int64_t LANES = Vector<Sum>::LANES;
    for (int64_t i = 0; i < count; i += BESIDE * LANES) {
        V sums[BESIDE] = {};
        for (int64_t k = 0; k < taps; ++k) {
            const V weight = all(weights[k]);
            const Sum *const from = at(k) + i;
            for (int v = 0; v < BESIDE; ++v) add_product(sums[v], weight, load(from + v * LANES));
        }
        for (int v = 0; v < BESIDE; ++v) store(to + i + v * LANES, sums[v]);
    }
}

template <class Sum>
void across(const Sum *row, const Sum *weights, int64_t taps, int64_t step, int64_t count, Sum *to) {
    weigh(weights, taps, count, to, [=](int64_t k) { return row + k * step; });
}

template <class Sum>
void down(const Sum *const *rows, const Sum *weights, int64_t taps, int64_t count, Sum *to) {
    weigh(weights, taps, count, to, [=](int64_t k) { return rows[k]; });
}

// Each row of the window is summed for itself, and these sums are added.
template <class Sum>
void correlate(const Sum *const *rows, const Sum *weights, int64_t height, int64_t width, int64_t step,
               int64_t count, Sum *const *to) {
    using V = typename Vector<Sum>::type;
    constexpr int64_t LANES = Vector<Sum>::LANES;
    constexpr int N = ROWS_TOGETHER, WIDE = 2;
    for (int64_t i = 0; i < count; i += WIDE * LANES) {
        V sums[N][WIDE] = {};
        for (int64_t s = 0; s < height + N - 1; ++s) {
            const Sum *const from = rows[s] + i;
            if (s >= N - 1 && s < height) {
                V parts[N][WIDE] = {};
                for (int64_t k = 0; k < width; ++k) {
                    V x[WIDE];
                    for (int v = 0; v < WIDE; ++v) x[v] = load(from + k * step + v * LANES);
                    for (int r = 0; r < N; ++r) {
                        const V weight = all(weights[(s - r) * width + k]);
                        for (int v = 0; v < WIDE; ++v) add_product(parts[r][v], weight, x[v]);
                    }
                }
                for (int r = 0; r < N; ++r) {
                    for (int v = 0; v < WIDE; ++v) sums[r][v] += parts[r][v];
                }
                continue;
            }
            for (int r = 0; r < N; ++r) {
                if (s < r || s - r >= height) continue;
                V part[WIDE] = {};
                for (int64_t k = 0; k < width; ++k) {
                    const V weight = all(weights[(s - r) * width + k]);
                    for (int v = 0; v < WIDE; ++v) {
                        add_product(part[v], weight, load(from + k * step + v * LANES));
                    }
                }
                for (int v = 0; v < WIDE; ++v) sums[r][v] += part[v];
            }
        }
        for (int r = 0; r < N; ++r) {
            for (int v = 0; v < WIDE; ++v) store(to[r] + i + v * LANES, sums[r][v]);
        }
    }
}

template <class Sum>
void divide(Sum *sums, const Sum *counts, Sum factor, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) sums[i] = Sum(sums[i] / Sum(counts[i] * factor));
}

template <class Sum>
void fill(SumLoops<Sum> &loops) {
    loops = {{widen<uint8_t, Sum>, widen<uint16_t, Sum>, widen<float, Sum>},
             {narrow<uint8_t, Sum>, narrow<uint16_t, Sum>, narrow<float, Sum>},
             across<Sum>,
             down<Sum>,
             correlate<Sum>,
             divide<Sum>,
             ROWS_TOGETHER};
}

template <class T, class Sum>
void slide(Sum *sums, const T *enters, const T *leaves, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) sums[i] = Sum(sums[i] + enters[i] - leaves[i]);
}

// Sums of 1, 2, 4, ... neighbours are added up as the binary digits of `taps` say.
void add_across(uint32_t *sums, int64_t taps, int64_t step, int64_t count, uint32_t *to) {
    std::memset(to, 0, size_t(count) * sizeof(*to));
    int64_t done = 0;
    for (int64_t some = 1;; some *= 2) {
        if ((taps & some) != 0) {
            const uint32_t *const from = sums + done * step;
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) to[i] += from[i];
            done += some;
        }
        if (done == taps) return;
        const uint32_t *const other = sums + some * step;
        const int64_t rest = count + (taps - 2 * some) * step;
#pragma GCC ivdep
        for (int64_t i = 0; i < rest; ++i) sums[i] += other[i];
    }
}

template <class T>
void divide_to(const uint32_t *sums, int64_t by, bool in_double, int64_t count, T *to) {
    if (in_double) {
        const auto divisor = double(by);
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i)
            to[i] = image::filters::rounded<T>(double(int32_t(sums[i])) / divisor);
    } else {
        const auto divisor = float(by);
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i)
            to[i] = image::filters::rounded<T>(float(int32_t(sums[i])) / divisor);
    }
}

PK_HD uint8_t quotient(uint16_t sum, uint16_t multiplier, int shift) {
    return uint8_t(uint16_t(uint32_t(sum) * multiplier >> 16) >> shift);
}

void means(const uint16_t *sums, int64_t taps, int64_t step, int64_t count, uint16_t half,
           uint16_t multiplier, int shift, uint8_t *to) {
    if (taps == 3) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) {
            const auto sum = uint16_t(half + sums[i] + sums[i + step] + sums[i + 2 * step]);
            to[i] = quotient(sum, multiplier, shift);
        }
        return;
    }
    constexpr int64_t PART = 256;
    uint16_t part[PART];
    for (int64_t start = 0; start < count; start += PART) {
        for (uint16_t &sum : part) sum = half;
        for (int64_t k = 0; k < taps; ++k) {
            const uint16_t *const from = sums + start + k * step;
            for (int64_t i = 0; i < PART; ++i) part[i] = uint16_t(part[i] + from[i]);
        }
        const int64_t some = count - start < PART ? count - start : PART;
        for (int64_t i = 0; i < some; ++i) to[start + i] = quotient(part[i], multiplier, shift);
    }
}

// ---- Order ----------------------------------------------------------------------------------------------

template <class Key>
PK_HD Key smaller(Key a, Key b) {
    return a < b ? a : b;
}
template <class Key>
PK_HD Key larger(Key a, Key b) {
    return a < b ? b : a;
}
template <bool largest, class Key>
PK_HD Key extreme(Key a, Key b) {
    return largest ? larger(a, b) : smaller(a, b);
}

// Extremes of 2, 4, 8, ... neighbours, until two of them cover the window.
template <bool largest, class Key>
void extremes_across(Key *row, int64_t taps, int64_t step, int64_t count, Key *to) {
    int64_t done = 1;
    for (; 2 * done <= taps; done *= 2) {
        const int64_t some = count + (taps - 2 * done) * step;
        const Key *const other = row + done * step;
#pragma GCC ivdep
        for (int64_t i = 0; i < some; ++i) row[i] = extreme<largest>(row[i], other[i]);
    }
    const Key *const other = row + (taps - done) * step;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = extreme<largest>(row[i], other[i]);
}

template <bool largest, class Key>
void extremes_down(const Key *const *rows, int64_t taps, int64_t count, Key *to) {
    const Key *first = rows[0];
    for (int64_t k = 1; k < taps || first == rows[0]; k += 2) {
        const Key *const a = rows[k < taps ? k : 0], *const b = rows[k + 1 < taps ? k + 1 : 0];
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) to[i] = extreme<largest>(first[i], extreme<largest>(a[i], b[i]));
        first = to;
    }
}

template <class Key>
PK_HD Key middle(Key a, Key b, Key c) {
    return larger(smaller(a, b), smaller(larger(a, b), c));
}

template <class Key>
struct Column {
    Key low, mid, high;
    PK_HD Column(Key a, Key b, Key c) {
        const Key p = smaller(a, b), q = larger(a, b), r = larger(p, c);
        low = smaller(p, c);
        mid = smaller(q, r);
        high = larger(q, r);
    }
};

// Sorts the columns; the median of nine is the median of the largest of the low, the median of the middle,
// and the smallest of the high ones.
template <class Key>
void median_of_nine(const Key *const *rows, int64_t step, int64_t count, Key *to) {
    const Key *const a = rows[0], *const b = rows[1], *const c = rows[2];
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        const int64_t j = i + step, k = i + 2 * step;
        const Column<Key> x(a[i], b[i], c[i]), y(a[j], b[j], c[j]), z(a[k], b[k], c[k]);
        to[i] = middle(larger(larger(x.low, y.low), z.low), middle(x.mid, y.mid, z.mid),
                       smaller(smaller(x.high, y.high), z.high));
    }
}

// Finds the median bit by bit, from the highest: a bit is set if at most `rank` elements are less than the
// key with it.
template <class Key>
void median(const Key *const *rows, int64_t height, int64_t width, int64_t step, int64_t count, int64_t rank,
            int bits, Key *to) {
    using V = typename Vector<Key>::type;
    constexpr int64_t LANES = Vector<Key>::LANES;
    const V most = all(Key(rank));
    for (int64_t i = 0; i < count; i += BESIDE * LANES) {
        V found[BESIDE] = {};
        for (int bit = bits - 1; bit >= 0; --bit) {
            V limit[BESIDE], less[BESIDE] = {};
            for (int v = 0; v < BESIDE; ++v) limit[v] = found[v] | all(Key(Key(1) << bit));
            for (int64_t y = 0; y < height; ++y) {
                for (int64_t x = 0; x < width; ++x) {
                    const Key *const from = rows[y] + i + x * step;
                    for (int v = 0; v < BESIDE; ++v) less[v] -= V(load(from + v * LANES) < limit[v]);
                }
            }
            for (int v = 0; v < BESIDE; ++v) {
                const V more = V(less[v] > most);
                found[v] = (found[v] & more) | (limit[v] & ~more);
            }
        }
        for (int v = 0; v < BESIDE; ++v) store(to + i + v * LANES, found[v]);
    }
}

template <bool smallest>
void to_keys(const float *from, int64_t count, uint32_t *to) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = image::filters::key_of<smallest>(from[i]);
}
template <bool smallest>
void of_keys(const uint32_t *from, int64_t count, float *to) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = image::filters::element_of<smallest>(from[i]);
}

template <class Key>
void fill(OrderLoops<Key> &loops) {
    loops = {{extremes_across<false, Key>, extremes_across<true, Key>},
             {extremes_down<false, Key>, extremes_down<true, Key>},
             median_of_nine<Key>,
             median<Key>};
}

}  // namespace

void PK_ISA_FUNCTION(fill_image_filters)(Loops &loops) {
    FilterLoops &table = loops.filters;
    fill(table.int16);
    fill(table.float32);
    fill(table.float64);
    fill(table.order8);
    fill(table.order16);
    fill(table.order32);
    table.to_keys[0] = to_keys<true>;
    table.to_keys[1] = to_keys<false>;
    table.of_keys[0] = of_keys<true>;
    table.of_keys[1] = of_keys<false>;
    table.means8 = {slide<uint8_t, uint32_t>, divide_to<uint8_t>};
    table.means16 = {slide<uint16_t, uint32_t>, divide_to<uint16_t>};
    table.slide_short = slide<uint8_t, uint16_t>;
    table.means_short = means;
    table.add_across = add_across;
}

}  // namespace pk
