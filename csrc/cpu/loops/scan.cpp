// Inner loops of scans: totals of segments, and results from the states before them.
#include "scan_vectors.h"
#include "table.h"

namespace pk {
namespace {

using scan::SEGMENT;

// The states of several lanes, component by component (a structure of arrays), for vectorisation.
template <class Op, int lanes>
struct States {
    using State = typename Op::State;
    State plain[lanes];
    PK_HD State get(int l) const { return plain[l]; }
    PK_HD void set(int l, const State &state) { plain[l] = state; }
};
template <int lanes>
struct States<scan::DoubleSum, lanes> {
    using State = scan::DoubleSum::State;
    double all[lanes], rest[lanes];
    PK_HD State get(int l) const { return {all[l], rest[l]}; }
    PK_HD void set(int l, const State &state) {
        all[l] = state.all;
        rest[l] = state.rest;
    }
};
template <int lanes>
struct States<scan::FloatProduct, lanes> {
    using State = scan::FloatProduct::State;
    double all[lanes], rest[lanes];
    int64_t exponent[lanes];
    PK_HD State get(int l) const { return {all[l], rest[l], exponent[l]}; }
    PK_HD void set(int l, const State &state) {
        all[l] = state.all;
        rest[l] = state.rest;
        exponent[l] = state.exponent;
    }
};

// Totals of several columns, or segments of one column, in lanes: independent chains, so that none waits for
// its last addition. Element r of lane l is at l * lane + r * row.
template <int lanes, class Op, class From, class LaneStride>
PK_HD void total_lanes(const From *from, LaneStride lane, int64_t row, int64_t rows,
                       typename Op::State *totals) {
    States<Op, lanes> states;
    for (int l = 0; l < lanes; ++l) states.set(l, Op::identity());
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l) {
            typename Op::State state = states.get(l);
            Op::step(state, typename Op::Term(from[l * lane + r * row]));
            states.set(l, state);
        }
    }
    for (int l = 0; l < lanes; ++l) totals[l] = states.get(l);
}

// Fast path for sums that stay far from infinity and are no longer -0.0 ("calm").
template <class Op>
constexpr bool may_be_calm =
    std::is_same<Op, scan::FloatSum>::value || std::is_same<Op, scan::DoubleSum>::value;

template <class From>
constexpr From CALM = From(0x1p100);

template <class From>
PK_HD bool are_calm(const From *terms, int64_t count) {
    using Bits = typename NonFiniteDetector<true, From>::Bits;
    Bits most = 0;
    for (int64_t i = 0; i < count; ++i) {
        const Bits bits = bit_cast<Bits>(pk::abs(terms[i]));
        most = bits > most ? bits : most;
    }
    return most < bit_cast<Bits>(CALM<From>);
}
template <int lanes, class State>
PK_HD bool begin_calm(const State *before) {
    bool calm = true;
    for (int l = 0; l < lanes; ++l) {
        const uint64_t bits = bit_cast<uint64_t>(before[l].all);
        calm &= pk::abs(before[l].all) < CALM<double> && bits != bit_cast<uint64_t>(-0.0);
    }
    return calm;
}

template <class Op, bool is_calm>
PK_HD auto value_of(const typename Op::State &state) {
    if constexpr (is_calm && std::is_same<Op, scan::DoubleSum>::value)
        return state.all + state.rest;
    else
        return Op::value(state);
}

template <int lanes, class Op, bool is_exclusive, bool is_calm, class From, class To, class LaneStride>
PK_HD bool run_lanes(const From *from, To *to, LaneStride lane, int64_t row, int64_t rows,
                     const typename Op::State *before) {
    constexpr bool asks = std::is_floating_point<To>::value && !is_calm;
    States<Op, lanes> states;
    for (int l = 0; l < lanes; ++l) states.set(l, before[l]);
    NonFiniteDetector<asks, To> non_finite[lanes];
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l) {
            typename Op::State state = states.get(l);
            const typename Op::Term term(from[l * lane + r * row]);
            if (is_exclusive) to[l * lane + r * row] = non_finite[l].note(To(value_of<Op, is_calm>(state)));
            Op::step(state, term);
            if (!is_exclusive) to[l * lane + r * row] = non_finite[l].note(To(value_of<Op, is_calm>(state)));
            states.set(l, state);
        }
    }
    bool found = false;
    for (int l = 0; l < lanes; ++l) {
        // An exclusive scan has no result for the last element.
        if (is_exclusive) non_finite[l].note(To(Op::value(states.get(l))));
        found |= non_finite[l].any();
    }
    return found;
}

