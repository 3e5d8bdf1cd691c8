// Arithmetic of reductions, the same in both engines: how values are accumulated in the lanes of a block, how
// lanes and then blocks are combined, and how the result is finalized.
// The order is fixed. Rows are dealt to LANES lanes in turn; lanes are combined in halves, and blocks in
// pairs, as a tree. Floats are accumulated in float64; float64 values, and combinations of all floats, with
// compensation (double-double: Dekker, Knuth).
#pragma once

#include <cstdint>

#include "half.h"
#include "portable.h"
#include "pycudakit.h"

namespace pk::reduction {

constexpr int LANES = 16;

// ---- Double-double arithmetic --------------------------------------------------------------------------

struct DoubleDouble {
    double high, low;
};

PK_HD DoubleDouble two_sum(double a, double b) {
    const double sum = a + b, taken = sum - a;
    return {sum, (a - (sum - taken)) + (b - taken)};
}
PK_HD DoubleDouble two_product(double a, double b) {
    const double product = a * b;
    return {product, fma(a, b, -product)};
}
PK_HD bool is_finite(double x) { return x - x == 0; }
// high + low, unless low is meaningless because high is not finite, or would turn -0.0 into 0.0.
PK_HD double rounded(DoubleDouble x) { return is_finite(x.high) && x.low != 0 ? x.high + x.low : x.high; }

PK_HD DoubleDouble add(DoubleDouble a, DoubleDouble b) {
    const DoubleDouble sum = two_sum(a.high, b.high);
    return two_sum(sum.high, sum.low + (a.low + b.low));
}
PK_HD DoubleDouble multiply(DoubleDouble a, DoubleDouble b) {
    const DoubleDouble product = two_product(a.high, b.high);
    return two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}
PK_HD DoubleDouble divide(DoubleDouble a, double b) {
    const double first = a.high / b;
    if (!is_finite(first)) return {first, 0};
    return two_sum(first, (fma(-first, b, a.high) + a.low) / b);
}
PK_HD DoubleDouble root(DoubleDouble a) {
    const double first = pk::sqrt(a.high);
    if (!(first > 0) || !is_finite(first)) return {first, 0};
    return two_sum(first, (fma(-first, first, a.high) + a.low) / (2 * first));
}

// ---- Operations ----------------------------------------------------------------------------------------

// Adds to a lane, whose first two words are the sum and its compensation.
template <bool compensated, class V>
PK_HD void add_to(V *lane, V value) {
    if constexpr (compensated) {
        const V sum = lane[0] + value, taken = sum - lane[0];
        lane[1] += (lane[0] - (sum - taken)) + (value - taken);
        lane[0] = sum;
    } else {
        lane[0] += value;
    }
}

// Each operation has the words of a lane, doubles or integers, and of a block's partial. `value` and `other`
// are converted to the type of the words: double, int64_t or uint64_t.
//   start(lane)                     initializes a lane to the identity of join()
//   add(lane, value, other, pivot)  accumulates a value; the pivot is the first value of the block's column
//   join(lane, other lane)          combines two lanes
//   close(lane, pivot, partial)     makes the partial of the combined lanes
//   merge(partial, the next one)    combines the partials of two blocks

// The sum and, if it is masked, the number of values whose `other` is not 0.
template <bool compensated, bool masked>
struct Sum {
    using Word = double;
    static constexpr int WORDS = masked ? 3 : 2, PARTIAL = WORDS;
    static constexpr bool has_pivot = false;

    static PK_HD void start(Word *lane) {
        lane[0] = lane[1] = -0.0;  // the identity: -0.0 + x is x for every x
        if (masked) lane[WORDS - 1] = 0;
    }

