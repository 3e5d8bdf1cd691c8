// Slots: what one chunk of a call needs to pass through the GPU. They are made when first needed, kept, and
// lent to the threads of every call.
#pragma once

#include <memory>
#include <vector>

#include "../pycudakit.h"
#include "cuda.h"

namespace pk {

struct Slot {
    static constexpr int64_t HOST_BYTES = 4 << 20;
    static constexpr int64_t DEVICE_BYTES = 8 << 20;  // a chunk, and what its program spills

    Slot();

    char *host() const { return static_cast<char *>(host_.get()); }
    char *device() const { return static_cast<char *>(device_.get()); }

   private:
    PinnedMemory host_;
    DeviceMemory device_;

   public:
    // Last, so that it is destroyed, and so drained, before the memory that it works on.
    Stream queue;
    Event begun, uploaded, computed, downloaded;
};

// Some slots, for as long as it lives. Waits only while it has none, so that calls cannot wait for each other
// in a circle.
class Lease {
   public:
    explicit Lease(size_t wanted);
    ~Lease();
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;

    size_t size() const { return slots_.size(); }
    Slot &operator[](size_t i) { return *slots_[i]; }

   private:
    std::vector<std::unique_ptr<Slot>> slots_;
};

// What all slots take, and may take.
pk_memory slots_memory();

// Gives back the slots that no call has.
void release_slots();

}  // namespace pk
