// The loops of random numbers, over blocks that fit in the first-level cache.
#pragma once

#include <cstdint>

#include "../common/philox.h"

namespace pk {

struct RandomLoops {
    void (*words)(const uint64_t *key, const philox::Counter &first, int64_t blocks, uint64_t *words);
    // Of PK_RANDOM_UNIFORM, PK_RANDOM_NORMAL and PK_RANDOM_EXPONENTIAL: from 32 bits to float32, or null; and
    // from 64 to float64.
    void (*transform[3][2])(const void *bits, int64_t count, void *results);
    // results[i] = a + b * results[i]; the parameters are one each, or one for every element
    void (*scale)(const double *a, bool each_a, const double *b, bool each_b, int64_t count, double *results);
};

}  // namespace pk
