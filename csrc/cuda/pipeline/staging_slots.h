// Staging slots: the memory, streams and events that one chunk needs to pass through a GPU.
//
// Slots are created on first use and pooled; the threads of a call check them out with a Lease. Their pinned
// memory has the budget PYCUDAKIT_PINNED_MEMORY; their device memory comes from the device's pool.
#pragma once

#include <memory>
#include <vector>

#include "common/call/call.h"
#include "cuda/runtime/device_pool.h"
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

// Bytes of the budget of pinned memory, booked while this lives.
class PinnedReservation {
   public:
    explicit PinnedReservation(int64_t bytes) : bytes_(bytes) {}  // already booked
    ~PinnedReservation();
    PinnedReservation(PinnedReservation &&other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
    PinnedReservation &operator=(PinnedReservation &&other) noexcept {
        std::swap(bytes_, other.bytes_);
        return *this;
    }

   private:
    int64_t bytes_;
};

// The booked memory of a slot.
struct SlotReservation {
    SlotBytes bytes;
    PinnedReservation pinned;
    DeviceBuffer device;
};

// A staging slot: pinned memory, device memory, a stream, and the events of one chunk.
struct Slot {
    Slot(int device, SlotReservation reservation);

    void drain() const;  // waits for all work on the slot

    const DeviceStreams &streams;
    const int device;
    const int number;
    const int64_t host_bytes, device_bytes;  // device_bytes is 0 if chunks are zero-copy
    bool is_undersized = false;              // smaller than requested, and so not returned to the pool

    char *host() const { return static_cast<char *>(host_.get()); }
    char *mapped() const { return mapped_; }  // device address of the pinned memory
    char *d_memory() const { return device_.d_memory(); }

   private:
    const PinnedReservation pinned_;
    PinnedMemory host_;
    DeviceBuffer device_;
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

// Return the memory and budgets of slots and buffers.
pk_memory streaming_memory();

// Free the slots that no call uses.
void release_slots();

}  // namespace pk
