// Scans: running sums, products, maxima and minima along an axis, in an order that the length alone fixes.
//
// A group of rows is up to 64 blocks, and a block up to 16 segments of 64. A segment's total is its elements
// taken one after the other, a block's total its segments' totals likewise, and a group's its blocks'. What
// runs before a group is the total of the groups before it, one after the other; before a block, that and the
// totals of the group's blocks before it; before a segment, that and those of the block's segments. From
// there on a segment runs element by element.
#pragma once

#include <cstdint>
#include <limits>

#include "arithmetic.h"
#include "half.h"
#include "portable.h"
#include "pycudakit.h"

namespace pk::scan {

constexpr int64_t SEGMENT = 64;  // rows
constexpr int64_t SEGMENTS = 16;
constexpr int64_t GROUP = 64;  // blocks
PK_HD int64_t segments_of(int64_t rows) { return (rows + SEGMENT - 1) / SEGMENT; }

// How elements run together. A Term is an element as it is computed with; a State what runs; step() takes a
// term into a state, combine() a later state into an earlier one, and value() is what a state stands for.
template <class T>
struct Plain {
    using Term = T;
    struct State {
        T all;
    };
    static PK_HD T value(const State &state) { return state.all; }
    static PK_HD bool must_run(const State &, const State &) { return false; }
};

// Modulo 2^64, which are the right bits of every narrower integer, too.
struct IntegerSum : Plain<uint64_t> {
    static PK_HD State identity() { return {0}; }
    static PK_HD void step(State &state, Term term) { state.all += term; }
    static PK_HD State combine(State a, State b) { return {a.all + b.all}; }
};
struct IntegerProduct : Plain<uint64_t> {
    static PK_HD State identity() { return {1}; }
    static PK_HD void step(State &state, Term term) { state.all *= term; }
    static PK_HD State combine(State a, State b) { return {a.all * b.all}; }
};

template <class T>
struct Maximum : Plain<T> {
    using State = typename Plain<T>::State;
    static PK_HD State identity() {
        using limits = std::numeric_limits<T>;
        return {limits::has_infinity ? T(-limits::infinity()) : limits::lowest()};
    }
    static PK_HD void step(State &state, T term) {
        state.all = select(state.all >= term || state.all != state.all, state.all, term);
    }
    static PK_HD State combine(State a, State b) {
        step(a, b.all);
        return a;
    }
};
template <class T>
struct Minimum : Plain<T> {
    using State = typename Plain<T>::State;
    static PK_HD State identity() {
        using limits = std::numeric_limits<T>;
        return {limits::has_infinity ? limits::infinity() : limits::max()};
    }
    static PK_HD void step(State &state, T term) {
        state.all = select(state.all <= term || state.all != state.all, state.all, term);
    }
    static PK_HD State combine(State a, State b) {
        step(a, b.all);
        return a;
    }
};

// Of floats that are shorter than float64. Zeros that are all negative have a negative sum.
struct FloatSum : Plain<double> {
    static PK_HD State identity() { return {-0.0}; }
    template <class States, class Terms>  // one of each, or a vector
    static PK_HD void step(States &state, Terms term) {
        state.all += term;
    }
    static PK_HD State combine(State a, State b) { return {a.all + b.all}; }
};

// Of float64: the running sum as it is, and apart from it the sum of what was rounded away, which is NaN once
// the first is not finite.
struct DoubleSum {
    using Term = double;
    struct State {
        double all, rest;
    };
    static PK_HD State identity() { return {-0.0, 0}; }
    template <class States, class Terms>
    static PK_HD void step(States &state, Terms term) {
        const Terms sum = state.all + term, part = sum - state.all;
        state.rest += (state.all - (sum - part)) + (term - part);
        state.all = sum;
    }
    static PK_HD State combine(State a, State b) {
        step(a, b.all);
        a.rest += b.rest;
        return a;
    }
    static PK_HD double value(const State &state) {
        return select(pk::abs(state.rest) > 0, state.all + state.rest, state.all);
    }
    // A total that is not finite may be of finite elements, of which no running sum is infinite.
    static PK_HD bool must_run(const State &before, const State &total) {
        return !arith::is_finite(total.all) && arith::is_finite(before.all);
    }
};

// A mantissa, what was rounded away of it, and a power of two apart from them, so that nothing overflows on
// the way. Mantissas of elements are at least 1 and less than 2: after a segment's product is below 2^65.
struct FloatProduct {
    using Term = double;
    struct State {
        double all, rest;
        int64_t exponent;
    };
    static PK_HD State identity() { return {1, 0, 0}; }

