// Temporary storage for asynchronous calls: stream-ordered if small, from the device pool if large.
#pragma once

#include <cstdint>

#include "common/call/status.h"
#include "cuda/runtime/stream_memory.h"
#include "device_pool.h"

namespace pk::plan {

// Temporary storage that lasts until the stream reaches the point of its destruction. Throws if there is
// none.
class Workspace {
   public:
    Workspace(const StreamScope &stream_scope, int64_t bytes) : stream_ordered_(stream_scope, bytes) {
        if (stream_ordered_.get() != nullptr) return;
        pooled_ = PooledBuffer(stream_scope.device, bytes);
        if (pooled_.get() == nullptr)
            fail(PK_OUT_OF_MEMORY,
                 "PYCUDAKIT_PLAN_MEMORY leaves too little temporary storage for this call: raise it");
    }
    char *get() const { return stream_ordered_.get() != nullptr ? stream_ordered_.get() : pooled_.get(); }

   private:
    const StreamOrderedMemory stream_ordered_;
    PooledBuffer pooled_;
};

}  // namespace pk::plan
