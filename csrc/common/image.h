// The checked arguments of the image entries, for both engines.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "image_filters.h"
#include "image_pixels.h"
#include "layout.h"

namespace pk::image {

// The arguments of pk_gray. The result is dense pixels.
struct Grey {
    int64_t size;  // elements, including all channels
    int type;
    pixels::Grey grey;
    Layout layout;  // of the elements, in the order of the shape
    char *out = nullptr;

    Grey(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const int64_t *weights,
         int64_t divisor, int64_t truncates);
    int64_t pixels() const { return size / grey.channels; }
    int64_t elements() const { return size; }
};

// The arguments of pk_lookup.
struct Lookup {
    int64_t size;
    Layout layout;
    const uint16_t *table;
    int64_t count;

    Lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const uint16_t *table,
           int64_t count);
    int64_t elements() const { return size; }
};

// Owner of a pixels::Taps: the old pixels and weights of each new position along one axis.
struct Taps {
    std::vector<int64_t> first, begin;
    std::vector<double> weights;
    int64_t most = 0;
    double divisor = 1;  // the sum of the weights

    Taps(int64_t method, int64_t from, int64_t to);
    pixels::Taps view() const {
        return {int64_t(first.size()), most, first.data(), begin.data(), weights.data()};
    }
};

// The arguments of pk_resize. Rows are counted through all images.
struct Resize {
    int64_t size;  // elements read; 0 if there is nothing to do
    int type;
    int64_t height, width, channels, new_height, new_width, method;
    int64_t images = 0;
    Layout layout;  // of the elements, in the order of the shape
    char *out = nullptr;

    Resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions, int64_t new_height,
           int64_t new_width, int64_t method);
    int64_t new_rows() const { return images * new_height; }
    int64_t row_elements() const { return width * channels; }
    int64_t new_row_elements() const { return new_width * channels; }
    int64_t elements() const { return size == 0 ? 0 : new_rows() * new_row_elements(); }
};

// The computations, which each engine implements.
void make_gray(const Grey &given, Call &call);
void look_up(const Lookup &given, Call &call);
void resize(const Resize &given, Call &call);
void filter(const filters::Filter &given, Call &call);

}  // namespace pk::image
