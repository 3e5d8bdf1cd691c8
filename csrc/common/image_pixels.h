// The arithmetic of images, pixel by pixel: of both engines.
#pragma once

#include <cstdint>
#include <type_traits>

#include "portable.h"

namespace pk::image::pixels {

// To the nearest integer, ties to even, of what is not negative and far below 2^52.
PK_HD double nearest(double x) { return (x + 4503599627370496.0) - 4503599627370496.0; }

constexpr int64_t MOST_DIVISOR = 16384;  // so that sums have room in 31 bits, and quotients in a float

// How a pixel becomes grey: red, green and blue by their places in it and their weights, over a divisor.
struct Grey {
    int64_t channels;
    int32_t places[3], weights[3];
    int32_t divisor;
    bool truncates;
    double shares[3];  // weights over the divisor
};

// Of integers the sum is exact, and so the quotient is the exact one, rounded once: a tie is one exactly.
template <class T>
PK_HD T grey_of(const T *pixel, const Grey &grey) {
    const T red = pixel[grey.places[0]], green = pixel[grey.places[1]], blue = pixel[grey.places[2]];
    if constexpr (std::is_same<T, float>::value) {
        return T(grey.shares[0] * double(red) + grey.shares[1] * double(green) +
                 grey.shares[2] * double(blue));
    } else {
        const int32_t sum = grey.weights[0] * int32_t(red) + grey.weights[1] * int32_t(green) +
                            grey.weights[2] * int32_t(blue);
        const double quotient = double(sum) / double(grey.divisor);
        return T(int32_t(grey.truncates ? quotient : nearest(quotient)));
    }
}

// Resizing along one axis: new place i takes weights[begin[i]] to weights[begin[i + 1]], excluded, of the old
// places from first[i] on, `most` at most.
struct Taps {
    int64_t size, most;
    const int64_t *first, *begin;
    const double *weights;

    PK_HD int64_t count(int64_t i) const { return begin[i + 1] - begin[i]; }
    PK_HD int64_t end(int64_t i) const { return first[i] + count(i); }
};

// The sum at new place i of a row; `row` is one channel's first element.
template <class T>
PK_HD double along_row(const T *row, int64_t channels, const Taps &taps, int64_t i) {
    const T *at = row + taps.first[i] * channels;
    const double *weights = taps.weights + taps.begin[i];
    double sum = weights[0] * double(at[0]);
    for (int64_t k = 1; k < taps.count(i); ++k) sum += weights[k] * double(at[k * channels]);
    return sum;
}

template <class T>
PK_HD T rounded(double sum, double divisor) {
    const double value = sum / divisor;
    if constexpr (std::is_same<T, float>::value) return T(value);
    return T(int32_t(nearest(value)));
}

}  // namespace pk::image::pixels
