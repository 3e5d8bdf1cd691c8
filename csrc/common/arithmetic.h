// NumPy's arithmetic for one element, where C's differs: wrapping integers, floor division, shifts, casts.
#pragma once

#include <limits>

#include "common/math/exponential.h"
#include "common/math/hyperbolic.h"
#include "common/math/inverse_trigonometric.h"
#include "common/math/log_sums.h"
#include "common/math/logarithm.h"
#include "common/math/power.h"
#include "common/math/roots.h"
#include "common/math/trigonometric.h"
#include "portable.h"

namespace pk::arith {

template <class T>
constexpr bool is_float = std::is_floating_point<T>::value;
template <class T>
constexpr bool is_signed_int = std::is_integral<T>::value && std::is_signed<T>::value;

// Signed overflow is undefined in C, so integers are computed as unsigned ones at least as wide as int.
template <class T>
struct unsigned_of {
    using type = typename std::conditional<(sizeof(T) > 4), uint64_t, uint32_t>::type;
};
template <>
struct unsigned_of<float> {
    using type = float;
};
template <>
struct unsigned_of<double> {
    using type = double;
};
template <class T>
using wrapping = typename unsigned_of<T>::type;

template <class T>
PK_HD T add(T a, T b) {
    return T(wrapping<T>(a) + wrapping<T>(b));
}
template <class T>
PK_HD T subtract(T a, T b) {
    return T(wrapping<T>(a) - wrapping<T>(b));
}
template <class T>
PK_HD T multiply(T a, T b) {
    return T(wrapping<T>(a) * wrapping<T>(b));
}

template <class T>
PK_HD T negative(T a) {
    if constexpr (is_float<T>) return -a;
    return T(wrapping<T>(0) - wrapping<T>(a));
}

template <class T>
PK_HD T absolute(T a) {
    if constexpr (is_float<T>) return pk::abs(a);
    if constexpr (is_signed_int<T>) return a < 0 ? negative(a) : a;
    return a;
}

template <class T>
PK_HD T sign(T a) {
    return T(a != a ? a : T(T(a > 0) - T(a < 0)));
}

// 1 / a, truncated. For 0, NumPy returns INT_MIN in int32 and int64, and 0 in other integers.
template <class T>
PK_HD T reciprocal(T a) {
    if constexpr (is_float<T>) return T(1) / a;
    constexpr T of_zero = is_signed_int<T> && sizeof(T) >= 4 ? std::numeric_limits<T>::min() : T(0);
    return a == 0 ? of_zero : T(a == 1 ? 1 : (is_signed_int<T> && a == T(-1) ? -1 : 0));
}

template <class T>
PK_HD bool is_finite(T a) {
    constexpr T largest = std::numeric_limits<T>::max();
    return pk::abs(a) <= largest;
}
template <class T>
PK_HD bool is_infinite(T a) {
    constexpr T largest = std::numeric_limits<T>::max();
    return pk::abs(a) > largest;
}

PK_HD bool sign_bit(float a) { return bit_cast<uint32_t>(a) >> 31; }
PK_HD bool sign_bit(double a) { return bit_cast<uint64_t>(a) >> 63; }

PK_HD float copysign(float a, float b) {
    return bit_cast<float>((bit_cast<uint32_t>(a) & 0x7fffffffu) | (bit_cast<uint32_t>(b) & 0x80000000u));
}
PK_HD double copysign(double a, double b) {
    const uint64_t sign = uint64_t(1) << 63;
    return bit_cast<double>((bit_cast<uint64_t>(a) & ~sign) | (bit_cast<uint64_t>(b) & sign));
}

#if defined(__CUDA_ARCH__)
PK_HD float floor(float a) { return ::floorf(a); }
PK_HD double floor(double a) { return ::floor(a); }
PK_HD float ceil(float a) { return ::ceilf(a); }
PK_HD double ceil(double a) { return ::ceil(a); }
PK_HD float trunc(float a) { return ::truncf(a); }
PK_HD double trunc(double a) { return ::trunc(a); }
PK_HD float rint(float a) { return ::rintf(a); }
PK_HD double rint(double a) { return ::rint(a); }
PK_HD float fmod(float a, float b) { return ::fmodf(a, b); }
PK_HD double fmod(double a, double b) { return ::fmod(a, b); }
#else
PK_HD float floor(float a) { return __builtin_floorf(a); }
PK_HD double floor(double a) { return __builtin_floor(a); }
PK_HD float ceil(float a) { return __builtin_ceilf(a); }
PK_HD double ceil(double a) { return __builtin_ceil(a); }
PK_HD float trunc(float a) { return __builtin_truncf(a); }
PK_HD double trunc(double a) { return __builtin_trunc(a); }
PK_HD float rint(float a) { return __builtin_rintf(a); }
PK_HD double rint(double a) { return __builtin_rint(a); }
PK_HD float fmod(float a, float b) { return __builtin_fmodf(a, b); }
PK_HD double fmod(double a, double b) { return __builtin_fmod(a, b); }
#endif

// `value` where a and b have opposite signs, else 0. Nested, because GCC gives up vectorising a select on a
// combination of conditions.
template <class T>
PK_HD T if_opposite(T a, T b, T value) {
    return select(a < 0, select(b > 0, value, T(0)), select(b < 0, select(a > 0, value, T(0)), T(0)));
}

// The exact remainder without fmod's loop. The quotient is small enough to be exact up to one unit: then the
// fused multiply-add is exact, and a unit too much shows in its sign.
template <class T>
PK_HD bool fmod_is_fast(T a, T b) {
    return pk::abs(a) < pk::abs(b) * T(1 << 20);
}
template <class T>
PK_HD T fmod_fast(T a, T b) {
    const T rest = fma(-trunc(a / b), b, a);
    const T mended = rest + if_opposite(a, rest, copysign(b, a));
    return select(pk::abs(a) < pk::abs(b), a, copysign(mended, a));
}

// Python's remainder, with the sign of the divisor, and the matching quotient, from C's remainder.
template <class T>
PK_HD T remainder_of(T b, T rest) {
    const T moved = rest + if_opposite(rest, b, b);
    return select(b == 0, rest, select(rest == 0, copysign(T(0), b), moved));
}
template <class T>
PK_HD T quotient_of(T a, T b, T rest) {
    const T quotient = (a - rest) / b - if_opposite(rest, b, T(1));
    const T below = floor(quotient);
    const T whole = below + select(quotient - below > T(0.5), T(1), T(0));
    return select(b == 0, a / b, select(quotient == 0, copysign(T(0), a / b), whole));
}

template <class T>
PK_HD T remainder_fast(T a, T b) {
    return remainder_of(b, fmod_fast(a, b));
}
template <class T>
PK_HD T floor_divide_fast(T a, T b) {
    return quotient_of(a, b, fmod_fast(a, b));
}

template <class T>
PK_HD T remainder(T a, T b) {
    if constexpr (is_float<T>) {
        return remainder_of(b, fmod(a, b));
    } else {
        if (b == 0 || (is_signed_int<T> && b == T(-1))) return T(0);
        const T rest = T(a % b);
        return rest != 0 && (rest < 0) != (b < 0) ? T(rest + b) : rest;
    }
}

// C's remainder, with the sign of the dividend; 0 for a division by zero.
template <class T>
PK_HD T truncated_remainder(T a, T b) {
    if constexpr (is_float<T>)
        return fmod(a, b);
    else
        return b == 0 || (is_signed_int<T> && b == T(-1)) ? T(0) : T(a % b);
}

template <class T>
PK_HD wrapping<T> magnitude(T a) {
    return is_signed_int<T> && a < 0 ? wrapping<T>(0) - wrapping<T>(a) : wrapping<T>(a);
}

// Euclid's algorithm on magnitudes, as unsigned numbers: the magnitude of the least integer is no signed
// number.
template <class T>
PK_HD T gcd(T a, T b) {
    wrapping<T> x = magnitude(a), y = magnitude(b);
    while (y != 0) {
        const wrapping<T> rest = x % y;
        x = y;
        y = rest;
    }
    return T(x);
}
template <class T>
PK_HD T lcm(T a, T b) {
    const wrapping<T> x = magnitude(a), y = magnitude(b), common = magnitude(gcd(a, b));
    return common == 0 ? T(0) : T(x / common * y);
}

template <class T>
PK_HD T floor_divide(T a, T b) {
    if constexpr (is_float<T>) {
        return quotient_of(a, b, fmod(a, b));
    } else {
        if (b == 0) return T(0);
        if (is_signed_int<T> && b == T(-1)) return negative(a);
        const T quotient = T(a / b);
        return is_signed_int<T> && (a < 0) != (b < 0) && T(quotient * b) != a ? T(quotient - 1) : quotient;
    }
}

// The square of a float is rounded once, as in NumPy. Integers use repeated squaring; a negative exponent is
// reported, and its result is meaningless.
template <class T>
PK_HD T power(T a, T b) {
    if constexpr (is_float<T>) {
        return select(b == 2, a * a, math::pow(a, b));
    } else {
        wrapping<T> result = 1;
        wrapping<T> square = wrapping<T>(a);
        for (wrapping<T> left = b < 0 ? 0 : wrapping<T>(b); left != 0; left >>= 1) {
            if (left & 1) result *= square;
            square *= square;
        }
        return T(result);
    }
}

// Shifts by the width or more, or by a negative count, shift everything out.
template <class T>
PK_HD T left_shift(T a, T b) {
    const bool inside = wrapping<T>(b) < sizeof(T) * 8;
    return inside ? T(wrapping<T>(a) << (wrapping<T>(b) & (sizeof(T) * 8 - 1))) : T(0);
}
template <class T>
PK_HD T right_shift(T a, T b) {
    const bool inside = wrapping<T>(b) < sizeof(T) * 8;
    const T out = is_signed_int<T> && a < 0 ? T(-1) : T(0);
    return inside ? T(a >> (wrapping<T>(b) & (sizeof(T) * 8 - 1))) : out;
}

// frexp: a fraction in [0.5, 1) and a power of two; zeros, infinities and NaN have the power 0.
template <class T>
struct Frexp {
    using Bits = typename std::conditional<sizeof(T) == 4, uint32_t, uint64_t>::type;
    static constexpr int DIGITS = std::numeric_limits<T>::digits - 1;      // stored digits
    static constexpr int HALF = std::numeric_limits<T>::max_exponent - 2;  // the stored exponent of 0.5
    static constexpr Bits EXPONENT = 2 * Bits(HALF) + 3;
    T fraction;
    int exponent;

