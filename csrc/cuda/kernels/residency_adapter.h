// A run of the user's kernels in a plan: they work in what is at home.
#pragma once

#include "common/call/call.h"
#include "common/kernels.h"
#include "cuda/residency/operands.h"

namespace pk::kernels {

// As run(), on the device, which is the current one.
void run_in_residency_scope(const Request &request, Call &call, int device);

}  // namespace pk::kernels
