// One host thread of a staged copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "staging_slots.h"

namespace pk {

// A piece of a staged copy.
struct StagedPiece {
    bool is_up = false;
    char *d_data = nullptr;
    int64_t bytes = 0;           // 0: nothing is copied
    char *pinned = nullptr;      // the host's memory, if it is pinned: it is copied without staging
    int64_t elements = 0;        // for the trace
    int64_t host_bytes = bytes;  // that deliver() writes
    int64_t progress = 0;        // elements by which the call is further when the piece is copied
    bool is_chunk = true;        // is counted as a chunk of the call's report
};

// The pieces of a staged copy, by their numbers, and the callbacks at each stage. Several threads call this.
class StagedTransfer {
   public:
    virtual ~StagedTransfer() = default;
    // Return a piece. May wait until there is one.
    virtual StagedPiece piece(size_t index) = 0;
    // Write a piece that goes up to staging memory; take one that has come down from there.
    virtual void stage(size_t index, char *staged) = 0;
    virtual void deliver(size_t index, const char *staged) = 0;
    // Make the stream wait for the work that must precede the copy of the piece. May wait.
    virtual void order(size_t, cudaStream_t) {}
    // Called when the copy has been enqueued, and when it is complete.
    virtual void enqueued(size_t) {}
    virtual void copied(size_t) {}
};

// Copies pieces: while one is copied through a buffer, the next is written to another, or the last is taken.
class StagingThread {
   public:
    // Pinned memory for one piece at a time.
    struct Buffer {
        const Slot *slot;
        char *host;
        cudaEvent_t event;  // of the copy
    };

    StagingThread(StagedTransfer &transfer, Call &call, const std::vector<Buffer> &buffers);

    // Finish the oldest piece in flight, if all buffers are in use, and begin another.
    void take(size_t index);
    // Finish all pieces.
    void finish();

    TraceLane &lane() { return lane_; }

   private:
    struct InFlight {
        Buffer buffer{};
        bool is_used = false;
        size_t index = 0;
        StagedPiece piece{};
        double enqueued_at = 0;
    };

    InFlight &next() { return in_flight_[turn_++ % in_flight_.size()]; }
    void begin(InFlight &in_flight, size_t index);
    void finish(InFlight &in_flight);

    StagedTransfer &transfer_;
    Call &call_;
    TraceLane lane_;
    std::vector<InFlight> in_flight_;
    size_t turn_ = 0;
    double free_since_;
};

}  // namespace pk
