// The loops of histogram_loops.h, compiled for the instruction set of the file that includes this. Everything
// has internal linkage: the linker must not merge code of one instruction set into another.
#pragma once

#include <algorithm>
#include <limits>

#include "histogram_loops.h"

namespace pk {
namespace {

template <int type, int as>
void convert(const void *elements_, int64_t count, void *values_) {
    using T = typename bins::compare_type_of<as>::type;
    const auto *elements = static_cast<const typename bins::element<type>::Raw *>(elements_);
    T *values = static_cast<T *>(values_);
    for (int64_t i = 0; i < count; ++i) values[i] = T(bins::element<type>::value(elements[i]));
}

template <int type, class Edge>
void to_float_in_range(const void *elements_, int64_t count, const pk_bins &bin_spec, void *values_) {
    const auto *elements = static_cast<const typename bins::element<type>::Raw *>(elements_);
    Edge *values = static_cast<Edge *>(values_);
    const auto low = bins::element_of<type>(bin_spec.low), high = bins::element_of<type>(bin_spec.high);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = bins::in_range_or_nan<Edge>(bins::element<type>::value(elements[i]), low, high);
    }
}

template <int type>
void by_index(const void *elements_, int64_t count, int32_t bins, int32_t *indices) {
    const auto *elements = static_cast<const typename bins::element<type>::Raw *>(elements_);
    for (int64_t i = 0; i < count; ++i) {
        indices[i] = bins::by_index(bins::element<type>::value(elements[i]), bins);
    }
}

// Returns false if any value is too close to an edge for the fast path.
template <class Edge, class Position>
bool try_fast_path(const Edge *values, int64_t count, Edge first, Position scale, Position margin,
                   int32_t bins, int32_t *indices) {
    const Position position_limit = Position(bins), upper_margin = 1 - margin;
    uint32_t near = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        const Position position = Position(values[i] - first) * scale;
        const Position limited =
            position < position_limit ? position : position_limit;  // the limit, for NaN: no bin
        const int32_t at = int32_t(limited);
        const Position part = limited - Position(at);
        near |= uint32_t(((part > margin) & (part < upper_margin)) | (values[i] != values[i])) ^ 1u;
        indices[i] = at;
    }
    return near == 0;
}

template <int kind>
bool uniform(const void *values_, int64_t count, const pk_bins &bin_spec, const UniformFastPath &fast_path,
             int32_t *indices) {
    constexpr int64_t PART = 64;
    const auto width =
        bins::uniform_bins_with<kind>(bin_spec, reinterpret_cast<const void *>(bin_spec.edges));
    using Edge = typename std::decay<decltype(*width.edges)>::type;
    const Edge *values = static_cast<const Edge *>(values_);
    uint32_t is_beyond_bins = 0;
    for (int64_t done = 0; done < count; done += PART) {
        const int64_t part = std::min(PART, count - done);
        if (fast_path.margin < 0.5) {
            const double scale = fast_path.scale, margin = fast_path.margin;
            const Edge *from = values + done;
            int32_t *to = indices + done;
            const bool is_sure =
                fast_path.in_double
                    ? try_fast_path(from, part, width.first, scale, margin, width.count, to)
                    : try_fast_path(from, part, width.first, Edge(scale), Edge(margin), width.count, to);
            if (is_sure) continue;
        }
#pragma GCC ivdep
        for (int64_t i = done; i < done + part; ++i) indices[i] = width.index(values[i], is_beyond_bins);
    }
    return is_beyond_bins != 0;
}