// Calls run(lanes as a compile-time constant, the first element, lane, row, rows, the first state) for all
// lanes of a block.
template <class Run>
PK_HD void for_lanes(int64_t rows, int64_t inner, Run run) {
    using Segments = std::integral_constant<int64_t, SEGMENT>;  // the distance of lanes
    using Columns = std::integral_constant<int64_t, 1>;
    constexpr int wide = 8, few = 8;
    if (inner == 1) {
        int64_t segment = 0;
        for (; rows >= few * SEGMENT; rows -= few * SEGMENT, segment += few)
            run(std::integral_constant<int, few>(), segment * SEGMENT, Segments(), 1, SEGMENT, segment);
        for (; rows > 0; rows -= SEGMENT, ++segment)
            run(std::integral_constant<int, 1>(), segment * SEGMENT, Segments(), 1,
                rows < SEGMENT ? rows : SEGMENT, segment);
        return;
    }
    for (int64_t segment = 0; rows > 0; rows -= SEGMENT, ++segment) {
        const int64_t count = rows < SEGMENT ? rows : SEGMENT, from = segment * SEGMENT * inner;
        int64_t column = 0;
        for (; column <= inner - wide; column += wide)
            run(std::integral_constant<int, wide>(), from + column, Columns(), inner, count,
                segment * inner + column);
        for (; column < inner; ++column)
            run(std::integral_constant<int, 1>(), from + column, Columns(), inner, count,
                segment * inner + column);
    }
}

template <class Op, class From>
void totals(const void *terms, int64_t rows, int64_t inner, void *segments) {
    const From *const from = static_cast<const From *>(terms);
    auto *const states = static_cast<typename Op::State *>(segments);
    for_lanes(rows, inner, [&](auto lanes, int64_t at, auto lane, int64_t row, int64_t count, int64_t first) {
        constexpr int width = decltype(lanes)::value;
#if defined(PK_SCAN_VECTORS)
        if constexpr (may_be_calm<Op> && width == vectors::LANES) {
            if (count % vectors::TILE<From> == 0) {
                return vectors::total<Op>(from + at, lane, row, count, states + first);
            }
        }
#endif
        total_lanes<width, Op>(from + at, lane, row, count, states + first);
    });
}

template <class Op, bool is_exclusive, class From, class To>
bool run(const void *terms, void *results, int64_t rows, int64_t inner, const void *segments) {
    const From *const from = static_cast<const From *>(terms);
    To *const to = static_cast<To *>(results);
    auto *const states = static_cast<const typename Op::State *>(segments);
    bool found = false;
    [[maybe_unused]] bool calm = false;
    if constexpr (may_be_calm<Op>) calm = are_calm(from, rows * inner);
    for_lanes(rows, inner, [&](auto lanes, int64_t at, auto lane, int64_t row, int64_t count, int64_t first) {
        constexpr int width = decltype(lanes)::value;
        if constexpr (may_be_calm<Op>) {
            if (calm && begin_calm<width>(states + first)) {
#if defined(PK_SCAN_VECTORS)
                if constexpr (std::is_same<From, To>::value && width == vectors::LANES) {
                    if (count % vectors::TILE<From> == 0) {
                        return vectors::run<Op, is_exclusive>(from + at, to + at, lane, row, count,
                                                              states + first);
                    }
                }
#endif
                run_lanes<width, Op, is_exclusive, true>(from + at, to + at, lane, row, count,
                                                         states + first);
                return;
            }
        }
        found |=
            run_lanes<width, Op, is_exclusive, false>(from + at, to + at, lane, row, count, states + first);
    });
    return found;
}

template <class Op, class From = typename Op::Term, class To = typename Op::Term>
ScanLoops loops_of() {
    return {totals<Op, From>, {run<Op, false, From, To>, run<Op, true, From, To>}};
}

}  // namespace

void PK_ISA_FUNCTION(fill_scan)(Loops &loops) {
    for (int kind = 0; kind < scan::kinds; ++kind)
        scan::visit_op(kind, [&](auto op) { loops.scan[kind] = loops_of<decltype(op)>(); });
    loops.scan[SUM_OF_FLOAT32] = loops_of<scan::FloatSum, float, float>();
}

}  // namespace pk
