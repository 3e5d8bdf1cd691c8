// A run of the user's kernels: buffers go up, the steps run in one stream, and the outputs come home.
#pragma once

#include "common/call/call.h"
#include "common/kernels.h"

namespace pk::kernels {

// How far a run has come.
struct RunState {
    bool has_begun = false;    // some of its memory may have been written to
    bool is_detached = false;  // a kernel is under way that nobody can end
};

// On the device, which is the current one. In a plan, which wants to know how far it came, it has ended with
// this call, and waits for no stream 0.
void run(const Request &request, Call &call, int device, RunState *run_state = nullptr);

}  // namespace pk::kernels
