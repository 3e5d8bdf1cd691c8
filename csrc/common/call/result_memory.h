// The free list of the memory of freed results: see result_memory.cpp.
#pragma once

#include "pycudakit.h"

namespace pk {

// Sets the fields of `memory` about results.
void report_result_memory(pk_memory &memory);
// Unmaps all blocks of the free list.
void release_result_memory();

}  // namespace pk
