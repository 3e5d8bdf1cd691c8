// Checks the arguments of the histogram entries.
#include "histogram.h"

#include <algorithm>

namespace pk::histogram {

static constexpr int64_t BIN_LIMIT = (int64_t(1) << 31) - 256;

static void check_operands(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                           int64_t dimensions) {
    require(operand_count >= 1 && operand_count <= 3, "there are no operands, or too many");
    require(operands != nullptr, "operands is a null pointer");
    require(shape != nullptr || dimensions == 0, "shape is a null pointer");
    require(dimensions >= 0 && dimensions <= PK_MAX_DIMS, "dimensions is not from 0 to PK_MAX_DIMS");
    for (int64_t i = 0; i < operand_count; ++i) {
        require(operands[i].type >= 0 && operands[i].type < PK_TYPE_COUNT,
                "an operand's type is not a pk_type");
    }
}

static void check_bins(const pk_bins &bins, int value_type) {
    const bool is_float = is_float_type(value_type);
    require(bins.count >= 0 && bins.count < BIN_LIMIT, "bins.count is not from 0 to 2^31 - 257");
    if (bins.kind == PK_BINS_INDEX) {
        require(!is_float, "bins.kind is PK_BINS_INDEX, and the values are floats");
        return;
    }
    const int64_t edge_bytes = bins.type == PK_FLOAT32 || bins.type == PK_FLOAT16 ? 4 : 8;
    require_array(reinterpret_cast<const void *>(bins.edges), bins.count + 1, size_t(edge_bytes),
                  "bins.edges");
    if (bins.kind == PK_BINS_UNIFORM) {
        require(bins.count > 0, "bins.count is 0");
        require(bins::uniform_kind(bins.type, bins.compute_type) != bins::UNIFORM_KINDS,
                "bins of equal width do not support bins.type with bins.compute_type");
        return;
    }
    require(bins.kind == PK_BINS_EDGES,
            "bins.kind is none of PK_BINS_INDEX, PK_BINS_EDGES and PK_BINS_UNIFORM");
    require(bins.type == PK_FLOAT32 || bins.type == PK_FLOAT64 ||
                (!is_float && (bins.type == PK_INT64 || bins.type == PK_UINT64)),
            "values and edges do not compare in bins.type");
}

static int64_t checked_total(const pk_bins *bins, int64_t axes) {
    require(bins != nullptr, "bins is a null pointer");
    require(axes == 1 || axes == 2, "axes is neither 1 nor 2");
    for (int64_t i = 0; i < axes; ++i) require(bins[i].count >= 0, "bins.count is negative");
    const char *const message = "there are 2^31 - 256 bins or more";
    const int64_t total = axes == 1 ? bins[0].count : checked_product(bins[0].count, bins[1].count, message);
    require(total < BIN_LIMIT, message);
    return total;
}

// Returns the layout of the operands. With `in_shape_order`, an additional operand, which is never accessed,
// makes it the order of the shape.
static Layout layout_of(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                        int64_t dimensions, bool in_shape_order) {
    check_operands(operands, operand_count, shape, dimensions);
    std::vector<pk_operand> all(operands, operands + operand_count);
    std::vector<bool> stored(size_t(operand_count), false);
    if (in_shape_order) {
        pk_operand order{};
        order.address = 64;
        order.type = PK_UINT8;
        int64_t stride = 1;
        for (int64_t d = dimensions; d-- > 0;) {
            order.strides[d] = stride;
            stride = checked_product(stride, std::max<int64_t>(shape[d], 1), "there are too many elements");
        }
        all.push_back(order);
        stored.push_back(true);
    }
    return Layout(all.data(), int64_t(all.size()), shape, dimensions, stored);
}

BinnedElements::BinnedElements(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                               int64_t dimensions, const pk_bins *bins, int64_t axes, bool weights)
    : bins(bins),
      axes(axes),
      has_weights(operand_count == axes + 1),
      total(checked_total(bins, axes)),
      layout(layout_of(operands, operand_count, shape, dimensions, has_weights)) {
    require(operand_count == axes || has_weights, "there are too few or too many operands");
    require(has_weights || !weights, "there is no operand of weights");
    for (int64_t i = 0; i < axes; ++i) {
        check_bins(bins[i], operands[i].type);
        require(bins[i].count > 0, "bins.count is 0");
    }
}

BinnedElements BinnedElements::for_host() const {
    BinnedElements binned = *this;
    for (int64_t i = 0; i < axes; ++i) {
        const bool pays = bins[i].kind == PK_BINS_UNIFORM && layout.size / 4 > bins[i].count;
        if (pays) binned.fast_paths[i] = UniformFastPath(bins[i]);
    }
    return binned;
}

// Returns the layout of one operand, which is only read; fails if it is empty.
static Layout layout_of_elements(const pk_operand *operand, const int64_t *shape, int64_t dimensions) {
    check_operands(operand, 1, shape, dimensions);
    Layout layout(operand, 1, shape, dimensions, {false});
    require(layout.size != 0, "there are no elements");
    return layout;
}

ExtentRequest::ExtentRequest(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                             uint64_t *extent)
    : extent(extent) {
    require(extent != nullptr, "extent is a null pointer");
    layout = layout_of_elements(operand, shape, dimensions);
}

HistogramRequest::HistogramRequest(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                   int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts)
    : BinnedElements(operands, operand_count, shape, dimensions, bins, axes, false), counts(counts) {
    require(counts != nullptr, "counts is a null pointer");
    require(!has_weights || !is_float_type(view(axes).type),
            "the weights are floats, and the counts are integers");
}

HistogramOfExtentRequest::HistogramOfExtentRequest(const pk_operand *operand, const int64_t *shape,
                                                   int64_t dimensions, uint64_t find, int64_t count,
                                                   int64_t *counts)
    : count(count), counts(counts), operand_(operand), shape_(shape), dimensions_(dimensions), find_(find) {
    require(counts != nullptr && find != 0, "counts or find is a null pointer");
    layout = layout_of_elements(operand, shape, dimensions);
}

pk_bins HistogramOfExtentRequest::found_bins(const uint64_t *extent) const {
    pk_bins found{};
    const auto find = reinterpret_cast<pk_find_bins>(find_);
    if (called_back([&] { return find(extent, &found); }) != 0)
        fail(PK_INTERRUPTED, "the call was asked to stop");
    require(found.count == count, "the callback's bins.count is not `count`");
    check_bins(found, type());
    return found;
}

BinnedElements HistogramOfExtentRequest::binned(const pk_bins &found) const {
    return BinnedElements(operand_, 1, shape_, dimensions_, &found, 1, false);
}

WeightedHistogramRequest::WeightedHistogramRequest(const pk_operand *operands, int64_t operand_count,
                                                   const int64_t *shape, int64_t dimensions,
                                                   const pk_bins *bins, int64_t axes, double *sums,
                                                   int64_t *out_of_range)
    : BinnedElements(operands, operand_count, shape, dimensions, bins, axes, true),
      sums(sums),
      out_of_range(out_of_range) {
    require(sums != nullptr && out_of_range != nullptr, "sums or out_of_range is a null pointer");
}

DigitizeRequest::DigitizeRequest(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                                 const pk_bins *bins, bool right, bool decreasing)
    : bins(bins), right(right), decreasing(decreasing) {
    require(bins != nullptr, "bins is a null pointer");
    check_operands(operands, 2, shape, dimensions);
    require(operands[1].type == PK_INT64, "the operand of indices is not of the type PK_INT64");
    require(bins->kind == PK_BINS_EDGES, "bins.kind is not PK_BINS_EDGES");
    check_bins(*bins, operands[0].type);
    layout = Layout(operands, 2, shape, dimensions, {false, true});
}

}  // namespace pk::histogram
