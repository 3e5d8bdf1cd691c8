// Image filters in both engines: the checked arguments, the type in which sums are computed, border handling,
// and the rounding of results.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "portable.h"
#include "pycudakit.h"
#include "radix_key.h"
#include "types.h"

namespace pk::image::filters {

constexpr int64_t MAX_SIZE = 63;  // of a window, along an axis

// Returns the index from which the element at `index` is taken if that is beyond the border; -1 if the
// element is the border value.
PK_HD int64_t inside(int border, int64_t index, int64_t size) {
    if (index >= 0 && index < size) return index;
    if (border == PK_BORDER_NEAREST) return index < 0 ? 0 : size - 1;
    const int64_t period = border == PK_BORDER_WRAP      ? size
                           : border == PK_BORDER_REFLECT ? 2 * size
                           : border == PK_BORDER_MIRROR  ? 2 * size - 2
                                                         : 0;
    if (period == 0) return border == PK_BORDER_MIRROR ? 0 : -1;
    int64_t position = index % period;
    if (position < 0) position += period;
    if (position < size) return position;
    return border == PK_BORDER_REFLECT ? period - 1 - position : period - position;
}

// How many of the `taps` indices from `first` on are inside [0, size).
PK_HD int64_t overlap(int64_t first, int64_t taps, int64_t size) {
    const int64_t begin = first > 0 ? first : 0, end = first + taps < size ? first + taps : size;
    return end - begin;
}

// Rounds to the nearest integer that T can hold, ties to even; NaN becomes 0. Floats are returned unchanged.
template <class T, class Sum>
PK_HD T rounded(Sum sum) {
    if constexpr (std::is_same_v<T, float>) {
        return float(sum);
    } else if constexpr (std::is_integral_v<Sum>) {
        constexpr Sum MAX = sizeof(T) >= sizeof(Sum) ? Sum(32767) : Sum(T(~T(0)));
        return T(sum < 0 ? Sum(0) : sum > MAX ? MAX : sum);
    } else {
        constexpr Sum MAX = T(~T(0)), MAGIC = sizeof(Sum) == 4 ? Sum(0x1.8p23) : Sum(0x1.8p52);
        const Sum least = select(sum > 0, sum, Sum(0)), bounded = select(least < MAX, least, MAX);
        return T(int32_t((bounded + MAGIC) - MAGIC));
    }
}

// Order-preserving key of a float. NaN comes first if `smallest`, else last.
template <bool smallest>
PK_HD uint32_t key_of(float element) {
    return ordered_key_nan_last(bit_cast<uint32_t>(element)) + (smallest ? 1 : 0);
}
template <bool smallest>
PK_HD float element_of(uint32_t key) {
    return bit_cast<float>(float_of_key(smallest ? key - 1 : key));
}

// The type in which sums are computed. int16 is chosen only where it is exact, so it gives the bits of
// float32.
enum class Arithmetic { int16, float32, float64 };

struct Filter {
    Filter(const pk_window *window, const double *weights, int64_t weight_count, const pk_operand *operands,
           const int64_t *shape);

    bool computes_sums() const { return kind <= PK_FILTER_BOX; }
    bool in_two_passes() const { return kind != PK_FILTER_CORRELATE && kind != PK_FILTER_MEDIAN; }
    // The cost of an element: window elements that are read.
    int64_t window() const { return in_two_passes() ? height + width : height * width; }
    int64_t rank() const { return height * width / 2; }  // of the median
    int64_t row() const { return columns * channels; }   // elements
    int64_t image() const { return rows * row(); }
    int64_t elements() const { return batch * image(); }
    int64_t below() const { return height - 1 - above; }
    int64_t right() const { return width - 1 - left; }

    int kind, border;
    int64_t height, width, above, left;  // of the window
    double border_value;
    int64_t batch, rows, columns, channels;
    int type, result_type;
    const char *in;
    char *out;
    Arithmetic arithmetic = Arithmetic::float32;
    // Weights of the window, or, for two passes, those along a column and along a row.
    std::vector<double> weights, down, across;

   private:
    void choose_arithmetic();
};

}  // namespace pk::image::filters
