// Conversion of a scan's operands to the types of the arithmetic, and back.
#include "scan_terms.h"

#include <cstring>

#include "common/types.h"

namespace pk::scan {

static bool is_fused(const Request &request) {
    return request.kind == float_sum && request.from == PK_FLOAT32 && request.to == PK_FLOAT32 &&
           !request.skips_nan;
}

Terms::Terms(const Request &request, const Region &region)
    : request_(request),
      layout_(region.layout),
      is_fused_(is_fused(request)),
      is_in_place_(region.layout.views[0].base == region.layout.views[1].base),
      loops_(pk::loops().scan[is_fused_ ? SUM_OF_FLOAT32 : request.kind]) {}

// Converts elements of dense arrays; returns whether the loop raised a flag.
bool Terms::convert(int from, int to, const void *source, void *target, int64_t count) {
    if (from == to && from != PK_BOOL) {
        if (source != target) std::memcpy(target, source, size_t(count * size_of(from)));
        return false;
    }
    const Loops &with = pk::loops();
    if (from == PK_FLOAT16) {
        void *floats = floats_.reserve(count);
        with.half_to_float(floats, source, nullptr, nullptr, count);
        source = floats;
    }
    void *into = to == PK_FLOAT16 ? floats_.reserve(count) : target;
    const bool has_non_finite = with.cast[from][to](into, source, nullptr, nullptr, count);
    if (to == PK_FLOAT16) with.float_to_half(target, into, nullptr, nullptr, count);
    return has_non_finite;
}

const void *Terms::load(int64_t start, int64_t count) {
    const View &view = layout_.views[0];
    const void *dense = view.base + start * view.item;
    if (view.access != Access::contiguous) {
        void *gathered = gathered_.reserve(count);
        layout_.gather(view, start, count, gathered);
        dense = gathered;
    } else if (is_in_place_ && request_.reports()) {
        // A copy: flags of casts are looked for when results have overwritten the terms.
        dense = std::memcpy(gathered_.reserve(count), dense, size_t(count * view.item));
    }
    int from = request_.from;
    if (is_fused_ || (from == request_.term && !request_.skips_nan && !request_.narrows())) return dense;
    void *terms = terms_.reserve(count);
    if (is_float_type(from)) {
        convert(from, PK_FLOAT64, dense, terms, count);
        auto *const values = static_cast<double *>(terms);
        const double instead = request_.instead_of_nan;
        for (int64_t i = 0; request_.skips_nan && i < count; ++i)
            values[i] = values[i] != values[i] ? instead : values[i];
        if (request_.term == PK_FLOAT64) return terms;
        dense = terms;
        from = PK_FLOAT64;
    }
    if (request_.narrows()) {
        void *narrow = narrow_.reserve(count);
        const bool has_non_finite = convert(from, request_.to, dense, narrow, count);
        const Check check = has_non_finite ? cast_check(from, request_.to) : nullptr;
        if (check != nullptr) raised_ |= check(dense, dense, narrow, count);
        dense = narrow;
        from = request_.to;
    }
    convert(from, request_.term, dense, terms, count);
    return terms;
}

void *Terms::results(int64_t start, int64_t count) {
    const View &view = layout_.views[1];
    const bool as_they_are = is_fused_ || request_.to == request_.term;
    if (as_they_are && view.access == Access::contiguous) return view.base + start * view.item;
    return results_.reserve(count);
}

bool Terms::store(const void *results, int64_t start, int64_t count) {
    const View &view = layout_.views[1];
    const bool is_dense = view.access == Access::contiguous;
    if (is_dense && results == view.base + start * view.item) return false;
    bool has_non_finite = false;
    if (!is_fused_) {
        void *dense = is_dense ? view.base + start * view.item : dense_.reserve(count);
        has_non_finite = convert(request_.term, request_.to, results, dense, count);
        results = dense;
    }
    if (!is_dense) layout_.scatter(view, start, count, results);
    return has_non_finite;
}

}  // namespace pk::scan
