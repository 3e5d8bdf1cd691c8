// Memory for a call of arrays on a device, which has waited for its stream when it gives it back.
#pragma once

#include <cstdint>
#include <optional>

#include "common/call/status.h"
#include "cuda/stream/slots.h"
#include "memory.h"

namespace pk::plan {

class Workspace {
   public:
    // Of device 0 as much as plans may take, of others what calls stream through.
    Workspace(int device, int64_t bytes) {
        if (device == 0) {
            memory_.emplace(bytes);
        } else {
            block_.emplace(device, bytes, true);
        }
        if (get() == nullptr)
            fail(PK_OUT_OF_MEMORY, device == 0 ? "PYCUDAKIT_PLAN_MEMORY leaves too little to compute with"
                                               : "PYCUDAKIT_DEVICE_MEMORY leaves too little to compute with");
    }
    char *get() const { return memory_ ? memory_->get() : block_->memory(); }

   private:
    std::optional<Memory> memory_;
    std::optional<Block> block_;
};

}  // namespace pk::plan
