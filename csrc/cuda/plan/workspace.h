// Memory for a call of arrays on a device, which has waited for its stream when it gives it back.
#pragma once

#include <cstdint>

#include "common/call/status.h"
#include "memory.h"

namespace pk::plan {

class Workspace {
   public:
    Workspace(int device, int64_t bytes) : memory_(device, bytes) {
        if (get() == nullptr)
            fail(PK_OUT_OF_MEMORY, "PYCUDAKIT_PLAN_MEMORY leaves too little to compute with");
    }
    char *get() const { return memory_.get(); }

   private:
    Memory memory_;
};

}  // namespace pk::plan
