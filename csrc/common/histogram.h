// The checked arguments of the histogram entries, and histograms computed by host threads, which both
// libraries have.
#pragma once

#include <vector>

#include "common/call/call.h"
#include "histogram_loops.h"
#include "layout.h"

namespace pk::histogram {

// The elements to count and their bins. The last operand may be weights.
struct BinnedElements {
    BinnedElements(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                   int64_t dimensions, const pk_bins *bins, int64_t axes, bool weights);

    const pk_bins *bins;
    int64_t axes;
    bool has_weights;
    int64_t total;  // the number of all bins
    Layout layout;  // in the order of the shape, if there are weights
    UniformFastPath fast_paths[2];

    // The same for the loops of host threads, which derive a fast path for bins of equal width from their
    // edges.
    BinnedElements for_host() const;

    int64_t elements() const { return layout.size; }
    // Whether integer weights are added in float64, as NumPy does with bins of equal width.
    bool adds_in_floats() const { return bins[0].kind == PK_BINS_UNIFORM; }
    const View &view(int64_t operand) const { return layout.views[size_t(operand)]; }
};

// The checked arguments of pk_extent.
struct ExtentRequest {
    ExtentRequest(const pk_operand *operand, const int64_t *shape, int64_t dimensions, uint64_t *extent);
    int64_t elements() const { return layout.size; }

    Layout layout;
    uint64_t *extent;
};

struct HistogramRequest : BinnedElements {
    HistogramRequest(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                     int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts);

    int64_t *counts;
};

struct HistogramOfExtentRequest {
    HistogramOfExtentRequest(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                             uint64_t find, int64_t count, int64_t *counts);
    int64_t elements() const { return layout.size; }
    int type() const { return layout.views[0].type; }

    // The bins that the callback fills in for an extent, and the elements to count in them.
    pk_bins found_bins(const uint64_t *extent) const;
    BinnedElements binned(const pk_bins &found) const;

    Layout layout;
    int64_t count;
    int64_t *counts;

   private:
    const pk_operand *const operand_;
    const int64_t *const shape_;
    const int64_t dimensions_;
    const uint64_t find_;
};

struct WeightedHistogramRequest : BinnedElements {
    WeightedHistogramRequest(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                             int64_t dimensions, const pk_bins *bins, int64_t axes, double *sums,
                             int64_t *out_of_range);

    double *sums;
    int64_t *out_of_range;
};

struct DigitizeRequest {
    DigitizeRequest(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const pk_bins *bins,
                    bool right, bool decreasing);
    int64_t elements() const { return layout.size; }

    Layout layout;
    const pk_bins *bins;
    bool right, decreasing;
};

// Counts elements in bins, as pk_histogram does without weights.
void count_on_host(const BinnedElements &binned, const BinLoops &loops, Call &call, int64_t *counts);
// The same with integer weights, which are the last operand.
void count_weights(const BinnedElements &binned, const BinLoops &loops, Call &call, int64_t *counts);
void add_weights(const BinnedElements &binned, const BinLoops &loops, Call &call, double *sums,
                 int64_t *out_of_range);
// The number of elements of a segment. Weights are added in order within a segment, and then over segments.
int64_t elements_per_segment(int64_t total);
void digitize_on_host(const DigitizeRequest &request, const BinLoops &loops, Call &call);
void extent_of_keys(int type, int64_t least, int64_t greatest, uint64_t *extent);
void extent_on_host(const Layout &layout, const BinLoops &loops, Call &call, uint64_t *extent);

// Adds the counts of byte values, byte_counts[value], to the bins of these values.
void count_values(const pk_bins &bins, int type, const BinLoops &loops, const int64_t *byte_counts,
                  int64_t *counts);

}  // namespace pk::histogram
