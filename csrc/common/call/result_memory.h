// Memory for results, some of which is kept when they are no more.
#pragma once

#include "pycudakit.h"

namespace pk {

void add_result_memory(pk_memory &memory);
void release_result_memory();

}  // namespace pk
