// The operations of ops.def as C++: a struct for each, with `apply` for one element and its exception flags.
#pragma once

#include "arithmetic.h"
#include "half.h"
#include "types.h"

namespace pk::ops {

// Tags in place of a pole condition (see ops.def).
struct Quiet {};   // no flag is ever raised
struct NoPole {};  // an infinity is always an overflow

#define SAME false
#define BOOLEAN true
#define QUIET \
    Quiet {}
#define NO_POLE \
    NoPole {}

// clang-format off
#define PK_OP1(name_, types_, boolean, pole_, expression)                                            \
    struct name_ {                                                                                   \
        static constexpr const char *name = #name_;                                                  \
        static constexpr int arity = 1;                                                              \
        static constexpr uint32_t types = types_;                                                    \
        static constexpr bool returns_bool = boolean;                                                \
        template <class T> PK_HD static auto apply(T a) { return expression; }                       \
        template <class T> PK_HD static auto pole([[maybe_unused]] T a, T) { return pole_; }         \
    };
#define PK_OP2(name_, types_, boolean, pole_, expression)                                            \
    struct name_ {                                                                                   \
        static constexpr const char *name = #name_;                                                  \
        static constexpr int arity = 2;                                                              \
        static constexpr uint32_t types = types_;                                                    \
        static constexpr bool returns_bool = boolean;                                                \
        template <class T> PK_HD static auto apply(T a, T b) { return expression; }                  \
        template <class T> PK_HD static auto pole([[maybe_unused]] T a, [[maybe_unused]] T b) {      \
            return pole_;                                                                            \
        }                                                                                            \
    };
#define PK_OP3(name_, types_, boolean, pole_, expression)                                            \
    struct name_ {                                                                                   \
        static constexpr const char *name = #name_;                                                  \
        static constexpr int arity = 3;                                                              \
        static constexpr uint32_t types = types_;                                                    \
        static constexpr bool returns_bool = boolean;                                                \
        template <class T> PK_HD static auto apply(uint8_t a, T b, T c) { return expression; }       \
        template <class T> PK_HD static auto pole(T, T) { return pole_; }                            \
    };
#include "ops.def"

// Branch-free forms of operations whose complete expression branches.
template <class Op> struct branch_free_form { static constexpr bool exists = false; };
#define PK_FAST(name, condition, expression)                                        \
    template <> struct branch_free_form<name> {                                     \
        static constexpr bool exists = true;                                        \
        template <class T>                                                          \
        PK_HD static bool applies_to([[maybe_unused]] T a, [[maybe_unused]] T b) {  \
            return condition;                                                       \
        }                                                                           \
        template <class T>                                                          \
        PK_HD static T apply(T a, [[maybe_unused]] T b) { return expression; }      \
    };
#include "ops.def"

// The opcode of each operation, and the list of all operations.
enum opcode : uint16_t {
    before_first = PK_OP_FIRST - 1,
#define PK_OP(name) op_##name,
#include "ops.def"
    after_last
};
constexpr int count = after_last - PK_OP_FIRST;
// clang-format on

#undef SAME
#undef BOOLEAN
#undef QUIET
#undef NO_POLE

template <class Op, class T>
using pole_of = decltype(Op::template pole<T>(T(), T()));

// Whether an operation on arguments of this type can raise a flag.
template <class Op, class T>
constexpr bool raises = arith::is_float<T> ? !std::is_same<pole_of<Op, T>, Quiet>::value
                                           : std::is_same<pole_of<Op, T>, bool>::value;

template <class Op, class T>
PK_HD bool at_pole(T a, T b) {
    if constexpr (std::is_same<pole_of<Op, T>, bool>::value) return Op::pole(a, b);
    return false;
}

// The exception flags of one element. With one argument, `b` is `a` again.
template <class Op, class T>
PK_HD uint8_t exceptions([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T result) {
    if constexpr (!raises<Op, T>) {
        return 0;
    } else if constexpr (arith::is_float<T>) {
        const bool nan = (result != result) & (a == a) & (b == b);
        // For nextafter, a step from the largest number to infinity overflows, although its direction is
        // infinite.
        const bool is_nextafter =
            std::is_same<Op, nextafter>::value || std::is_same<Op, nextafter_half>::value;
        const bool infinite =
            arith::is_infinite(result) & arith::is_finite(a) & (is_nextafter | arith::is_finite(b));
        // If the quotient overflows, NumPy's floor_divide also computes inf - inf while rounding it, and so
        // raises invalid too.
        const bool inf_minus_inf = std::is_same<Op, floor_divide>::value && arith::is_infinite(a / b);
        const uint8_t kind = at_pole<Op>(a, b)
                                 ? PK_FPE_DIVIDE_BY_ZERO
                                 : (inf_minus_inf ? PK_FPE_OVERFLOW | PK_FPE_INVALID : PK_FPE_OVERFLOW);
        return uint8_t((nan ? PK_FPE_INVALID : 0) | (infinite ? kind : 0));
    } else if constexpr (std::is_same<Op, power>::value) {
        return b < 0 ? PK_FPE_NEGATIVE_POWER : 0;
    } else if constexpr (std::is_same<Op, reciprocal>::value) {
        return a == 0 ? PK_FPE_DIVIDE_BY_ZERO | PK_FPE_INVALID : 0;
    } else {
        // Only INT_MIN / -1 returns its dividend (other than 0), because it wraps.
        const bool wraps = std::is_same<Op, floor_divide>::value && arith::is_signed_int<T> && b == T(-1) &&
                           a != 0 && result == a;
        return uint8_t(at_pole<Op>(a, b) ? PK_FPE_DIVIDE_BY_ZERO : (wraps ? PK_FPE_OVERFLOW : 0));
    }
}

// The exception flags of a cast. `result` is used only if To is a float type.
template <class To, class From>
PK_HD uint8_t cast_exceptions([[maybe_unused]] From a, [[maybe_unused]] To result) {
    if constexpr (arith::is_float<To>) {
        bool from_finite = true;
        if constexpr (arith::is_float<From>) from_finite = arith::is_finite(a);
        return arith::is_infinite(result) && from_finite ? PK_FPE_OVERFLOW : 0;
    } else if constexpr (arith::is_float<From>) {
        return arith::fits<To>(a) ? 0 : PK_FPE_INVALID;
    } else {
        return 0;
    }
}

}  // namespace pk::ops
