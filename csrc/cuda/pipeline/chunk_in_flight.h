// One chunk after another on its way through a slot.
#pragma once

#include "pipeline.h"
#include "staging_slots.h"

namespace pk {

class ChunkInFlight {
   public:
    ChunkInFlight(DeviceAlgorithm &algorithm, Call &call, TraceLane &lane, Slot &slot, int device_index)
        : algorithm_(algorithm), call_(call), lane_(lane), slot_(slot), device_index_(device_index) {}
    ChunkInFlight(const ChunkInFlight &) = delete;

    // The units that a slot of these sizes has room for.
    static int64_t capacity(const DeviceAlgorithm &algorithm, SlotBytes bytes);

    Slot &slot() const { return slot_; }
    bool is_in_flight() const { return chunk_.units.count != 0; }
    pk_range units() const { return chunk_.units; }

    void begin(pk_range units);
    bool is_done() const;  // so that finish() need not wait
    void finish();

   private:
    void stage();
    void begin_zero_copy();
    void begin_copied();
    void begin_resident();
    bool has_own_stream() const {
        return algorithm_.own_stream && algorithm_.is_staged() && !algorithm_.in_order;
    }
    // Queues what follows the upload; now, or when it is the chunk's turn, and then maybe in another thread.
    void compute();
    void compute_zero_copy();
    void compute_copied();
    void unstage();
    // Copies a group of operands, and so many bytes before them. Returns how many bytes.
    int64_t copy(const std::vector<StreamedOperand> &group, int64_t before, cudaMemcpyKind kind,
                 cudaStream_t stream) const;

    DeviceAlgorithm &algorithm_;
    Call &call_;
    TraceLane &lane_;
    Slot &slot_;
    const int device_index_;
    Chunk chunk_{};
    bool zero_copy_ = false;    // the kernel goes to pinned memory
    bool is_resident_ = false;  // nothing but notes and results goes over the link
    bool status_is_zero_ = false;
    bool host_status_is_zero_ = false;
    double origin_ = -1, enqueued_at_ = 0;  // seconds since the call began
    int64_t bytes_up_ = 0, bytes_down_ = 0;
};

}  // namespace pk
