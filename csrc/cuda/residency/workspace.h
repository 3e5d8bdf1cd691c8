// Memory for what stands in a line: a little of it is the driver's, much of it the plans'.
#pragma once

#include <cstdint>

#include "common/call/status.h"
#include "cuda/runtime/stream_memory.h"
#include "device_pool.h"

namespace pk::plan {

class Workspace {
   public:
    Workspace(const Line &line, int64_t bytes) : queued_(line, bytes) {
        if (queued_.get() != nullptr) return;
        memory_ = Memory(line.device, bytes);
        if (memory_.get() == nullptr)
            fail(PK_OUT_OF_MEMORY, "PYCUDAKIT_PLAN_MEMORY leaves too little to compute with");
    }
    char *get() const { return queued_.get() != nullptr ? queued_.get() : memory_.get(); }

   private:
    const QueuedMemory queued_;
    Memory memory_;
};

}  // namespace pk::plan
