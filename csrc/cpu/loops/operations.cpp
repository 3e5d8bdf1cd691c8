// Inner loops of the operations of ops.def.
#include "table.h"

// Everything has internal linkage: the linker must not merge code of one instruction set into another.
namespace pk {
namespace {

// result[i] = element(i). If `asks`, returns whether any result is infinite or NaN.
template <bool asks, class R, class Element>
PK_HD bool each(R *result, int64_t count, Element element) {
    NonFiniteDetector<asks, R> non_finite;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) result[i] = non_finite.note(element(i));
    return non_finite.any();
}

template <class Op, class T>
bool run(void *result_, const void *a_, const void *b_, const void *c_, int64_t count) {
    using R = typename std::conditional<Op::returns_bool, uint8_t, T>::type;
    R *result = static_cast<R *>(result_);
    [[maybe_unused]] const T *b = static_cast<const T *>(b_);
    [[maybe_unused]] const T *c = static_cast<const T *>(c_);
    constexpr bool asks = ops::raises<Op, T> && arith::is_float<T>;
    bool special = false;
    if constexpr (Op::arity == 3) {
        const uint8_t *a = static_cast<const uint8_t *>(a_);
        special = each<asks>(result, count, [=](int64_t i) { return R(Op::apply(a[i], b[i], c[i])); });
    } else {
        const T *a = static_cast<const T *>(a_);
        if constexpr (ops::branch_free_form<Op>::exists && arith::is_float<T>) {
            using Fast = ops::branch_free_form<Op>;
            const T *second = Op::arity == 2 ? b : a;
            int outside = count == 0 || !Fast::applies_to(a[0], second[0]);
            const int64_t left = outside ? 0 : count;
            for (int64_t i = 0; i < left; ++i) outside |= !Fast::applies_to(a[i], second[i]);
            if (!outside)
                return each<asks>(result, count, [=](int64_t i) { return Fast::apply(a[i], second[i]); });
        }
        special = each<asks>(result, count, [=](int64_t i) {
            if constexpr (Op::arity == 2) return R(Op::apply(a[i], b[i]));
            if constexpr (Op::arity == 1) return R(Op::apply(a[i]));
        });
    }
    return asks ? special : ops::raises<Op, T>;
}

template <class Op, int type = 0>
void fill(Loop *by_type) {
    if constexpr (type < PK_TYPE_COUNT) {
        if constexpr ((Op::types >> type & 1u) != 0) by_type[type] = run<Op, typename type_of<type>::type>;
        fill<Op, type + 1>(by_type);
    }
}

}  // namespace

void PK_ISA_FUNCTION(fill_operations)(Loops &loops) {
#define PK_OP(name) fill<ops::name>(loops.operation[ops::op_##name - PK_OP_FIRST]);
#include "ops.def"
    loops.name = PK_STRING(PK_ISA);
}

}  // namespace pk
