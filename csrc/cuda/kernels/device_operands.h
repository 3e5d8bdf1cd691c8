// The buffers of a run that lie on its device before it begins.
#pragma once

#include <vector>

#include "common/kernels.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

inline bool is_on_device(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_ON_DEVICE) != 0; }
// Whether kernels work in the memory itself, as what they write is to be seen, or they write nothing.
inline bool is_in_place(const pk_buffer &buffer) {
    return is_on_device(buffer) && (buffer.flags & (PK_BUFFER_CONSTANT | PK_BUFFER_DOWNLOAD)) != 0;
}

class DeviceOperands {
   public:
    // Throws unless they are memory of the device.
    DeviceOperands(const Run &run, int device);

    // What their values come in, each once.
    const std::vector<cudaStream_t> &streams() const { return streams_; }
    // Whether the run needs no memory but theirs.
    bool needs_no_memory() const { return needs_no_memory_; }

   private:
    std::vector<cudaStream_t> streams_;
    bool needs_no_memory_ = true;
};

}  // namespace pk::kernels
