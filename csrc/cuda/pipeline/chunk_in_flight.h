// A chunk in flight: the state of a staging slot and the chunk that is passing through it.
#pragma once

#include "pipeline.h"
#include "staging_slots.h"

namespace pk {

// Starts a chunk in its slot, and later finishes it; then the next chunk can start. A chunk is either copied
// (upload, kernel, download in three streams) or zero-copy.
class ChunkInFlight {
   public:
    ChunkInFlight(DeviceAlgorithm &algorithm, Call &call, TraceLane &lane, Slot &slot, int device_index,
                  char *d_state)
        : algorithm_(algorithm),
          call_(call),
          lane_(lane),
          slot_(slot),
          device_index_(device_index),
          d_state_(d_state) {}
    ChunkInFlight(const ChunkInFlight &) = delete;

    // Return the number of units that fit into a slot of these sizes.
    static int64_t capacity(const DeviceAlgorithm &algorithm, SlotBytes bytes);

    Slot &slot() const { return slot_; }
    bool is_in_flight() const { return chunk_.units.count != 0; }
    pk_range units() const { return chunk_.units; }

    void begin(pk_range units);  // stages the chunk and enqueues its work
    bool is_done() const;        // true only if finish() would not wait; may be false although it would not
    void finish();               // waits for the chunk and delivers its results

   private:
    void stage();
    void begin_zero_copy();
    void begin_copied();
    bool has_own_stream() const {
        return algorithm_.own_stream && algorithm_.is_staged() && !algorithm_.in_order;
    }
    // Enqueue the kernel and the download: now, or, for an in-order algorithm, when it is this chunk's turn,
    // and then perhaps in another thread.
    void launch();
    void compute();
    void compute_zero_copy();
    void compute_copied();
    void unstage();
    // Enqueue the copies of a group of operands and of the first `before` bytes. Return the bytes copied.
    int64_t copy(const std::vector<StreamedOperand> &group, int64_t before, cudaMemcpyKind kind,
                 cudaStream_t stream) const;

    DeviceAlgorithm &algorithm_;
    Call &call_;
    TraceLane &lane_;
    Slot &slot_;
    const int device_index_;
    char *const d_state_;
    Chunk chunk_{};
    bool zero_copy_ = false;  // the kernel accesses pinned memory
    bool host_status_is_zero_ = false;
    double origin_ = -1, enqueued_at_ = 0;  // seconds since the call began
    int64_t bytes_up_ = 0, bytes_down_ = 0;
};

}  // namespace pk
