// A run of the user's kernels: buffers go up, the steps run in one stream, and the outputs come home.
#pragma once

#include "common/call/call.h"
#include "common/kernels.h"

namespace pk::kernels {

// On the device, which is the current one.
void run(const Request &request, Call &call, int device);

}  // namespace pk::kernels
