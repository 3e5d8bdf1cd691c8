// A pool of pinned host memory for the caller's arrays (pk_pinned_take), and a test for pinned memory.
#pragma once

#include <cstdint>

#include "pycudakit.h"

namespace pk {

// Return true if all of these bytes are pinned, so that a GPU can copy them without staging, and so many that
// asking the driver takes less time than staging them.
bool is_pinned(const void *memory, int64_t bytes);

uint64_t take_pinned_array(int64_t bytes);
void return_pinned_array(uint64_t address);
void add_pinned_arrays(pk_memory &memory);  // adds the pool's sizes to the report
void release_pinned_arrays();               // frees the arrays that were returned

}  // namespace pk
