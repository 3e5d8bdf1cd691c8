// Memory for kernels that were compiled to be checked: each buffer in the middle of so much reserved room
// that whatever a wrong index leads to is still that buffer's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory_mapping.h"

namespace pk::kernels {

class Arena {
   public:
    struct Window {
        uint64_t begin, bytes;
        int64_t item;
        std::string label;
    };

    // Zeros.
    void *take(int64_t bytes, int64_t item, const std::string &label);

    // The window that the address is in, or null.
    const Window *find(uint64_t address) const {
        for (const Reserved &room : rooms_) {
            if (address - room.begin < room.mapping.bytes()) return &windows_[room.window];
        }
        return nullptr;
    }

    // The one that begins closest to the address, or null.
    const Window *nearest(uint64_t address) const;

   private:
    struct Reserved {
        Mapping mapping;
        uint64_t begin;
        size_t window;
    };
    std::vector<Reserved> rooms_;
    std::vector<Window> windows_;
};

}  // namespace pk::kernels
