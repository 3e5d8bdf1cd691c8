// The streaming engine: takes the operands of a call through the GPUs in chunks, and every chunk through
// staging, upload, kernel, download and un-staging, each while others are in the other stages.
#pragma once

#include <cstdint>
#include <vector>

#include "../common/call.h"
#include "../common/layout.h"
#include "slots.h"

namespace pk {

// An operand as a call's chunks carry it, or as its devices keep it.
struct Carried {
    int operand;
    int64_t item;
    int64_t before = 0;   // bytes an element of what lies before it in a chunk's image
    bool direct = false;  // pinned: copied without staging
};

// A chunk whose operands are on a device. The image of a chunk is the same on both sides of the link, as far
// as it goes on the host:
//   notes | staged stores | staged loads | direct stores | direct loads | scratch
// An operand of n elements takes as many times its item as n is when rounded up to ROUND.
struct Chunk {
    static constexpr int64_t ROUND = 64;
    static int64_t round_up(int64_t elements) { return (elements + ROUND - 1) / ROUND * ROUND; }

    int64_t start, count, rounded;
    char *image;
    int64_t notes_bytes;
    int64_t scratch;  // its offset
    cudaStream_t queue;
    int device;  // its place among those of the call

    char *operand(const Carried &carried) const { return image + notes_bytes + rounded * carried.before; }
};

// What a family gives the engine.
class Work {
   public:
    Work(const Layout &layout, std::vector<Carried> loads, std::vector<Carried> stores, int64_t notes_bytes,
         int64_t scratch_bytes);
    virtual ~Work() = default;

    // Queues what computes a chunk.
    virtual void launch(const Chunk &chunk) const = 0;
    // Takes the notes of a chunk that was delivered. They are zero before the first of the chunks that pass
    // through a slot, and are left as they are from chunk to chunk. For one thread at a time.
    virtual void collect(const void *notes) = 0;

    // What the smallest chunk needs of a slot.
    SlotBytes needed() const {
        return {notes_bytes + Chunk::ROUND * staged_bytes,
                notes_bytes + Chunk::ROUND * (carried_bytes + scratch_bytes)};
    }

    const Layout &layout;
    std::vector<Carried> loads, stores;
    int64_t notes_bytes;
    int64_t scratch_bytes;  // of an element

    // Of an element: what is staged, of that what goes down, and everything.
    int64_t staged_bytes = 0, staged_down_bytes = 0, carried_bytes = 0;
    int64_t elements_a_line = 1;  // of the loads' memory
};

// The devices that a call asks for.
std::vector<int> devices_of(const Call &call);

void stream(Work &work, Call &call, const std::vector<int> &devices, const std::vector<pk_range> &ranges);

}  // namespace pk
