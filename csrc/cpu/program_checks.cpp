// Exception flags of a block of an instruction, computed only if a loop has seen an infinite or NaN result.
#include "loops.h"

namespace pk {
namespace {

template <class Op, class T>
uint8_t check(const void *a_, const void *b_, const void *result_, int64_t count) {
    const T *a = static_cast<const T *>(a_), *b = static_cast<const T *>(b_);
    const T *result = static_cast<const T *>(result_);
    uint8_t raised = 0;
    for (int64_t i = 0; i < count; ++i) raised |= ops::exceptions<Op, T>(a[i], b[i], result[i]);
    return raised;
}

template <class To, class From>
uint8_t check_cast(const void *a_, const void *, const void *result_, int64_t count) {
    const From *a = static_cast<const From *>(a_);
    const To *result = static_cast<const To *>(result_);
    uint8_t raised = 0;
    for (int64_t i = 0; i < count; ++i) raised |= ops::cast_exceptions<To, From>(a[i], result[i]);
    return raised;
}

using CheckTable = Check[PK_TYPE_COUNT];

template <class Op, int type = 0>
void fill(CheckTable &by_type) {
    if constexpr (type < PK_TYPE_COUNT) {
        using T = typename type_of<type>::type;
        if constexpr ((Op::types >> type & 1u) != 0 && !Op::returns_bool) {
            if constexpr (ops::raises<Op, T>) by_type[type] = check<Op, T>;
        }
        fill<Op, type + 1>(by_type);
    }
}

// A cast can raise a flag from a float to an integer, to a narrower float, or from an integer to float16.
constexpr bool can_raise(int from, int to) {
    if (to == PK_BOOL || from == PK_BOOL || from == to) return false;
    if (is_float_type(from)) return is_float_type(to) ? to < from : true;
    return to == PK_FLOAT16;
}

template <int from, int to = 0>
void fill_casts(CheckTable &by_target) {
    if constexpr (to < PK_TYPE_COUNT) {
        if constexpr (can_raise(from, to)) {
            by_target[to] = check_cast<typename type_of<to>::type, typename type_of<from>::type>;
        }
        fill_casts<from, to + 1>(by_target);
    }
}

struct Checks {
    CheckTable operation[ops::count] = {};
    CheckTable cast[PK_TYPE_COUNT] = {};

    Checks() {
#define PK_OP(name) fill<ops::name>(operation[ops::op_##name - PK_OP_FIRST]);
#include "ops.def"
        fill_from<0>();
    }

    template <int from>
    void fill_from() {
        if constexpr (from < PK_TYPE_COUNT) {
            fill_casts<from>(cast[from]);
            fill_from<from + 1>();
        }
    }
};

const Checks &checks() {
    static const Checks table;
    return table;
}

}  // namespace

Check operation_check(int op, int type) { return checks().operation[op - PK_OP_FIRST][type]; }
Check cast_check(int from, int to) { return checks().cast[from][to]; }

}  // namespace pk
