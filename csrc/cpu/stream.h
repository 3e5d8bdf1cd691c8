// The streams of the CPU as a device, which are numbers: their work is complete when a call returns.
#pragma once

#include <cstdint>

namespace pk::streams {

// Throws unless it is the index of the only device.
void require_device(int64_t device);
// Throws unless it is a default stream, or one of pk_stream_create.
void require_stream(uint64_t stream);

}  // namespace pk::streams
