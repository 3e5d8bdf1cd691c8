// Memory of freed results, kept for reuse: see result_memory.cpp.
#pragma once

#include "pycudakit.h"

namespace pk {

void add_result_memory(pk_memory &memory);
void release_result_memory();

}  // namespace pk
