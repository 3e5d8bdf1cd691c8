// What comes with launches, as their parameters do: what the library makes of a call's, as weights or a long
// program are; and small operands of what stands in a line.
#pragma once

#include <cstdint>

#include "cuda.h"

namespace pk {

// So many bytes may come so.
constexpr int64_t MOST_WITH_LAUNCHES = 64 << 10;

// Queues what writes bytes to memory of the current device. They are taken when this returns.
void write_with_launches(const char *bytes, int64_t count, char *to, cudaStream_t queue);

}  // namespace pk
