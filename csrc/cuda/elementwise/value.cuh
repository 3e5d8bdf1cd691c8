// Conversions and operations of program values on the device. nvcc and NVRTC both compile
// this.
#pragma once

#include "common/operations.h"

namespace pk::device {

// Bring a result back to the range of its dtype: narrow integers are computed in 32 bits, float16 as float.
__device__ inline float wrap(int type, float value) {
    return type == PK_FLOAT16 ? half::round(value) : value;
}
__device__ inline double wrap(int, double value) { return value; }
__device__ inline int64_t wrap(int, int64_t value) { return value; }
__device__ inline uint64_t wrap(int, uint64_t value) { return value; }
__device__ inline int32_t wrap(int type, int32_t value) {
    return type == PK_INT8 ? int8_t(value) : (type == PK_INT16 ? int16_t(value) : value);
}
__device__ inline uint32_t wrap(int type, uint32_t value) {
    return type == PK_UINT8 ? uint8_t(value) : (type == PK_UINT16 ? uint16_t(value) : value);
}

// The type that values of a storage type are computed in.
template <class T>
using class_of = typename std::conditional<
    std::is_floating_point<T>::value, T,
    typename std::conditional<
        sizeof(T) == 8, T,
        typename std::conditional<std::is_signed<T>::value, int32_t, uint32_t>::type>::type>::type;

template <class T>
__device__ class_of<T> widen(T value) {
    return value;
}
__device__ inline float widen(HalfBits value) { return half::to_float(value.bits); }
__device__ inline uint32_t widen(Bool value) { return value.byte != 0; }

template <class T, class From>
__device__ T narrow(From value) {
    if constexpr (std::is_same<T, HalfBits>::value) {
        return {half::from_float(value)};
    } else if constexpr (std::is_same<T, Bool>::value) {
        return {uint8_t(value)};
    } else {
        return T(value);
    }
}

// Cast a value to storage type T, widen it again, and add the exceptions that this raises.
template <class T, class From>
__device__ decltype(widen(T())) cast_to(From value, unsigned &exceptions) {
    if constexpr (std::is_same<T, Bool>::value) {
        return uint32_t(value != 0);
    } else if constexpr (std::is_same<T, HalfBits>::value) {
        using Rounded = typename std::conditional<std::is_same<From, double>::value, double, float>::type;
        const float result = half::round(Rounded(value));
        exceptions |= ops::cast_exceptions<float>(value, result);
        return result;
    } else {
        const T result = arith::cast<T>(value);
        exceptions |= ops::cast_exceptions<T>(value, result);
        return widen(result);
    }
}

// Apply an operation to values of a dtype, and add the exceptions that it raises. With one argument, b is a.
template <class Op, class T>
__device__ auto applied(int type, T a, T b, unsigned &exceptions) {
    auto apply = [&] {
        if constexpr (Op::arity == 2) return Op::apply(a, b);
        if constexpr (Op::arity == 1) return Op::apply(a);
    };
    if constexpr (Op::returns_bool) {
        return uint32_t(apply());
    } else {
        const T result = wrap(type, T(apply()));
        // A finite result reports nothing, and is the common case.
        if constexpr (arith::is_float<T>) {
            if (arith::is_finite(result)) return result;
        }
        exceptions |= ops::exceptions<Op, T>(a, b, result);
        return result;
    }
}

// Return which of a broadcast operand's distinct elements belongs to an element of the call. The table's
// format is described at BroadcastOperand.
__device__ inline int64_t broadcast_index(const int64_t *table, int64_t element) {
    const int64_t dims = *table++;
    int64_t index = 0;
    for (int64_t d = 0; d < dims; ++d) {
        const int64_t shape = *table++, stride = *table++, outer = element / shape;
        index += (element - outer * shape) * stride;
        element = outer;
    }
    return index;
}

// Divides by a size from an UnravelTable with a multiplication and a shift (Granlund and Montgomery 1994,
// figure 4.1). Dividends are less than 2^31. A default-constructed divisor yields 0.
struct FastDivisor {
    uint32_t size = 0, magic = 0, shift = 31;

    FastDivisor() = default;
    __device__ FastDivisor(const int64_t *table, int d)
        : size(uint32_t(table[1 + 2 * d])),
          magic(uint32_t(table[2 + 2 * d])),
          shift(uint32_t(uint64_t(table[2 + 2 * d]) >> 32)) {}
    __device__ uint32_t divide(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

}  // namespace pk::device
