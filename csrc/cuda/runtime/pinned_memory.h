// Pinned memory for arrays: a pool, and what else the driver knows to be pinned.
#pragma once

#include <cstdint>

#include "pycudakit.h"

namespace pk {

// Whether a GPU can copy from and to these bytes without staging.
bool is_pinned(const void *memory, int64_t bytes);

uint64_t take_pinned_array(int64_t bytes);
void return_pinned_array(uint64_t address);
void add_pinned_arrays(pk_memory &memory);
void release_pinned_arrays();

}  // namespace pk
