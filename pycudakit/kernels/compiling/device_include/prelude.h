// The prelude of every source that NVRTC compiles: the declarations of standard headers, which NVRTC lacks,
// and a printf whose output Python prints. Macros are spelled exactly as in CCCL, which defines them again.
#pragma once

typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;

// Types that nvcc takes from <sys/types.h>.
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned char u_char;
typedef unsigned short u_short;
typedef unsigned int u_int;
typedef unsigned long u_long;

#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX UINT64_MAX

#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-SHRT_MAX - 1)
#define SHRT_MAX 0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LONG_MIN (-LONG_MAX - 1)
#define LONG_MAX LLONG_MAX
#define ULONG_MAX ULLONG_MAX
#define LLONG_MIN (-LLONG_MAX - 1)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL

#define FLT_MIN 1.17549435082228750796873653722224568e-38f
#define FLT_MAX 3.40282346638528859811704183484516925e+38f
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#define DBL_DIG 15
#define DBL_MANT_DIG 53

#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
// Not macros, since CCCL defines some of these names, and would warn.
static constexpr float INFINITY = __builtin_bit_cast(float, 0x7f800000);
static constexpr float NAN = __builtin_bit_cast(float, 0x7fffffff);

// C++'s overloads of C functions for integers and mixed types: NVRTC has those for float and double only.
#define PK_OF_ONE(name)                                             \
    template <class T>                                              \
    __device__ inline auto name(T x) -> decltype(x % x, double()) { \
        return name((double)x);                                     \
    }
#define PK_OF_TWO(name)                                              \
    template <class A, class B>                                      \
    __device__ inline auto name(A x, B y) -> decltype(x * y + 1.0) { \
        return name((double)x, (double)y);                           \
    }
PK_OF_ONE(sqrt)
PK_OF_ONE(cbrt)
PK_OF_ONE(exp)
PK_OF_ONE(exp2)
PK_OF_ONE(expm1)
PK_OF_ONE(log)
PK_OF_ONE(log2)
PK_OF_ONE(log10)
PK_OF_ONE(log1p)
PK_OF_ONE(sin)
PK_OF_ONE(cos)
PK_OF_ONE(tan)
PK_OF_ONE(asin)
PK_OF_ONE(acos)
PK_OF_ONE(atan)
PK_OF_ONE(sinh)
PK_OF_ONE(cosh)
PK_OF_ONE(tanh)
PK_OF_ONE(asinh)
PK_OF_ONE(acosh)
PK_OF_ONE(atanh)
PK_OF_ONE(erf)
PK_OF_ONE(erfc)
PK_OF_ONE(tgamma)
PK_OF_ONE(lgamma)
PK_OF_ONE(ceil)
PK_OF_ONE(floor)
PK_OF_ONE(trunc)
PK_OF_ONE(round)
PK_OF_ONE(rint)
PK_OF_ONE(nearbyint)
PK_OF_ONE(fabs)
PK_OF_TWO(pow)
PK_OF_TWO(atan2)
PK_OF_TWO(fmod)
PK_OF_TWO(remainder)
PK_OF_TWO(fmin)
PK_OF_TWO(fmax)
PK_OF_TWO(fdim)
PK_OF_TWO(hypot)
PK_OF_TWO(copysign)
PK_OF_TWO(nextafter)
#undef PK_OF_ONE
#undef PK_OF_TWO
namespace std {
using ::sqrt, ::cbrt, ::exp, ::exp2, ::expm1, ::log, ::log2, ::log10, ::log1p, ::sin, ::cos, ::tan, ::asin,
    ::acos, ::atan, ::sinh, ::cosh, ::tanh, ::asinh, ::acosh, ::atanh, ::erf, ::erfc, ::tgamma, ::lgamma,
    ::ceil, ::floor, ::trunc, ::round, ::rint, ::nearbyint, ::fabs, ::pow, ::atan2, ::fmod, ::remainder,
    ::fmin, ::fmax, ::fdim, ::hypot, ::copysign, ::nextafter, ::abs, ::fma, ::frexp, ::ldexp, ::modf, ::ilogb,
    ::logb, ::scalbn, ::lrint, ::lround, ::llrint, ::llround, ::isnan, ::isinf, ::isfinite, ::signbit;
}  // namespace std

