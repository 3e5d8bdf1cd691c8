// Stream-ordered temporary storage of asynchronous calls: it comes from a CUDA memory pool
// (cudaMallocFromPoolAsync) and is freed in stream order.
#pragma once

#include "execution_context.h"

namespace pk {

// Stream-ordered temporary storage, which a CUDA graph can capture, too. get() is null if too many bytes are
// requested, if the pool is exhausted, or if the device has no memory pools.
class StreamOrderedMemory {
   public:
    StreamOrderedMemory(const StreamScope &stream_scope, int64_t bytes);
    ~StreamOrderedMemory();
    StreamOrderedMemory(const StreamOrderedMemory &) = delete;
    StreamOrderedMemory &operator=(const StreamOrderedMemory &) = delete;
    char *get() const { return memory_; }

   private:
    const cudaStream_t stream_;
    char *memory_ = nullptr;
};

// Return unused memory of the pools to the driver.
void release_stream_memory();

// A device buffer for the status words of asynchronous calls, which are never read back: one word for each of
// PK_MAX_INSTRUCTIONS instructions. status_sink() returns the current device's.
constexpr int64_t STATUS_SINK_BYTES = PK_MAX_INSTRUCTIONS * int64_t(sizeof(unsigned));
char *status_sink();

}  // namespace pk
