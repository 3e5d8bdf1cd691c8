// The status words of asynchronous calls, which are never read back.
#pragma once

#include "execution_context.h"
#include "pycudakit.h"

namespace pk {

// One word for each of PK_MAX_INSTRUCTIONS instructions.
constexpr int64_t STATUS_SINK_BYTES = PK_MAX_INSTRUCTIONS * int64_t(sizeof(unsigned));

// Return a buffer of so many bytes on the scope's device, which must be current. Null if it does not exist
// yet and the stream is being captured in a CUDA graph.
char *status_sink(const StreamScope &stream_scope);

}  // namespace pk
