// The buffers of a run that are device arrays of the caller's.
#pragma once

#include <vector>

#include "common/kernels.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

inline bool is_on_device(const pk_buffer &buffer) { return (buffer.flags & PK_ON_DEVICE) != 0; }
// Return true if kernels access the array itself: it is an output, or it is not written.
inline bool is_in_place(const pk_buffer &buffer) {
    return is_on_device(buffer) && (buffer.flags & (PK_BUFFER_CONSTANT | PK_BUFFER_DOWNLOAD)) != 0;
}

// The device arrays of a run: checks that they are on its device, and collects their streams.
class DeviceOperands {
   public:
    // Throws unless the arrays are memory of the device.
    DeviceOperands(const Run &run, int device);

    // The distinct streams that the arrays' values are computed in.
    const std::vector<cudaStream_t> &streams() const { return streams_; }
    // Return true if the run needs no other device memory.
    bool needs_no_memory() const { return needs_no_memory_; }

   private:
    std::vector<cudaStream_t> streams_;
    bool needs_no_memory_ = true;
};

}  // namespace pk::kernels
