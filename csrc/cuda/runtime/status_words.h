// The status words of asynchronous calls: gathered for a list of calls, or never read.
#pragma once

#include "execution_context.h"
#include "pycudakit.h"

namespace pk {

// Return device memory of `bytes` bytes for the status words of a call in a scope, to which other calls may
// add their words, too: the scope's or, if it gathers none, a buffer that is never read. The scope's device
// must be current. Null if there is none: the words are too many, or the buffer does not exist yet and the
// stream is being captured in a CUDA graph.
char *shared_status_words(const StreamScope &stream_scope, int64_t bytes);

// Enqueue the addition of a call's status words to those that its scope gathers, if it does.
void add_status_words(const char *d_words, int64_t bytes, const StreamScope &stream_scope);

}  // namespace pk
