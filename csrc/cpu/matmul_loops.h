// The loops of the CPU's products, behind the table of instruction sets.
#pragma once

#include <cstdint>

namespace pk {

// Adds the product of a packed panel of rows, `rows` of them in groups of STRIP interleaved element by
// element, and a packed panel of columns, in groups of WIDE_BYTES interleaved likewise, both `depth` deep, to
// sums, whose rows are `width` apart. Rows and columns are filled up to whole groups.
using MatmulLoop = void (*)(const void *rows, const void *columns, void *sums, int64_t height, int64_t width,
                            int64_t depth);

struct MatmulLoops {
    static constexpr int STRIP = 4, WIDE_BYTES = 192;  // three of the widest vectors
    MatmulLoop integer8, integer16, integer32, integer64, float32, float64, logical;
};

}  // namespace pk