    template <class V>
    static PK_HD void add(V *lane, V value, V other, V) {
        add_to<compensated>(lane, value);
        if (masked) lane[WORDS - 1] += other;
    }
    static PK_HD void join(Word *lane, const Word *other) {
        const DoubleDouble sum = two_sum(lane[0], other[0]);
        lane[0] = sum.high;
        lane[1] = (lane[1] + other[1]) + sum.low;
        if (masked) lane[WORDS - 1] += other[WORDS - 1];
    }
    static PK_HD void close(const Word *lane, double, Word *partial) {
        for (int i = 0; i < WORDS; ++i) partial[i] = lane[i];
    }
    static PK_HD void merge(Word *partial, const Word *next) { join(partial, next); }
};

// The sum of value * other. If compensated, the product's rounding error is added, too; otherwise products
// are exact.
template <bool compensated>
struct Dot : Sum<compensated, false> {
    template <class V>
    static PK_HD void add(V *lane, V value, V other, V) {
        const V product = value * other;
        add_to<compensated>(lane, product);
        if constexpr (compensated) lane[1] += fma(value, other, -product);
    }
};

// The product, as a factor of magnitude 1/2 to 2 with its compensation, and an exponent of 2. So it overflows
// only if the product does.
struct Product {
    using Word = double;
    static constexpr int WORDS = 3, PARTIAL = 3;
    static constexpr bool has_pivot = false;

    // These use instructions that all vector units have, and no conditions, which compilers would turn into
    // branches.
    static PK_HD int64_t is_negative(int64_t x) { return int64_t(uint64_t(x) >> 63); }
    static PK_HD double as_double(int64_t few) {  // adds it to the mantissa of 1.5 * 2^52
        return bit_cast<double>(uint64_t(0x4338000000000000 + few)) - 0x1.8p52;
    }
    static PK_HD double either(bool condition, double yes, double no) {
        const uint64_t taken = bit_cast<uint64_t>(yes), left = bit_cast<uint64_t>(no);
        return bit_cast<double>(left ^ ((taken ^ left) & (uint64_t(0) - uint64_t(condition))));
    }

    static PK_HD void start(Word *lane) {
        lane[0] = 1;
        lane[1] = lane[2] = 0;
    }
    static PK_HD void multiply(Word *lane, double factor, double lacks, double exponent) {
        const double product = lane[0] * factor;
        const double lost = fma(lane[0], factor, -product) + (lane[0] * lacks + lane[1] * factor);
        const int64_t binade = biased_exponent(product);
        const int64_t doublings = is_negative(binade - 1022) - is_negative(1023 - binade);
        lane[0] = product * two_to(doublings);
        lane[1] = lost * two_to(doublings);
        lane[2] += exponent - as_double(doublings);
    }
    static PK_HD void add(Word *lane, double value, double, double) {
        // Subnormal numbers are scaled up, so that their mantissa is normalized.
        const int64_t raised = 54 * is_negative(biased_exponent(value) - 1);
        const double normal = value * two_to(raised);
        const uint64_t digits = bit_cast<uint64_t>(normal) & 0x800fffffffffffffu;
        const double factor = bit_cast<double>(digits | 0x3ff0000000000000u);
        const double exponent = as_double(biased_exponent(normal) - 1023 - raised);
        const bool plain = (value != 0) & is_finite(value);
        multiply(lane, either(plain, factor, value), 0, either(plain, exponent, 0.0));
    }
    static PK_HD void join(Word *lane, const Word *other) { multiply(lane, other[0], other[1], other[2]); }
    static PK_HD void close(const Word *lane, double, Word *partial) {
        for (int i = 0; i < WORDS; ++i) partial[i] = lane[i];
    }
    static PK_HD void merge(Word *partial, const Word *next) { join(partial, next); }

