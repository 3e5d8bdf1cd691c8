// Arithmetic of histograms: which bin a value falls into. The arithmetic is NumPy's, and the same in both
// engines.
//
// A value passes an edge if it is above the edge or, with `or_equals`, equal to it. NaN passes every edge.
// `passed` is the number of edges that a value passes, so edges are in ascending order.
#pragma once

#include "half.h"
#include "portable.h"
#include "radix_key.h"
#include "types.h"

namespace pk::bins {

// An element type in memory (Raw) and in computations (Value). A bool in memory may be any byte.
template <int type>
struct element {
    using Raw = typename type_of<type>::type;
    using Value = Raw;
    PK_HD static Value value(Raw raw) { return raw; }
};
template <>
struct element<PK_BOOL> {
    using Raw = uint8_t;
    using Value = uint8_t;
    PK_HD static Value value(Raw raw) { return raw != 0; }
};
template <>
struct element<PK_FLOAT16> {
    using Raw = uint16_t;
    using Value = float;
    PK_HD static Value value(Raw raw) { return half::to_float(raw); }
};

// Signed order-preserving key of an element, with NaN beyond the infinities. A uint64 is moved down by 2^63,
// since keys are signed.
template <int type>
PK_HD int64_t key_of(typename element<type>::Raw raw) {
    using Key = KeyOf<typename element<type>::Raw>;
    if constexpr (type == PK_UINT64) {
        return int64_t(raw ^ KeyBits<Key>::TOP);
    } else if constexpr (is_float_type(type)) {
        return int64_t(signed_key(bit_cast<Key>(raw)));
    } else {
        return int64_t(element<type>::value(raw));
    }
}

// Returns the element whose bits are the lowest of `bits`.
template <int type>
PK_HD typename element<type>::Value element_of(uint64_t bits) {
    typename element<type>::Raw raw;
    memcpy(&raw, &bits, sizeof(raw));
    if constexpr (type == PK_BOOL) return raw;  // a limit may be beyond 1
    return element<type>::value(raw);
}

// Returns the value as a float to compare with the edges if it is from `low` to `high`; else NaN.
template <class Edge, class Value>
PK_HD Edge in_range_or_nan(Value value, Value low, Value high) {
    return value >= low && value <= high ? Edge(value) : Edge(NAN);
}

// Bins of equal width, computed as numpy.histogram does. `rounding` tells which results are rounded to
// float16.
enum Rounding { NONE, DIFFERENCE, ALL };
template <class Edge, class Quotient, int rounding>
struct UniformBins {
    const Edge *edges;
    Edge first;
    Quotient width, float_count;  // float_count: `count`, rounded to the type
    int32_t count;

    // Returns the index of the value's bin; `count` for NaN. Sets is_beyond_bins if NumPy's index is beyond
    // the bins.
    PK_HD int32_t index(Edge value, uint32_t &is_beyond_bins) const {
        const Edge difference = round<rounding != NONE>(value - first);
        constexpr auto POSITION_LIMIT = Quotient(2147483520);  // the greatest float32 below 2^31
        const Quotient fraction = round<rounding == ALL>(Quotient(difference) / width);
        const Quotient position = round<rounding == ALL>(fraction * float_count);
        const bool fits = position < POSITION_LIMIT && position > Quotient(-1);
        const bool is_nan = value != value;
        int32_t at = int32_t(select(fits, position, Quotient(0)));
        is_beyond_bins |= uint32_t(is_nan | (fits & (at <= count))) ^ 1u;
        at = select(at >= count, count - 1, at);
        at -= int32_t(value < edges[at]);
        is_beyond_bins |= uint32_t(at < 0);
        at = select(at < 0, 0, at);
        at += int32_t((value >= edges[at + 1]) & (at != count - 1));
        return select(is_nan, count, at);
    }

