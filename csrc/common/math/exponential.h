// exp, exp2 and expm1 for float and double: branch-free, and the same bits on every machine.
#pragma once

#include "binary_format.h"
#include "common/portable.h"
#include "polynomial.h"

namespace pk::math {
namespace detail {

template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
    static constexpr float log2_e = 0x1.715476p+0f;
    static constexpr float ln2_hi = 0x1.62e430p-1f, ln2_lo = -0x1.05c610p-29f;
    static constexpr float exp_min = -105.0f, exp_max = 89.0f;
    static constexpr float exp2_min = -151.0f, exp2_max = 129.0f;
    static constexpr float expm1_min = -20.0f;
};

template <>
struct ExpConstants<double> {
    static constexpr double log2_e = 0x1.71547652b82fep+0;
    static constexpr double ln2_hi = 0x1.62e42fefa39efp-1, ln2_lo = 0x1.abc9e3b39803fp-56;
    static constexpr double exp_min = -746.0, exp_max = 710.0;
    static constexpr double exp2_min = -1076.0, exp2_max = 1025.0;
    static constexpr double expm1_min = -40.0;
};

// (sinh r - r) / r^3 and (cosh r - 1) / r^2 in z = r^2, |r| <= ln2 / 2: minimax.
PK_HD float sinh_tail(float z) { return polynomial(z, 0.166665424f, 0.00836666085f); }
PK_HD float cosh_tail(float z) { return polynomial(z, 0.500000008f, 0.0416662653f, 0.00139463601f); }

PK_HD double sinh_tail(double z) {
    return polynomial(z, 0.16666666666666677, 0.0083333333333215093, 0.00019841269886465603,
                      2.75572438400775e-06, 2.5109174442934998e-08);
}

PK_HD double cosh_tail(double z) {
    return polynomial(z, 0.50000000000000133, 0.041666666666512905, 0.0013888888947658328,
                      2.4801489280536183e-05, 2.7631517485576776e-07);
}

// (e^r - 1 - r) / r^2, |r| <= ln2 / 2
template <class T>
PK_HD T exp_tail(T r) {
    T z = r * r;
    return pk::fma(r, sinh_tail(z), cosh_tail(z));
}

// Cody-Waite reduction: x = n ln2 + r + r_low, |r| <= ln2 / 2. The first step of the subtraction is exact, so
// r_low is the rounding error of r.
template <class T>
struct ExpReduced {
    Bits<T> n;
    T r, r_low;
};

template <class T>
PK_HD ExpReduced<T> exp_reduce(T x) {
    using C = ExpConstants<T>;
    Rounded<T> n = round_product(x, C::log2_e);
    T high = pk::fma(n.value, -C::ln2_hi, x);
    T r = pk::fma(n.value, -C::ln2_lo, high);
    return {n.bits, r, pk::fma(n.value, -C::ln2_lo, high - r)};
}

// 2^n e^r, rounded once even where it is subnormal: two factors, of which the first is exact.
template <class T>
PK_HD T exp_scaled(T r, Bits<T> n) {
    using F = Format<T>;
    Bits<T> exponents = n + 2 * F::bias;
    Bits<T> half = exponents >> 1;
    T first = bit_cast<T>(half << F::mantissa_bits);
    T second = bit_cast<T>((exponents - half) << F::mantissa_bits);
    return polynomial(r, T(1), T(1), exp_tail(r)) * first * second;
}

template <class T>
PK_HD T exp(T x) {
    using C = ExpConstants<T>;
    auto [n, r, r_low] = exp_reduce(clamp(x, C::exp_min, C::exp_max));
    return exp_scaled(r, n);
}

// 2^(x + low)
template <class T>
PK_HD T exp2(T x, T low) {
    using C = ExpConstants<T>;
    x = clamp(x, C::exp2_min, C::exp2_max);
    Rounded<T> n = round_product(x, T(1));
    return exp_scaled((x - n.value + low) * C::ln2_hi, n.bits);
}

// (e^x - 1) / 2 from 2^n (e^r - 1) + (2^n - 1), the parts added in order of size. (Half, so that 2^n is
// finite.)
template <class T>
PK_HD T half_expm1(T x) {
    auto [n, r, r_low] = exp_reduce(x);
    T scale = power_of_two<T>(n - 1);
    T tail = pk::fma(r * r, exp_tail(r), r_low);
    return pk::fma(scale, r, scale - T(0.5)) + scale * tail;
}

template <class T>
PK_HD T expm1(T x) {
    using C = ExpConstants<T>;
    T half = half_expm1(clamp(x, C::expm1_min, C::exp_max));
    return select(pk::abs(x) < T(0x1p-100), x, half + half);  // Half a subnormal number need not be one.
}

}  // namespace detail

// Subtracts n ln2 in two parts; minimax to r^6 / r^11; 2^n in two factors. Max error 0.95 / 0.93 ULP.
PK_HD float exp(float x) { return detail::exp(x); }
PK_HD double exp(double x) { return detail::exp(x); }

// The same on x - n, which is exact. Max error 0.95 / 1.03 ULP.
PK_HD float exp2(float x) { return detail::exp2(x, 0.0f); }
PK_HD double exp2(double x) { return detail::exp2(x, 0.0); }

// The same, with the rounding of r carried along. Max error 1.33 / 1.35 ULP.
PK_HD float expm1(float x) { return detail::expm1(x); }
PK_HD double expm1(double x) { return detail::expm1(x); }

}  // namespace pk::math
