// The bit layout of float and double, for elementary functions that split numbers by their bits.
#pragma once

#include "common/portable.h"

namespace pk::math::detail {

template <class T>
struct Format;

template <>
struct Format<float> {
    using Bits = uint32_t;
    static constexpr int mantissa_bits = 23;
    static constexpr Bits bias = 127;
    static constexpr Bits sign = 0x80000000u;
    static constexpr Bits sqrt_half = 0x3f3504f3u;
    static constexpr float min_normal = 0x1p-126f;
    static constexpr float infinity = __builtin_inff();
    static constexpr float nan = __builtin_nanf("");
};

template <>
struct Format<double> {
    using Bits = uint64_t;
    static constexpr int mantissa_bits = 52;
    static constexpr Bits bias = 1023;
    static constexpr Bits sign = 0x8000000000000000u;
    static constexpr Bits sqrt_half = 0x3fe6a09e667f3bcdu;
    static constexpr double min_normal = 0x1p-1022;
    static constexpr double infinity = __builtin_inf();
    static constexpr double nan = __builtin_nan("");
};

template <class T>
using Bits = typename Format<T>::Bits;

template <class T>
PK_HD Bits<T> to_bits(T x) {
    return bit_cast<Bits<T>>(x);
}

template <class T>
PK_HD T copy_sign(T magnitude, T sign) {
    return bit_cast<T>((to_bits(magnitude) & ~Format<T>::sign) | (to_bits(sign) & Format<T>::sign));
}

// 2^n, n within the exponents of normal numbers; higher bits of n than the exponent has are ignored.
template <class T>
PK_HD T power_of_two(Bits<T> n) {
    return bit_cast<T>((n + Format<T>::bias) << Format<T>::mantissa_bits);
}

// An integer in [0, 2^mantissa_bits) as T. (No instruction converts 64-bit ones before AVX-512.)
template <class T>
PK_HD T integer_value(Bits<T> n) {
    constexpr T offset = T(Bits<T>(1) << Format<T>::mantissa_bits);
    return bit_cast<T>(n | to_bits(offset)) - offset;
}

// An integer below 2^(mantissa_bits - 2) in size, and its low mantissa_bits - 1 bits. (The others are noise.)
template <class T>
struct Rounded {
    T value;
    Bits<T> bits;
};

// The integer nearest to x factor.
template <class T>
PK_HD Rounded<T> round_product(T x, T factor) {
    constexpr T shift = T(Bits<T>(3) << (Format<T>::mantissa_bits - 1));
    T shifted = pk::fma(x, factor, shift);
    return {shifted - shift, to_bits(shifted)};
}

// These keep NaN. (clamp compares x itself twice: GCC makes a worse loop of a second select on the first's.)
template <class T>
PK_HD T at_most(T x, T high) {
    return select(x > high, high, x);
}

template <class T>
PK_HD T clamp(T x, T low, T high) {
    T bounded = select(x > high, high, x);
    return select(x < low, low, bounded);
}

}  // namespace pk::math::detail
