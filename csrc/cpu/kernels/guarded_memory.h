// Guarded memory for kernels that were compiled with checks: each buffer is in the middle of a wide reserved
// range (red zones), so that an address from a wrong index still belongs to its buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/memory_mapping.h"

namespace pk::kernels {

class GuardedMemory {
   public:
    struct GuardedBuffer {
        uint64_t begin, bytes;
        int64_t item_bytes;
        std::string label;
    };

    // Allocates a zeroed buffer.
    void *allocate(int64_t bytes, int64_t item_bytes, const std::string &label);

    // Adds memory of another owner, with so many bytes behind it that no other memory has.
    void add(uint64_t begin, int64_t bytes, int64_t item_bytes, const std::string &label, int64_t red_zone);

    // The buffer whose reserved range contains the address, or null.
    const GuardedBuffer *find(uint64_t address) const {
        for (const Reservation &reservation : reservations_) {
            if (address - reservation.begin < reservation.bytes)
                return &guarded_buffers_[reservation.guarded_buffer];
        }
        return nullptr;
    }

    // The buffer that begins closest to the address, or null.
    const GuardedBuffer *nearest(uint64_t address) const;

   private:
    struct Reservation {
        std::optional<Mapping> mapping;  // nothing for memory of another owner
        uint64_t begin, bytes;
        size_t guarded_buffer;
    };
    std::vector<Reservation> reservations_;
    std::vector<GuardedBuffer> guarded_buffers_;
};

}  // namespace pk::kernels
