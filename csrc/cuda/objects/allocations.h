// Device memory that outlives a call: the table of allocations, by their addresses.
#pragma once

#include <cstdint>
#include <optional>

#include "common/device_memory.h"

namespace pk::device_memory {

uint64_t allocate(int device, int64_t bytes, int32_t flags);
void free(uint64_t address);

struct Found {
    Range range;
    int device;
};

// Return the allocation of the table that contains the address. Throw if the address is in memory that was
// freed, and that the library still has. `operation` begins the message.
std::optional<Found> find(const char *operation, uint64_t address);

// Return the allocation that contains the address, of this table or of another library. Throw if there is
// none.
Found find_any(uint64_t address);

}  // namespace pk::device_memory