    static PK_HD void step(State &state, Term term) {
        const bool is_small = biased_exponent(term) == 0;
        const double scaled = select(is_small, term * 0x1p54, term);
        const int64_t exponent = biased_exponent(scaled);
        const bool is_ordinary = exponent != 0 && exponent != 0x7ff;
        const uint64_t digits = (bit_cast<uint64_t>(scaled) & 0x800fffffffffffffu) | 0x3ff0000000000000u;
        const double mantissa = select(is_ordinary, bit_cast<double>(digits), term);
        const double product = state.all * mantissa;
        state.rest = state.rest * mantissa + pk::fma(state.all, mantissa, -product);
        state.all = product;
        state.exponent += select(is_ordinary, exponent - select<int64_t>(is_small, 1077, 1023), int64_t(0));
    }
    static PK_HD State combine(State a, State b) {
        const double product = a.all * b.all;
        const double rest = pk::fma(a.all, b.all, -product) + (a.all * b.rest + a.rest * b.all);
        const int64_t biased = biased_exponent(product);
        if (biased == 0 || biased == 0x7ff) return {product, 0, a.exponent + b.exponent};
        const double scale = two_to(1023 - biased);
        return {product * scale, rest * scale, a.exponent + b.exponent + biased - 1023};
    }
    static PK_HD double value(const State &state) {
        const double product = select(pk::abs(state.rest) > 0, state.all + state.rest, state.all);
        const int64_t low = select<int64_t>(state.exponent < -1141, -1141, state.exponent);
        const int64_t exponent = select<int64_t>(low > 1024, 1024, low), half = exponent / 2;
        return product * two_to(half) * two_to(exponent - half);
    }
    static PK_HD bool must_run(const State &, const State &) { return false; }
};

// The first result of an exclusive scan: where nothing was negative, 0 is not either.
template <class Op>
PK_HD typename Op::Term identity_of() {
    const typename Op::Term value = Op::value(Op::identity());
    return value == 0 ? typename Op::Term(0) : value;
}

// The state after a part of so many rows, whose elements are term(row), and which has that total.
template <class Op, class Terms>
PK_HD typename Op::State after(typename Op::State before, const typename Op::State &total, int64_t rows,
                               Terms term) {
    if (!Op::must_run(before, total)) return Op::combine(before, total);
    for (int64_t row = 0; row < rows; ++row) Op::step(before, term(row));
    return before;
}

// What a scan is about to go on from, between two blocks.
template <class Op>
struct Carry {
    using State = typename Op::State;
    State group = Op::identity();    // before the group
    State total = Op::identity();    // of the group's blocks so far
    State running = Op::identity();  // before the next block

    // Before a block, by its number in its slab.
    PK_HD void begin(int64_t block) {
        if (block == 0) *this = Carry();
        if (block == 0 || block % GROUP != 0) return;
        group = running = Op::must_run(group, total) ? running : Op::combine(group, total);
        total = Op::identity();
    }
    // A block, with what runs after it.
    PK_HD void end(const State &of_block, const State &after) {
        total = Op::combine(total, of_block);
        running = after;
    }
};

// As an array of that type of floats holds it.
PK_HD double rounded(double value, int type) {
    if (type == PK_FLOAT32) return double(float(value));
    return type == PK_FLOAT16 ? double(half::round(value)) : value;
}

// What NumPy reports of an element that was taken into a result.
PK_HD uint32_t raised(double term, double before, double result) {
    const bool is_plain = arith::is_finite(term) && arith::is_finite(before);
    const uint32_t overflow = is_plain && pk::abs(result) > std::numeric_limits<double>::max();
    const uint32_t invalid = result != result && term == term && before == before;
    return overflow * uint32_t(PK_FPE_OVERFLOW) | invalid * uint32_t(PK_FPE_INVALID);
}

// One of these for each Op.
enum Kind : int {
    integer_sum,
    integer_product,
    maximum_of_unsigned,
    minimum_of_unsigned,
    maximum_of_signed,
    minimum_of_signed,
    maximum_of_floats,
    minimum_of_floats,
    float_sum,
    double_sum,
    float_product,
    kinds
};

template <class Visit>
void visit_op(int kind, Visit visit) {
    switch (kind) {
        case integer_sum: return visit(IntegerSum());
        case integer_product: return visit(IntegerProduct());
        case maximum_of_unsigned: return visit(Maximum<uint64_t>());
        case minimum_of_unsigned: return visit(Minimum<uint64_t>());
        case maximum_of_signed: return visit(Maximum<int64_t>());
        case minimum_of_signed: return visit(Minimum<int64_t>());
        case maximum_of_floats: return visit(Maximum<double>());
        case minimum_of_floats: return visit(Minimum<double>());
        case float_sum: return visit(FloatSum());
        case double_sum: return visit(DoubleSum());
        default: return visit(FloatProduct());
    }
}

}  // namespace pk::scan
