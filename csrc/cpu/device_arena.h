// The device memory of the CPU as a device: one reserved range of addresses, from which allocations are cut.
#pragma once

#include <cstdint>
#include <vector>

#include "common/device_memory.h"

namespace pk::device_memory {

// Allocates memory, aligned to 256 bytes, with GUARD bytes behind it that belong to no other allocation:
// small overruns of kernels, which a GPU forgives, do no harm.
constexpr int64_t GUARD = int64_t(64) << 10;
uint64_t allocate(int64_t bytes, bool zeros);
void free(uint64_t address);

// Registers memory that is not the arena's: variables of modules, and host memory for kernels.
void add_range(const Range &range);
void remove_range(uint64_t begin);

// The allocation or the registered range that contains the address; throws, if there is none. `operation`
// begins the message.
Range find(const char *operation, uint64_t address);
// The same, but also for an address in the guard of an allocation, or as far before one; bytes = 0: none.
Range find_near(uint64_t address);
std::vector<Range> all_ranges();

struct Usage {
    int64_t free, total;
};
Usage usage();

// The addresses of the arena: those that no allocation has belong to none.
Range reservation();

}  // namespace pk::device_memory
