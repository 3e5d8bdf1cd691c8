// Inner loops of histograms over dense blocks: a table of functions, of which the CPU engine has one for each
// instruction set.
#pragma once

#include <cstdint>

#include "histogram_bins.h"

namespace pk {

// Fast path for bins of equal width. The position of a value is (value - first) * scale. If the position is
// farther than `margin` from every integer, its integer part is the bin. No position is farther than 0.5 from
// every integer, so a margin of 0.5 or more disables the fast path.
struct UniformFastPath {
    double scale = 0, margin = 1;
    bool in_double = false;  // whether positions are float64

    UniformFastPath() = default;
    explicit UniformFastPath(const pk_bins &bins);
};

struct BinLoops {
    // Convert elements of a pk_type to a compare type; null for pairs that no call needs.
    void (*convert[PK_TYPE_COUNT][bins::COMPARE_TYPES])(const void *elements, int64_t count, void *values);
    // Convert elements to float or double; those that are not from `low` to `high` become NaN.
    void (*to_float_in_range[PK_TYPE_COUNT][2])(const void *elements, int64_t count, const pk_bins &bins,
                                                void *values);
    // Compute the bins of integers that are the index of their bin.
    void (*by_index[PK_TYPE_COUNT])(const void *elements, int64_t count, int32_t bins, int32_t *indices);
    // Compute the bins of equal width; return true if NumPy's index of any value is beyond the bins.
    bool (*uniform[bins::UNIFORM_KINDS])(const void *values, int64_t count, const pk_bins &bins,
                                         const UniformFastPath &fast_path, int32_t *indices);
    // Compute the bins between edges.
    void (*by_edges[bins::COMPARE_TYPES])(const void *values, int64_t count, const pk_bins &bins,
                                          int32_t *indices);
    // Count the edges that each value passes.
    void (*search[bins::COMPARE_TYPES])(const void *values, int64_t count, const pk_bins &bins,
                                        bool or_equals, int32_t *passed);
    // Update an extent, the least and the greatest order-preserving key.
    void (*extent[PK_TYPE_COUNT])(const void *elements, int64_t count, int64_t *least, int64_t *greatest);
};

// The loops for baseline instructions, for the host's part in the CUDA engine.
const BinLoops &plain_bin_loops();

}  // namespace pk
