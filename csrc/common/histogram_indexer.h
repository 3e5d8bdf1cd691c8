// BinIndexer: computes the bin indices of a block of elements, for one thread.
#pragma once

#include <memory>

#include "histogram.h"

namespace pk::histogram {

class BinIndexer {
   public:
    static constexpr int64_t BLOCK = 1024;

    BinIndexer(const Layout &layout, const BinLoops &loops) : layout_(layout), loops_(loops) {}

    // The elements of an operand: in its own memory if they are contiguous, else gathered into `buffer`.
    const void *elements(int64_t operand, int64_t start, int64_t count, void *buffer) const {
        const View &view = layout_.views[size_t(operand)];
        if (view.access == Access::contiguous) return view.base + start * view.item;
        layout_.gather(view, start, count, buffer);
        return buffer;
    }

    // The same, converted to a compare type.
    const void *values(int64_t operand, bins::CompareType as, int64_t start, int64_t count, void *buffer) {
        const int type = layout_.views[size_t(operand)].type;
        const void *gathered = elements(operand, start, count, raw_.get());
        const bool is_so =
            (as == bins::AS_INT64 && type == PK_INT64) || (as == bins::AS_UINT64 && type == PK_UINT64) ||
            (as == bins::AS_FLOAT && type == PK_FLOAT32) || (as == bins::AS_DOUBLE && type == PK_FLOAT64);
        if (is_so && gathered != raw_.get()) return gathered;
        loops_.convert[type][as](gathered, count, buffer);
        return buffer;
    }

    // Computes indices into all bins, `total` for none. Returns true if any index was beyond the bins.
    bool indices(const BinnedElements &counting, int64_t start, int64_t count, int32_t *indices) {
        if (counting.axes == 1) return along(0, counting, start, count, indices);
        const auto first = int32_t(counting.bins[0].count), second = int32_t(counting.bins[1].count);
        int32_t *const others = others_.get();
        bool is_beyond_bins = along(0, counting, start, count, indices);
        is_beyond_bins |= along(1, counting, start, count, others);
        for (int64_t i = 0; i < count; ++i) {
            const bool none = indices[i] == first || others[i] == second;
            indices[i] = none ? first * second : indices[i] * second + others[i];
        }
        return is_beyond_bins;
    }

    void passed(const pk_bins &bin_spec, bool or_equals, int64_t start, int64_t count, int32_t *passed) {
        const bins::CompareType as = bins::compare_type(bin_spec.type);
        loops_.search[as](values(0, as, start, count, values_.get()), count, bin_spec, or_equals, passed);
    }

   private:
    bool along(int64_t operand, const BinnedElements &counting, int64_t start, int64_t count,
               int32_t *indices) {
        const pk_bins &bin_spec = counting.bins[operand];
        const int type = layout_.views[size_t(operand)].type;
        if (bin_spec.kind == PK_BINS_EDGES) {
            const bins::CompareType as = bins::compare_type(bin_spec.type);
            const void *gathered = values(operand, as, start, count, values_.get());
            loops_.by_edges[as](gathered, count, bin_spec, indices);
            return false;
        }
        const void *gathered = elements(operand, start, count, raw_.get());
        if (bin_spec.kind == PK_BINS_INDEX) {
            loops_.by_index[type](gathered, count, int32_t(bin_spec.count), indices);
            return false;
        }
        loops_.to_float_in_range[type][bin_spec.type == PK_FLOAT64](gathered, count, bin_spec, values_.get());
        return loops_.uniform[bins::uniform_kind(bin_spec.type, bin_spec.compute_type)](
            values_.get(), count, bin_spec, counting.fast_paths[operand], indices);
    }

    const Layout &layout_;
    const BinLoops &loops_;
    std::unique_ptr<uint64_t[]> raw_{new uint64_t[BLOCK]}, values_{new uint64_t[BLOCK]};
    std::unique_ptr<int32_t[]> others_{new int32_t[BLOCK]};
};

}  // namespace pk::histogram