    static PK_HD double result(const Word *partial) {
        double value = rounded({partial[0], partial[1]});
        double left = select(partial[2] < -4000, -4000.0, select(partial[2] > 4000, 4000.0, partial[2]));
        while (left > 1023) {
            value *= 0x1p1023;
            left -= 1023;
        }
        while (left < -1022) {
            value *= 0x1p-1022;
            left += 1022;
        }
        return value * two_to(int64_t(left));
    }
};

// The variance by shifted data: the sums of the differences from a pivot and of their squares, and the count;
// a partial has the pivot first. If compensated, the rounding errors of the differences and squares are
// added, too. `other` is 0 for a value that is masked out.
template <bool compensated, bool masked>
struct Moments {
    using Word = double;
    static constexpr int WORDS = 5, PARTIAL = 6;
    static constexpr bool has_pivot = true;

    static PK_HD void start(Word *lane) {
        for (int i = 0; i < WORDS; ++i) lane[i] = 0;
    }

    template <class V>
    static PK_HD void add(V *lane, V value, V other, V pivot) {
        V value_or_pivot = value;
        if constexpr (masked) value_or_pivot = other != 0 ? value : pivot;
        const V off = value_or_pivot - pivot, square = off * off;
        add_to<compensated>(lane, off);
        add_to<compensated>(lane + 2, square);
        if constexpr (compensated) {
            const V taken = off - value_or_pivot, lost = (value_or_pivot - (off - taken)) + (-pivot - taken);
            lane[1] += lost;
            lane[3] += fma(off, off, -square) + 2 * off * lost;
        }
        lane[4] += other;
    }
    static PK_HD void join(Word *lane, const Word *other) {
        for (int i = 0; i < 4; i += 2) {
            const DoubleDouble sum = two_sum(lane[i], other[i]);
            lane[i] = sum.high;
            lane[i + 1] = (lane[i + 1] + other[i + 1]) + sum.low;
        }
        lane[4] += other[4];
    }
    static PK_HD void close(const Word *lane, double pivot, Word *partial) {
        partial[0] = pivot;
        for (int i = 0; i < WORDS; ++i) partial[i + 1] = lane[i];
    }
    static PK_HD void merge(Word *partial, const Word *next) {
        if (next[5] == 0) return;
        if (partial[5] == 0) {
            for (int i = 0; i < PARTIAL; ++i) partial[i] = next[i];
            return;
        }
        // The sums of the next partial, shifted to the pivot of this one.
        const DoubleDouble off = two_sum(next[0], -partial[0]), all = reduction::multiply(off, {next[5], 0});
        const DoubleDouble sum{next[1], next[2]}, squares{next[3], next[4]};
        const DoubleDouble twice{2 * sum.high, 2 * sum.low};
        const DoubleDouble moved = reduction::add(sum, all);
        const DoubleDouble moved_squares = reduction::add(
            squares, reduction::add(reduction::multiply(off, twice), reduction::multiply(off, all)));
        const Word lane[WORDS] = {moved.high, moved.low, moved_squares.high, moved_squares.low, next[5]};
        join(partial + 1, lane);
    }

    // The sum of squared differences from the mean.
    static PK_HD DoubleDouble sum_squared_deviations(const Word *partial) {
        const DoubleDouble sum = two_sum(partial[1], partial[2]), all = two_sum(partial[3], partial[4]);
        if (!is_finite(partial[1]) || !is_finite(partial[3]))
            return {partial[3] - (partial[1] - partial[1]), 0};
        const DoubleDouble mean = divide(sum, partial[5]), own = reduction::multiply(sum, mean);
        const DoubleDouble result = reduction::add(all, {-own.high, -own.low});
        return result.high > 0 ? result : DoubleDouble{0, 0};
    }
};

// Integers wrap, as in NumPy.
struct SumInteger {
    using Word = uint64_t;
    static constexpr int WORDS = 1, PARTIAL = 1;
    static constexpr bool has_pivot = false;

    static PK_HD void start(Word *lane) { lane[0] = 0; }

