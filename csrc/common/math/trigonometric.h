// sin, cos and tan, by Cody-Waite or Payne-Hanek argument reduction and a polynomial. Each has three parts:
// f(x) for every input; f_fast(x), which has no branch, so that loops over it vectorise; and f_is_fast(x),
// which tells where f_fast(x) has the same bits as f(x).
#pragma once

#include "binary_format.h"
#include "polynomial.h"

namespace pk::math {
namespace detail {

// pi / 2 = kHalfPi1 + kHalfPi2 + kHalfPi3, each part rounded towards zero. Adding and subtracting kRound
// rounds to an integer, which the low bits of the sum then hold.
template <class T>
struct Trigonometry;

template <>
struct Trigonometry<float> {
    static constexpr float kHalfPi1 = 0x1.921fb4p+0f, kHalfPi2 = 0x1.4442d0p-24f, kHalfPi3 = 0x1.846988p-48f;
    static constexpr float kTwoOverPi = 0x1.45f306p-1f;
    static constexpr float kRound = 0x1.8p+23f;
    static constexpr float kFastLimit = 0x1p+17f;
};

template <>
struct Trigonometry<double> {
    static constexpr double kHalfPi1 = 0x1.921fb54442d18p+0, kHalfPi2 = 0x1.1a62633145c06p-54;
    static constexpr double kHalfPi3 = 0x1.c1cd129024e08p-107;
    static constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
    static constexpr double kRound = 0x1.8p+52;
    static constexpr double kFastLimit = 0x1p+40;
};

// x, negated where the highest bit of flips is set.
template <class T>
PK_HD T flip_sign(T x, Bits<T> flips) {
    return bit_cast<T>(to_bits(x) ^ (flips & Format<T>::sign));
}

// The polynomials hold for |r| <= pi / 4 and a little beyond: sin(r) = r + r^3 sin_tail(r^2), and so tan,
// and cos(r) = 1 + r^2 cos_tail(r^2).
PK_HD float sin_tail(float s) { return polynomial(s, -0.166666538f, 0.00833210628f, -0.000195079003f); }

PK_HD double sin_tail(double s) {
    return polynomial(s, -0.1666666666666663, 0.0083333333333218407, -0.00019841269829358536,
                      2.7557313538498521e-06, -2.5050734382984347e-08, 1.5895432721356247e-10);
}

PK_HD float cos_tail(float s) {
    return polynomial(s, -0.5f, 0.0416666456f, -0.00138873025f, 2.44309667e-05f);
}

PK_HD double cos_tail(double s) {
    return polynomial(s, -0.5, 0.041666666666666595, -0.001388888888887334, 2.4801587288999521e-05,
                      -2.7557314216001436e-07, 2.0875705220091852e-09, -1.1358738555042897e-11);
}

PK_HD float tan_tail(float s) {
    return polynomial(s, 0.333333522f, 0.13332577f, 0.0540698655f, 0.0212299209f, 0.010973732f,
                      -8.84936308e-05f, 0.00446567684f);
}

PK_HD double tan_tail(double s) {
    return polynomial(s, 0.33333333333332776, 0.13333333333414826, 0.053968253926569121, 0.021869489611408676,
                      0.008863219129760529, 0.0035922893955785914, 0.001454756006264354,
                      0.00059507314669166673, 0.00022235464026540481, 0.00013657802012367125,
                      -2.6460832472983692e-05, 8.9521485164084674e-05, -4.4914133606537371e-05,
                      2.0872348365207144e-05);
}

// The angle quadrant * pi / 2 + remainder + low, where low is the rounding error of the remainder.
template <class T>
struct ReducedAngle {
    T remainder, low;
    Bits<T> quadrant;
};

// x = k kHalfPi1 + rest exactly, because all terms are multiples of one unit: the first step of Cody and
// Waite's argument reduction.
template <class T>
struct QuadrantCount {
    T k, rest;
    Bits<T> quadrant;
};

// For 0 <= x <= kFastLimit.
template <class T>
PK_HD QuadrantCount<T> count_quadrants(T x) {
    using C = Trigonometry<T>;
    T rounded = pk::fma(x, C::kTwoOverPi, C::kRound);
    T k = rounded - C::kRound;
    return {k, pk::fma(-k, C::kHalfPi1, x), to_bits(rounded)};
}

template <class T>
PK_HD ReducedAngle<T> reduce_fast(T x) {
    using C = Trigonometry<T>;
    auto [k, rest, quadrant] = count_quadrants(x);
    T r = pk::fma(-k, C::kHalfPi3, pk::fma(-k, C::kHalfPi2, rest));
    return {r, 0, quadrant};
}

// The same to twice the precision: low has the rounding errors of a product and of a difference (Knuth's
// TwoSum).
template <class T>
PK_HD ReducedAngle<T> reduce_fast_precisely(T x) {
    using C = Trigonometry<T>;
    auto [k, rest, quadrant] = count_quadrants(x);
    T product = k * C::kHalfPi2;
    T r = rest - product;
    T subtracted = rest - r;
    T difference_error = (rest - (r + subtracted)) + (subtracted - product);
    T product_error = pk::fma(k, C::kHalfPi3, pk::fma(k, C::kHalfPi2, -product));
    return {r, difference_error - product_error, quadrant};
}

// Payne and Hanek's argument reduction, for kFastLimit < |x|: x / (2 pi) without its integer part, in fixed
// point, from as many bits of 1 / (2 pi) as matter.
PK_HD ReducedAngle<double> reduce_huge(double x) {
    static constexpr uint64_t kInverseTwoPi[20] = {
        // the first word is the integer part
        0x0000000000000000, 0x28be60db9391054a, 0x7f09d5f47d4d3770, 0x36d8a5664f10e410, 0x7f9458eaf7aef158,
        0x6dc91b8e909374b8, 0x01924bba82746487, 0x3f877ac72c4a69cf, 0xba208d7d4baed121, 0x3a671c09ad17df90,
        0x4e64758e60d4ce7d, 0x272117e2ef7e4a0e, 0xc7fe25fff7816603, 0xfbcbc462d6829b47, 0xdb4d9fb3c9f2c26d,
        0xd3d18fd9a797fa8b, 0x5d49eeb1faf97c5e, 0xcf41ce7de294a4ba, 0x9afed7ec47e35742, 0x1580cc11bf1edaea};
    __extension__ typedef unsigned __int128 uint128_t;
    using C = Trigonometry<double>;
    if (!(x - x == 0)) return {x - x, 0, 0};

    // |x| = mantissa * 2^(start - 64), and the bits from start on are those that matter.
    uint64_t bits = to_bits(pk::abs(x));
    uint64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;
    int start = static_cast<int>(bits >> 52) - 1075 + 64;
    int word = start / 64, shift = start % 64;
    uint64_t window[3];
    for (int i = 0; i < 3; ++i) {
        window[i] = kInverseTwoPi[word + i] << shift | kInverseTwoPi[word + i + 1] >> 1 >> (63 - shift);
    }
    uint128_t turn = uint128_t(mantissa) * window[2] >> 64;
    turn += uint128_t(mantissa) * window[1];
    turn += uint128_t(mantissa * window[0]) << 64;

    // The nearest quadrant, and the signed remainder in quadrants, whose pieces are exact but for the last.
    uint64_t quadrant = (static_cast<uint64_t>(turn >> 125) + 1) >> 1;
    turn <<= 2;
    double a = static_cast<int32_t>(turn >> 96) * 0x1p-32;
    double b = static_cast<uint32_t>(turn >> 64) * 0x1p-64;
    double c = static_cast<double>(static_cast<uint64_t>(turn)) * 0x1p-128;
    double sum = a + b;
    c += b - (sum - a);
    double high = sum + c;
    double low = c - (high - sum);

    double product = high * C::kHalfPi1;
    double error = pk::fma(high, C::kHalfPi1, -product);
    error += pk::fma(low, C::kHalfPi1, high * C::kHalfPi2);
    double r = product + error;
    return {r, error - (r - product), quadrant};
}

// The sine of an angle whose polynomial is that of sin or cos, by the parity of the quadrant.
template <class T>
PK_HD T sin_reduced(T r, Bits<T> quadrant) {
    bool odd = quadrant & 1;
    T s = r * r;
    T tail = select(odd, cos_tail(s), sin_tail(s));
    T base = select(odd, T(1), r);
    return flip_sign(pk::fma(base * s, tail, base), quadrant << (8 * sizeof(T) - 2));
}

template <class T>
PK_HD T sin_of(ReducedAngle<T> angle, T x) {
    return flip_sign(sin_reduced(angle.remainder, angle.quadrant), to_bits(x));
}

template <class T>
PK_HD T cos_of(ReducedAngle<T> angle) {
    return sin_reduced(angle.remainder, angle.quadrant + 1);
}

// In odd quadrants -1 / tan(remainder), corrected by the remainder of that division.
template <class T>
PK_HD T tan_of(ReducedAngle<T> angle, T x) {
    T r = angle.remainder, s = r * r;
    T tail = pk::fma(r * s, tan_tail(s), pk::fma(angle.low, s, angle.low));
    T tangent = r + tail;
    T error = tail - (tangent - r);
    T inverse = T(-1) / tangent;
    T excess = pk::fma(inverse, error, pk::fma(inverse, tangent, T(1)));
    bool odd = angle.quadrant & 1;
    return flip_sign(select(odd, pk::fma(inverse, excess, inverse), tangent), to_bits(x));
}

}  // namespace detail

template <class T>
PK_HD bool sin_is_fast(T x) {
    return pk::abs(x) <= detail::Trigonometry<T>::kFastLimit;
}

template <class T>
PK_HD bool cos_is_fast(T x) {
    return pk::abs(x) <= detail::Trigonometry<T>::kFastLimit;
}

template <class T>
PK_HD bool tan_is_fast(T x) {
    return pk::abs(x) <= detail::Trigonometry<T>::kFastLimit;
}

template <class T>
PK_HD T sin_fast(T x) {
    return detail::sin_of(detail::reduce_fast(pk::abs(x)), x);
}

// Cody-Waite or Payne-Hanek reduction, then a polynomial. Max error: 1.55 ULP for float, 1.50 for double.
template <class T>
PK_HD T sin(T x) {
    if (sin_is_fast(x)) return sin_fast(x);
    if constexpr (sizeof(T) < sizeof(double))
        return static_cast<T>(sin(static_cast<double>(x)));
    else
        return detail::sin_of(detail::reduce_huge(pk::abs(x)), x);
}

template <class T>
PK_HD T cos_fast(T x) {
    return detail::cos_of(detail::reduce_fast(pk::abs(x)));
}

// sin, a quadrant further. Max error: 1.56 ULP for float, 1.47 for double.
template <class T>
PK_HD T cos(T x) {
    if (cos_is_fast(x)) return cos_fast(x);
    if constexpr (sizeof(T) < sizeof(double))
        return static_cast<T>(cos(static_cast<double>(x)));
    else
        return detail::cos_of(detail::reduce_huge(x));
}

template <class T>
PK_HD T tan_fast(T x) {
    return detail::tan_of(detail::reduce_fast_precisely(pk::abs(x)), x);
}

// Reduction as for sin, then a polynomial or its inverse. Max error: 1.26 ULP for float, 1.30 for double.
template <class T>
PK_HD T tan(T x) {
    if (tan_is_fast(x)) return tan_fast(x);
    if constexpr (sizeof(T) < sizeof(double))
        return static_cast<T>(tan(static_cast<double>(x)));
    else
        return detail::tan_of(detail::reduce_huge(pk::abs(x)), x);
}

}  // namespace pk::math
