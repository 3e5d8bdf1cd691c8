// Launches: the sizes of grids, and the trace lane of timed kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/rounding.h"

namespace pk {

// The trace lane of kernels that are timed by events, separate from the lanes of the slots.
constexpr int KERNELS_LANE = 1 << 20;

// Return how many blocks cover `count` items, so many in each: at least one, and at most `most`.
inline unsigned grid_for(int64_t count, int64_t per_block, int64_t most = INT32_MAX) {
    return unsigned(std::clamp<int64_t>(ceil_div(count, per_block), 1, most));
}

}  // namespace pk
