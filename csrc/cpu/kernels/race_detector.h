// Detection of races in shared memory, for kernels that were compiled with checks: which thread of the block
// wrote, and which read, each byte since the last barrier.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "guarded_memory.h"

namespace pk::kernels {

class RaceDetector {
   public:
    struct Race {
        const GuardedMemory::GuardedBuffer *buffer;
        uint64_t address;
        int thread, other;          // the thread that accesses, and the one that did before
        bool writes, other_writes;  // at least one of them writes
    };

    // A new block.
    void begin() {
        ++epoch_;
        pending_.reset();
        after_read_.reset();
    }

    // A barrier, or the end of a block: accesses before it are no races with those after it. Returns a race
    // with an earlier read, which is told only here: most often, one with a write follows it.
    std::optional<Race> barrier() {
        ++epoch_;
        return std::exchange(after_read_, std::nullopt);
    }

    // Records an access that is about to happen, and returns the race that it is. `warp_epoch` counts the
    // warp operations of the thread's warp. A write counts as a race only if it changes the value, which
    // last_write() tells afterwards.
    std::optional<Race> access(const GuardedMemory::GuardedBuffer &buffer, uint64_t address, uint64_t bytes,
                               int thread, uint32_t warp_epoch, bool writes);

    // An atomic or volatile access, which is ordered.
    void forget(const GuardedMemory::GuardedBuffer &buffer, uint64_t address, uint64_t bytes);

    // The race of the last write, now that it has happened.
    std::optional<Race> last_write();

   private:
    static constexpr int NONE = -1, SEVERAL = -2;
    struct Access {
        uint64_t epoch = 0;
        int thread = NONE;
        uint32_t warp_epoch = 0;
    };
    struct Byte {
        Access write, read;
    };
    struct PendingWrite {
        Race race;
        uint64_t address = 0;
        std::string before;
        Byte *bytes = nullptr;
        uint32_t warp_epoch = 0;
    };

    bool conflicts(const Access &access, int thread, uint32_t warp_epoch) const;
    Byte *shadow(const GuardedMemory::GuardedBuffer &buffer, uint64_t address);

    uint64_t epoch_ = 1;
    std::unordered_map<uint64_t, std::vector<Byte>> shadows_;  // by the address of the buffer
    std::optional<PendingWrite> pending_;
    std::optional<Race> after_read_;
};

}  // namespace pk::kernels
