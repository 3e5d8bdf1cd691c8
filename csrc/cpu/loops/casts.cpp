// Inner loops of casts between element types.
#include "table.h"

namespace pk {
namespace {

// A float16 in a register is a float, so only casts to float16 differ from those of float32.
template <int from, int to>
bool cast(void *result_, const void *a_, const void *, const void *, int64_t count) {
    using From = typename type_of<from>::type;
    using To = typename type_of<to>::type;
    To *result = static_cast<To *>(result_);
    const From *a = static_cast<const From *>(a_);
    NonFiniteDetector<is_float_type(to), To> non_finite;
    constexpr bool may_not_fit = is_float_type(from) && !is_float_type(to) && to != PK_BOOL;
    [[maybe_unused]] typename NonFiniteDetector<may_not_fit, From>::Bits unfit = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        const From value =
            from == PK_BOOL && a[i] > From(1) ? From(1) : a[i];  // a bool in memory may be any byte
        if constexpr (to == PK_BOOL) {
            result[i] = value != 0;
        } else if constexpr (to == PK_FLOAT16) {
            using Rounded = typename std::conditional<from == PK_FLOAT64, double, float>::type;
            result[i] = non_finite.note(half::round(Rounded(value)));
        } else {
            if constexpr (may_not_fit) unfit |= !arith::fits<To>(value);
            result[i] = non_finite.note(arith::cast<To>(value));
        }
    }
    return non_finite.any() || unfit != 0;
}

bool half_to_float(void *result_, const void *a_, const void *, const void *, int64_t count) {
    float *result = static_cast<float *>(result_);
    const uint16_t *a = static_cast<const uint16_t *>(a_);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) result[i] = half::to_float(a[i]);
    return false;
}

bool float_to_half(void *result_, const void *a_, const void *, const void *, int64_t count) {
    uint16_t *result = static_cast<uint16_t *>(result_);
    const float *a = static_cast<const float *>(a_);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) result[i] = half::from_float(a[i]);
    return false;
}

template <int from, int to = 0>
void fill(Loop *by_target) {
    if constexpr (to < PK_TYPE_COUNT) {
        // Casts from float16 are those from float32.
        by_target[to] = cast < from == PK_FLOAT16 ? int(PK_FLOAT32) : from, to > ;
        fill<from, to + 1>(by_target);
    }
}

template <int from = 0>
void fill_all(Loops &loops) {
    if constexpr (from < PK_TYPE_COUNT) {
        fill<from>(loops.cast[from]);
        fill_all<from + 1>(loops);
    }
}

}  // namespace

void PK_ISA_FUNCTION(fill_casts)(Loops &loops) {
    fill_all(loops);
    loops.half_to_float = half_to_float;
    loops.float_to_half = float_to_half;
    loops.round_to_half = cast<PK_FLOAT32, PK_FLOAT16>;
}

}  // namespace pk
