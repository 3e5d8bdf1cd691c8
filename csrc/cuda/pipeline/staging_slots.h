// Staging slots: the memory, streams and events that one chunk needs to pass through a GPU.
//
// Slots are created on first use and pooled; the threads of a call check them out with a Lease. DeviceBuffer
// is a pooled device buffer for the duration of a call. Both share the budgets PYCUDAKIT_PINNED_MEMORY and
// PYCUDAKIT_DEVICE_MEMORY.
#pragma once

#include <memory>
#include <vector>

#include "common/call/call.h"
#include "cuda/runtime/execution_context.h"
#include "pycudakit.h"

namespace pk {

// Sizes of a slot's pinned and device memory.
struct SlotBytes {
    int64_t host, device;
};

// The upload, compute and download streams of a device, which the chunks of all calls share: a copy engine
// that switches between streams loses some microseconds a copy (measured).
struct DeviceStreams {
    Stream upload = make_stream(), compute = make_stream(), download = make_stream(), clock = make_stream();
};

// A staging slot: pinned memory, device memory, a stream, and the events of one chunk.
struct Slot {
    Slot(int device, int64_t host_bytes, int64_t device_bytes);

    void drain() const;  // waits for all work on the slot

    const DeviceStreams &streams;
    const int device;
    const int number;
    const int64_t host_bytes, device_bytes;  // device_bytes is 0 if chunks are zero-copy
    bool is_undersized = false;              // smaller than requested, and so not returned to the pool

    char *host() const { return static_cast<char *>(host_.get()); }
    char *mapped() const { return mapped_; }  // device address of the pinned memory
    char *d_memory() const { return static_cast<char *>(memory_.get()); }

   private:
    PinnedMemory host_;
    DeviceMemory memory_;
    char *const mapped_;

   public:
    // Last, so that it is destroyed, and so drained, before the memory that it works on.
    Stream stream;  // for chunks that do not use the device's shared streams
    Event origin, uploaded, computed, downloaded;
};

// Slots of the current device, checked out of the pool while this lives. Waiting threads are served first
// come, first served. A thread may wait only while it has no slot at all, so that calls cannot deadlock; with
// `waits` false it may get none.
class Lease {
   public:
    // staged: for operands that are staged; pinned: for pinned operands only; zero_copy: pinned memory only
    enum Kind { staged, pinned, zero_copy };
    // Return the default size of such slots, or `needed` if that is larger.
    static SlotBytes default_size(Kind kind, SlotBytes needed = {0, 0});

    Lease(SlotBytes bytes, SlotBytes needed, int device, int64_t wanted, Call &call, bool waits = true);
    ~Lease();
    Lease(Lease &&) = default;
    Lease(const Lease &) = delete;

    const std::vector<std::unique_ptr<Slot>> &slots() const { return slots_; }

    // Return true if this is not the lease's only slot and another thread waits for one.
    bool should_share(const Slot &slot) const;
    void give_back(const Slot &slot);

   private:
    std::vector<std::unique_ptr<Slot>> slots_;
};

// A pooled buffer of the current device, for the duration of a call. d_memory() is null if the budget is
// exhausted. The buffer is idle when returned, unless `reuse_on_stream`: then work that is still pending on
// the thread's current stream may use it, and is ordered before.
class DeviceBuffer {
   public:
    DeviceBuffer() = default;
    // All buffers of a device together may take half of its budget. A `large` one may take all that slots
    // leave: its call must hold its slots already, since other calls may then have to wait for theirs.
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

// Return the memory and budgets of slots and buffers.
pk_memory streaming_memory();

// Free the slots and buffers that no call uses.
void release_streaming_memory();

}  // namespace pk
