// Runs user kernels on the CPU: the steps of a run, and the blocks of a launch on several threads.
#pragma once

#include "block_executor.h"
#include "common/kernels.h"

namespace pk::kernels {

void run(const Run &run, PrintBuffer &print_buffer, Call &call);

}  // namespace pk::kernels
