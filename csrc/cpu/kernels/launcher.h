// A run of the user's kernels: its steps, and blocks spread over threads.
#pragma once

#include "block_executor.h"
#include "common/kernels.h"

namespace pk::kernels {

void run(const Run &run, PrintBuffer &print_buffer, Call &call);

}  // namespace pk::kernels
