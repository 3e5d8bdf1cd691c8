// The chunk pipeline: streams the operands of a call through the GPUs in chunks.
//
// Each chunk passes through five stages: staging (host to pinned memory), upload, kernel, download,
// unstaging. Several chunks are in flight at once, each in another stage, so that copies and kernels overlap.
// A family of functions derives a DeviceAlgorithm and calls execute(), which runs the pipeline if any operand
// is in host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "common/call/ordered_section.h"
#include "common/layout.h"
#include "cuda/runtime/execution_context.h"
#include "cuda/runtime/launch.h"
#include "staging_slots.h"

namespace pk {

// An operand that the pipeline transfers: a part of it is in each chunk.
struct StreamedOperand {
    int operand = 0;
    int64_t item = 0;
    int64_t element_offset = 0;  // bytes an element of the operands before it in a chunk's memory
    bool pinned = false;         // already pinned: copied without staging
    int64_t halo = 0;         // elements around a chunk that are staged with it (see DeviceAlgorithm::stage)
    int64_t halo_offset = 0;  // bytes of the halos before it in a chunk's memory
    // The operand's resident buffer, if it has one: copies go to or from it, not the chunk's memory.
    char *d_resident = nullptr;

    int64_t halo_bytes() const { return halo * item; }
};

// A chunk: a range of units (elements, or groups of elements that must not be split, such as rows), with
// device memory for its operands. Pinned and device memory of a chunk have the same layout; the pinned memory
// ends after the staged loads:
//   status words | results | staged stores | staged loads | pinned stores | pinned loads | scratch
// An operand of n elements takes round_up(n) * item bytes.
struct Chunk {
    static constexpr int64_t ROUND = 64;
    static int64_t round_up(int64_t elements) { return align_up(elements, ROUND); }

    pk_range units{0, 0};
    int64_t start = 0, count = 0, rounded = 0;  // elements
    char *d_memory = nullptr;
    int64_t results = 0, operands = 0, scratch = 0;  // byte offsets in the chunk's memory
    cudaStream_t stream = nullptr;
    int device_index = 0;     // the device's index in the call's list
    char *d_state = nullptr;  // the device's memory that lasts from the first chunk to the last

    // Return the byte offset of an operand in the chunk's memory.
    int64_t operand(const StreamedOperand &streamed) const {
        return operands + rounded * streamed.element_offset + streamed.halo_offset;
    }
};

// The device algorithm of a family of functions, run chunk by chunk: its streamed operands, its launches, and
// the callbacks that take its results. It need not know where its operands are: execute() gives it the same
// chunks if they are staged and if they are device-resident.
class DeviceAlgorithm {
   public:
    DeviceAlgorithm(const Layout &layout, std::vector<StreamedOperand> loads,
                    std::vector<StreamedOperand> stores, int64_t status_bytes, int64_t scratch_bytes);
    // An algorithm of one unit, whose operands are all on the device.
    DeviceAlgorithm();
    virtual ~DeviceAlgorithm() = default;

    // Gather a chunk's elements of a load, and its halo, into staging memory.
    virtual void stage(const StreamedOperand &load, const Chunk &chunk, char *to) const {
        layout.gather(layout.views[size_t(load.operand)], chunk.start, chunk.count, to);
    }
    // Enqueue the kernels of a chunk. With `in_order`, a thread may also enqueue chunks that others staged.
    virtual void enqueue(const Chunk &chunk) = 0;

    // Return the bytes of memory on each device that lasts from the first chunk to the last, and enqueue the
    // work before the first chunk there.
    virtual int64_t state_bytes() const { return 0; }
    virtual void begin(char * /*d_state*/, cudaStream_t) {}

    // For operands that are on the device: return the bytes of temporary storage of a chunk of so many units,
    // which is at Chunk::scratch; and enqueue the work after the last chunk.
    virtual int64_t temporary_bytes(int64_t units) const {
        return Chunk::round_up(units * unit_elements) * scratch_bytes;
    }
    virtual void finish(char * /*d_state*/, cudaStream_t) {}
    // With `returns_state`, take the first bytes of each device's state, one device after another, at the
    // end.
    virtual int64_t returned_bytes() const { return state_bytes(); }
    virtual void take_state(const char * /*state*/) {}

