// What comes with launches, as their parameters do: what the library makes of a call's, as weights or a long
// program are; and small operands of what stands in a line.
#pragma once

#include <cstdint>

#include "cuda.h"

namespace pk {

// So many bytes may come so.
constexpr int64_t MAX_INLINE_UPLOAD = 64 << 10;

// Queues what writes bytes to memory of the current device. They are taken when this returns.
void upload_inline(const char *bytes, int64_t count, char *to, cudaStream_t stream);

}  // namespace pk
