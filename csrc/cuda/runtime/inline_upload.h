// Inline upload: small host data that is written to device memory through kernel parameters.
//
// A launch copies its parameters at once, so the host memory may change after the call, and no stream has to
// be synchronized. Used for tables that the library computes (a filter's weights, a long program) and for
// small operands of asynchronous calls.
#pragma once

#include <cstdint>

#include "cuda.h"

namespace pk {

// The most bytes that are uploaded this way.
constexpr int64_t MAX_INLINE_UPLOAD = 64 << 10;

// Enqueue writes of `count` bytes to memory of the current device. The bytes are copied before this returns.
void upload_inline(const char *bytes, int64_t count, char *to, cudaStream_t stream);

}  // namespace pk