    // Take the results of a chunk, result_bytes for each unit. Several threads may call this at once.
    virtual void deliver(const Chunk &, const char *) {}
    // Merge a delivered chunk's status words into the report. The words are zeroed once for each slot and
    // accumulate over its chunks. Called by one thread at a time.
    virtual void collect(const void *status) = 0;
    // The number of units of the call, and the first element of one. A chunk has whole units.
    virtual int64_t units() const { return layout.size; }
    virtual int64_t start(int64_t unit) const { return unit; }

    // Return a chunk of some units, whose memory, stream and device are not set yet.
    Chunk chunk_of(pk_range units) const {
        Chunk chunk;
        chunk.units = units;
        chunk.start = start(units.start);
        chunk.count = start(units.start + units.count) - chunk.start;
        chunk.rounded = Chunk::round_up(units.count * unit_elements);
        chunk.results = status_bytes;
        chunk.operands = bytes_of(units.count, 0);
        chunk.scratch = chunk.operands + chunk.rounded * streamed_bytes + halo_bytes;
        return chunk;
    }

    // Return the memory that the smallest chunk needs in a slot.
    SlotBytes needed() const {
        return {with_halos(bytes_of(min_units, staged_bytes)),
                with_halos(bytes_of(min_units, streamed_bytes + scratch_bytes))};
    }
    // Add the halos, if any, and round up to a power of two, so that other calls can use the slots.
    int64_t with_halos(int64_t bytes) const {
        if (halo_bytes == 0) return bytes;
        int64_t size = 1 << 20;
        while (size < bytes + halo_bytes) size *= 2;
        return size;
    }
    // Return the bytes of a chunk of so many units, with `item` bytes for each element.
    int64_t bytes_of(int64_t units, int64_t item) const {
        return status_bytes + Chunk::round_up(units * result_bytes) +
               Chunk::round_up(units * unit_elements) * item;
    }

    bool is_staged() const { return staged_bytes == streamed_bytes; }  // no operand is pinned
    bool is_resident() const { return streamed_bytes == 0; }           // no operand is transferred
    // Return true if a warp's accesses are coalesced into whole cache lines, so that zero-copy is fast.
    bool is_coalesced() const;
    // Return true if all chunks of a call of so many bytes are zero-copy. (In long calls, copies bring
    // results down faster.)
    bool uses_zero_copy(int64_t bytes) const;

    const Layout &layout;
    std::vector<StreamedOperand> loads, stores;
    int64_t status_bytes;
    int64_t scratch_bytes;  // an element

    // Bytes an element: of the staged operands, of the staged stores among them, and of all operands.
    int64_t staged_bytes = 0, staged_store_bytes = 0, streamed_bytes = 0;
    // Small chunks are zero-copy: the kernel accesses mapped pinned memory. False if an operand is copied
    // from or to a resident buffer.
    bool allow_zero_copy = true;
    bool single_pass_coalesced = false;  // each operand is read once, coalesced: zero-copy pays for any size
    bool can_run_async = false;          // it ends without a status that the host must see
    int64_t operations = 1;   // an element: a long call on the device is divided so that it can be stopped
    bool own_stream = false;  // each chunk has its slot's stream: chunks do not serialize on shared ones
    int64_t halo_bytes = 0;   // of a chunk
    int64_t cache_line_granule = 1;  // of transposed loads: chunks that are multiples share no line

    bool counts_progress = true;  // its elements are reported as the call's progress

    int64_t unit_elements = 1;          // the most elements that a unit has
    int64_t min_units = 1;              // of a chunk that is worth its halos
    int64_t result_bytes = 0;           // of a unit, in addition to the stores
    bool counts_returned_bytes = true;  // the state that the host takes is data that the call downloads
    bool returns_state = false;         // the host takes it
    bool in_order = false;              // chunks are computed in sequence, in their order, on one device
    OrderedSection section;             // orders them
};

// Run an algorithm over ranges of its units, chunk by chunk, by several host threads.
void run_pipeline(DeviceAlgorithm &algorithm, Call &call, const std::vector<int> &devices,
                  const std::vector<pk_range> &ranges);

}  // namespace pk
