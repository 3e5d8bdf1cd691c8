// What counting is made of, over dense blocks: a table of loops, which the CPU engine has for each
// instruction set.
#pragma once

#include <cstdint>

#include "histogram_bins.h"

namespace pk {

// How a bin by width is found with less: the place of a value is (value - first) * scale, and its whole part
// is the bin wherever the place is further than `margin`, half at most, from a whole number. A margin of 1:
// nowhere.
struct UniformFastPath {
    double scale = 0, margin = 1;
    bool in_double = false;

    UniformFastPath() = default;
    explicit UniformFastPath(const pk_bins &bins);
};

struct BinLoops {
    // Elements of a pk_type as a compared type; null where no call needs it.
    void (*convert[PK_TYPE_COUNT][bins::COMPARE_TYPES])(const void *elements, int64_t count, void *values);
    // The same to a float or a double, and NaN in place of what is not from low to high.
    void (*to_float_in_range[PK_TYPE_COUNT][2])(const void *elements, int64_t count, const pk_bins &bins,
                                                void *values);
    // Indices of bins; true if any was lost.
    void (*by_index[PK_TYPE_COUNT])(const void *elements, int64_t count, int32_t bins, int32_t *indices);
    bool (*uniform[bins::UNIFORM_KINDS])(const void *values, int64_t count, const pk_bins &bins,
                                         const UniformFastPath &fast_path, int32_t *indices);
    void (*by_edges[bins::COMPARE_TYPES])(const void *values, int64_t count, const pk_bins &bins,
                                          int32_t *indices);
    // How many edges are passed.
    void (*search[bins::COMPARE_TYPES])(const void *values, int64_t count, const pk_bins &bins,
                                        bool or_equals, int32_t *passed);
    // Widens an extent: the least and greatest of keys in the elements' order.
    void (*extent[PK_TYPE_COUNT])(const void *elements, int64_t count, int64_t *least, int64_t *greatest);
};

// For the instruction set that every machine has: the host's side of the CUDA engine.
const BinLoops &plain_bin_loops();

}  // namespace pk
