// sinh, cosh, tanh and their inverses for float and double: branch-free, and the same bits on every machine.
#pragma once

#include "binary_format.h"
#include "common/portable.h"
#include "exponential.h"
#include "logarithm.h"
#include "polynomial.h"

namespace pk::math {
namespace detail {

template <class T>
struct HyperbolicConstants;

template <>
struct HyperbolicConstants<float> {
    static constexpr float sinh_max = 89.5f, large = 0x1p13f;
};

template <>
struct HyperbolicConstants<double> {
    static constexpr double sinh_max = 710.5, large = 0x1p28;
};

// For |x| = n ln2 + r, the terms of the addition theorems. (Quarters, so that 2^n is finite.)
template <class T>
struct HyperbolicReduced {
    T r, sinh_tail, cosh_tail;    // sinh r = r + sinh_tail, cosh r = 1 + cosh_tail
    T up, down, sum, difference;  // 2^n / 4, 2^-n / 4, cosh(n ln2) / 2, sinh(n ln2) / 2
};

template <class T>
PK_HD HyperbolicReduced<T> hyperbolic_reduce(T x) {
    T magnitude = pk::abs(x);
    auto [n, r, r_low] = exp_reduce(at_most(magnitude, HyperbolicConstants<T>::sinh_max));
    T up = power_of_two<T>(n - 2);
    T down = select(magnitude > T(32), T(0), power_of_two<T>(Bits<T>(0) - n - 2));
    T z = r * r;
    return {r, pk::fma(z * r, sinh_tail(z), r_low), z * cosh_tail(z), up, down, up + down, up - down};
}

template <class T>
PK_HD T sinh(T x) {
    auto [r, sinh_tail, cosh_tail, up, down, sum, difference] = hyperbolic_reduce(x);
    T half = pk::fma(sum, r, difference) + pk::fma(difference, cosh_tail, sum * sinh_tail);
    return select(pk::abs(x) < T(0x1p-100), x, copy_sign(half + half, x));
}

template <class T>
PK_HD T cosh(T x) {
    auto [r, sinh_tail, cosh_tail, up, down, sum, difference] = hyperbolic_reduce(x);
    T half = pk::fma(difference, r, up) + (down + pk::fma(sum, cosh_tail, difference * sinh_tail));
    return half + half;
}

// 1 - 2 / (e^2a + 1), or near zero a polynomial: minimax.
PK_HD float tanh(float x) {
    float a = pk::abs(x), z = a * a;
    float cubic = polynomial(z, -0.33333318f, 0.133326017f, -0.0538538572f, 0.021077753f, -0.00628246362f);
    float small = pk::fma(a * z, cubic, a);

    constexpr float log2_e2 = 2.0f * ExpConstants<float>::log2_e;
    float bounded = at_most(a, 10.0f);
    auto [rounded, n] = round_product(bounded, log2_e2);
    float fraction = pk::fma(bounded, log2_e2, -rounded);
    float power = polynomial(fraction, 1.0f, 0.693147206f, 0.240226469f, 0.0555032871f, 0.00961848933f,
                             0.00133999573f, 0.000153457661f);
    float e2a = bit_cast<float>(to_bits(power) + (n << Format<float>::mantissa_bits));
    float large = 1.0f - 2.0f / (e2a + 1.0f);
    return copy_sign(select(a >= 0.55f, large, small), x);  // NaN stays in small
}

// With h = (e^2|x| - 1) / 2, h / (h + 1) written so that the quotient is a correction to h or to 1.
PK_HD double tanh(double x) {
    double h = half_expm1(2.0 * at_most(pk::abs(x), 20.0));
    double limit = select(h > 1.0, 1.0, h);
    return copy_sign(pk::fma(-limit, limit / (h + 1.0), limit), x);
}

// log(1 + a + a^2 / (1 + sqrt(1 + a^2))), or log 2a where that is the same.
template <class T>
PK_HD T arcsinh(T x) {
    T a = pk::abs(x);
    bool large = a > HyperbolicConstants<T>::large;
    T one_a = T(1) + a;
    T one_a_low = select(a < T(1), a - (one_a - T(1)), T(1) - (one_a - a));
    T rest = a * a / (T(1) + pk::sqrt(pk::fma(a, a, T(1))));
    T sum = one_a + rest;
    T low = (one_a - sum) + rest + one_a_low;
    T y = log_of_sum(select(large, a, sum), select(large, T(0), low), large);
    return copy_sign(select(a < Format<T>::infinity, y, a), x);
}

// log(x + sqrt(x^2 - 1)), or log 2x where that is the same.
template <class T>
PK_HD T arccosh(T x) {
    bool large = x > HyperbolicConstants<T>::large;
    T z = x - T(1);
    T root = pk::sqrt(pk::fma(z, z, z + z));
    T sum = x + root;
    T low = (x - sum) + root;
    T y = log_of_sum(select(large, x, sum), select(large, T(0), low), large);
    y = select(x < Format<T>::infinity, y, x);
    return select(x < T(1), Format<T>::nan, y);
}

// (arctanh s - s) / s^3 in z = s^2, |s| <= 0.267: minimax.
PK_HD float arctanh_tail(float z) {
    return polynomial(z, 0.333333139f, 0.200026133f, 0.141771024f, 0.128621188f);
}

PK_HD double arctanh_tail(double z) {
    return polynomial(z, 0.33333333333333415, 0.19999999999953252, 0.14285714294705107, 0.1111111026440217,
                      0.090909541064355281, 0.076908672167197989, 0.06694889776217243, 0.055532396831758757,
                      0.073187292487027253);
}

// Half the log of (1 + a) / (1 - a) = 2^n (1 + s) / (1 - s), which is n ln2 / 2 + arctanh s, |s| < 0.263.
template <class T>
PK_HD T arctanh(T x) {
    using F = Format<T>;
    T a = pk::abs(x);
    T plus = T(1) + a, plus_low = a - (plus - T(1));
    T minus = T(1) - a, minus_low = (T(1) - minus) - a;
    Bits<T> log2_ratio = to_bits(plus) - to_bits(minus);  // near enough, in units of the last place
    Bits<T> n = (log2_ratio + (Bits<T>(5) << (F::mantissa_bits - 4))) >> F::mantissa_bits;
    T scale = power_of_two<T>(n);
    T scaled = scale * minus, scaled_low = scale * minus_low;
    T difference = (plus - scaled) + (plus_low - scaled_low);
    T s = select(n == 0, a, difference / (plus + scaled));
    T z = s * s;
    T exponent = integer_value<T>(n) * T(0.5);
    LogBase<T> base = base_e(x);
    T fraction = s + pk::fma(exponent, base.log_b_2_lo, z * s * arctanh_tail(z));
    T y = pk::fma(exponent, base.log_b_2_hi, fraction);
    return copy_sign(select(a < T(1), y, select(a == T(1), F::infinity, F::nan)), x);
}

}  // namespace detail

// sinh and cosh of r by minimax, of n ln2 by powers of 2; addition theorem. Max error 1.43 / 1.76 ULP.
PK_HD float sinh(float x) { return detail::sinh(x); }
PK_HD double sinh(double x) { return detail::sinh(x); }

// As sinh. Max error 1.29 / 1.25 ULP.
PK_HD float cosh(float x) { return detail::cosh(x); }
PK_HD double cosh(double x) { return detail::cosh(x); }

// A polynomial and 1 - 2 / (e^2a + 1) for float, expm1 for double. Max error 1.59 / 2.29 ULP.
PK_HD float tanh(float x) { return detail::tanh(x); }
PK_HD double tanh(double x) { return detail::tanh(x); }

// log of a sum of two. Max error 1.29 / 1.31 ULP.
PK_HD float arcsinh(float x) { return detail::arcsinh(x); }
PK_HD double arcsinh(double x) { return detail::arcsinh(x); }

// log of a sum of two. Max error 1.63 / 1.69 ULP.
PK_HD float arccosh(float x) { return detail::arccosh(x); }
PK_HD double arccosh(double x) { return detail::arccosh(x); }

// One quotient, its logarithm by arctanh series. Max error 1.86 / 1.87 ULP.
PK_HD float arctanh(float x) { return detail::arctanh(x); }
PK_HD double arctanh(double x) { return detail::arctanh(x); }

}  // namespace pk::math
