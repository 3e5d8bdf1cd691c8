// Runs user kernels inside a residency scope: they use the resident buffers of their arrays.
#pragma once

#include "common/call/call.h"
#include "common/kernels.h"
#include "cuda/residency/operands.h"

namespace pk::kernels {

// As run(), on `device`, which must be current.
void run_in_residency_scope(const Request &request, Call &call, int device);

}  // namespace pk::kernels
