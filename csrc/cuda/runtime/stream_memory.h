// Calls of arrays that lie on a device: each is queued in a stream of the caller's.
#pragma once

#include <initializer_list>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "execution_context.h"

namespace pk {

// The device that those views lie on that say so, or -1 if none does. Refuses what is not there.
int device_of(const Layout &layout);
// The one that arrays lie on.
int device_of(std::initializer_list<const void *> arrays);

// A call of arrays on a device, which is current while this lives.
class AsyncCall : public StreamScope {
   public:
    AsyncCall(int device, const Call &call);

    // Ends the call: by waiting for the stream, if the caller wants that.
    void finish() const;

   private:
    const bool is_blocking_;
    const CurrentDevice current_;
};

// Memory of the driver's for what stands in a line, given back there: a graph can have it, too. There is none
// of much, or where the device has no such memory.
class StreamOrderedMemory {
   public:
    StreamOrderedMemory(const StreamScope &stream_scope, int64_t bytes);
    ~StreamOrderedMemory();
    StreamOrderedMemory(const StreamOrderedMemory &) = delete;
    StreamOrderedMemory &operator=(const StreamOrderedMemory &) = delete;
    char *get() const { return memory_; }

   private:
    const cudaStream_t stream_;
    char *memory_ = nullptr;
};

// Gives back what calls have left to the next ones.
void release_stream_memory();

// Memory of the current device for what queued calls note, which nobody reads: so much for each of
// PK_MAX_INSTRUCTIONS as an unsigned has.
constexpr int64_t STATUS_SINK_BYTES = PK_MAX_INSTRUCTIONS * int64_t(sizeof(unsigned));
char *status_sink();

}  // namespace pk
