// Slabs: the iteration space of reductions and scans along axes.
// A call is `count` slabs of `length` rows of `inner` elements (columns). Each column of a slab has a result,
// or a running total. Rows are grouped in blocks of a fixed size, so that the arithmetic and its order depend
// on the length alone. A work unit, the smallest part into which a call is divided, is one block of a long
// slab or several short slabs, of one block each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "layout.h"
#include "portable.h"
#include "rounding.h"

namespace pk {

struct Slabs {
    static constexpr int64_t BLOCK = 1024;               // rows
    static constexpr int64_t UNIT_ELEMENTS = 128 << 10;  // about the maximum number of elements of a unit

    int64_t count, length, inner;

    // The number of whole slabs in a unit that is worth its overhead; 1 if a slab has several blocks.
    PK_HD int64_t slabs_per_unit() const {
        if (length > BLOCK) return 1;
        return std::clamp<int64_t>(UNIT_ELEMENTS / 4 / std::max<int64_t>(1, length * inner), 1, count);
    }
    PK_HD int64_t blocks() const { return ceil_div(length, BLOCK); }  // of a slab
    PK_HD int64_t units() const { return ceil_div(count, slabs_per_unit()) * blocks(); }
    // The maximum number of elements of a unit.
    PK_HD int64_t max_elements() const { return slabs_per_unit() * std::min(length, int64_t(BLOCK)) * inner; }

    struct WorkUnit {
        // The first slab, the number of slabs, the block in each of these slabs, and the rows of that block.
        int64_t slab, slabs, block, rows;
    };
    PK_HD WorkUnit unit(int64_t index) const {
        const int64_t together = slabs_per_unit(), slab = index / blocks() * together,
                      block = index % blocks();
        return {slab, std::min(together, count - slab), block,
                std::min(int64_t(BLOCK), length - block * BLOCK)};
    }
    // The first element of a unit; for the index after the last unit, the end of all elements.
    PK_HD int64_t start(int64_t index) const {
        const int64_t slab = std::min(index / blocks() * slabs_per_unit(), count);
        return (slab * length + index % blocks() * BLOCK) * inner;
    }
};

// A part of a call as slabs. If an outer index has too many columns for one slab, they are divided into tiles
// of equal width, a slab for each; columns that are left over get a region of their own.
struct Region {
    // The bytes between neighbouring slabs, rows and columns of an operand.
    struct Strides {
        int64_t slab, row, column;
    };

    Layout layout;  // in the order of the slabs
    Slabs slabs{};
    // Those of each operand with memory; empty if columns are divided, or if slabs or rows are along several
    // dimensions.
    std::vector<Strides> strides;
    // The number of adjacent slabs of an outer index in this region, the number of columns of all regions,
    // and the first column of this region.
    int64_t tiles = 0, columns = 0, first_column = 0;

    // The index of the result of a slab's first column.
    int64_t result(int64_t slab) const {
        return slab / tiles * columns + first_column + slab % tiles * slabs.inner;
    }
};

// Return the number of elements of a shape. Throw if a dimension is not positive, or if the number overflows.
int64_t size_of_shape(const int64_t *shape, int64_t dimensions);

// The regions of a shape of `outer` dimensions, then `rows` dimensions that are reduced, in their order, then
// others. Operands from `virtual_from` on have no memory: their elements are contiguous within a region.
std::vector<Region> regions_of(const pk_operand *operands, int64_t operand_count, int64_t virtual_from,
                               const int64_t *shape, int64_t dimensions, int64_t outer, int64_t rows,
                               int64_t unit_elements = Slabs::UNIT_ELEMENTS);

}  // namespace pk
