// Calls of arrays that lie on a device: each is queued in a stream of the caller's.
#pragma once

#include <initializer_list>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "runtime.h"

namespace pk {

// The device that those views lie on that say so, or -1 if none does. Refuses what is not there.
int device_of(const Layout &layout);
// The one that arrays lie on.
int device_of(std::initializer_list<const void *> arrays);

// A call of arrays on a device, which is current while this lives.
class Queued {
   public:
    Queued(int device, const Call &call);

    // Ends the call: by waiting for the stream, if the caller wants that, or memory of the call is in use.
    void end(bool must_wait = false) const;

    const int device;
    const cudaStream_t stream;

   private:
    const bool waits_;
    const CurrentDevice current_;
};

// Memory for a call of arrays on a device, given back in the call's stream: nobody waits for it. There is
// none of much, or where the device has no such memory; a call then waits before it gives back other memory.
class QueuedMemory {
   public:
    QueuedMemory(const Queued &queued, int64_t bytes);
    ~QueuedMemory();
    QueuedMemory(const QueuedMemory &) = delete;
    QueuedMemory &operator=(const QueuedMemory &) = delete;
    char *get() const { return memory_; }

   private:
    const cudaStream_t stream_;
    char *memory_ = nullptr;
};

// Gives back what calls have left to the next ones.
void release_queued_memory();

// Memory of the current device for what instructions of queued calls meet, which nobody reads: so much for
// each of PK_MAX_INSTRUCTIONS as an unsigned has.
char *unread_notes();

}  // namespace pk
