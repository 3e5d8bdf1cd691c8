// The streams of pk_stream_create, and how work in them is ordered with the legacy default stream.
#pragma once

#include <cstdint>

#include "common/stream.h"
#include "cuda/runtime/cuda.h"

namespace pk::streams {

// Return the CUDA stream of that number.
inline cudaStream_t cuda_stream(uint64_t stream) {
    return stream <= 1 ? cudaStreamLegacy : reinterpret_cast<cudaStream_t>(stream);
}

void require_device(int64_t device);

uint64_t create_stream(int device, bool is_non_blocking, int priority);
void destroy_stream(uint64_t stream);

// Memory is allocated and freed in the legacy default stream, which a non-blocking stream is not ordered
// with. Make the legacy stream of a device wait for the work that such streams hold, and make them wait for
// the work of the legacy stream. The device is current.
void wait_for_non_blocking_streams(int device);
void make_non_blocking_streams_wait(int device);

}  // namespace pk::streams
