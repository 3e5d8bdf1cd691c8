// Run-time element types as C++ types. A switch from them to the arithmetic of one family is in its header.
#pragma once

#include <cstdint>
#include <type_traits>

#include "half.h"
#include "portable.h"
#include "types.h"

namespace pk {

// The functions call visit() from the host or from the device, as their callers do.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
// Calls visit() with a value of Map<type>::type.
template <template <int> class Map, class Visit>
PK_HD auto visit_mapped_type(int type, Visit visit) {
    switch (type) {
        case PK_BOOL: return visit(typename Map<PK_BOOL>::type());
        case PK_INT8: return visit(typename Map<PK_INT8>::type());
        case PK_INT16: return visit(typename Map<PK_INT16>::type());
        case PK_INT32: return visit(typename Map<PK_INT32>::type());
        case PK_INT64: return visit(typename Map<PK_INT64>::type());
        case PK_UINT8: return visit(typename Map<PK_UINT8>::type());
        case PK_UINT16: return visit(typename Map<PK_UINT16>::type());
        case PK_UINT32: return visit(typename Map<PK_UINT32>::type());
        case PK_UINT64: return visit(typename Map<PK_UINT64>::type());
        case PK_FLOAT16: return visit(typename Map<PK_FLOAT16>::type());
        case PK_FLOAT32: return visit(typename Map<PK_FLOAT32>::type());
        default: return visit(typename Map<PK_FLOAT64>::type());
    }
}

// Calls visit() with the element type as a std::integral_constant.
template <int value>
struct constant_of_type {
    using type = std::integral_constant<int, value>;
};
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Visit>
PK_HD auto visit_type(int type, Visit visit) {
    return visit_mapped_type<constant_of_type>(type, visit);
}

// Calls visit() with a value of the type that elements are stored as.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Visit>
PK_HD auto visit_stored_type(int type, Visit visit) {
    return visit_mapped_type<stored_type_of>(type, visit);
}

// Calls visit() with a value of the type of at least 32 bits that elements are computed in: integers narrower
// than 32 bits as such of 32 bits, bool as one without sign, and float16 as float32.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Visit>
PK_HD auto visit_computed_type(int type, Visit visit) {
    switch (type) {  // NOLINTNEXTLINE(bugprone-branch-clone): visit() may treat types alike
        case PK_INT8:
        case PK_INT16:
        case PK_INT32: return visit(int32_t());
        case PK_INT64: return visit(int64_t());
        case PK_BOOL:
        case PK_UINT8:
        case PK_UINT16:
        case PK_UINT32: return visit(uint32_t());
        case PK_UINT64: return visit(uint64_t());
        case PK_FLOAT64: return visit(double());
        default: return visit(float());
    }
}

// Calls visit() with a zero of the type of an image's elements.
template <class Visit>
void visit_image_type(int type, Visit visit) {
    switch (type) {  // NOLINTNEXTLINE(bugprone-branch-clone): visit() may treat types alike
        case PK_UINT8: return visit(uint8_t());
        case PK_UINT16: return visit(uint16_t());
        default: return visit(float());
    }
}

// The value of a stored element.
template <class T>
PK_HD T element_value(T element) {
    return element;
}
PK_HD uint8_t element_value(Bool element) { return element.byte != 0; }
PK_HD float element_value(HalfBits element) { return half::to_float(element.bits); }

// Calls visit() with a zero of the unsigned integer of so many bytes: 1, 2, 4 or 8.
#if defined(__CUDACC__)
#pragma nv_exec_check_disable
#endif
template <class Visit>
PK_HD auto visit_word(int64_t bytes, Visit visit) {
    switch (bytes) {  // NOLINTNEXTLINE(bugprone-branch-clone): visit() may treat types alike
        case 1: return visit(uint8_t());
        case 2: return visit(uint16_t());
        case 4: return visit(uint32_t());
        default: return visit(uint64_t());
    }
}

}  // namespace pk