   private:
    template <bool to_half, class T>
    PK_HD static T round(T value) {
        if constexpr (to_half) return half::round(value);
        return value;
    }
};

// Whether the value passes the edge.
template <class T>
PK_HD bool passes(T edge, T value, bool or_equals) {
    return or_equals ? !(value < edge) : !(value <= edge);
}

// Returns the number of edges that the value passes, by a branch-free binary search.
template <class T>
PK_HD int32_t search(T value, const T *edges, int32_t edge_count, bool or_equals) {
    int32_t base = 0, length = edge_count;
    while (length > 1) {
        const int32_t half = length / 2;
        base += select(passes(edges[base + half - 1], value, or_equals), half, 0);
        length -= half;
    }
    return base + int32_t(passes(edges[base], value, or_equals));
}

// Returns the bin of a value that passes so many of the count + 1 edges, equal ones included; `count` if it
// is in no bin. `last` is the last edge, which belongs to the last bin.
template <class T>
PK_HD int32_t bin_from_passed(int32_t passed, T value, T last, int32_t count) {
    const int32_t inside = select(passed == 0 || passed > count, count, passed - 1);
    return select(value == last, count - 1, inside);
}

// Returns the bin of an integer that is the index of its bin; `count` if there is no such bin.
template <class T>
PK_HD int32_t by_index(T value, int32_t count) {
    return select(uint64_t(value) < uint64_t(count), int32_t(value), count);
}

// Returns a sum of integer weights, which was computed in float64, as an integer. C leaves the cast of a sum
// out of range undefined; here it gives the least int64, as the instruction of x86-64 does, or 0 for unsigned
// weights.
PK_HD uint64_t whole(double sum, bool is_signed) {
    constexpr double TWO_TO_63 = 9223372036854775808.0;
    if (is_signed) return sum >= -TWO_TO_63 && sum < TWO_TO_63 ? uint64_t(int64_t(sum)) : uint64_t(1) << 63;
    return sum >= 0 && sum < 2 * TWO_TO_63 ? uint64_t(sum) : 0;
}

// The types in which values and edges are compared.
enum CompareType { AS_INT64, AS_UINT64, AS_FLOAT, AS_DOUBLE, COMPARE_TYPES };
PK_HD CompareType compare_type(int type) {
    switch (type) {
        case PK_INT64: return AS_INT64;
        case PK_UINT64: return AS_UINT64;
        case PK_FLOAT64: return AS_DOUBLE;
        default: return AS_FLOAT;
    }
}

template <int as>
struct compare_type_of;
template <>
struct compare_type_of<AS_INT64> {
    using type = int64_t;
};
template <>
struct compare_type_of<AS_UINT64> {
    using type = uint64_t;
};
template <>
struct compare_type_of<AS_FLOAT> {
    using type = float;
};
template <>
struct compare_type_of<AS_DOUBLE> {
    using type = double;
};

// The arithmetic of bins of equal width: an index into the table of loops. UNIFORM_KINDS stands for a pair of
// types without such arithmetic.
enum { FLOAT_FLOAT, FLOAT_DOUBLE, DOUBLE_DOUBLE, HALF_HALF, HALF_FLOAT, HALF_DOUBLE, UNIFORM_KINDS };
PK_HD int uniform_kind(int type, int compute_type) {
    if (type == PK_FLOAT64) return compute_type == PK_FLOAT64 ? DOUBLE_DOUBLE : UNIFORM_KINDS;
    const bool is_half = type == PK_FLOAT16;
    if (!is_half && type != PK_FLOAT32) return UNIFORM_KINDS;
    switch (compute_type) {
        case PK_FLOAT64: return is_half ? HALF_DOUBLE : FLOAT_DOUBLE;
        case PK_FLOAT32: return is_half ? HALF_FLOAT : FLOAT_FLOAT;
        case PK_FLOAT16: return is_half ? HALF_HALF : UNIFORM_KINDS;
        default: return UNIFORM_KINDS;
    }
}

template <int kind>
struct uniform_bins_of;
template <>
struct uniform_bins_of<FLOAT_FLOAT> {
    using type = UniformBins<float, float, NONE>;
};
template <>
struct uniform_bins_of<FLOAT_DOUBLE> {
    using type = UniformBins<float, double, NONE>;
};
template <>
struct uniform_bins_of<DOUBLE_DOUBLE> {
    using type = UniformBins<double, double, NONE>;
};
template <>
struct uniform_bins_of<HALF_HALF> {
    using type = UniformBins<float, float, ALL>;
};
template <>
struct uniform_bins_of<HALF_FLOAT> {
    using type = UniformBins<float, float, DIFFERENCE>;
};
template <>
struct uniform_bins_of<HALF_DOUBLE> {
    using type = UniformBins<float, double, DIFFERENCE>;
};

// Returns the bins of this kind, with their edges at `edges`.
template <int kind>
PK_HD typename uniform_bins_of<kind>::type uniform_bins_with(const pk_bins &bin_spec, const void *edges) {
    using Bins = typename uniform_bins_of<kind>::type;
    Bins result{};
    result.edges = static_cast<decltype(result.edges)>(edges);
    result.first = decltype(result.first)(bin_spec.first);
    result.width = decltype(result.width)(bin_spec.width);
    result.float_count = decltype(result.float_count)(bin_spec.count);
    if constexpr (kind == HALF_HALF) result.float_count = half::round(result.float_count);
    result.count = int32_t(bin_spec.count);
    return result;
}

}  // namespace pk::bins
