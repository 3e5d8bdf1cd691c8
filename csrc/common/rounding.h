// Rounding up: quotients, multiples, and the size classes of pooled memory.
#pragma once

#include <cstdint>

#include "portable.h"

namespace pk {

PK_HD int64_t ceil_div(int64_t count, int64_t size) { return (count + size - 1) / size; }
PK_HD int64_t align_up(int64_t count, int64_t multiple) { return ceil_div(count, multiple) * multiple; }

// Round up to a size class. Neighbouring classes differ by an eighth at most, so that memory for arrays of
// similar size is interchangeable.
PK_HD int64_t size_class(int64_t bytes) {
    int64_t step = 4096;
    while (step * 16 <= bytes) step *= 2;
    return align_up(bytes, step);
}

}  // namespace pk
