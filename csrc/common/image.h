// The checked arguments of the image entries, for both engines.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "image_filters.h"
#include "image_pixels.h"
#include "layout.h"

namespace pk::image {

// The arguments of pk_gray. The result has a dense element for each pixel.
struct Gray {
    int64_t size;  // elements of the image, all channels counted
    int type;
    pixels::GrayWeights weights;
    Layout layout;  // of the image's elements, in the order of the shape
    char *out = nullptr;

    Gray(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const int64_t *weights,
         int64_t divisor, int64_t truncates);
    int64_t pixel_count() const { return size / weights.channels; }
    int64_t elements() const { return size; }
};

// The arguments of pk_lookup. Both operands, the image and the result, are in the layout.
struct Lookup {
    int64_t size;  // elements of the image
    Layout layout;
    const uint16_t *table;
    int64_t count;  // of the table's entries

    Lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions, const uint16_t *table,
           int64_t count);
    int64_t elements() const { return size; }
};

// Owns the arrays of a pixels::Taps: the old pixels and weights of each new position along one axis.
struct Taps {
    std::vector<int64_t> first, begin;
    std::vector<double> weights;
    int64_t max_count = 0;
    double divisor = 1;  // the sum of each position's weights

    Taps(int64_t method, int64_t from, int64_t to);
    pixels::Taps view() const {
        return {int64_t(first.size()), max_count, first.data(), begin.data(), weights.data()};
    }
};

// The arguments of pk_resize. new_rows() and the row indices of the engines count the rows of all images.
struct Resize {
    int64_t size;  // elements of the images; 0 if the result has none
    int type;
    int64_t height, width, channels, new_height, new_width, method;
    int64_t images = 0;
    Layout layout;  // of the images' elements, in the order of the shape
    char *out = nullptr;

    Resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions, int64_t new_height,
           int64_t new_width, int64_t method);
    int64_t new_rows() const { return images * new_height; }
    int64_t row_elements() const { return width * channels; }
    int64_t new_row_elements() const { return new_width * channels; }
    int64_t elements() const { return size == 0 ? 0 : new_rows() * new_row_elements(); }  // of the result
};

// The computations, which each engine implements.
void make_gray(const Gray &request, Call &call);
void look_up(const Lookup &request, Call &call);
void resize(const Resize &request, Call &call);
void filter(const filters::Filter &request, Call &call);

}  // namespace pk::image
