// Asynchronous calls on device arrays, and their stream-ordered temporary storage.
//
// Such a call is enqueued on a stream of the caller's. Its scratch memory comes from a CUDA memory pool
// (cudaMallocFromPoolAsync) and is freed in stream order.
#pragma once

#include <initializer_list>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "execution_context.h"

namespace pk {

// Return the device of the layout's device-resident views, or -1 if there are none. Throw if a view's
// pointer is not device memory, or if the views are on several GPUs.
int device_of(const Layout &layout);
// Return the device of these arrays, with the same checks.
int device_of(std::initializer_list<const void *> arrays);

// A call on device arrays: while this lives, its stream is the StreamScope and its device is current.
class AsyncCall : public StreamScope {
   public:
    AsyncCall(int device, const Call &call);

    // Synchronize the stream if options.synchronous is set.
    void finish() const;

   private:
    const bool is_blocking_;
    const CurrentDevice current_;
};

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
