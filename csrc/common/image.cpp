// The image entries: checks of their arguments, and the weights of a resize. Each engine computes them.
#include "image.h"

#include <algorithm>
#include <numeric>

#include "common/call/status.h"
#include "types.h"

namespace pk::image {

namespace {

constexpr int64_t MAX_SIDE = int64_t(1) << 30;  // so that (2 * i + 1) * side does not overflow

// Checks the operands and the shape, for every entry; returns the number of elements.
int64_t checked_size(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                     int64_t min_dimensions, bool allows_float) {
    require(operands != nullptr, "operands is a null pointer");
    require(shape != nullptr, "shape is a null pointer");
    require(dimensions >= min_dimensions && dimensions <= PK_MAX_DIMS,
            "dimensions is not a number that an image has");
    const int type = operands[0].type;
    require(type == PK_UINT8 || type == PK_UINT16 || (allows_float && type == PK_FLOAT32),
            allows_float ? "the image's type is not PK_UINT8, PK_UINT16 or PK_FLOAT32"
                         : "the image's type is neither PK_UINT8 nor PK_UINT16");
    require(operands[1].type == type, "the result is of another type than the image");
    bool is_empty = false;
    for (int64_t d = 0; d < dimensions; ++d) {
        require(shape[d] >= 0, "a dimension is negative");
        is_empty |= shape[d] == 0;
    }
    if (is_empty) return 0;
    int64_t bytes = size_of(type);
    for (int64_t d = 0; d < dimensions; ++d) {
        require(!__builtin_mul_overflow(bytes, shape[d], &bytes),
                "the shape has more bytes than 63 bits can count");
    }
    require(operands[0].address != 0 && operands[1].address != 0, "an operand is a null pointer");
    return bytes / size_of(type);
}

char *dense_result(const pk_operand &operand) {
    require(operand.flags == 0, "the result is byte-swapped");
    char *const out = reinterpret_cast<char *>(operand.address);
    require_array(out, 1, size_t(size_of(operand.type)), "out");
    return out;
}

// Returns the layout of an operand in the order of the shape. A layout takes the order of the operand that is
// stored to, so this layout gets a second operand, dense and stored to, which is never accessed.
Layout in_shape_order(const pk_operand &operand, const int64_t *shape, int64_t dimensions) {
    pk_operand with_dense[2] = {operand, operand};
    with_dense[1].flags = 0;
    int64_t stride = size_of(operand.type);
    for (int64_t d = dimensions; d-- > 0; stride *= shape[d]) with_dense[1].strides[d] = stride;
    return Layout(with_dense, 2, shape, dimensions, {false, true});
}

// `truncates` is a flag, 0 or 1.
pixels::GrayWeights checked_weights(const int64_t *weights, int64_t divisor, int64_t channels,
                                    int64_t truncates) {
    require(weights != nullptr, "weights is a null pointer");
    require(channels == 3 || channels == 4, "the last dimension is not of 3 or 4 channels");
    require(divisor >= 1 && divisor <= pixels::MAX_DIVISOR, "divisor is not from 1 to 16384");
    require(truncates == 0 || truncates == 1, "truncates is neither 0 nor 1");
    pixels::GrayWeights gray{channels, {}, {}, int32_t(divisor), truncates != 0, {}};
    int64_t remaining = divisor;
    for (int i = 0; i < 3; ++i) {
        require(weights[i] >= 0 && weights[i] <= remaining,
                "a weight is negative, or the sum of the weights is above the divisor");
        remaining -= weights[i];
        gray.positions[i] = i;
        gray.weights[i] = int32_t(weights[i]);
        gray.fractions[i] = double(weights[i]) / double(divisor);
    }
    return gray;
}

}  // namespace

Gray::Gray(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const int64_t *weights,
           int64_t divisor, int64_t truncates)
    : size(checked_size(operands, shape, dimensions, 1, true)),
      type(operands[0].type),
      weights(checked_weights(weights, divisor, shape[dimensions - 1], truncates)) {
    if (size == 0) return;
    out = dense_result(operands[1]);
    // Reversed channels (a negative stride, BGR) become channels at other positions.
    pk_operand source = operands[0];
    int64_t &step = source.strides[dimensions - 1];
    if (step == -size_of(type)) {
        source.address += uint64_t(step * (this->weights.channels - 1));
        step = -step;
        for (int32_t &position : this->weights.positions)
            position = int32_t(this->weights.channels) - 1 - position;
    }
    layout = in_shape_order(source, shape, dimensions);
}

Lookup::Lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const uint16_t *table,
               int64_t count)
    : size(checked_size(operands, shape, dimensions, 0, false)), table(table), count(count) {
    require(table != nullptr, "table is a null pointer");
    require(count == int64_t(1) << 8 * size_of(operands[0].type),
            "the table does not have an entry for each value of the type");
    layout = Layout(operands, 2, shape, dimensions, {false, true});
}