// printf appends a record to the run's print buffer, which csrc/cuda/kernels/device_printf.h reads:
//   size of the record (32 bits), number of arguments (32) | format | for each argument: kind (64) and value
// A string is stored as its length (64) and its characters. Everything is padded to 8 bytes.
namespace pycudakit {

struct Printed {
    unsigned long long used, capacity;  // in bytes, of the records that follow
};

// A template, so that code is generated only if a kernel prints.
template <class>
__device__ Printed *printed = nullptr;

enum Kind { SIGNED, UNSIGNED, FLOATING, POINTER, TEXT };

__device__ inline unsigned long long rounded(unsigned long long bytes) { return (bytes + 7) / 8 * 8; }

__device__ inline unsigned long long length(const char *text) {
    unsigned long long n = 0;
    while (n < 4096 && text[n] != 0) ++n;
    return n;
}

// Returns the conversion letter for the argument at this position; 0 if there is none.
__device__ inline char conversion(const char *format, int place) {
    for (; *format != 0; ++format) {
        if (*format != '%') continue;
        ++format;
        if (*format == '%') continue;
        for (;; ++format) {
            const char c = *format;
            if (c == 0) return 0;
            if (c == '*' && place-- == 0) return 'd';
            const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            if (letter && c != 'l' && c != 'h' && c != 'z' && c != 'j' && c != 't' && c != 'L' && c != 'q')
                break;
        }
        if (place-- == 0) return *format;
    }
    return 0;
}

struct Writer {
    char *to;

    __device__ void word(unsigned long long value) {
        *reinterpret_cast<unsigned long long *>(to) = value;
        to += 8;
    }
    __device__ void text(const char *from, unsigned long long bytes) {
        word(bytes);
        for (unsigned long long i = 0; i < rounded(bytes); ++i) to[i] = i < bytes ? from[i] : 0;
        to += rounded(bytes);
    }
};

// Applies C's default argument promotions.
struct Argument {
    Kind kind;
    unsigned long long bits;

    __device__ Argument(double value) : kind(FLOATING), bits(__double_as_longlong(value)) {}
    __device__ Argument(float value) : Argument(double(value)) {}
    __device__ Argument(bool value) : kind(SIGNED), bits(value) {}
    __device__ Argument(char value) : Argument(int(value)) {}
    __device__ Argument(signed char value) : Argument(int(value)) {}
    __device__ Argument(unsigned char value) : Argument(int(value)) {}
    __device__ Argument(short value) : Argument(int(value)) {}
    __device__ Argument(unsigned short value) : Argument(int(value)) {}
    __device__ Argument(int value) : kind(SIGNED), bits((unsigned long long)(long long)value) {}
    __device__ Argument(unsigned value) : kind(UNSIGNED), bits(value) {}
    __device__ Argument(long value) : kind(SIGNED), bits((unsigned long long)value) {}
    __device__ Argument(unsigned long value) : kind(UNSIGNED), bits(value) {}
    __device__ Argument(long long value) : kind(SIGNED), bits((unsigned long long)value) {}
    __device__ Argument(unsigned long long value) : kind(UNSIGNED), bits(value) {}
    __device__ Argument(decltype(nullptr)) : kind(POINTER), bits(0) {}
    __device__ Argument(const volatile void *value) : kind(POINTER), bits((unsigned long long)value) {}
    __device__ Argument(const char *value) : kind(TEXT), bits((unsigned long long)value) {}
    __device__ Argument(char *value) : Argument((const char *)value) {}

    // A pointer to char is a string only if its conversion is %s.
    __device__ void resolve_char_pointer(const char *format, int place) {
        if (kind == TEXT && (bits == 0 || conversion(format, place) != 's')) kind = POINTER;
    }
    __device__ unsigned long long bytes() const {
        return 16 + (kind == TEXT ? rounded(length((const char *)bits)) : 0);
    }
    __device__ void write(Writer &writer) const {
        writer.word(kind);
        if (kind == TEXT) {
            writer.text((const char *)bits, length((const char *)bits));
        } else {
            writer.word(bits);
        }
    }
};

template <class Nothing>
__device__ __noinline__ int print(const char *format, Argument *arguments, int count) {
    Printed *const into = printed<Nothing>;
    if (into == nullptr) return -1;
    const unsigned long long letters = length(format);
    unsigned long long bytes = 16 + rounded(letters);
    for (int i = 0; i < count; ++i) {
        arguments[i].resolve_char_pointer(format, i);
        bytes += arguments[i].bytes();
    }
    const unsigned long long at = atomicAdd(&into->used, bytes);
    Writer writer{reinterpret_cast<char *>(into + 1) + at};
    if (at + bytes > into->capacity) {
        if (at + 8 <= into->capacity) writer.word(0);  // marks the end of the records
        return -1;
    }
    writer.word(bytes | (unsigned long long)count << 32);
    writer.text(format, letters);
    for (int i = 0; i < count; ++i) arguments[i].write(writer);
    return count;
}

}  // namespace pycudakit

template <class... Arguments>
__device__ inline int pycudakit_printf(const char *format, Arguments... given) {
    pycudakit::Argument arguments[] = {given..., pycudakit::Argument(0)};
    return pycudakit::print<void>(format, arguments, int(sizeof...(Arguments)));
}

namespace std {
using ::pycudakit_printf;
}
// An object-like macro: with a function-like one, a header could still declare printf.
#define printf pycudakit_printf
