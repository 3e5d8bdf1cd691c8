// The loops of filters over rows of elements, which reach beyond what they compute: rows are PADDING longer.
#pragma once

#include <cstdint>

namespace pk {

// Elements that a loop may read and write beyond its count.
constexpr int64_t FILTER_PADDING = 512;

// An element's type, as the tables below have it: uint8, uint16, float32.
constexpr int FILTER_TYPES = 3;

// Sums with weights. `step` is the distance of neighbours in a row, and `taps` how many there are.
template <class Sum>
struct SumLoops {
    void (*widen[FILTER_TYPES])(const void *from, int64_t count, Sum *to);
    void (*narrow[FILTER_TYPES])(const Sum *from, int64_t count, void *to);
    void (*across)(const Sum *row, const Sum *weights, int64_t taps, int64_t step, int64_t count, Sum *to);
    void (*down)(const Sum *const *rows, const Sum *weights, int64_t taps, int64_t count, Sum *to);
    // `together` rows of results of one more row of operands each.
    void (*correlate)(const Sum *const *rows, const Sum *weights, int64_t height, int64_t width, int64_t step,
                      int64_t count, Sum *const *to);
    void (*divide)(Sum *sums, const Sum *counts, Sum factor, int64_t count);
    int64_t together;
};

// Elements in order, as unsigned keys.
template <class Key>
struct OrderLoops {
    // The extremes of 0: the smallest, 1: the largest. The row is used up.
    void (*across[2])(Key *row, int64_t taps, int64_t step, int64_t count, Key *to);
    void (*down[2])(const Key *const *rows, int64_t taps, int64_t count, Key *to);
    // Of three rows by three columns; of any.
    void (*median_of_nine)(const Key *const *rows, int64_t step, int64_t count, Key *to);
    void (*median)(const Key *const *rows, int64_t height, int64_t width, int64_t step, int64_t count,
                   int64_t rank, int bits, Key *to);
};

// Means of integers by sums of columns, which go down row by row; `in_double` if float32 does not hold them.
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
    void (*to_keys[2])(const float *from, int64_t count, uint32_t *to);  // 0: for the smallest
    void (*of_keys[2])(const uint32_t *from, int64_t count, float *to);
    MeanLoops<uint8_t> means8;
    MeanLoops<uint16_t> means16;
    // Of sums of columns that fit in 16 bits: means of `taps` of them, by multiplication.
    void (*slide_short)(uint16_t *sums, const uint8_t *enters, const uint8_t *leaves, int64_t count);
    void (*means_short)(const uint16_t *sums, int64_t taps, int64_t step, int64_t count, uint16_t half,
                        uint16_t multiplier, int shift, uint8_t *to);
    // Sums of `taps` of them each; they are used up.
    void (*add_across)(uint32_t *sums, int64_t taps, int64_t step, int64_t count, uint32_t *to);
};

}  // namespace pk