// Positions are compared exactly, as integers: in units of 1 / (2 * to) for centres, and of 1 / to for edges.
Taps::Taps(int64_t method, int64_t from, int64_t to) {
    first.reserve(size_t(to));
    begin.reserve(size_t(to) + 1);
    begin.push_back(0);
    const int64_t common = std::gcd(from, to);
    const int64_t step = from / common, unit = to / common;  // the sizes of a new and of an old pixel
    if (method == PK_RESIZE_AREA) divisor = double(step);
    for (int64_t i = 0; i < to; ++i) {
        const int64_t centre = (2 * i + 1) * from;
        if (method == PK_RESIZE_NEAREST) {
            first.push_back(centre / (2 * to));
            weights.push_back(1);
        } else if (method == PK_RESIZE_BILINEAR) {
            // The distance from the centre of the first old pixel, and the weight of the old pixel on the
            // right.
            const int64_t distance = std::max<int64_t>(0, centre - to);
            const int64_t left = std::min(distance / (2 * to), from - 1);
            const double right_weight = left == from - 1 ? 0 : double(distance % (2 * to)) / double(2 * to);
            first.push_back(left);
            weights.push_back(1 - right_weight);
            if (right_weight != 0) weights.push_back(right_weight);
        } else {
            const int64_t left = i * step, right = left + step;
            first.push_back(left / unit);
            for (int64_t at = left / unit; at * unit < right; ++at) {
                weights.push_back(double(std::min((at + 1) * unit, right) - std::max(at * unit, left)));
            }
        }
        max_count = std::max(max_count, int64_t(weights.size()) - begin.back());
        begin.push_back(int64_t(weights.size()));
    }
}

Resize::Resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions, int64_t new_height,
               int64_t new_width, int64_t method)
    : size(checked_size(operands, shape, dimensions, 3, true)),
      type(operands[0].type),
      height(shape[dimensions - 3]),
      width(shape[dimensions - 2]),
      channels(shape[dimensions - 1]),
      new_height(new_height),
      new_width(new_width),
      method(method) {
    require(method == PK_RESIZE_NEAREST || method == PK_RESIZE_BILINEAR || method == PK_RESIZE_AREA,
            "method is not one of PK_RESIZE_NEAREST, PK_RESIZE_BILINEAR and PK_RESIZE_AREA");
    for (int64_t side : {height, width, new_height, new_width}) {
        require(side >= 0 && side <= MAX_SIDE, "a side of an image is negative or above 2^30");
    }
    bool has_result = channels != 0 && new_height != 0 && new_width != 0;
    for (int64_t d = 0; d < dimensions - 3; ++d) has_result = has_result && shape[d] != 0;
    require(size != 0 || !has_result, "an image has no pixels to resize");
    if (!has_result) size = 0;
    if (size == 0) return;
    images = size / (height * width * channels);
    int64_t bytes = sizeof(double);
    for (int64_t n : {images, new_height, new_width, channels}) {
        require(!__builtin_mul_overflow(bytes, n, &bytes),
                "the result has more bytes than 63 bits can count");
    }
    out = dense_result(operands[1]);
    layout = in_shape_order(operands[0], shape, dimensions);
}

}  // namespace pk::image

extern "C" int32_t pk_gray(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                           const int64_t *weights, int64_t divisor, int64_t truncates,
                           const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::image::Gray(operands, shape, dimensions, weights, divisor, truncates); },
        pk::image::make_gray);
}

extern "C" int32_t pk_lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                             const uint16_t *table, int64_t count, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::image::Lookup(operands, shape, dimensions, table, count); },
        pk::image::look_up);
}

extern "C" int32_t pk_resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                             int64_t new_height, int64_t new_width, int64_t method, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::image::Resize(operands, shape, dimensions, new_height, new_width, method); },
        pk::image::resize);
}

extern "C" int32_t pk_filter(const pk_window *window, const double *weights, int64_t weight_count,
                             const pk_operand *operands, const int64_t *shape, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::image::filters::Filter(window, weights, weight_count, operands, shape); },
        pk::image::filter);
}
