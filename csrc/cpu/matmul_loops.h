// Table of the inner loops of matrix products.
#pragma once

#include <cstdint>

namespace pk {

// The micro-kernel: adds the product of a packed panel of rows and a packed panel of columns, both `depth`
// deep, to sums, whose rows are `width` apart. Rows are packed in groups of STRIP, columns in groups of
// GROUP_BYTES, interleaved element by element and padded to whole groups.
using MatmulLoop = void (*)(const void *rows, const void *columns, void *sums, int64_t height, int64_t width,
                            int64_t depth);

struct MatmulLoops {
    static constexpr int STRIP = 4, GROUP_BYTES = 192;  // three of the widest vectors
    MatmulLoop integer8, integer16, integer32, integer64, float32, float64, logical;
};

}  // namespace pk
