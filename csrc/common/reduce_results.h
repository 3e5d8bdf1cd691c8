// Finalization of reductions: from the last partial of a column to an element of the result.
#pragma once

#include <cstring>
#include <type_traits>

#include "arithmetic.h"
#include "reduce_ops.h"
#include "types.h"

namespace pk::reduction {

template <class T>
PK_HD void put(void *to, T value) {
    memcpy(to, &value, sizeof(value));
}

// Stores a result as an element of a type.
template <class Word>
PK_HD void store(int type, Word value, void *to) {
    switch (type) {
        case PK_BOOL: return put(to, uint8_t(value != 0));
        case PK_FLOAT16: return put(to, half::from_float(half::to_odd(double(value))));
        case PK_FLOAT32: return put(to, float(double(value)));
        case PK_FLOAT64: return put(to, double(value));
        default: break;
    }
    if constexpr (std::is_same<Word, double>::value) {
        store(type, arith::cast<int64_t>(value), to);
    } else {
        memcpy(to, &value, size_t(size_of(type)));  // little-endian: the low bytes come first
    }
}

template <class Word>
PK_HD Word initial_of(const pk_reduction &spec) {
    if constexpr (std::is_same<Word, double>::value) return spec.initial;
    return Word(spec.initial_integer);
}

// An empty sum is 0, and NumPy adds it even to a -0.0.
PK_HD double sum_of(DoubleDouble sum) { return rounded(sum) + 0.0; }
PK_HD double mean(DoubleDouble sum, double count) {
    return is_finite(sum.high) && count != 0 ? sum_of(divide(sum, count)) : sum.high / count;
}

// The value of a partial.
template <class Op>
struct Result {
    using Word = typename Op::Word;
    static PK_HD auto of(const pk_reduction &, Word *partial, int64_t) { return partial[0]; }
};
template <bool compensated, bool masked>
struct Result<Sum<compensated, masked>> {
    static PK_HD double of(const pk_reduction &spec, double *partial, int64_t length) {
        const DoubleDouble sum{partial[0], partial[1]};
        return spec.finalize == PK_FINALIZE_MEAN ? mean(sum, masked ? partial[2] : double(length))
                                                 : sum_of(sum);
    }
};
template <bool compensated>
struct Result<Dot<compensated>> {
    static PK_HD double of(const pk_reduction &spec, double *partial, int64_t) {
        const DoubleDouble sum{partial[0], partial[1]};
        return spec.finalize == PK_FINALIZE_NORM && is_finite(sum.high) ? rounded(root(sum)) : sum_of(sum);
    }
};
template <>
struct Result<Product> {
    static PK_HD double of(const pk_reduction &, double *partial, int64_t) {
        return Product::result(partial);
    }
};
template <bool compensated, bool masked>
struct Result<Moments<compensated, masked>> {
    static PK_HD double of(const pk_reduction &spec, double *partial, int64_t) {
        const DoubleDouble squares = Moments<compensated, masked>::sum_squared_deviations(partial);
        if (spec.finalize == PK_FINALIZE_NONE) return rounded(squares);
        const double freedom = partial[5] - spec.ddof;
        const DoubleDouble variance = divide(squares, freedom > 0 ? freedom : 0);
        return rounded(spec.finalize == PK_FINALIZE_STD ? root(variance) : variance);
    }
};
template <class T>
struct Result<MinAndMax<T>> {
    static PK_HD T of(const pk_reduction &, T *partial, int64_t) { return partial[1] - partial[0]; }
};
template <>
struct Result<MinAndMax<int64_t>> {
    static PK_HD int64_t of(const pk_reduction &, int64_t *partial, int64_t) {
        return int64_t(uint64_t(partial[1]) - uint64_t(partial[0]));
    }
};

// Argmin and argmax as an operation on partials; its words are those of a ValueAndIndex.
template <bool largest, class T>
struct ArgMinOrMax {
    using Word = int64_t;
    static constexpr int PARTIAL = 2;
    static constexpr bool has_pivot = true;  // and so no initial value
    static PK_HD ValueAndIndex<T> value_and_index(const Word *words) {
        return {bit_cast<T>(words[0]), words[1]};
    }
    static PK_HD void merge(Word *partial, const Word *next) {
        ValueAndIndex<T> best = value_and_index(partial);
        update_best<largest>(best, value_and_index(next));
        partial[0] = bit_cast<int64_t>(best.value);
        partial[1] = best.row;
    }
};
template <bool largest, class T>
struct Result<ArgMinOrMax<largest, T>> {
    static PK_HD int64_t of(const pk_reduction &, const int64_t *partial, int64_t) { return partial[1]; }
};

// Calls visit with the operation that combines partials of a kind of reduction and a type of values.
template <class T, class Visit>
auto visit_compared(int kind, Visit visit) {
    switch (kind) {
        case PK_REDUCE_MIN: return visit(MinOrMax<false, T>());
        case PK_REDUCE_MAX: return visit(MinOrMax<true, T>());
        case PK_REDUCE_ARGMIN: return visit(ArgMinOrMax<false, T>());
        case PK_REDUCE_ARGMAX: return visit(ArgMinOrMax<true, T>());
        default: return visit(MinAndMax<T>());
    }
}
template <class Visit>
auto visit_kind(int kind, int type, bool masked, Visit visit) {
    const bool is_float = type >= PK_FLOAT16;
    switch (kind) {
        case PK_REDUCE_SUM:
            if (!is_float) return visit(SumInteger());
            return masked ? visit(Sum<true, true>()) : visit(Sum<true, false>());
        case PK_REDUCE_PROD: return is_float ? visit(Product()) : visit(ProductInteger());
        case PK_REDUCE_DOT: return is_float ? visit(Dot<true>()) : visit(DotInteger());
        case PK_REDUCE_SUM_SQUARED_DEVIATIONS: return visit(Moments<true, false>());
        default: break;
    }
    if (is_float) return visit_compared<double>(kind, visit);
    const bool has_sign = type >= PK_INT8 && type <= PK_INT64;
    return has_sign ? visit_compared<int64_t>(kind, visit) : visit_compared<uint64_t>(kind, visit);
}

// Writes the result of a column of `length` rows from its combined partial, which it may change.
template <class Op>
PK_HD void write_result(const pk_reduction &spec, typename Op::Word *partial, int64_t length, int type,
                        void *result) {
    using Word = typename Op::Word;
    if constexpr (!Op::has_pivot) {
        if (spec.has_initial != 0) Op::add(partial, initial_of<Word>(spec), Word(0), Word(0));
    }
    store(type, Result<Op>::of(spec, partial, length), result);
}

}  // namespace pk::reduction
