// Temporary storage for asynchronous calls: stream-ordered if small, from the device pool if large.
#pragma once

#include <cstdint>
#include <optional>

#include "common/call/status.h"
#include "cuda/runtime/stream_memory.h"
#include "device_pool.h"

namespace pk::plan {

// Temporary storage that lasts until the stream reaches the point of its destruction or, without a stream,
// until then. Throws if there is none.
class Workspace {
   public:
    Workspace(const StreamScope *stream_scope, int device, int64_t bytes) {
        if (stream_scope != nullptr) stream_ordered_.emplace(*stream_scope, bytes);
        if (stream_ordered_ && stream_ordered_->get() != nullptr) return;
        pooled_ = PooledBuffer(device, bytes);
        if (pooled_.get() == nullptr)
            fail(PK_OUT_OF_MEMORY,
                 "PYCUDAKIT_PLAN_MEMORY leaves too little temporary storage for this call: raise it");
    }
    Workspace(const StreamScope &stream_scope, int64_t bytes)
        : Workspace(&stream_scope, stream_scope.device, bytes) {}
    char *get() const { return pooled_.get() != nullptr ? pooled_.get() : stream_ordered_->get(); }

   private:
    std::optional<StreamOrderedMemory> stream_ordered_;
    PooledBuffer pooled_;
};

}  // namespace pk::plan