    PK_HD explicit Frexp(T a) : fraction(a), exponent(0) {
        if (a == 0 || !is_finite(a)) return;
        const bool is_subnormal = pk::abs(a) < std::numeric_limits<T>::min();
        const T normal = is_subnormal ? a * T(Bits(1) << DIGITS) : a;
        const Bits bits = bit_cast<Bits>(normal);
        exponent = int((bits >> DIGITS) & EXPONENT) - HALF - (is_subnormal ? DIGITS : 0);
        fraction = bit_cast<T>((bits & ~(EXPONENT << DIGITS)) | (Bits(HALF) << DIGITS));
    }
};
template <class T>
PK_HD T frexp_fraction(T a) {
    return Frexp<T>(a).fraction;
}
template <class T>
PK_HD T frexp_exponent(T a) {
    return T(Frexp<T>(a).exponent);
}

// a * 2^power for an integer power, rounded once: the step that may leave the normal numbers comes last.
PK_HD double ldexp(double a, double power) {
    constexpr double most = 1023, least = -969;  // -1022 + 53: the rest is rounded by the last step
    double left = power < -2200 ? -2200 : (power > 2200 ? 2200 : power);
    for (int step = 0; step < 2; ++step) {
        const double part = left > most ? most : (left < -1022 ? least : 0);
        a *= two_to(int64_t(part));
        left -= part;
    }
    left = left < -1022 ? -1022 : (left > most ? most : left);
    return a * two_to(int64_t(left));
}

template <class T>
PK_HD T nextafter(T a, T b) {
    using Bits = typename std::conditional<sizeof(T) == 4, uint32_t, uint64_t>::type;
    const Bits bits = bit_cast<Bits>(a);
    const bool away = (b > a) == !sign_bit(a);
    const T smallest = copysign(bit_cast<T>(Bits(1)), b);
    const T moved = a == 0 ? smallest : bit_cast<T>(Bits(away ? bits + 1 : bits - 1));
    return (a != a) | (b != b) ? a + b : (a == b ? b : moved);
}

// Whether To can hold the truncated value: whether it is strictly between low and high.
template <class To, class From>
PK_HD bool fits(From a) {
    constexpr From high = From((std::numeric_limits<To>::max() >> 1) + 1) * From(2);
    constexpr From low = is_signed_int<To> ? -high - From(1) : From(-1);
    // Beyond the precision of From, `low` is rounded to the least integer itself, which fits.
    return (low == -high ? a >= low : a > low) & (a < high);
}

// Truncates and saturates; NaN becomes 0.
template <class To, class From>
PK_HD To cast(From a) {
    if constexpr (is_float<From> && std::is_integral<To>::value) {
        constexpr To least = std::numeric_limits<To>::min(), greatest = std::numeric_limits<To>::max();
        const To outside = a != a ? To(0) : (a < 0 ? least : greatest);
        const bool inside = fits<To>(a);
        return inside ? To(inside ? a : From(0)) : outside;
    } else {
        return To(a);
    }
}

}  // namespace pk::arith
