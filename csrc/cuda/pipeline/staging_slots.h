// Slots: what one chunk of a call needs to pass through a GPU. They are made when first needed, kept, and
// lent to the threads of every call.
#pragma once

#include <memory>
#include <vector>

#include "common/call/call.h"
#include "cuda/runtime/execution_context.h"
#include "pycudakit.h"

namespace pk {

struct SlotBytes {
    int64_t host, device;
};

// The streams of a device that every call's chunks pass through, one after the other in each: measured, a
// copy engine that changes between streams loses some microseconds a copy.
struct DeviceStreams {
    Stream upload = make_stream(), compute = make_stream(), download = make_stream(), clock = make_stream();
};
struct Slot {
    Slot(int device, int64_t host_bytes, int64_t device_bytes);

    void drain() const;  // waits for all that works on it

    const DeviceStreams &streams;
    const int device;
    const int number;
    const int64_t host_bytes, device_bytes;  // of the latter 0 where chunks stay in the former
    bool is_undersized = false;              // smaller than was wanted, and so not kept

    char *host() const { return static_cast<char *>(host_.get()); }
    char *mapped() const { return mapped_; }  // where a kernel finds it
    char *d_memory() const { return static_cast<char *>(memory_.get()); }

   private:
    PinnedMemory host_;
    DeviceMemory memory_;
    char *const mapped_;

   public:
    // Last, so that it is destroyed, and so drained, before the memory that it works on.
    Stream stream;  // for what does not go through the device's own
    Event origin, uploaded, computed, downloaded;
};

// Some slots of the current device, for as long as it lives. Threads that wait are served in the order in
// which they came. They may wait only while they have no slot at all, so that calls cannot wait for each
// other in a circle; one that does not wait may get none.
class Lease {
   public:
    // direct: for operands that need no staging; in_place: for chunks that all stay in pinned memory
    enum Kind { staged, pinned, zero_copy };
    // What slots have, if that is enough, and else what is needed.
    static SlotBytes default_size(Kind kind, SlotBytes needed = {0, 0});

    Lease(SlotBytes bytes, SlotBytes needed, int device, int64_t wanted, Call &call, bool waits = true);
    ~Lease();
    Lease(Lease &&) = default;
    Lease(const Lease &) = delete;

    const std::vector<std::unique_ptr<Slot>> &slots() const { return slots_; }

    // Whether this slot is not the only one here, and another thread waits for one.
    bool should_share(const Slot &slot) const;
    void give_back(const Slot &slot);

   private:
    std::vector<std::unique_ptr<Slot>> slots_;
};

// Memory of the current device that lasts for a call, kept for the next one; none where the budget has no
// room. Nobody is at work on it any more when it is had, unless it is for what stands in the thread's line.
class DeviceBuffer {
   public:
    DeviceBuffer() = default;
    // All blocks of a device together may take half of its budget. One that is `large` may take what slots
    // leave: whoever holds it must have its slots already, since other calls may then have to wait for some.
    DeviceBuffer(int device, int64_t bytes, bool large = false, bool reuse_on_stream = false);
    ~DeviceBuffer();
    DeviceBuffer(DeviceBuffer &&other) noexcept
        : memory_(std::move(other.memory_)),
          free_marker_(std::move(other.free_marker_)),
          device_(other.device_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    DeviceBuffer(const DeviceBuffer &) = delete;

    char *d_memory() const { return static_cast<char *>(memory_.get()); }

   private:
    DeviceMemory memory_;
    FreeMarker free_marker_;
    int device_ = 0;
    int64_t bytes_ = 0;
};

// What slots and blocks take, and may take.
pk_memory streaming_memory();

// Gives back what no call has.
void release_streaming_memory();

}  // namespace pk
