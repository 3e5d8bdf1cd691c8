// log, log2, log10 and log1p for float and double: branch-free, and the same bits on every machine.
#pragma once

#include "binary_format.h"
#include "common/portable.h"
#include "polynomial.h"

namespace pk::math {
namespace detail {

// Constants of the base b: 1 / ln b and log_b 2, each as an unevaluated sum of a high and a low part.
template <class T>
struct LogBase {
    T inv_ln_b_hi, inv_ln_b_lo, log_b_2_hi, log_b_2_lo;
};

PK_HD constexpr LogBase<float> base_e(float) { return {1.0f, 0.0f, 0x1.62e430p-1f, -0x1.05c610p-29f}; }
PK_HD constexpr LogBase<float> base_2(float) { return {0x1.715476p+0f, 0x1.4ae0c0p-26f, 1.0f, 0.0f}; }
PK_HD constexpr LogBase<float> base_10(float) {
    return {0x1.bcb7b2p-2f, -0x1.5b235ep-27f, 0x1.344136p-2f, -0x1.ec10c0p-27f};
}

PK_HD constexpr LogBase<double> base_e(double) {
    return {1.0, 0.0, 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
}
PK_HD constexpr LogBase<double> base_2(double) {
    return {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1.0, 0.0};
}
PK_HD constexpr LogBase<double> base_10(double) {
    return {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.34413509f79ffp-2, -0x1.9dc1da994fd21p-59};
}

// log(1 + f) - f, sqrt(1/2) <= 1 + f < sqrt(2): minimax.
PK_HD float log_tail(float f) {
    float z = f * f;
    float even = polynomial(z, 0.333333168f, 0.2000228f, 0.141813176f, 0.128809272f);
    float odd = polynomial(z, -0.250008111f, -0.166245209f, -0.131292435f, -0.0785726956f);
    return z * pk::fma(f, pk::fma(f, odd, even), -0.5f);
}

// The same through 2 arctanh s, s = f / (2 + f), which needs far fewer terms. (2 s is f - s f.)
PK_HD double log_tail(double f) {
    double s = f / (2.0 + f);
    double z = s * s;
    double series =
        polynomial(z, 0.33333333333333676, 0.19999999999704665, 0.14285714371845271, 0.11111099214302853,
                   0.090917861866501165, 0.076569158500109022, 0.073991317546318866);
    return s * pk::fma(z + z, series, -f);
}

// x = 2^exponent (1 + f), sqrt(1/2) <= 1 + f < sqrt(2).
template <class T>
struct LogReduced {
    T f, exponent;
    T inverse;  // 2^-exponent, while that is a normal number
};

// Reduces a normal positive x; for any other, the result is unspecified. The usual bias is Format<T>::bias; a
// bias larger by k makes the exponent smaller by k.
template <class T>
PK_HD LogReduced<T> log_reduce_normal(T x, T bias) {
    using F = Format<T>;
    constexpr Bits<T> one = F::bias << F::mantissa_bits;
    Bits<T> shifted = to_bits(x) + (one - F::sqrt_half);
    Bits<T> exponent = shifted >> F::mantissa_bits;
    Bits<T> power = exponent << F::mantissa_bits;
    T fraction = bit_cast<T>(to_bits(x) - power + one);
    return {fraction - T(1), integer_value<T>(exponent) - bias, bit_cast<T>(2 * one - power)};
}

// For subnormal x as well, but without the inverse.
template <class T>
PK_HD LogReduced<T> log_reduce(T x) {
    using F = Format<T>;
    constexpr T lift = T(Bits<T>(1) << F::mantissa_bits);
    bool subnormal = x < F::min_normal;
    T bias = select(subnormal, T(F::bias + F::mantissa_bits), T(F::bias));
    return log_reduce_normal(select(subnormal, x * lift, x), bias);
}

// Extends a logarithm, `inside` on (0, infinity), to all x.
template <class T>
PK_HD T log_extended(T x, T inside) {
    using F = Format<T>;
    T y = select(x < F::infinity, inside, x);
    return select(x > T(0), y, select(x == T(0), -F::infinity, F::nan));
}

template <class T>
PK_HD T log(T x) {
    LogBase<T> base = base_e(x);
    auto [f, exponent, inverse] = log_reduce(x);
    T fraction = f + pk::fma(exponent, base.log_b_2_lo, log_tail(f));
    return log_extended(x, pk::fma(exponent, base.log_b_2_hi, fraction));
}

template <class T>
PK_HD T log_in_base(T x, LogBase<T> base) {
    auto [f, exponent, inverse] = log_reduce(x);
    T low = pk::fma(exponent, base.log_b_2_lo, base.inv_ln_b_lo * f);
    T fraction = pk::fma(base.inv_ln_b_hi, f, pk::fma(base.inv_ln_b_hi, log_tail(f), low));
    return log_extended(x, pk::fma(exponent, base.log_b_2_hi, fraction));
}

// log(x + low), or log(2x) if doubled; x is positive and normal, low at most a few of x's last places unless
// x = 1.
template <class T>
PK_HD T log_of_sum(T x, T low, bool doubled = false) {
    LogBase<T> base = base_e(x);
    T bias = T(Format<T>::bias);
    auto [f_high, exponent, inverse] = log_reduce_normal(x, select(doubled, bias - T(1), bias));
    T f_low = select(x > T(0x1p100), T(0), low * inverse);
    T f = f_high + f_low;
    T fraction = f + (pk::fma(exponent, base.log_b_2_lo, log_tail(f)) + (f_high - f + f_low));
    return pk::fma(exponent, base.log_b_2_hi, fraction);
}

template <class T>
PK_HD T log1p(T x) {
    T sum = T(1) + x;
    T low = select(x < T(1), x - (sum - T(1)), T(1) - (sum - x));
    T y = select(x == T(0), x, log_of_sum(sum, low));
    y = select(x < Format<T>::infinity, y, x);
    return select(x > T(-1), y, select(x == T(-1), -Format<T>::infinity, Format<T>::nan));
}

}  // namespace detail

// log x = exponent * ln 2 + log(1 + f) after the reduction x = 2^exponent (1 + f). log(1 + f) is a minimax
// polynomial to f^10 in float, the arctanh series to s^15 in double. Max error 0.94 / 0.94 ULP.
PK_HD float log(float x) { return detail::log(x); }
PK_HD double log(double x) { return detail::log(x); }

// The same, times 1 / ln 2 in two parts. Max error 1.17 / 1.05 ULP.
PK_HD float log2(float x) { return detail::log_in_base(x, detail::base_2(x)); }
PK_HD double log2(double x) { return detail::log_in_base(x, detail::base_2(x)); }

// The same, times 1 / ln 10 in two parts. Max error 1.04 / 1.00 ULP.
PK_HD float log10(float x) { return detail::log_in_base(x, detail::base_10(x)); }
PK_HD double log10(double x) { return detail::log_in_base(x, detail::base_10(x)); }

// log(s + e), with s = 1 + x rounded and e its rounding error. Max error 1.02 / 1.00 ULP.
PK_HD float log1p(float x) { return detail::log1p(x); }
PK_HD double log1p(double x) { return detail::log1p(x); }

}  // namespace pk::math
