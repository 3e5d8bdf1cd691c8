// A pool of device memory for the resident buffers of residency scopes.
//
// It is separate from the staging slots' memory, since it may be much larger. Freed buffers are reused by
// later scopes; PYCUDAKIT_PLAN_MEMORY is its budget.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/runtime/execution_context.h"
#include "pycudakit.h"

namespace pk::plan {

// A buffer of the pool. On a thread with a StreamScope it may be used in the current stream only: work that
// used the memory before may still be pending, and is ordered before it.
class PooledBuffer {
   public:
    PooledBuffer() = default;
    PooledBuffer(int device, int64_t bytes);  // get() is null if the budget or the device is exhausted
    ~PooledBuffer();
    PooledBuffer(PooledBuffer &&other) noexcept
        : memory_(std::move(other.memory_)),
          free_marker_(std::move(other.free_marker_)),
          device_(other.device_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    PooledBuffer &operator=(PooledBuffer &&other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(free_marker_, other.free_marker_);
        std::swap(device_, other.device_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    char *get() const { return static_cast<char *>(memory_.get()); }
    // Give the memory up, never to be reused or freed: a hung kernel may still use it.
    void leak();

   private:
    DeviceMemory memory_;
    FreeMarker free_marker_;
    int device_ = 0;
    int64_t bytes_ = 0;
};

// Return the pool's budget on a device, in bytes.
int64_t budget_of(int device);

// Add the pool's sizes to the report.
void add_memory(pk_memory &memory);

// Free the buffers that no residency scope uses.
void release_memory();

}  // namespace pk::plan
