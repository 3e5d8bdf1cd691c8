// The element types of the ABI as C++ types.
#pragma once

#include <cstdint>

#include "portable.h"
#include "pycudakit.h"

namespace pk {

// The size of an element in bytes.
PK_HD int64_t size_of(int type) {
    switch (type) {
        case PK_BOOL:
        case PK_INT8:
        case PK_UINT8: return 1;
        case PK_INT16:
        case PK_UINT16:
        case PK_FLOAT16: return 2;
        case PK_INT32:
        case PK_UINT32:
        case PK_FLOAT32: return 4;
        default: return 8;
    }
}

// The unsigned integer type of so many bytes: 1, 2, 4 or 8.
PK_HD int word_type(int64_t bytes) {
    return bytes == 1 ? PK_UINT8 : bytes == 2 ? PK_UINT16 : bytes == 4 ? PK_UINT32 : PK_UINT64;
}

// The C++ type that computes with a pk_type: a byte of 0 or 1 for bool, a float with a float16's value for
// float16.
template <int type>
struct type_of;
template <>
struct type_of<PK_BOOL> {
    using type = uint8_t;
};
template <>
struct type_of<PK_INT8> {
    using type = int8_t;
};
template <>
struct type_of<PK_INT16> {
    using type = int16_t;
};
template <>
struct type_of<PK_INT32> {
    using type = int32_t;
};
template <>
struct type_of<PK_INT64> {
    using type = int64_t;
};
template <>
struct type_of<PK_UINT8> {
    using type = uint8_t;
};
template <>
struct type_of<PK_UINT16> {
    using type = uint16_t;
};
template <>
struct type_of<PK_UINT32> {
    using type = uint32_t;
};
template <>
struct type_of<PK_UINT64> {
    using type = uint64_t;
};
template <>
struct type_of<PK_FLOAT16> {
    using type = float;
};
template <>
struct type_of<PK_FLOAT32> {
    using type = float;
};
template <>
struct type_of<PK_FLOAT64> {
    using type = double;
};

// Elements in memory that have no C++ type of their own: a bool may be any byte, and a float16 is stored as
// bits.
struct Bool {
    uint8_t byte;
};
struct HalfBits {
    uint16_t bits;
};

// The C++ type that elements are stored as.
template <int type>
struct stored_type_of : type_of<type> {};
template <>
struct stored_type_of<PK_BOOL> {
    using type = Bool;
};
template <>
struct stored_type_of<PK_FLOAT16> {
    using type = HalfBits;
};
template <int type>
using stored_type = typename stored_type_of<type>::type;

constexpr uint32_t LOGICAL = 1u << PK_BOOL;
constexpr uint32_t INTEGERS = 1u << PK_INT8 | 1u << PK_INT16 | 1u << PK_INT32 | 1u << PK_INT64 |
                              1u << PK_UINT8 | 1u << PK_UINT16 | 1u << PK_UINT32 | 1u << PK_UINT64;
constexpr uint32_t FLOATS = 1u << PK_FLOAT16 | 1u << PK_FLOAT32 | 1u << PK_FLOAT64;

constexpr bool is_float_type(int type) { return (FLOATS >> type & 1u) != 0; }

// How the bits of an element encode its value, for sorting.
enum class Encoding { natural, integer, floating };  // unsigned; two's complement; IEEE's

// The suffixes of the entries for sortable types, each with its C++ type and its encoding.
#define PK_SORTABLE_TYPES(type)                                                                     \
    type(i8, int8_t, integer) type(i16, int16_t, integer) type(i32, int32_t, integer)               \
        type(i64, int64_t, integer) type(u8, uint8_t, natural) type(u16, uint16_t, natural)         \
            type(u32, uint32_t, natural) type(u64, uint64_t, natural) type(f16, uint16_t, floating) \
                type(f32, float, floating) type(f64, double, floating)

}  // namespace pk
