// The compiler builtins and the parts of the C++ standard library that fused kernels need: NVRTC has neither.
#pragma once

#define __extension__
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000)
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000)
#define __builtin_nanf(_) __builtin_bit_cast(float, 0x7fc00000)
#define __builtin_nan(_) __builtin_bit_cast(double, 0x7ff8000000000000)

namespace std {

template <bool condition, class A, class B>
struct conditional {
    using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
    using type = B;
};

template <class A, class B>
struct is_same {
    static constexpr bool value = false;
};
template <class A>
struct is_same<A, A> {
    static constexpr bool value = true;
};

template <class T>
struct is_floating_point {
    static constexpr bool value = is_same<T, float>::value || is_same<T, double>::value;
};
template <class T>
struct is_signed {
    static constexpr bool value = is_floating_point<T>::value || is_same<T, int8_t>::value ||
                                  is_same<T, int16_t>::value || is_same<T, int32_t>::value ||
                                  is_same<T, int64_t>::value;
};
template <class T>
struct is_integral {
    static constexpr bool value = is_same<T, uint8_t>::value || is_same<T, uint16_t>::value ||
                                  is_same<T, uint32_t>::value || is_same<T, uint64_t>::value ||
                                  (is_signed<T>::value && !is_floating_point<T>::value);
};

template <class T>
struct numeric_limits {
    __device__ static constexpr T max() {
        return is_signed<T>::value ? T((uint64_t(1) << (sizeof(T) * 8 - 1)) - 1) : T(~uint64_t(0));
    }
    __device__ static constexpr T min() { return is_signed<T>::value ? T(-max() - 1) : T(0); }
};
template <>
struct numeric_limits<float> {
    __device__ static constexpr float min() { return 0x1p-126f; }
    __device__ static constexpr float max() { return 0x1.fffffep127f; }
};
template <>
struct numeric_limits<double> {
    __device__ static constexpr double min() { return 0x1p-1022; }
    __device__ static constexpr double max() { return 0x1.fffffffffffffp1023; }
};

}  // namespace std
