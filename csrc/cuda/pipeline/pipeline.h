// The streaming engine: takes the operands of a call through the GPUs in chunks, and every chunk through
// staging, upload, kernel, download and un-staging, each while others are in the other stages.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "in_order_executor.h"
#include "staging_slots.h"

namespace pk {

// An operand as a call's chunks carry it, or as its devices keep it.
struct StreamedOperand {
    int operand;
    int64_t item;
    int64_t element_offset = 0;  // bytes an element of what lies before it in a chunk's memory
    bool pinned = false;         // pinned: copied without staging
    int64_t halo =
        0;  // elements of a load that are staged along with a chunk's own, as DeviceAlgorithm::stage says
    int64_t halo_offset = 0;  // bytes of the halos before it in a chunk's memory
    // Where all of it lies on the device, densely: there it is copied to or from, not the chunk's memory.
    char *d_resident = nullptr;

    int64_t halo_bytes() const { return halo * item; }
};

// A chunk whose operands are on a device. The memory of a chunk is the same on both sides of the link, as far
// as it goes on the host:
//   notes | results | staged stores | staged loads | direct stores | direct loads | scratch
// An operand of n elements takes as many times its item as n is when rounded up to ROUND.
struct Chunk {
    static constexpr int64_t ROUND = 64;
    static int64_t round_up(int64_t elements) { return (elements + ROUND - 1) / ROUND * ROUND; }

    pk_range units;
    int64_t start, count, rounded;  // elements
    char *d_memory;
    int64_t results, operands, scratch;  // their offsets
    cudaStream_t stream;
    int device_index;  // its place among those of the call

    int64_t operand(const StreamedOperand &streamed) const {
        return operands + rounded * streamed.element_offset + streamed.halo_offset;
    }
};

// What a family gives the engine.
class DeviceAlgorithm {
   public:
    DeviceAlgorithm(const Layout &layout, std::vector<StreamedOperand> loads,
                    std::vector<StreamedOperand> stores, int64_t status_bytes, int64_t scratch_bytes);
    virtual ~DeviceAlgorithm() = default;

    // Copies what a load has for a chunk, its halo before, behind or both, to where it is staged.
    virtual void stage(const StreamedOperand &load, const Chunk &chunk, char *to) const {
        layout.gather(layout.views[size_t(load.operand)], chunk.start, chunk.count, to);
    }
    // Queues what computes a chunk. Any thread may do that for any chunk of a work that goes in order.
    virtual void launch(const Chunk &chunk) = 0;
    // Takes the results of a chunk: for each of its units result_bytes. Any thread may come, and several at
    // once.
    virtual void deliver(const Chunk &, const char *) {}
    // Takes the notes of a chunk that was delivered. They are zero before the first of the chunks that pass
    // through a slot, and are left as they are from chunk to chunk. For one thread at a time.
    virtual void collect(const void *status) = 0;
    // A chunk is made of whole units. Here, of how many there are, and where one begins, in elements.
    virtual int64_t units() const { return layout.size; }
    virtual int64_t start(int64_t unit) const { return unit; }

    // What the smallest chunk needs of a slot.
    SlotBytes needed() const {
        return {with_halos(bytes_of(min_units, staged_bytes)),
                with_halos(bytes_of(min_units, streamed_bytes + scratch_bytes))};
    }
    // Where there are any, of few sizes, so that slots fit other calls, too.
    int64_t with_halos(int64_t bytes) const {
        if (halo_bytes == 0) return bytes;
        int64_t size = 1 << 20;
        while (size < bytes + halo_bytes) size *= 2;
        return size;
    }
    // Of a chunk of so many units, with so many bytes an element.
    int64_t bytes_of(int64_t units, int64_t item) const {
        return status_bytes + Chunk::round_up(units * result_bytes) +
               Chunk::round_up(units * unit_elements) * item;
    }

    bool is_staged() const { return staged_bytes == streamed_bytes; }  // all of it
    bool is_resident() const { return streamed_bytes == 0; }           // nothing goes over the link
    // Whether threads of a warp that take neighbours take whole lines of memory, as the link likes it.
    bool is_coalesced() const;
    // Whether all chunks of a call of so many bytes stay in pinned memory. (Of long calls, results come down
    // quicker by copies.)
    bool uses_zero_copy(int64_t bytes) const;

    const Layout &layout;
    std::vector<StreamedOperand> loads, stores;
    int64_t status_bytes;
    int64_t scratch_bytes;  // of an element

    // Of an element: what is staged, of that what goes down, and everything.
    int64_t staged_bytes = 0, staged_store_bytes = 0, streamed_bytes = 0;
    bool allow_zero_copy = true;  // small chunks may stay in pinned memory, and the kernel goes there; not
                                  // where something is to be copied from or to a home
    bool single_pass_coalesced = false;  // the kernel goes along its operands once, whole lines at a time
    bool can_run_async = false;  // it tells nothing: where all is at home, it may stand in the thread's line
    bool own_stream = false;     // copied chunks do not wait for each other's kernels and downloads
    int64_t halo_bytes = 0;      // of a chunk
    int64_t elements_per_cache_line = 1;  // of the loads' memory

    bool counts_progress = true;  // its elements are those that the call tells its progress by

    int64_t unit_elements = 1;  // the most that a unit has
    int64_t min_units = 1;      // of a chunk that is worth its halos
    int64_t result_bytes = 0;   // of a unit, beside the stores
    bool in_order = false;      // chunks are computed one after the other, in their order, on one device
    InOrderExecutor executor;   // of these
};

// The devices that a call asks for. Throws where CUDA is not to be used.
std::vector<int> devices_of(const Call &call);

void run_pipeline(DeviceAlgorithm &algorithm, Call &call, const std::vector<int> &devices,
                  const std::vector<pk_range> &ranges);

}  // namespace pk
