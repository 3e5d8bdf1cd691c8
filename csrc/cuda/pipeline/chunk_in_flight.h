// One chunk after another on its way through a slot.
#pragma once

#include "pipeline.h"
#include "staging_slots.h"

namespace pk {

class Passage {
   public:
    Passage(Work &work, Call &call, Lane &lane, Slot &slot, int place)
        : work_(work), call_(call), lane_(lane), slot_(slot), place_(place) {}
    Passage(const Passage &) = delete;

    // The units that a slot of these sizes has room for.
    static int64_t capacity(const Work &work, SlotBytes bytes);

    Slot &slot() const { return slot_; }
    bool under_way() const { return chunk_.units.count != 0; }
    pk_range units() const { return chunk_.units; }

    void begin(pk_range units);
    bool is_done() const;  // so that finish() need not wait
    void finish();

   private:
    void stage();
    void begin_in_place();
    void begin_copied();
    void begin_at_home();
    bool is_alone() const { return work_.alone && work_.is_staged() && !work_.in_order; }
    // Queues what follows the upload; now, or when it is the chunk's turn, and then maybe in another thread.
    void compute();
    void compute_in_place();
    void compute_copied();
    void unstage();
    // Copies a group of operands, and so many bytes before them. Returns how many bytes.
    int64_t copy(const std::vector<Carried> &group, int64_t before, cudaMemcpyKind kind,
                 cudaStream_t queue) const;

    Work &work_;
    Call &call_;
    Lane &lane_;
    Slot &slot_;
    const int place_;
    Chunk chunk_{};
    bool in_place_ = false;  // the kernel goes to pinned memory
    bool at_home_ = false;   // nothing but notes and results goes over the link
    bool notes_are_zero_ = false;
    bool host_notes_are_zero_ = false;
    double origin_ = -1, queued_ = 0;  // seconds since the call began
    int64_t bytes_up_ = 0, bytes_down_ = 0;
};

}  // namespace pk
