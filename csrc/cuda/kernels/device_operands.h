// The buffers of a run that lie on its device before it begins.
#pragma once

#include <vector>

#include "common/kernels.h"
#include "cuda/runtime/cuda.h"

namespace pk::kernels {

inline bool lies_there(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_THERE) != 0; }
// Whether kernels work in the memory itself, as what they write is to be seen, or they write nothing.
inline bool is_in_place(const pk_buffer &buffer) {
    return lies_there(buffer) && (buffer.flags & (PK_BUFFER_CONSTANT | PK_BUFFER_DOWN)) != 0;
}

class There {
   public:
    // Throws unless they are memory of the device.
    There(const Run &run, int device);

    // What their values come in, each once.
    const std::vector<cudaStream_t> &streams() const { return streams_; }
    // Whether the run needs no memory but theirs.
    bool is_enough() const { return is_enough_; }

   private:
    std::vector<cudaStream_t> streams_;
    bool is_enough_ = true;
};

}  // namespace pk::kernels
