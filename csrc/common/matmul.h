// Products of matrices: what is asked for, and the entries, each by multiply<Kind>(product, call).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/call/call.h"
#include "common/call/status.h"
#include "half.h"
#include "pycudakit.h"

namespace pk::product {

// How elements are stored, what they are multiplied and added up as, and what a product and a sum are.
template <class Stored, class Sum>
struct Plain {
    using Element = Stored;
    using Total = Sum;
    static PK_HD Sum load(Stored x) { return Sum(x); }
    static PK_HD Stored store(Sum x) { return Stored(x); }
    static PK_HD Sum add(Sum sum, Sum a, Sum b) { return Sum(sum + a * b); }
};
// Unsigned, since those wrap around; of an int before the product of two short ones could overflow it.
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

template <class Kind>
constexpr bool is_float_kind = std::is_floating_point<typename Kind::Total>::value;

struct Product {
    const void *a, *b;
    void *c;
    int64_t m, n, k;
    const int64_t *places;
    int64_t batch;
    bool transposed_a, transposed_b;
    int64_t precision;
    int64_t *method;

    int64_t size() const { return m * n * batch; }
};

// What is infinite or NaN, of the bits of a float.
PK_HD int64_t met_by(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x) & 0x7fffffffu;
    return bits > 0x7f800000u ? PK_INVALID : bits == 0x7f800000u ? PK_OVERFLOW : 0;
}
PK_HD int64_t met_by(double x) {
    const uint64_t bits = bit_cast<uint64_t>(x) & 0x7fffffffffffffffu;
    return bits > 0x7ff0000000000000u ? PK_INVALID : bits == 0x7ff0000000000000u ? PK_OVERFLOW : 0;
}

inline int64_t checked_product(int64_t x, int64_t y) {
    int64_t result = 0;
    if (__builtin_mul_overflow(x, y, &result)) {
        fail(PK_INVALID_ARGUMENT, "a matrix has more elements than 64 bits can count");
    }
    return result;
}

inline void check(const Product &given, int64_t flags, size_t item) {
    require(given.m >= 0 && given.n >= 0 && given.k >= 0 && given.batch >= 0, "a size is negative");
    require((flags & ~int64_t(PK_TRANSPOSED_A | PK_TRANSPOSED_B)) == 0, "there are unknown flags");
    require(given.precision >= PK_HIGHEST && given.precision <= PK_BF16, "the precision is unknown");
    require(given.method != nullptr, "method is a null pointer");
    const int64_t results = checked_product(checked_product(given.m, given.n), given.batch);
    checked_product(checked_product(results, 8), 1);
    const int64_t of_a = checked_product(given.m, given.k), of_b = checked_product(given.k, given.n);
    require(given.batch == 0 || given.places != nullptr, "places is a null pointer");
    require(results == 0 || given.c != nullptr, "c is a null pointer");
    require(results == 0 || of_a == 0 || given.a != nullptr, "a is a null pointer");
    require(results == 0 || of_b == 0 || given.b != nullptr, "b is a null pointer");
    require_aligned(given.a, results == 0 ? 0 : of_a, item);
    require_aligned(given.b, results == 0 ? 0 : of_b, item);
    require_aligned(given.c, results, item);
    for (int64_t i = 0; i < 2 * given.batch; ++i) require(given.places[i] >= 0, "a place is negative");
}

template <class Kind>
void multiply(const Product &given, Call &call);  // of each engine; there is something to add up

template <class Kind>
int32_t entry(const void *a, const void *b, void *c, int64_t m, int64_t n, int64_t k, const int64_t *places,
              int64_t batch, int64_t flags, int64_t precision, int64_t *method, const pk_options *options,
              pk_report *report) {
    using Element = typename Kind::Element;
    return guarded([&] {
        const Product given{a,
                            b,
                            c,
                            m,
                            n,
                            k,
                            places,
                            batch,
                            (flags & PK_TRANSPOSED_A) != 0,
                            (flags & PK_TRANSPOSED_B) != 0,
                            precision,
                            method};
        check(given, flags, sizeof(Element));
        run_call(options, report, given.size(), [&](Call &call) {
            *method = PK_BY_LOOPS;
            if (given.k == 0) std::fill_n(static_cast<Element *>(c), given.size(), Element(0));
            if (given.k != 0 && given.size() != 0) multiply<Kind>(given, call);
        });
    });
}

}  // namespace pk::product

#define PK_MATMUL_ENTRY(t, T, Kind)                                                                     \
    int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,                \
                          const int64_t *places, int64_t batch, int64_t flags, int64_t precision,       \
                          int64_t *method, const pk_options *options, pk_report *report) {              \
        return pk::product::entry<pk::product::Kind>(a, b, c, m, n, k, places, batch, flags, precision, \
                                                     method, options, report);                          \
    }
#define PK_MATMUL_ENTRIES                     \
    PK_MATMUL_ENTRY(bool, uint8_t, Bool)      \
    PK_MATMUL_ENTRY(i8, int8_t, Integer8)     \
    PK_MATMUL_ENTRY(i16, int16_t, Integer16)  \
    PK_MATMUL_ENTRY(i32, int32_t, Integer32)  \
    PK_MATMUL_ENTRY(i64, int64_t, Integer64)  \
    PK_MATMUL_ENTRY(u8, uint8_t, Integer8)    \
    PK_MATMUL_ENTRY(u16, uint16_t, Integer16) \
    PK_MATMUL_ENTRY(u32, uint32_t, Integer32) \
    PK_MATMUL_ENTRY(u64, uint64_t, Integer64) \
    PK_MATMUL_ENTRY(f16, uint16_t, Float16)   \
    PK_MATMUL_ENTRY(f32, float, Float32)      \
    PK_MATMUL_ENTRY(f64, double, Float64)
