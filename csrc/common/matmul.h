// Matrix products: the checked arguments of pk_matmul_*, and the arithmetic of each element type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/call/call.h"
#include "half.h"
#include "pycudakit.h"

namespace pk::matmul {

// Arithmetic of an element type: how elements are stored, the type of sums, and multiplication and addition.
template <class Stored, class Sum>
struct Plain {
    using Element = Stored;
    using Total = Sum;
    static PK_HD Sum load(Stored x) { return Sum(x); }
    static PK_HD Stored store(Sum x) { return Stored(x); }
    static PK_HD Sum add(Sum sum, Sum a, Sum b) { return Sum(sum + a * b); }
};
// Computed as unsigned, which wraps: the product of two short ints could overflow an int.
struct Integer8 : Plain<uint8_t, uint8_t> {
    static PK_HD uint8_t add(uint8_t sum, uint8_t a, uint8_t b) { return uint8_t(sum + unsigned(a) * b); }
};
struct Integer16 : Plain<uint16_t, uint16_t> {
    static PK_HD uint16_t add(uint16_t sum, uint16_t a, uint16_t b) {
        return uint16_t(sum + unsigned(a) * b);
    }
};
using Integer32 = Plain<uint32_t, uint32_t>;
using Integer64 = Plain<uint64_t, uint64_t>;
using Float32 = Plain<float, float>;
using Float64 = Plain<double, double>;
struct Bool : Plain<uint8_t, uint8_t> {
    static PK_HD uint8_t load(uint8_t x) { return uint8_t(x != 0); }
    static PK_HD uint8_t add(uint8_t sum, uint8_t a, uint8_t b) { return uint8_t(sum | (a & b)); }
};
struct Float16 : Plain<uint16_t, float> {
    static PK_HD float load(uint16_t x) { return half::to_float(x); }
    static PK_HD uint16_t store(float x) { return half::from_float(x); }
};

// Call visit() with the arithmetic of a pk_type.
template <class Visit>
void visit_arithmetic(int type, Visit visit) {
    switch (type) {
        case PK_BOOL: return visit(Bool());
        case PK_INT8:
        case PK_UINT8: return visit(Integer8());
        case PK_INT16:
        case PK_UINT16: return visit(Integer16());
        case PK_INT32:
        case PK_UINT32: return visit(Integer32());
        case PK_INT64:
        case PK_UINT64: return visit(Integer64());
        case PK_FLOAT16: return visit(Float16());
        case PK_FLOAT32: return visit(Float32());
        default: return visit(Float64());
    }
}

template <class Kind>
constexpr bool is_float_kind = std::is_floating_point<typename Kind::Total>::value;

struct Product {
    const void *a, *b;
    void *c;
    int64_t m, n, k;
    const int64_t *index_pairs;  // the indices of the matrices in `a` and `b`, of each pair
    int64_t batch;
    bool transposed_a, transposed_b;
    int64_t precision;
    int64_t *method;
    int type = -1;              // of the operands of pk_matmul
    bool is_on_device = false;  // they are in device memory

    // `item` is the number of bytes of an element.
    Product(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k,
            const int64_t *index_pairs, int64_t batch, int64_t flags, int64_t precision, int64_t *method,
            size_t item);
    int64_t elements() const { return m * n * batch; }
};

// The product of pk_matmul, whose operands are the factors and the result. Fails if these have other flags
// than `allowed_flags`.
Product product_of(const pk_operand *operands, int64_t m, int64_t n, int64_t k, const int64_t *index_pairs,
                   int64_t batch, int64_t flags, int64_t precision, int64_t *method, int32_t allowed_flags);

// The path of pk_open_cublas, checked.
std::string checked_path(const uint8_t *path, int64_t length, const int64_t *found);

// Exception flags of a result, from its bits: infinite or NaN.
PK_HD int64_t fp_exceptions_of(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x) & 0x7fffffffu;
    return bits > 0x7f800000u ? PK_FPE_INVALID : bits == 0x7f800000u ? PK_FPE_OVERFLOW : 0;
}
PK_HD int64_t fp_exceptions_of(double x) {
    const uint64_t bits = bit_cast<uint64_t>(x) & 0x7fffffffffffffffu;
    return bits > 0x7ff0000000000000u ? PK_FPE_INVALID : bits == 0x7ff0000000000000u ? PK_FPE_OVERFLOW : 0;
}

// If the product is empty (m, n, k or batch is 0), zeros the results, if any, and returns true.
template <class Kind>
bool clear_if_empty(const Product &product) {
    using Element = typename Kind::Element;
    *product.method = PK_MATMUL_BY_LOOPS;
    if (product.k == 0) std::fill_n(static_cast<Element *>(product.c), product.elements(), Element(0));
    return product.k == 0 || product.elements() == 0;
}

}  // namespace pk::matmul

// The suffixes of the entries, each with its C++ type and its arithmetic.
#define PK_MATMUL_TYPES(type)                                                                            \
    type(bool, uint8_t, Bool) type(i8, int8_t, Integer8) type(i16, int16_t, Integer16)                   \
        type(i32, int32_t, Integer32) type(i64, int64_t, Integer64) type(u8, uint8_t, Integer8)          \
            type(u16, uint16_t, Integer16) type(u32, uint32_t, Integer32) type(u64, uint64_t, Integer64) \
                type(f16, uint16_t, Float16) type(f32, float, Float32) type(f64, double, Float64)
