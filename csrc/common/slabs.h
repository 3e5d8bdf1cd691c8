// How reductions and scans along axes walk their operands: slab after slab, of `length` rows each, of `inner`
// elements a row. A result, or a running total, belongs to a column of a slab. Rows come in blocks of a fixed
// size, so that what is computed, and in which order, follows from the length alone; blocks come in units,
// the smallest parts that a call is cut into.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "layout.h"
#include "portable.h"

namespace pk {

struct Slabs {
    static constexpr int64_t BLOCK = 1024;               // rows
    static constexpr int64_t UNIT_ELEMENTS = 128 << 10;  // about the most of a unit

    int64_t count, length, inner;

    // As many whole slabs as make up a unit that is worth its while, or 1 if a slab has several blocks.
    PK_HD int64_t slabs_per_unit() const {
        if (length > BLOCK) return 1;
        return std::clamp<int64_t>(UNIT_ELEMENTS / 4 / std::max<int64_t>(1, length * inner), 1, count);
    }
    PK_HD int64_t blocks() const { return (length + BLOCK - 1) / BLOCK; }  // of a slab
    PK_HD int64_t units() const { return (count + slabs_per_unit() - 1) / slabs_per_unit() * blocks(); }
    PK_HD int64_t max_elements() const {
        return slabs_per_unit() * std::min(length, int64_t(BLOCK)) * inner;
    }  // of a unit

    struct WorkUnit {
        int64_t slab, slabs, block, rows;  // the first of its slabs, how many; its block, and that one's rows
    };
    PK_HD WorkUnit unit(int64_t index) const {
        const int64_t together = slabs_per_unit(), slab = index / blocks() * together,
                      block = index % blocks();
        return {slab, std::min(together, count - slab), block,
                std::min(int64_t(BLOCK), length - block * BLOCK)};
    }
    // Where a unit begins, in elements; of the one after the last, where they end.
    PK_HD int64_t start(int64_t index) const {
        const int64_t slab = std::min(index / blocks() * slabs_per_unit(), count);
        return (slab * length + index % blocks() * BLOCK) * inner;
    }
};

// The operands of a call as slabs. Columns that are too many for one slab are dealt out to several.
struct Region {
    Layout layout;  // whose order is the slabs'
    Slabs slabs;
    int64_t tiles, columns, first_column;  // slabs side by side; columns of all of them and of all regions

    // The first of a slab's columns, among the results in their order.
    int64_t result(int64_t slab) const {
        return slab / tiles * columns + first_column + slab % tiles * slabs.inner;
    }
};

// How many elements a shape without a 0 has; throws for others.
int64_t size_of_shape(const int64_t *shape, int64_t dimensions);

// The shape is of `outer` dimensions, then `rows` that are reduced, in the order in which they are, then
// others. Of operands from `virtual_from` on there is no memory: each is as dense as a region's elements.
std::vector<Region> regions_of(const pk_operand *operands, int64_t operand_count, int64_t virtual_from,
                               const int64_t *shape, int64_t dimensions, int64_t outer, int64_t rows,
                               int64_t unit_elements = Slabs::UNIT_ELEMENTS);

}  // namespace pk