    template <class V>
    static PK_HD void add(V *lane, V value, V, V) {
        lane[0] += value;
    }
    static PK_HD void join(Word *lane, const Word *other) { lane[0] += other[0]; }
    static PK_HD void close(const Word *lane, uint64_t, Word *partial) { partial[0] = lane[0]; }
    static PK_HD void merge(Word *partial, const Word *next) { join(partial, next); }
};
struct DotInteger : SumInteger {
    static PK_HD void add(Word *lane, uint64_t value, uint64_t other, uint64_t) { lane[0] += value * other; }
};
struct ProductInteger : SumInteger {
    static PK_HD void start(Word *lane) { lane[0] = 1; }
    static PK_HD void add(Word *lane, uint64_t value, uint64_t, uint64_t) { lane[0] *= value; }
    static PK_HD void join(Word *lane, const Word *other) { lane[0] *= other[0]; }
    static PK_HD void merge(Word *partial, const Word *next) { join(partial, next); }
};

// Whether a is larger than b, or smaller. NaN is better than every number.
template <bool largest, class T>
PK_HD auto is_better(T a, T b) {
    return (largest ? a > b : a < b) | ((a != a) & (b == b));
}
template <bool largest, class T>
PK_HD T worst_value() {
    if constexpr (std::is_same<T, double>::value) {
        return bit_cast<double>(largest ? 0xfff0000000000000u : 0x7ff0000000000000u);
    } else if constexpr (std::is_same<T, float>::value) {
        return bit_cast<float>(largest ? 0xff800000u : 0x7f800000u);
    } else {
        constexpr T least = std::is_signed<T>::value ? T(T(1) << (8 * sizeof(T) - 1)) : T(0);
        return largest ? least : T(~least);
    }
}

template <bool largest, class T>
struct MinOrMax {
    using Word = T;
    static constexpr int WORDS = 1, PARTIAL = 1;
    static constexpr bool has_pivot = false;

    static PK_HD void start(Word *lane) { lane[0] = worst_value<largest, T>(); }

    template <class V>
    static PK_HD void add(V *lane, V value, V, V) {
        lane[0] = is_better<largest>(value, lane[0]) ? value : lane[0];
    }
    static PK_HD void join(Word *lane, const Word *other) { add(lane, other[0], T(), T()); }
    static PK_HD void close(const Word *lane, T, Word *partial) { partial[0] = lane[0]; }
    static PK_HD void merge(Word *partial, const Word *next) { join(partial, next); }
};

// The minimum and the maximum.
template <class T>
struct MinAndMax {
    using Word = T;
    static constexpr int WORDS = 2, PARTIAL = 2;
    static constexpr bool has_pivot = false;
    using Min = MinOrMax<false, T>;
    using Max = MinOrMax<true, T>;

    static PK_HD void start(Word *lane) {
        Min::start(lane);
        Max::start(lane + 1);
    }

    template <class V>
    static PK_HD void add(V *lane, V value, V other, V pivot) {
        Min::add(lane, value, other, pivot);
        Max::add(lane + 1, value, other, pivot);
    }
    static PK_HD void join(Word *lane, const Word *other) {
        Min::join(lane, other);
        Max::join(lane + 1, other + 1);
    }
    static PK_HD void close(const Word *lane, T, Word *partial) {
        partial[0] = lane[0];
        partial[1] = lane[1];
    }
    static PK_HD void merge(Word *partial, const Word *next) { join(partial, next); }
};

// The largest or smallest value and its row; of several equal ones the first. Rows come in any order.
template <class T>
struct ValueAndIndex {
    T value;
    int64_t row;  // -1: no value yet
};
template <bool largest, class T>
PK_HD void update_best(ValueAndIndex<T> &best, ValueAndIndex<T> other) {
    if (other.row < 0) return;
    const bool better = is_better<largest>(other.value, best.value);
    const bool earlier = other.row < best.row && !is_better<largest>(best.value, other.value);
    if (best.row < 0 || better || earlier) best = other;
}

}  // namespace pk::reduction
