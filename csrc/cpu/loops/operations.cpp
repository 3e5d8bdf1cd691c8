#include "table.h"

// Everything here has internal linkage: the linker must not merge code of one instruction set into another.
namespace pk {
namespace {

template <class Op, class T>
void run(void *result_, const void *a_, const void *b_, const void *c_, int64_t count) {
    using R = typename std::conditional<Op::returns_bool, uint8_t, T>::type;
    R *result = static_cast<R *>(result_);
    [[maybe_unused]] const T *b = static_cast<const T *>(b_);
    [[maybe_unused]] const T *c = static_cast<const T *>(c_);
    if constexpr (Op::arity == 3) {
        const uint8_t *a = static_cast<const uint8_t *>(a_);
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) result[i] = R(Op::apply(a[i], b[i], c[i]));
    } else if constexpr (Op::arity == 2) {
        const T *a = static_cast<const T *>(a_);
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) result[i] = R(Op::apply(a[i], b[i]));
    } else {
        const T *a = static_cast<const T *>(a_);
        if constexpr (ops::fast_path<Op>::exists) {
            int outside = 0;
            for (int64_t i = 0; i < count; ++i) outside |= !ops::fast_path<Op>::holds(a[i]);
            if (!outside) {
#pragma GCC ivdep
                for (int64_t i = 0; i < count; ++i) result[i] = ops::fast_path<Op>::apply(a[i]);
                return;
            }
        }
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) result[i] = R(Op::apply(a[i]));
    }
}

template <class T>
bool any_special(const void *values_, int64_t count) {
    const T *values = static_cast<const T *>(values_);
    int special = 0;
    for (int64_t i = 0; i < count; ++i) special |= !arith::is_finite(values[i]);
    return special != 0;
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
#define PK_OP(name) fill<ops::name>(loops.operation[ops::op_##name - PK_FIRST_OPERATION]);
#include "../../ops.def"
    loops.name = PK_STRING(PK_ISA);
    loops.any_special32 = any_special<float>;
    loops.any_special64 = any_special<double>;
}

}  // namespace pk
