// Functions that host compilers and CUDA spell differently: forced inlining, bit casts, fused multiply-add,
// square root, absolute value, exponents and select.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Inlining is forced for correctness, not for speed. Objects are built for different instruction sets, and
// the linker keeps one copy of an inline function for all of them; a program that ran the copy of the newest
// set would crash on machines without these instructions.
#if defined(__CUDACC__)
#define PK_HD __host__ __device__ __forceinline__
#else
#define PK_HD inline __attribute__((always_inline))
#endif

namespace pk {

template <class To, class From>
PK_HD To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast needs equal sizes");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

// Both engines are built without contraction, so a fused multiply-add happens only where this is called.
PK_HD float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return ::fmaf(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}

PK_HD double fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
    return ::fma(a, b, c);
#else
    return __builtin_fma(a, b, c);
#endif
}

PK_HD float sqrt(float x) {
#if defined(__CUDA_ARCH__)
    return ::sqrtf(x);
#else
    return __builtin_sqrtf(x);
#endif
}

PK_HD double sqrt(double x) {
#if defined(__CUDA_ARCH__)
    return ::sqrt(x);
#else
    return __builtin_sqrt(x);
#endif
}

PK_HD float abs(float x) { return bit_cast<float>(bit_cast<uint32_t>(x) & 0x7fffffffu); }
PK_HD double abs(double x) { return bit_cast<double>(bit_cast<uint64_t>(x) & 0x7fffffffffffffffu); }

// The exponent field of a float64: its exponent plus 1023.
PK_HD int64_t biased_exponent(double x) { return int64_t(bit_cast<uint64_t>(x) >> 52 & 0x7ff); }
// 2^exponent, for an unbiased exponent from -1022 to 1023.
PK_HD double two_to(int64_t exponent) { return bit_cast<double>(uint64_t(exponent + 1023) << 52); }

// Both values are evaluated before the call, so compilers can vectorise a loop that selects.
template <class T>
PK_HD T select(bool condition, T yes, T no) {
    return condition ? yes : no;
}

}  // namespace pk
