// Table of the inner loops of image filters over rows of elements. Rows are FILTER_PADDING elements longer
// than their results, because loops run in whole vectors.
#pragma once

#include <cstdint>

namespace pk {

// Elements beyond `count` that a loop may read and write.
constexpr int64_t FILTER_PADDING = 512;

// Number of element types; the index is 0 for uint8, 1 for uint16, 2 for float32.
constexpr int FILTER_TYPES = 3;

// Weighted sums. `step` is the distance of neighbours in a row, `taps` their number.
template <class Sum>
struct SumLoops {
    void (*widen[FILTER_TYPES])(const void *from, int64_t count, Sum *to);
    void (*narrow[FILTER_TYPES])(const Sum *from, int64_t count, void *to);
    void (*across)(const Sum *row, const Sum *weights, int64_t taps, int64_t step, int64_t count, Sum *to);
    void (*down)(const Sum *const *rows, const Sum *weights, int64_t taps, int64_t count, Sum *to);
    // Computes several rows of results; each further one uses one more row of operands.
    void (*correlate)(const Sum *const *rows, const Sum *weights, int64_t height, int64_t width, int64_t step,
                      int64_t count, Sum *const *to);
    void (*divide)(Sum *sums, const Sum *counts, Sum factor, int64_t count);
    int64_t together;
};

// Order filters on order-preserving unsigned keys.
template <class Key>
struct OrderLoops {
    // Minima (index 0) and maxima (index 1). `across` overwrites the row.
    void (*across[2])(Key *row, int64_t taps, int64_t step, int64_t count, Key *to);
    void (*down[2])(const Key *const *rows, int64_t taps, int64_t count, Key *to);
    // Medians: of 3 x 3 elements, and of any window.
    void (*median_of_nine)(const Key *const *rows, int64_t step, int64_t count, Key *to);
    void (*median)(const Key *const *rows, int64_t height, int64_t width, int64_t step, int64_t count,
                   int64_t rank, int bits, Key *to);
};

// Means of integers by column sums, which slide down row by row (running sums); `in_double` if float32 cannot
// hold them.
template <class T>
struct MeanLoops {
    void (*slide)(uint32_t *sums, const T *enters, const T *leaves, int64_t count);
    void (*divide)(const uint32_t *sums, int64_t by, bool in_double, int64_t count, T *to);
};

struct FilterLoops {
    SumLoops<int16_t> int16;
    SumLoops<float> float32;
    SumLoops<double> float64;
    OrderLoops<uint8_t> order8;
    OrderLoops<uint16_t> order16;
    OrderLoops<uint32_t> order32;
    void (*to_keys[2])(const float *from, int64_t count, uint32_t *to);  // index 0: for minima
    void (*of_keys[2])(const uint32_t *from, int64_t count, float *to);
    MeanLoops<uint8_t> means8;
    MeanLoops<uint16_t> means16;
    // Column sums that fit in 16 bits: means of `taps` of them, where a multiplication replaces the division.
    void (*slide_short)(uint16_t *sums, const uint8_t *enters, const uint8_t *leaves, int64_t count);
    void (*means_short)(const uint16_t *sums, int64_t taps, int64_t step, int64_t count, uint16_t half,
                        uint16_t multiplier, int shift, uint8_t *to);
    // Sums of `taps` neighbours each; overwrites `sums`.
    void (*add_across)(uint32_t *sums, int64_t taps, int64_t step, int64_t count, uint32_t *to);
};

}  // namespace pk
