#include "table.h"

namespace pk {
namespace {

using scan::SEGMENT;

// So many columns, or segments of one column, side by side: each is a chain of its own, so that none waits for
// its last addition. Element r of lane l is at l * lane + r * row.
template <int lanes, class Op, class From>
PK_HD void total_lanes(const From *from, int64_t lane, int64_t row, int64_t rows, void *states) {
    typename Op::State state[lanes];
    for (int l = 0; l < lanes; ++l) state[l] = Op::identity();
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l) Op::step(state[l], typename Op::Term(from[l * lane + r * row]));
    }
    for (int l = 0; l < lanes; ++l) static_cast<typename Op::State *>(states)[l] = state[l];
}

template <int lanes, class Op, bool is_exclusive, class From, class To>
PK_HD bool run_lanes(const From *from, To *to, int64_t lane, int64_t row, int64_t rows,
                     const void *states) {
    constexpr bool asks = std::is_floating_point<To>::value;
    typename Op::State state[lanes];
    for (int l = 0; l < lanes; ++l) state[l] = static_cast<const typename Op::State *>(states)[l];
    Suspicion<asks, To> suspicion[lanes];
    for (int64_t r = 0; r < rows; ++r) {
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l) {
            const typename Op::Term term(from[l * lane + r * row]);
            if (is_exclusive) to[l * lane + r * row] = suspicion[l].note(To(Op::value(state[l])));
            Op::step(state[l], term);
            if (!is_exclusive) to[l * lane + r * row] = suspicion[l].note(To(Op::value(state[l])));
        }
    }
    bool found = false;
    for (int l = 0; l < lanes; ++l) {
        // Of the last one there is no result.
        if (is_exclusive) suspicion[l].note(To(Op::value(state[l])));
        found |= suspicion[l].found();
    }
    return found;
}

// Calls run(lanes as a compile-time constant, the first element, lane, row, rows, the first state) for all
// lanes of a block.
template <class Run>
PK_HD void for_lanes(int64_t rows, int64_t inner, Run run) {
    constexpr int wide = 16, few = 8;
    if (inner == 1) {
        int64_t segment = 0;
        for (; rows >= few * SEGMENT; rows -= few * SEGMENT, segment += few)
            run(std::integral_constant<int, few>(), segment * SEGMENT, SEGMENT, 1, SEGMENT, segment);
        for (; rows > 0; rows -= SEGMENT, ++segment)
            run(std::integral_constant<int, 1>(), segment * SEGMENT, SEGMENT, 1,
                rows < SEGMENT ? rows : SEGMENT, segment);
        return;
    }
    for (int64_t segment = 0; rows > 0; rows -= SEGMENT, ++segment) {
        const int64_t count = rows < SEGMENT ? rows : SEGMENT, from = segment * SEGMENT * inner;
        int64_t column = 0;
        for (; column <= inner - wide; column += wide)
            run(std::integral_constant<int, wide>(), from + column, 1, inner, count,
                segment * inner + column);
        for (; column < inner; ++column)
            run(std::integral_constant<int, 1>(), from + column, 1, inner, count, segment * inner + column);
    }
}

template <class Op, class From>
void totals(const void *terms, int64_t rows, int64_t inner, void *segments) {
    const From *const from = static_cast<const From *>(terms);
    auto *const states = static_cast<typename Op::State *>(segments);
    for_lanes(rows, inner, [&](auto lanes, int64_t at, int64_t lane, int64_t row, int64_t count, int64_t first) {
        total_lanes<decltype(lanes)::value, Op>(from + at, lane, row, count, states + first);
    });
}

template <class Op, bool is_exclusive, class From, class To>
bool run(const void *terms, void *results, int64_t rows, int64_t inner, const void *segments) {
    const From *const from = static_cast<const From *>(terms);
    To *const to = static_cast<To *>(results);
    auto *const states = static_cast<const typename Op::State *>(segments);
    bool found = false;
    for_lanes(rows, inner, [&](auto lanes, int64_t at, int64_t lane, int64_t row, int64_t count, int64_t first) {
        found |= run_lanes<decltype(lanes)::value, Op, is_exclusive>(from + at, to + at, lane, row, count,
                                                                     states + first);
    });
    return found;
}

template <class Op, class From = typename Op::Term, class To = typename Op::Term>
ScanLoops loops_of() {
    return {totals<Op, From>, {run<Op, false, From, To>, run<Op, true, From, To>}};
}

}  // namespace

void PK_ISA_FUNCTION(fill_scans)(Loops &loops) {
    for (int kind = 0; kind < scan::kinds; ++kind)
        scan::visit_op(kind, [&](auto op) { loops.scan[kind] = loops_of<decltype(op)>(); });
    loops.scan[SUM_OF_FLOAT32] = loops_of<scan::FloatSum, float, float>();
}

}  // namespace pk
