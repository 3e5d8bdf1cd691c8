// hypot and cbrt, branch-free.
#pragma once

#include "binary_format.h"
#include "polynomial.h"

namespace pk::math {
namespace detail {

// Powers of two that scale numbers above kHuge or below kTiny, so that squares and cubes neither overflow nor
// underflow; and the constants of the first estimate of x^(-1/3).
template <class T>
struct Roots;

template <>
struct Roots<float> {
    static constexpr float kHuge = 0x1p+60f, kShrink = 0x1p-80f, kTiny = 0x1p-40f, kGrow = 0x1p+99f;
    static constexpr float kCbrtGrow = 0x1p+33f, kEstimate = 0x54a200;
    static constexpr int kShift = 8;
};

template <>
struct Roots<double> {
    static constexpr double kHuge = 0x1p+500, kShrink = 0x1p-600, kTiny = 0x1p-400, kGrow = 0x1p+699;
    static constexpr double kCbrtGrow = 0x1p+233, kEstimate = 0x553ee92f;
    static constexpr int kShift = 32;
};

template <class T>
PK_HD T inverse_power_of_two(T x) {
    return bit_cast<T>(2 * to_bits(T(1)) - to_bits(x));
}

// x^(-1/3) within 3.5 percent, x normal and positive: minus a third of the bits of its exponent and mantissa.
template <class T>
PK_HD T inverse_cbrt_estimate(T x) {
    constexpr T kOffset = T(Bits<T>(1) << Format<T>::mantissa_bits);
    T leading = bit_cast<T>(to_bits(kOffset) | to_bits(x) >> Roots<T>::kShift) - kOffset;
    T estimate = pk::fma(leading, T(-1 / 3.0), kOffset + Roots<T>::kEstimate);
    return bit_cast<T>(to_bits(estimate) << Roots<T>::kShift);
}

}  // namespace detail

// sqrt(x^2 + y^2) after scaling by a power of two. Max error: 1.02 ULP for float and for double.
template <class T>
PK_HD T hypot(T x, T y) {
    using C = detail::Roots<T>;
    constexpr T kInfinity = detail::Format<T>::infinity;
    T a = pk::abs(x), b = pk::abs(y);
    T longer = select(a > b, a, b), shorter = select(a > b, b, a);
    T scale = select(longer > C::kHuge, C::kShrink, T(1));
    scale = select(longer < C::kTiny, C::kGrow, scale);
    T p = longer * scale, q = shorter * scale;
    T length = pk::sqrt(pk::fma(p, p, q * q)) * detail::inverse_power_of_two(scale);
    return select(a == kInfinity || b == kInfinity, kInfinity, length);
}

// Newton's method for x^(-1/3) with terms of higher order, then one step for x^(1/3).
// Max error: 0.54 ULP for float, 0.51 for double.
template <class T>
PK_HD T cbrt(T x) {
    using C = detail::Roots<T>;
    constexpr T kInfinity = detail::Format<T>::infinity;
    constexpr T k1 = T(1 / 3.0), k2 = T(2 / 9.0), k3 = T(14 / 81.0);
    T magnitude = pk::abs(x);
    bool tiny = magnitude < C::kTiny;
    T scale = select(tiny, C::kGrow, T(1)), unscale = select(tiny, 1 / C::kCbrtGrow, T(1));
    T a = magnitude * scale;

    T y = detail::inverse_cbrt_estimate(a);
    T excess = pk::fma(-a * y, y * y, T(1));
    y = pk::fma(y * excess, detail::polynomial(excess, k1, k2, k3), y);
    if constexpr (sizeof(T) == sizeof(double)) {
        excess = pk::fma(-a * y, y * y, T(1));
        y = pk::fma(y * excess, detail::polynomial(excess, k1, k2), y);
    }
    T inverse_square = y * y;
    T root = a * inverse_square;
    T square = root * root, square_error = pk::fma(root, root, -square);
    T residual = pk::fma(-square_error, root, pk::fma(-square, root, a));
    root = pk::fma(residual * k1, inverse_square, root) * unscale;
    return select(magnitude > 0 && magnitude < kInfinity, select(x < 0, -root, root), x);
}

}  // namespace pk::math
