// What the library makes of a call's parameters, and kernels find in memory: weights, a long program.
#pragma once

#include <cstdint>

#include "runtime.h"

namespace pk {

// Bytes that may come with launches, as these have parameters,.
constexpr int64_t MOST_WITH_LAUNCHES = 64 << 10;

// Queues what writes bytes to memory of the current device. They are taken when this returns.
void write_with_launches(const char *bytes, int64_t count, char *to, cudaStream_t queue);

}  // namespace pk
