// The memory of devices that plans keep their ranges in: apart from what calls stream through, since it may
// be much more, and kept from plan to plan.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/runtime/execution_context.h"
#include "pycudakit.h"

namespace pk::plan {

// On a thread with a line it is for what is queued there.
class PooledBuffer {
   public:
    PooledBuffer() = default;
    PooledBuffer(int device, int64_t bytes);  // none where there is no room
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
    // Leaves it to whoever is at work on it.
    void leak();

   private:
    DeviceMemory memory_;
    FreeMarker free_marker_;
    int device_ = 0;
    int64_t bytes_ = 0;
};

// How much of a device's memory plans may keep.
int64_t budget_of(int device);

void add_memory(pk_memory &memory);

// Gives back what no plan has.
void release_memory();

}  // namespace pk::plan
