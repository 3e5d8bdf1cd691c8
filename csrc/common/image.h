// Images as both engines take them from their callers: the arguments of each entry, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/call/call.h"
#include "image_pixels.h"
#include "layout.h"

namespace pk::images {

// pk_gray: dense pixels as a result.
struct Grey {
    int64_t size;  // elements, with the channels
    int type;
    pixels::Grey grey;
    Layout layout;  // of the elements, in the shape's order
    char *out = nullptr;

    Grey(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const int64_t *weights,
         int64_t divisor, int64_t truncates);
    int64_t pixels() const { return size / grey.channels; }
    int64_t work() const { return size; }
};

// pk_lookup.
struct Lookup {
    int64_t size;
    Layout layout;
    const uint16_t *table;
    int64_t count;

    Lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const uint16_t *table,
           int64_t count);
    int64_t work() const { return size; }
};

// pixels::Taps, in memory.
struct Taps {
    std::vector<int64_t> first, begin;
    std::vector<double> weights;
    int64_t most = 0;
    double divisor = 1;  // what the weights add up to

    Taps(int64_t method, int64_t from, int64_t to);
    pixels::Taps view() const {
        return {int64_t(first.size()), most, first.data(), begin.data(), weights.data()};
    }
};

// pk_resize. Rows are counted through all images.
struct Resize {
    int64_t size;  // elements read; 0 if there is nothing to do
    int type;
    int64_t height, width, channels, new_height, new_width, method;
    int64_t images = 0;
    Layout layout;  // of the elements, in the shape's order
    char *out = nullptr;

    Resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions, int64_t new_height,
           int64_t new_width, int64_t method);
    int64_t new_rows() const { return images * new_height; }
    int64_t row_elements() const { return width * channels; }
    int64_t new_row_elements() const { return new_width * channels; }
    int64_t work() const { return size == 0 ? 0 : new_rows() * new_row_elements(); }
};

// What an entry is: calls compute(request, call) for the request that its arguments make.
template <class Request, class Compute, class... Given>
int32_t requested(const pk_options *options, pk_report *report, Compute compute, Given... given) {
    std::optional<Request> request;
    const int32_t status = guarded([&] { request.emplace(given...); });
    if (status != PK_OK) return status;
    return called(options, report, request->work(), [&](Call &call) { compute(*request, call); });
}

// The entries of an engine that has these functions of a request and a call.
#define PK_IMAGE_ENTRIES(make_gray, look_up, resize)                                                        \
    int32_t pk_gray(const pk_operand *operands, const int64_t *shape, int64_t dimensions,                   \
                    const int64_t *weights, int64_t divisor, int64_t truncates, const pk_options *options,  \
                    pk_report *report) {                                                                    \
        return pk::images::requested<pk::images::Grey>(options, report, make_gray, operands, shape,         \
                                                       dimensions, weights, divisor, truncates);            \
    }                                                                                                       \
    int32_t pk_lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions,                 \
                      const uint16_t *table, int64_t count, const pk_options *options, pk_report *report) { \
        return pk::images::requested<pk::images::Lookup>(options, report, look_up, operands, shape,         \
                                                         dimensions, table, count);                         \
    }                                                                                                       \
    int32_t pk_resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,                 \
                      int64_t new_height, int64_t new_width, int64_t method, const pk_options *options,     \
                      pk_report *report) {                                                                  \
        return pk::images::requested<pk::images::Resize>(options, report, resize, operands, shape,          \
                                                         dimensions, new_height, new_width, method);        \
    }

}  // namespace pk::images
