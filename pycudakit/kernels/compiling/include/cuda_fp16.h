// CUDA's half for the CPU: computed in float and rounded after every operation, which gives the GPU's bits.
#pragma once

#include "pycudakit_cuda.h"

extern "C++" {

static inline uint16_t pk_half_of(float value) {
    const uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fff;
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u)
        return (uint16_t)(sign | (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13);
    // The addition shifts and rounds the mantissa: the low bits of the sum are the subnormal number.
    return (uint16_t)(sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u));
}
static inline float pk_float_of(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | magnitude << 13);
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112f));
}
// Rounds to odd: the second rounding, to half, then gives the result of a single rounding.
static inline float pk_odd_of(double value) {
    const float nearest = (float)value;
    const uint32_t bits = __float_as_uint(nearest);
    if ((double)nearest == value || value != value || (bits & 1)) return nearest;
    const bool away = fabs((double)nearest) > fabs(value);
    return __uint_as_float(away ? bits - 1 : bits + 1);
}

struct __half_raw {
    unsigned short x;
};

struct __align__(2) __half {
    unsigned short bits;

    __half() = default;
    __half(__half_raw raw) : bits(raw.x) {}
    __half(float value) : bits(pk_half_of(value)) {}
    __half(double value) : bits(pk_half_of(pk_odd_of(value))) {}
    __half(int value) : __half((double)value) {}
    __half(unsigned int value) : __half((double)value) {}
    __half(long value) : __half((double)value) {}
    __half(unsigned long value) : __half((double)value) {}
    __half(long long value) : __half((double)value) {}
    __half(unsigned long long value) : __half((double)value) {}
    __half(short value) : __half((float)value) {}
    __half(unsigned short value) : __half((float)value) {}
    operator float() const { return pk_float_of(bits); }
};
typedef __half half;

struct __align__(4) __half2 {
    __half x, y;
};
typedef __half2 half2;

#define PK_HALF2(sign)                                                                                \
    static inline __half operator sign(__half a, __half b) { return __half((float)a sign(float) b); } \
    static inline __half &operator sign## = (__half & a, __half b) { return a = a sign b; }           \
    static inline __half2 operator sign(__half2 a, __half2 b) { return {a.x sign b.x, a.y sign b.y}; }
PK_HALF2(+)
PK_HALF2(-)
PK_HALF2(*)
PK_HALF2(/)
#undef PK_HALF2
#define PK_COMPARE(sign, name)                                                              \
    static inline bool operator sign(__half a, __half b) { return (float)a sign(float) b; } \
    static inline bool name(__half a, __half b) { return (float)a sign(float) b; }
PK_COMPARE(==, __heq)
PK_COMPARE(!=, __hne)
PK_COMPARE(<, __hlt)
PK_COMPARE(<=, __hle)
PK_COMPARE(>, __hgt)
PK_COMPARE(>=, __hge)
#undef PK_COMPARE
static inline __half operator-(__half a) { return __half_raw{(unsigned short)(a.bits ^ 0x8000u)}; }

static inline __half __float2half(float x) { return x; }
static inline __half __float2half_rn(float x) { return x; }
static inline __half __double2half(double x) { return x; }
static inline float __half2float(__half x) { return x; }
static inline __half __int2half_rn(int x) { return x; }
static inline __half __uint2half_rn(unsigned x) { return x; }
static inline int __half2int_rn(__half x) { return __float2int_rn(x); }
static inline int __half2int_rz(__half x) { return __float2int_rz(x); }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline short __half_as_short(__half x) { return (short)x.bits; }
static inline __half __ushort_as_half(unsigned short x) { return __half_raw{x}; }
static inline __half __short_as_half(short x) { return __half_raw{(unsigned short)x}; }

static inline __half __hadd(__half a, __half b) { return a + b; }
static inline __half __hsub(__half a, __half b) { return a - b; }
static inline __half __hmul(__half a, __half b) { return a * b; }
static inline __half __hdiv(__half a, __half b) { return a / b; }
static inline __half __hneg(__half a) { return -a; }
static inline __half __habs(__half a) { return __half_raw{(unsigned short)(a.bits & 0x7fffu)}; }
static inline __half __hfma(__half a, __half b, __half c) {
    // The product is exact in double; rounding the sum to odd avoids double rounding.
    const double product = (double)(float)a * (double)(float)b, addend = (double)(float)c;
    const double sum = product + addend, back = sum - product;
    const double error = (product - (sum - back)) + (addend - back);
    uint64_t bits = pk_bits(sum);
    if ((error > 0 || error < 0) && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return __half(pk_of_bits<double>(bits));
}
static inline bool __hisnan(__half a) { return (a.bits & 0x7fffu) > 0x7c00u; }
static inline int __hisinf(__half a) { return a.bits == 0x7c00u ? 1 : a.bits == 0xfc00u ? -1 : 0; }
static inline __half __hmin(__half a, __half b) { return fminf(a, b); }
static inline __half __hmax(__half a, __half b) { return fmaxf(a, b); }

#define PK_HALF1(name, function)                                          \
    static inline __half h##name(__half a) { return function((float)a); } \
    static inline __half2 h2##name(__half2 a) { return {h##name(a.x), h##name(a.y)}; }
PK_HALF1(sqrt, sqrtf)
PK_HALF1(rsqrt, pk_rsqrtf)
PK_HALF1(rcp, 1.0f /)
PK_HALF1(exp, expf)
PK_HALF1(exp2, exp2f)
PK_HALF1(log, logf)
PK_HALF1(log2, log2f)
PK_HALF1(log10, log10f)
PK_HALF1(sin, sinf)
PK_HALF1(cos, cosf)
PK_HALF1(floor, floorf)
PK_HALF1(ceil, ceilf)
PK_HALF1(trunc, truncf)
PK_HALF1(rint, rintf)
#undef PK_HALF1

static inline __half2 make_half2(__half x, __half y) { return {x, y}; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 __half2half2(__half x) { return {x, x}; }
static inline __half2 __float2half2_rn(float x) { return {x, x}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
static inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
static inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline float __low2float(__half2 v) { return v.x; }
static inline float __high2float(__half2 v) { return v.y; }
static inline __half2 __hadd2(__half2 a, __half2 b) { return a + b; }
static inline __half2 __hsub2(__half2 a, __half2 b) { return a - b; }
static inline __half2 __hmul2(__half2 a, __half2 b) { return a * b; }
static inline __half2 __h2div(__half2 a, __half2 b) { return a / b; }
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
}
