// arcsin, arccos, arctan and arctan2, branch-free.
#pragma once

#include "trigonometric.h"

namespace pk::math {
namespace detail {

// arcsin(z) = z + z^3 arcsin_tail(z^2) for |z| <= 1 / 2.
PK_HD float arcsin_tail(float s) {
    return polynomial(s, 0.166667521f, 0.0749530941f, 0.0454691499f, 0.0241847765f, 0.0421583205f);
}

PK_HD double arcsin_tail(double s) {
    return polynomial(s, 0.16666666666665408, 0.075000000003371467, 0.044642856828209371,
                      0.030381959142244865, 0.022371757916136912, 0.017359706888422182, 0.013885213623687553,
                      0.012169360011013845, 0.0065273139547322914, 0.019530125378765778,
                      -0.016227247014567396, 0.031914371642510438);
}

// arctan(t) = t + t^3 arctan_tail(t^2) for |t| <= 1.
PK_HD float arctan_tail(float s) {
    return polynomial(s, -0.333332986f, 0.199985296f, -0.142640144f, 0.109508604f, -0.0839920193f,
                      0.0578786917f, -0.0310932621f, 0.010866073f, -0.00178208656f);
}

PK_HD double arctan_tail(double s) {
    return polynomial(s, -0.3333333333333186, 0.19999999999755183, -0.14285714271341243, 0.11111110678885854,
                      -0.090909012372072495, 0.076922129467653741, -0.066658604664889265,
                      0.058773082568043707, -0.052392347239291051, 0.046739542897006443, -0.04092648052087957,
                      0.034067970850219363, -0.025826997897662355, 0.016978229458425285,
                      -0.0091846991439866656, 0.0038560483570603613, -0.0011640981759761374,
                      0.00022302821895944306, -2.0259144841849093e-05);
}

// The selects precede the polynomials, because GCC duplicates the code between selects on one condition.

// The angle of a point in the upper half plane, from t = min(|x|, |y|) / max(|x|, |y|).
template <class T>
PK_HD T arctan_unfolded(T t, bool steep, bool left) {
    using C = Trigonometry<T>;
    T right_angles = select(steep, T(1), select(left, T(2), T(0)));
    T sign = select(steep != left, T(-1), T(1));
    T s = t * t;
    T tail = t * s * arctan_tail(s);
    T rest = pk::fma(sign, tail, right_angles * C::kHalfPi2);
    return pk::fma(right_angles, C::kHalfPi1, pk::fma(sign, t, rest));
}

}  // namespace detail

// Up to 1 / 2 a polynomial, beyond it pi / 2 - 2 arcsin(sqrt((1 - |x|) / 2)).
// Max error: 1.19 ULP for float, 1.21 for double.
template <class T>
PK_HD T arcsin(T x) {
    using C = detail::Trigonometry<T>;
    T magnitude = pk::abs(x);
    bool large = magnitude > T(0.5);
    T s = select(large, pk::fma(magnitude, T(-0.5), T(0.5)), magnitude * magnitude);
    T z = select(large, pk::sqrt(s), magnitude);
    T multiple = select(large, T(-2), T(1)), right_angles = select(large, T(1), T(0));
    T tail = z * s * detail::arcsin_tail(s);

    T start = right_angles * C::kHalfPi1;
    T rough = pk::fma(multiple, z, start);
    T rest = pk::fma(multiple, z, start - rough) + right_angles * C::kHalfPi2;
    return detail::flip_sign(rough + pk::fma(multiple, tail, rest), detail::to_bits(x));
}

// Up to 1 / 2 it is pi / 2 - arcsin(x), beyond it 2 arcsin(sqrt((1 - |x|) / 2)), from pi where x < 0.
// Max error: 1.17 ULP for float, 1.19 for double.
template <class T>
PK_HD T arccos(T x) {
    using C = detail::Trigonometry<T>;
    T magnitude = pk::abs(x);
    bool large = magnitude > T(0.5);
    T s = select(large, pk::fma(magnitude, T(-0.5), T(0.5)), magnitude * magnitude);
    T z = select(large, -detail::flip_sign(pk::sqrt(s), detail::to_bits(x)), x);
    T multiple = select(large, T(2), T(1));
    T right_angles = select(x > T(0.5), T(0), T(1));
    T tail = z * s * detail::arcsin_tail(s);
    return multiple * (pk::fma(right_angles, C::kHalfPi1, -z) + pk::fma(right_angles, C::kHalfPi2, -tail));
}

// A polynomial in |x| or 1 / |x|. Max error: 1.29 ULP for float, 1.33 for double.
template <class T>
PK_HD T arctan(T x) {
    T magnitude = pk::abs(x);
    bool steep = magnitude > T(1);
    T ratio = select(steep, T(1), magnitude) / select(steep, magnitude, T(1));
    return detail::flip_sign(detail::arctan_unfolded(ratio, steep, false), detail::to_bits(x));
}

// The polynomial of arctan for the octant, then unfolded by the signs.
// Max error: 1.51 ULP for float, 1.70 for double.
template <class T>
PK_HD T arctan2(T y, T x) {
    T width = pk::abs(x), height = pk::abs(y);
    bool steep = height > width, left = detail::to_bits(x) & detail::Format<T>::sign;
    T shorter = select(steep, width, height), longer = select(steep, height, width);
    T ratio = select(shorter == longer, select(longer == 0, T(0), T(1)), shorter / longer);
    return detail::flip_sign(detail::arctan_unfolded(ratio, steep, left), detail::to_bits(y));
}

}  // namespace pk::math
