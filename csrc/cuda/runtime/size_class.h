// Size classes of pooled memory.
#pragma once

#include <cstdint>

namespace pk {

// Round up to a size class. Neighbouring classes differ by an eighth at most, so that memory for arrays of
// similar size is interchangeable.
inline int64_t size_class(int64_t bytes) {
    int64_t step = 4096;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

}  // namespace pk
