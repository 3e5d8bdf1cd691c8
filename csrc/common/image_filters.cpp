// Checks the arguments of pk_filter, and chooses the arithmetic of its sums.
#include "image_filters.h"

#include <algorithm>

#include "common/call/status.h"

namespace pk::image::filters {

namespace {

void require_dense(const pk_operand &operand, const int64_t *shape, int64_t size) {
    require(operand.flags == 0, "an image is not in the machine's byte order");
    require_array(reinterpret_cast<const void *>(operand.address), size, size_t(size_of(operand.type)),
                  "an image");
    int64_t stride = size_of(operand.type);
    for (int d = 3; d >= 0; --d) {
        require(shape[d] == 1 || size == 0 || operand.strides[d] == stride, "an image is not C-contiguous");
        stride *= shape[d];
    }
}

// Returns the sum of the magnitudes, but 1 at least.
double sum_of_magnitudes(const std::vector<double> &weights) {
    double sum = 0;
    for (double weight : weights) sum += std::fabs(weight);
    return std::max(1.0, sum);
}

bool are_integers(const std::vector<double> &weights) {
    return std::all_of(weights.begin(), weights.end(), [](double w) { return w == std::nearbyint(w); });
}

}  // namespace

Filter::Filter(const pk_window *window, const double *weights_in, int64_t weight_count,
               const pk_operand *operands, const int64_t *shape) {
    require(window != nullptr && operands != nullptr && shape != nullptr, "an argument is a null pointer");
    kind = window->kind, border = window->border;
    height = window->height, width = window->width, above = window->above, left = window->left;
    border_value = window->border_value;
    require(kind >= PK_FILTER_CORRELATE && kind <= PK_FILTER_MEDIAN,
            "window.kind is not one of PK_FILTER_CORRELATE to PK_FILTER_MEDIAN");
    require(border >= PK_BORDER_REFLECT && border <= PK_BORDER_SHRINK,
            "window.border is not one of PK_BORDER_REFLECT to PK_BORDER_SHRINK");
    require(border != PK_BORDER_SHRINK || kind == PK_FILTER_BOX,
            "window.border is PK_BORDER_SHRINK, which only PK_FILTER_BOX supports");
    require(height >= 1 && height <= MAX_SIZE && width >= 1 && width <= MAX_SIZE,
            "window.height or window.width is not from 1 to 63");
    require(above >= 0 && above < height && left >= 0 && left < width,
            "window.above or window.left is not inside the window");

    int64_t size = 1, bytes_of_sums = 8;  // in float64, where dimensions of 0 are counted as 1
    for (int d = 0; d < 4; ++d) {
        require(shape[d] >= 0, "a dimension is negative");
        bytes_of_sums =
            checked_product(bytes_of_sums, std::max<int64_t>(shape[d], 1), "an image is too large");
        size *= shape[d];
    }
    batch = shape[0], rows = shape[1], columns = shape[2], channels = shape[3];
    type = operands[0].type, result_type = operands[1].type;
    require(type == PK_UINT8 || type == PK_UINT16 || type == PK_FLOAT32,
            "the image's type is not PK_UINT8, PK_UINT16 or PK_FLOAT32");
    require(result_type == type || (result_type == PK_FLOAT32 && computes_sums()),
            "the result's type is neither the image's nor, for a sum, PK_FLOAT32");
    for (int i = 0; i < 2; ++i) require_dense(operands[i], shape, size);
    in = reinterpret_cast<const char *>(operands[0].address);
    out = reinterpret_cast<char *>(operands[1].address);
    const double max_value = type == PK_UINT8 ? 255 : 65535;
    require(type == PK_FLOAT32 || (border_value >= 0 && border_value <= max_value &&
                                   border_value == std::nearbyint(border_value)),
            "window.border_value is not a number of the image's type");

    const int64_t expected = kind == PK_FILTER_CORRELATE   ? height * width
                             : kind == PK_FILTER_SEPARABLE ? height + width
                                                           : 0;
    require(weight_count == expected, "weight_count does not match the window");
    require(weights_in != nullptr || expected == 0, "weights is a null pointer");
    require(std::all_of(weights_in, weights_in + expected, [](double w) { return std::isfinite(w); }),
            "a weight is not finite");
    if (kind == PK_FILTER_CORRELATE) weights.assign(weights_in, weights_in + expected);
    if (kind == PK_FILTER_SEPARABLE) {
        down.assign(weights_in, weights_in + height);
        across.assign(weights_in + height, weights_in + expected);
    }
    if (kind == PK_FILTER_BOX) {
        down.assign(size_t(height), 1);
        across.assign(size_t(width), 1);
    }
    if (border == PK_BORDER_SHRINK) border_value = 0;
    choose_arithmetic();
}

void Filter::choose_arithmetic() {
    if (!computes_sums() || type == PK_FLOAT32) return;
    const double max_value = type == PK_UINT8 ? 255 : 65535;
    if (kind == PK_FILTER_BOX) {
        // A sum of any window of uint8, or of up to 255 elements of uint16, is below 2^24, so exact in
        // float32. Its quotient is an odd multiple of 1/2, or so far from one that float32 rounds it to the
        // right side.
        if (type == PK_UINT16 && height * width > 255) arithmetic = Arithmetic::float64;
        return;
    }
    const double max_sum =
        max_value * (kind == PK_FILTER_CORRELATE ? sum_of_magnitudes(weights)
                                                 : sum_of_magnitudes(down) * sum_of_magnitudes(across));
    if (are_integers(weights) && are_integers(down) && are_integers(across)) {
        if (max_sum < 32768 && type == PK_UINT8) arithmetic = Arithmetic::int16;
        if (max_sum < 0x1p24) return;
    }
    // pk_filter allows a rounded result to differ by 1 from that of float64, which an error below 1/2
    // guarantees. Of every kind the sum is one of `height` sums of `width` products each, so a product is
    // rounded in at most height + width additions; 4 more roundings are for the weights and the products
    // themselves.
    const double max_error = double(height + width + 4) * 0x1p-24 * max_sum;
    if (result_type != PK_FLOAT32 && max_error > 0.4) arithmetic = Arithmetic::float64;
}

}  // namespace pk::image::filters
