// BinIndexer: computes the bin indices of a block of elements. Each thread has one of its own.
#pragma once

#include <memory>

#include "histogram.h"

namespace pk::histogram {

class BinIndexer {
   public:
    static constexpr int64_t BLOCK = 1024;

    BinIndexer(const Layout &layout, const BinLoops &loops) : layout_(layout), loops_(loops) {}

    // Returns the elements of an operand: in the operand's memory if they are contiguous, else gathered into
    // `buffer`.
    const void *elements(int64_t operand, int64_t start, int64_t count, void *buffer) const {
        const View &view = layout_.views[size_t(operand)];
        if (view.access == Access::contiguous) return view.base + start * view.item;
        layout_.gather(view, start, count, buffer);
        return buffer;
    }

    // Returns the elements of an operand converted to a compare type, in its own memory if possible, else in
    // `buffer`.
    const void *values(int64_t operand, bins::CompareType as, int64_t start, int64_t count, void *buffer) {
        const int type = layout_.views[size_t(operand)].type;
        const void *raw = elements(operand, start, count, raw_.get());
        const bool has_compare_type =
            (as == bins::AS_INT64 && type == PK_INT64) || (as == bins::AS_UINT64 && type == PK_UINT64) ||
            (as == bins::AS_FLOAT && type == PK_FLOAT32) || (as == bins::AS_DOUBLE && type == PK_FLOAT64);
        if (has_compare_type && raw != raw_.get()) return raw;
        loops_.convert[type][as](raw, count, buffer);
        return buffer;
    }

    // Computes each element's index into all bins; the index of an element in no bin is the number of bins,
    // `total`. Returns true if NumPy's index of any element is beyond the bins.
    bool indices(const BinnedElements &binned, int64_t start, int64_t count, int32_t *indices) {
        if (binned.axes == 1) return indices_along(0, binned, start, count, indices);
        const auto first_axis_bins = int32_t(binned.bins[0].count),
                   second_axis_bins = int32_t(binned.bins[1].count);
        int32_t *const others = others_.get();
        bool is_beyond_bins = indices_along(0, binned, start, count, indices);
        is_beyond_bins |= indices_along(1, binned, start, count, others);
        for (int64_t i = 0; i < count; ++i) {
            const bool is_in_no_bin = indices[i] == first_axis_bins || others[i] == second_axis_bins;
            indices[i] =
                is_in_no_bin ? first_axis_bins * second_axis_bins : indices[i] * second_axis_bins + others[i];
        }
        return is_beyond_bins;
    }

    // Counts the edges that each element passes, as bins::passes().
    void count_passed_edges(const pk_bins &bin_spec, bool or_equals, int64_t start, int64_t count,
                            int32_t *passed) {
        const bins::CompareType as = bins::compare_type(bin_spec.type);
        loops_.search[as](values(0, as, start, count, values_.get()), count, bin_spec, or_equals, passed);
    }

   private:
    // Computes the indices along one axis of bins, whose values are the operand of that index.
    bool indices_along(int64_t operand, const BinnedElements &binned, int64_t start, int64_t count,
                       int32_t *indices) {
        const pk_bins &bin_spec = binned.bins[operand];
        const int type = layout_.views[size_t(operand)].type;
        if (bin_spec.kind == PK_BINS_EDGES) {
            const bins::CompareType as = bins::compare_type(bin_spec.type);
            const void *converted = values(operand, as, start, count, values_.get());
            loops_.by_edges[as](converted, count, bin_spec, indices);
            return false;
        }
        const void *raw = elements(operand, start, count, raw_.get());
        if (bin_spec.kind == PK_BINS_INDEX) {
            loops_.by_index[type](raw, count, int32_t(bin_spec.count), indices);
            return false;
        }
        loops_.to_float_in_range[type][bin_spec.type == PK_FLOAT64](raw, count, bin_spec, values_.get());
        return loops_.uniform[bins::uniform_kind(bin_spec.type, bin_spec.compute_type)](
            values_.get(), count, bin_spec, binned.fast_paths[operand], indices);
    }

    const Layout &layout_;
    const BinLoops &loops_;
    std::unique_ptr<uint64_t[]> raw_{new uint64_t[BLOCK]}, values_{new uint64_t[BLOCK]};
    std::unique_ptr<int32_t[]> others_{new int32_t[BLOCK]};
};

}  // namespace pk::histogram
