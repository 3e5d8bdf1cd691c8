// The loops of random numbers, over blocks that fit in the first-level cache.
#pragma once

#include <cstdint>

#include "common/random_counts.h"

namespace pk {

struct RandomLoops {
    void (*words)(const uint64_t *key, const philox::Counter &first, int64_t blocks, uint64_t *words);
    // Of PK_RANDOM_UNIFORM, PK_RANDOM_NORMAL and PK_RANDOM_EXPONENTIAL: from 32 bits to float32, and from 64
    // to float64.
    void (*transform[3][2])(const void *bits, int64_t count, void *results);
    // results[i] = a + b * results[i]; the parameters are one each, or one for every element
    void (*scale)(const double *a, bool each_a, const double *b, bool each_b, int64_t count, double *results);
    // As random::integer, of a range of fewer than 2^32. Returns whether any would have to be drawn again.
    bool (*integers)(const uint64_t *words, int64_t count, uint64_t low, uint64_t range, uint64_t *results);
    // As random::Inversion::draw, of its ends.
    void (*invert)(const uint64_t *words, int64_t count, const double *ends, int64_t end_count,
                   int64_t *results);
    // As random::Hat::candidate: those that are not sure are -1.
    void (*candidates)(const random::Hat &hat, const uint64_t *words, const uint64_t *seconds, int64_t count,
                       double *results);
    void (*exponentiate)(int64_t count, double *values);
    // As random::Gamma::candidate: those that are not sure are -1.
    void (*gamma_candidates)(const double *shapes, bool each_shape, const double *normals,
                             const double *uniforms, int64_t count, double *results);
    // As random::fallen, and random::share.
    void (*fallen)(const double *falls, int64_t count, double *gammas);
    void (*shares)(const double *gammas, const double *falls, const double *other_falls, int64_t count,
                   double *others);
};

}  // namespace pk
