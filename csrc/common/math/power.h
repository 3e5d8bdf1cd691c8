// pow for float and double: branch-free, and the same bits on every machine.
#pragma once

#include "binary_format.h"
#include "common/portable.h"
#include "exponential.h"
#include "logarithm.h"
#include "polynomial.h"

namespace pk::math {
namespace detail {

// The sign of pow(x, y) for its magnitude |x|^y, and the special cases.
template <class T>
PK_HD T signed_power(T x, T y, T power) {
    using F = Format<T>;
    constexpr T shift = T(Bits<T>(1) << F::mantissa_bits);
    T b = pk::abs(y);
    // b less twice b / 2 rounded: 1 for odd b, 0 or (for large b) an even number for even b.
    T remainder = pk::abs(pk::fma(T(-2), pk::fma(b, T(0.5), shift) - shift, b));
    bool odd = remainder == T(1);
    bool fractional = (remainder > T(0)) & (remainder < T(1));
    T p = bit_cast<T>(to_bits(power) | to_bits(select(odd, copy_sign(T(0), x), T(0))));
    p = select(fractional & (x < T(0)) & (x > -F::infinity), F::nan, p);
    return select((x == T(1)) | (y == T(0)), T(1), p);
}

template <class T>
struct Log2Constants;  // 2 / ln2 and 2 / (3 ln2), each as a number and its rounding error

template <>
struct Log2Constants<float> {
    static constexpr float c0 = 0x1.715476p+1f, c0_low = 0x1.4ae0c0p-25f;
    static constexpr float c1 = 0x1.ec709ep-1f, c1_low = -0x1.e2fe02p-28f;
};

template <>
struct Log2Constants<double> {
    static constexpr double c0 = 0x1.71547652b82fep+1, c0_low = 0x1.777d0ffda0d24p-55;
    static constexpr double c1 = 0x1.ec709dc3a03fdp-1, c1_low = 0x1.d27f05548af0cp-55;
};

// (2 arctanh s / (s ln2) - c0 - c1 z) / z^2 in z = s^2, |s| <= 0.172: minimax.
PK_HD float log2_tail(float z) { return polynomial(z, 0.577080221f, 0.41184706f, 0.337884166f); }
PK_HD double log2_tail(double z) {
    double w = z * z;
    double even =
        polynomial(w, 0.57707801635561828, 0.32059890230120802, 0.22198411965636247, 0.19041373913559242);
    double odd = polynomial(w, 0.41219858309179319, 0.26230769858882996, 0.19125221291951827);
    return pk::fma(z, odd, even);
}

template <class T>
struct Pair {
    T high, low;
};

// log2 a, a >= 0, to a dozen bits more than T has: 2 arctanh s / ln2, s = f / (2 + f), its first terms as
// pairs.
template <class T>
PK_HD Pair<T> log2_pair(T a) {
    using F = Format<T>;
    using C = Log2Constants<T>;
    auto [f, n, inverse] = log_reduce(a);
    T exponent = select(a == T(0), -F::infinity, select(a < F::infinity, n, a));

    T sum = T(2) + f, sum_low = f - (sum - T(2));
    T reciprocal = T(1) / sum;
    T s = f * reciprocal;
    T s_low = pk::fma(-s, sum_low, pk::fma(-s, sum, f)) * reciprocal;
    T z = s * s, z_low = pk::fma(s + s, s_low, pk::fma(s, s, -z));

    T tail = z * log2_tail(z);
    T inner = C::c1 + tail, inner_low = (C::c1 - inner) + (tail + C::c1_low);
    T product = z * inner;
    T product_low = pk::fma(z, inner, -product) + pk::fma(z, inner_low, pk::fma(z_low, inner, C::c0_low));
    T outer = C::c0 + product, outer_low = (C::c0 - outer + product) + product_low;
    T fraction = s * outer;
    T fraction_low = pk::fma(s, outer_low, pk::fma(s_low, outer, pk::fma(s, outer, -fraction)));
    T high = exponent + fraction;
    return {high, (exponent - high + fraction) + fraction_low};
}

template <class T>
PK_HD T pow(T x, T y) {
    auto [log_high, log_low] = log2_pair(pk::abs(x));
    T b = clamp(y, T(-0x1p70), T(0x1p70));  // beyond which only |x| = 1 has a finite logarithm of the power
    T high = b * log_high;
    T low = pk::fma(b, log_low, pk::fma(b, log_high, -high));
    return signed_power(x, y, exp2(high, select(pk::abs(high) < T(0x1p11), low, T(0))));
}

}  // namespace detail

// 2^(y log2 x) with log2 x, its product with y and the exponent as pairs. Max error 1.06 / 1.26 ULP.
PK_HD float pow(float x, float y) { return detail::pow(x, y); }
PK_HD double pow(double x, double y) { return detail::pow(x, y); }

}  // namespace pk::math
