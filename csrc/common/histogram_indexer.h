// One thread's way from elements to the indices of their bins, block by block.
#pragma once

#include <memory>

#include "histogram.h"

namespace pk::histogram {

class Indexer {
   public:
    static constexpr int64_t BLOCK = 1024;

    Indexer(const Layout &layout, const BinLoops &loops) : layout_(layout), loops_(loops) {}

    // Elements of an operand, in the operand's own memory if they lie there as they should.
    const void *elements(int64_t operand, int64_t start, int64_t count, void *room) const {
        const View &view = layout_.views[size_t(operand)];
        if (view.access == Access::contiguous) return view.base + start * view.item;
        layout_.gather(view, start, count, room);
        return room;
    }

    // The same, as a compared type.
    const void *values(int64_t operand, bins::Compared as, int64_t start, int64_t count, void *room) {
        const int type = layout_.views[size_t(operand)].type;
        const void *found = elements(operand, start, count, raw_.get());
        const bool is_so =
            (as == bins::AS_INT64 && type == PK_INT64) || (as == bins::AS_UINT64 && type == PK_UINT64) ||
            (as == bins::AS_FLOAT && type == PK_FLOAT32) || (as == bins::AS_DOUBLE && type == PK_FLOAT64);
        if (is_so && found != raw_.get()) return found;
        loops_.convert[type][as](found, count, room);
        return room;
    }

    // Indices into all bins, `total` for none. Returns whether any was lost.
    bool indices(const Counting &counting, int64_t start, int64_t count, int32_t *indices) {
        if (counting.axes == 1) return along(0, counting, start, count, indices);
        const auto first = int32_t(counting.bins[0].count), second = int32_t(counting.bins[1].count);
        int32_t *const others = others_.get();
        bool lost = along(0, counting, start, count, indices);
        lost |= along(1, counting, start, count, others);
        for (int64_t i = 0; i < count; ++i) {
            const bool none = indices[i] == first || others[i] == second;
            indices[i] = none ? first * second : indices[i] * second + others[i];
        }
        return lost;
    }

    void passed(const pk_bins &given, bool or_equals, int64_t start, int64_t count, int32_t *passed) {
        const bins::Compared as = bins::compared(given.type);
        loops_.search[as](values(0, as, start, count, values_.get()), count, given, or_equals, passed);
    }

   private:
    bool along(int64_t operand, const Counting &counting, int64_t start, int64_t count, int32_t *indices) {
        const pk_bins &given = counting.bins[operand];
        const int type = layout_.views[size_t(operand)].type;
        if (given.how == PK_BY_EDGES) {
            const bins::Compared as = bins::compared(given.type);
            const void *found = values(operand, as, start, count, values_.get());
            loops_.by_edges[as](found, count, given, indices);
            return false;
        }
        const void *found = elements(operand, start, count, raw_.get());
        if (given.how == PK_BY_VALUE) {
            loops_.by_value[type](found, count, int32_t(given.count), indices);
            return false;
        }
        loops_.keep[type][given.type == PK_FLOAT64](found, count, given, values_.get());
        return loops_.by_width[bins::width_kind(given.type, given.quotient)](
            values_.get(), count, given, counting.shortcuts[operand], indices);
    }

    const Layout &layout_;
    const BinLoops &loops_;
    std::unique_ptr<uint64_t[]> raw_{new uint64_t[BLOCK]}, values_{new uint64_t[BLOCK]};
    std::unique_ptr<int32_t[]> others_{new int32_t[BLOCK]};
};

}  // namespace pk::histogram
