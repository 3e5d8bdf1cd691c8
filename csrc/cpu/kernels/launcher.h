// Runs user kernels on the CPU: the steps of a run, and the blocks of a launch on several threads.
#pragma once

#include "block_executor.h"
#include "common/kernels.h"

namespace pk::kernels {

void run(const Run &run, PrintBuffer &print_buffer, Call &call);

// Runs one launch, on memory that its arguments name by address.
void run_launch(const Launch &launch, Call &call);

// Runs a launch by the host code of a source, on the caller's memory; a pk_image_launcher.
int32_t launch_from_host(const pk_image_launch *request, const char **message) noexcept;

}  // namespace pk::kernels
