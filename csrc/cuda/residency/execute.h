// Runs a device algorithm where its operands are: all on the device, or streamed through the pipeline.
#pragma once

#include <vector>

#include "cuda/pipeline/pipeline.h"
#include "cuda/runtime/execution_context.h"
#include "operands.h"

namespace pk {

// Run an algorithm over ranges of its units. If all of its operands are on the device, its chunks are
// enqueued one after the other in one stream, the context's if it has one, and the call returns without
// waiting if the context and the algorithm allow that. Else the operands pass through the pipeline. At the
// end, results that were written as a whole (Operands::d_result) are downloaded if the host needs them.
void execute(DeviceAlgorithm &algorithm, Operands &operands, Call &call, const ExecutionContext &context,
             const std::vector<pk_range> &ranges);
// The same over all units.
void execute(DeviceAlgorithm &algorithm, Operands &operands, Call &call, const ExecutionContext &context);
// The same, but return false if memory is short. Nothing has been enqueued then.
bool try_execute(DeviceAlgorithm &algorithm, Operands &operands, Call &call, const ExecutionContext &context);

}  // namespace pk
