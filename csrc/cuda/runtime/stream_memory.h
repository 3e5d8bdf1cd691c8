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
class Queued : public Line {
   public:
    Queued(int device, const Call &call);

    // Ends the call: by waiting for the stream, if the caller wants that.
    void end() const;

   private:
    const bool waits_;
    const CurrentDevice current_;
};

// Memory of the driver's for what stands in a line, given back there: a graph can have it, too. There is none
// of much, or where the device has no such memory.
class QueuedMemory {
   public:
    QueuedMemory(const Line &line, int64_t bytes);
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

// Memory of the current device for what queued calls note, which nobody reads: so much for each of
// PK_MAX_INSTRUCTIONS as an unsigned has.
constexpr int64_t UNREAD_NOTES = PK_MAX_INSTRUCTIONS * int64_t(sizeof(unsigned));
char *unread_notes();

}  // namespace pk
