// Arithmetic of image pixels, the same in both engines.
#pragma once

#include <cstdint>
#include <type_traits>

#include "portable.h"

namespace pk::image::pixels {

// Rounds to the nearest integer, ties to even, for values that are not negative and far below 2^52.
PK_HD double nearest(double x) { return (x + 4503599627370496.0) - 4503599627370496.0; }

constexpr int64_t MAX_DIVISOR = 16384;  // so that sums fit in 31 bits, and quotients in a float

// Conversion to grayscale: the positions and weights of red, green and blue in a pixel, and the divisor of
// their sum.
struct GrayWeights {
    int64_t channels;
    int32_t positions[3], weights[3];
    int32_t divisor;
    bool truncates;
    double fractions[3];  // weights divided by the divisor
};

// For integers the sum is exact, so the quotient is the exact one, rounded once.
template <class T>
PK_HD T gray_value(const T *pixel, const GrayWeights &gray) {
    const T red = pixel[gray.positions[0]], green = pixel[gray.positions[1]], blue = pixel[gray.positions[2]];
    if constexpr (std::is_same<T, float>::value) {
        return T(gray.fractions[0] * double(red) + gray.fractions[1] * double(green) +
                 gray.fractions[2] * double(blue));
    } else {
        const int32_t sum = gray.weights[0] * int32_t(red) + gray.weights[1] * int32_t(green) +
                            gray.weights[2] * int32_t(blue);
        const double quotient = double(sum) / double(gray.divisor);
        return T(int32_t(gray.truncates ? quotient : nearest(quotient)));
    }
}

// Resizing along one axis: new position i is the sum of weights[begin[i]] to weights[begin[i + 1]],
// exclusive, times the old elements from first[i] on. `max_count` is the largest number of weights of a
// position.
struct Taps {
    int64_t size, max_count;
    const int64_t *first, *begin;
    const double *weights;

    PK_HD int64_t count(int64_t i) const { return begin[i + 1] - begin[i]; }
    PK_HD int64_t end(int64_t i) const { return first[i] + count(i); }
};

// The weighted sum for new position i of a row; `row` is the first element of one channel.
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
