// Table of the inner loops of random numbers, over blocks that fit in L1.
#pragma once

#include <cstdint>

#include "common/random_counts.h"

namespace pk {

struct RandomLoops {
    void (*words)(const uint64_t *key, const philox::Counter &first, int64_t blocks, uint64_t *words);
    // Transform bits for PK_RANDOM_UNIFORM, PK_RANDOM_NORMAL and PK_RANDOM_EXPONENTIAL: 32 bits to float32,
    // 64 to float64.
    void (*transform[3][2])(const void *bits, int64_t count, void *results);
    // results[i] = a + b * results[i], where a parameter is one value or one for each element.
    void (*scale)(const double *a, bool each_a, const double *b, bool each_b, int64_t count, double *results);
    // random::integer for a range below 2^32. Returns whether any element would have to be drawn again.
    bool (*integers)(const uint64_t *words, int64_t count, uint64_t low, uint64_t range, uint64_t *results);
    // random::Inversion::draw, given its cumulative probabilities.
    void (*invert)(const uint64_t *words, int64_t count, const double *ends, int64_t end_count,
                   int64_t *results);
    // random::Hat::candidate; elements whose candidate is not sure become -1.
    void (*candidates)(const random::Hat &hat, const uint64_t *words, const uint64_t *seconds, int64_t count,
                       double *results);
    void (*exponentiate)(int64_t count, double *values);
    // random::Gamma::candidate; elements whose candidate is not sure become -1.
    void (*gamma_candidates)(const double *shapes, bool each_shape, const double *normals,
                             const double *uniforms, int64_t count, double *results);
    // random::fallen and random::share.
    void (*fallen)(const double *falls, int64_t count, double *gammas);
    void (*shares)(const double *gammas, const double *falls, const double *other_falls, int64_t count,
                   double *others);
};

}  // namespace pk
