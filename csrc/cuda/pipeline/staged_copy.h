// Bulk copies to or from a device, staged through slots by several host threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/call/call.h"
#include "staging_slots.h"
#include "staging_thread.h"

namespace pk {

// A batch of copies in one direction. Arrays are cut into pieces, which host threads stage through slots,
// double-buffered; pieces of pinned arrays are copied directly. Each copied piece of an array is a chunk of
// the call's report.
class StagedCopy {
   public:
    enum Direction { up, down };
    // The most bytes that are gathered or scattered at once: as many as the smallest slot holds.
    static constexpr int64_t MAX_MOVED = 256 << 10;

    // Elements of `item` bytes are counted as the call's progress; with 0, none are.
    StagedCopy(Call &call, int device, Direction direction, int64_t item = 0)
        : call_(call), device_(device), is_up_(direction == up), item_(item) {}

    // Copy an array.
    void add(char *host, char *d_data, int64_t bytes);
    // Copy bytes, MAX_MOVED at most, that `move` writes to staging memory, or reads from there.
    void add(char *d_data, int64_t bytes, std::function<void(char *)> move);

    // Copy all, and wait. Earlier work on the device memory must have finished.
    void run();
    // The same through slots that the call has leased already, with a thread for each.
    void run(const Lease &lease);

   private:
    using Move = std::function<void(char *)>;
    // An array, a piece of one, or the bytes that a function moves.
    struct Array {
        char *host, *d_data;
        int64_t bytes;
        bool is_pinned;
        Move move;
    };
    class Pieces;

    std::vector<Array> cut(int64_t threads, int64_t slot_bytes) const;
    void copy(Pieces &pieces, std::atomic<int64_t> &next, const std::vector<const Slot *> &slots);

    Call &call_;
    const int device_;
    const bool is_up_;
    const int64_t item_;
    int64_t staged_bytes_ = 0;
    std::vector<Array> arrays_;
};

}  // namespace pk
