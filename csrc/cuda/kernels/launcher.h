// Runs user kernels: uploads the buffers, launches the steps in one stream, and downloads the outputs.
#pragma once

#include "common/call/call.h"
#include "common/kernels.h"

namespace pk::kernels {

// The progress of a run.
struct RunState {
    bool is_detached = false;  // a hung kernel was left running
};

// Run on `device`, which must be current. With `run_state` (inside a residency scope) the run is
// synchronous, reports its progress, and does not wait for buffers whose stream is 0.
void run(const Request &request, Call &call, int device, RunState *run_state = nullptr);

}  // namespace pk::kernels
