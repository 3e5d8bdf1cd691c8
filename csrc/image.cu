// Entry points of the image functions on a GPU; the kernels are in cuda/image/.
#include "common/image.h"

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