// As bins::search, but step by step for all values together.
template <int as>
void search(const void *values_, int64_t count, const pk_bins &bin_spec, bool or_equals, int32_t *passed) {
    using T = typename bins::compare_type_of<as>::type;
    const T *values = static_cast<const T *>(values_), *edges = reinterpret_cast<const T *>(bin_spec.edges);
    std::fill_n(passed, count, 0);
    auto step = [&](auto equals) {
        auto length = int32_t(bin_spec.count + 1);
        while (length > 1) {
            const int32_t half = length / 2;
            const T *const middle = edges + half - 1;
#pragma GCC ivdep
            for (int64_t i = 0; i < count; ++i) {
                passed[i] += bins::passes(middle[passed[i]], values[i], equals.value) ? half : 0;
            }
            length -= half;
        }
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) {
            passed[i] += int32_t(bins::passes(edges[passed[i]], values[i], equals.value));
        }
    };
    or_equals ? step(std::true_type()) : step(std::false_type());
}

template <int as>
void by_edges(const void *values_, int64_t count, const pk_bins &bin_spec, int32_t *indices) {
    using T = typename bins::compare_type_of<as>::type;
    const T *values = static_cast<const T *>(values_);
    search<as>(values_, count, bin_spec, true, indices);
    const T last = reinterpret_cast<const T *>(bin_spec.edges)[bin_spec.count];
    for (int64_t i = 0; i < count; ++i) {
        indices[i] = bins::bin_from_passed(indices[i], values[i], last, int32_t(bin_spec.count));
    }
}

template <int type>
void extent(const void *elements_, int64_t count, int64_t *least, int64_t *greatest) {
    using Raw = typename bins::element<type>::Raw;
    using Bits = KeyOf<Raw>;
    using Key = std::conditional_t<is_float_type(type), std::make_signed_t<Bits>, Raw>;
    const Raw *elements = static_cast<const Raw *>(elements_);
    Key low = std::numeric_limits<Key>::max(), high = std::numeric_limits<Key>::min();
    for (int64_t i = 0; i < count; ++i) {
        Key key;
        if constexpr (is_float_type(type)) {
            key = signed_key(bit_cast<Bits>(elements[i]));
        } else {
            key = type == PK_BOOL ? Key(elements[i] != 0) : Key(elements[i]);
        }
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    // The key of a uint64 is moved down by 2^63.
    constexpr uint64_t moved = type == PK_UINT64 ? uint64_t(1) << 63 : 0;
    *least = std::min(*least, int64_t(uint64_t(low) ^ moved));
    *greatest = std::max(*greatest, int64_t(uint64_t(high) ^ moved));
}

template <int type = 0>
void fill_types(BinLoops &loops) {
    if constexpr (type < PK_TYPE_COUNT) {
        constexpr bool is_float = is_float_type(type);
        if constexpr (!is_float) {
            loops.by_index[type] = by_index<type>;
            loops.convert[type][bins::AS_INT64] = convert<type, bins::AS_INT64>;
            loops.convert[type][bins::AS_UINT64] = convert<type, bins::AS_UINT64>;
        }
        loops.convert[type][bins::AS_FLOAT] = convert<type, bins::AS_FLOAT>;
        loops.convert[type][bins::AS_DOUBLE] = convert<type, bins::AS_DOUBLE>;
        loops.to_float_in_range[type][0] = to_float_in_range<type, float>;
        loops.to_float_in_range[type][1] = to_float_in_range<type, double>;
        loops.extent[type] = extent<type>;
        fill_types<type + 1>(loops);
    }
}

template <int i = 0>
void fill_widths(BinLoops &loops) {
    if constexpr (i < bins::UNIFORM_KINDS) {
        loops.uniform[i] = uniform<i>;
        fill_widths<i + 1>(loops);
    }
}

template <int i = 0>
void fill_searches(BinLoops &loops) {
    if constexpr (i < bins::COMPARE_TYPES) {
        loops.search[i] = search<i>;
        loops.by_edges[i] = by_edges<i>;
        fill_searches<i + 1>(loops);
    }
}

void fill_all(BinLoops &loops) {
    fill_types(loops);
    fill_widths(loops);
    fill_searches(loops);
}

}  // namespace
}  // namespace pk
