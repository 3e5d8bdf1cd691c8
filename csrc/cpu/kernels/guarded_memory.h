// Memory for kernels that were compiled to be checked: each buffer in the middle of so much reserved room
// that whatever a wrong index leads to is still that buffer's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory_mapping.h"

namespace pk::kernels {

class GuardedMemory {
   public:
    struct GuardedBuffer {
        uint64_t begin, bytes;
        int64_t item;
        std::string label;
    };

    // Zeros.
    void *take(int64_t bytes, int64_t item, const std::string &label);

    // The window that the address is in, or null.
    const GuardedBuffer *find(uint64_t address) const {
        for (const Reservation &room : reservations_) {
            if (address - room.begin < room.mapping.bytes()) return &guarded_buffers_[room.guarded_buffer];
        }
        return nullptr;
    }

    // The one that begins closest to the address, or null.
    const GuardedBuffer *nearest(uint64_t address) const;

   private:
    struct Reservation {
        Mapping mapping;
        uint64_t begin;
        size_t guarded_buffer;
    };
    std::vector<Reservation> reservations_;
    std::vector<GuardedBuffer> guarded_buffers_;
};

}  // namespace pk::kernels
