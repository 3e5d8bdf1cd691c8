// Counting on the host's threads, which both libraries have; and what an entry checks before it counts.
#pragma once

#include <vector>

#include "common/call/call.h"
#include "histogram_loops.h"
#include "layout.h"

namespace pk {

// The elements to count, and into which bins. `weights` says whether a last operand has weights.
struct Counting {
    Counting(const pk_operand *operands, int64_t operand_count, const int64_t *shape, int64_t dimensions,
             const pk_bins *bins, int64_t axes, bool weights);

    const pk_bins *bins;
    int64_t axes;
    bool has_weights;
    int64_t total;  // bins
    Layout layout;  // in the shape's order, if there are weights
    Shortcut shortcuts[2];

    const View &view(int64_t operand) const { return layout.views[size_t(operand)]; }
};

// Operands, shape and bins, checked as far as they can be.
void check_operands(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                    int64_t dimensions);
void check_bins(const pk_bins &bins, int value_type);

// As pk_histogram, without weights.
void count_on_host(const Counting &counting, const BinLoops &loops, Call &call, int64_t *counts);
// The same with integer weights, the last operand.
void count_weights(const Counting &counting, const BinLoops &loops, Call &call, int64_t *counts);
void add_weights(const Counting &counting, const BinLoops &loops, Call &call, double *sums, int64_t *outside);
void digitize_on_host(const Layout &layout, const pk_bins &bins, bool right, bool decreasing,
                      const BinLoops &loops, Call &call);
void extent_of_keys(int type, int64_t least, int64_t greatest, uint64_t *extent);
void extent_on_host(const Layout &layout, const BinLoops &loops, Call &call, uint64_t *extent);

// The bins that the caller finds for an extent.
pk_bins found_bins(uint64_t find, const uint64_t *extent, int64_t count, int type);

// Adds to the counts how often each byte occurs among the elements.
void count_values(const pk_bins &bins, int type, const BinLoops &loops, const int64_t *of_byte,
                  int64_t *counts);

}  // namespace pk
