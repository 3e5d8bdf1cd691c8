// Arithmetic of scans (prefix sums, products, minima and maxima), in an order that depends on the length
// alone, so that both engines have the same bits: a reduce-then-scan over three levels.
// A segment has 64 rows, a block up to 16 segments, and a group up to 64 blocks. The total of a segment is
// the sum of its elements in order, that of a block the sum of its segments' totals, and that of a group the
// sum of its blocks' totals. The prefix of a group is the sum of the groups' totals before it; the prefix of
// a block adds the blocks' totals before it in the group; the prefix of a segment adds the segments' totals
// before it in the block. From its prefix, a segment is scanned element by element.
#pragma once

#include <cstdint>
#include <limits>

#include "arithmetic.h"
#include "half.h"
#include "portable.h"
#include "pycudakit.h"
#include "rounding.h"

namespace pk::scan {

constexpr int64_t SEGMENT = 64;  // rows
constexpr int64_t SEGMENTS = 16;
constexpr int64_t GROUP = 64;  // blocks
PK_HD int64_t segments_of(int64_t rows) { return ceil_div(rows, SEGMENT); }

// How elements are combined. A Term is an element in the arithmetic of the scan, and a State a running value;
// step() adds a term to a state, combine() a later state to an earlier one, and value() is the result of a
// state.
template <class T>
struct Plain {
    using Term = T;
    struct State {
        T all;
    };
    static PK_HD T value(const State &state) { return state.all; }
    static PK_HD bool must_run(const State &, const State &) { return false; }
};

// Modulo 2^64: the low bits are right for every narrower integer, too.
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

// Sums of floats that are shorter than float64. A sum of -0.0 alone is -0.0.
struct FloatSum : Plain<double> {
    static PK_HD State identity() { return {-0.0}; }
    template <class States, class Terms>  // scalars or vectors
    static PK_HD void step(States &state, Terms term) {
        state.all += term;
    }
    static PK_HD State combine(State a, State b) { return {a.all + b.all}; }
};

// Sums of float64: the running sum, and separately the sum of its rounding errors (compensated), which is NaN
// once the running sum is not finite.
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
    // The total of a part may overflow although no running sum within it does: then the part must be scanned
    // to know its end.
    static PK_HD bool must_run(const State &before, const State &total) {
        return !arith::is_finite(total.all) && arith::is_finite(before.all);
    }
};

// Products of floats: a mantissa, its rounding error, and a separate power of two, so that nothing overflows
// on the way. The mantissas of elements are in [1, 2), and that of a segment's product below 2^65.
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

// The first result of an exclusive scan: 0, never -0.0.
template <class Op>
PK_HD typename Op::Term identity_of() {
    const typename Op::Term value = Op::value(Op::identity());
    return value == 0 ? typename Op::Term(0) : value;
}

// The state after a part with `rows` rows, whose elements are term(row) and whose total is `total`.
template <class Op, class Terms>
PK_HD typename Op::State after(typename Op::State before, const typename Op::State &total, int64_t rows,
                               Terms term) {
    if (!Op::must_run(before, total)) return Op::combine(before, total);
    for (int64_t row = 0; row < rows; ++row) Op::step(before, term(row));
    return before;
}

// The carry of a scan between two blocks.
template <class Op>
struct Carry {
    using State = typename Op::State;
    State group = Op::identity();    // before the group
    State total = Op::identity();    // of the group's blocks so far
    State running = Op::identity();  // before the next block

    // Begins a block, given its number in its slab.
    PK_HD void begin(int64_t block) {
        if (block == 0) *this = Carry();
        if (block == 0 || block % GROUP != 0) return;
        group = running = Op::must_run(group, total) ? running : Op::combine(group, total);
        total = Op::identity();
    }
    // Ends a block, given its total and the state after it.
    PK_HD void end(const State &of_block, const State &after) {
        total = Op::combine(total, of_block);
        running = after;
    }
};

// Rounds to a float type.
PK_HD double rounded(double value, int type) {
    if (type == PK_FLOAT32) return double(float(value));
    return type == PK_FLOAT16 ? double(half::round(value)) : value;
}

// The exception flags that NumPy reports when a term is added to a result.
PK_HD uint32_t raised(double term, double before, double result) {
    const bool is_plain = arith::is_finite(term) && arith::is_finite(before);
    const uint32_t overflow = is_plain && pk::abs(result) > std::numeric_limits<double>::max();
    const uint32_t invalid = result != result && term == term && before == before;
    return overflow * uint32_t(PK_FPE_OVERFLOW) | invalid * uint32_t(PK_FPE_INVALID);
}

// The kinds of scans, one for each operation.
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
