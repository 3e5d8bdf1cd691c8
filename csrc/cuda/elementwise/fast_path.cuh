// Fast paths of float32 sqrt and divide in fused kernels: the Newton iteration that the compiler generates
// too, but with one range check for all elements of a thread instead of a branch for each. Only NVRTC
// compiles this.
#pragma once

#include "value.cuh"

namespace pk::device {

// The fast path of an operation. apply() is exact where range_key() is less than LIMIT; other elements take
// the general code. Most operations have none.
template <class Op, class T>
struct FastPath {
    static constexpr bool exists = false;
};

template <>
struct FastPath<ops::sqrt, float> {
    static constexpr bool exists = true;
    // From 2^-101 on no intermediate result is subnormal. Infinity is out of range.
    static constexpr uint32_t MIN_KEY = 0x0d000000, LIMIT = 0x7f800000 - MIN_KEY;

    __device__ static uint32_t range_key(float a, float) { return __float_as_uint(a) - MIN_KEY; }
    __device__ static float apply(float a, float) {
        float inverse;
        asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(a));
        const float root = __fmul_rn(a, inverse), half = __fmul_rn(inverse, 0.5f);
        return __fmaf_rn(__fmaf_rn(-root, root, a), half, root);
    }
    // Zeros are out of range, but frequent, and their results are known.
    __device__ static bool is_zero_case(float a, float) { return a == 0; }
    __device__ static float zero_result(float a, float) { return a; }
};

template <>
struct FastPath<ops::divide, float> {
    static constexpr bool exists = true;
    // Magnitudes from 2^-60 to 2^60: neither the quotient nor its remainder is subnormal.
    static constexpr uint32_t MIN_KEY = 2u * 0x21800000, LIMIT = 2u * 0x5d800000 - MIN_KEY;

    __device__ static uint32_t range_key(float value) { return 2 * __float_as_uint(value) - MIN_KEY; }
    __device__ static uint32_t range_key(float a, float b) { return max(range_key(a), range_key(b)); }
    __device__ static float apply(float a, float b) {
        float inverse;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
        inverse = __fmaf_rn(inverse, __fmaf_rn(-inverse, b, 1.0f), inverse);
        const float quotient = __fmul_rn(a, inverse);
        return __fmaf_rn(inverse, __fmaf_rn(-quotient, b, a), quotient);
    }
    __device__ static bool is_zero_case(float a, float b) { return a == 0 && range_key(b) < LIMIT; }
    __device__ static float zero_result(float a, float b) { return arith::sign_bit(b) ? -a : a; }
};

}  // namespace pk::device
