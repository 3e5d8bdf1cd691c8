// The chunk pipeline: cuts a call into chunks, which several host threads drive through staging slots.
#include "pipeline.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include "chunk_in_flight.h"
#include "common/call/status.h"
#include "common/call/thread_pool.h"
#include "cuda/runtime/pinned_memory.h"
#include "cuda/runtime/tuning.h"
#include "range_queue.h"

namespace pk {

// Delivering a result costs much more than copying an element.
static constexpr int64_t RESULT_BYTES_PER_THREAD = 1 << 20;

DeviceAlgorithm::DeviceAlgorithm(const Layout &layout, std::vector<StreamedOperand> loads,
                                 std::vector<StreamedOperand> stores, int64_t status_bytes,
                                 int64_t scratch_bytes)
    : layout(layout),
      loads(std::move(loads)),
      stores(std::move(stores)),
      status_bytes(Chunk::round_up(status_bytes)),
      scratch_bytes(scratch_bytes) {
    for (std::vector<StreamedOperand> *group : {&this->stores, &this->loads}) {
        for (StreamedOperand &streamed : *group) {
            const View &view = layout.views[streamed.operand];
            streamed.item = view.item;
            if (streamed.d_resident != nullptr) allow_zero_copy = false;
            streamed.pinned = streamed.halo == 0 && view.access == Access::contiguous &&
                              is_pinned(view.base, layout.size * view.item);
            if (group == &this->loads)
                cache_line_granule = std::max(cache_line_granule, layout.cache_line_granule(view));
        }
    }
    for (const bool pinned : {false, true}) {
        for (std::vector<StreamedOperand> *group : {&this->stores, &this->loads}) {
            for (StreamedOperand &streamed : *group) {
                if (streamed.pinned != pinned) continue;
                streamed.element_offset = streamed_bytes;
                streamed_bytes += streamed.item;
                streamed.halo_offset = halo_bytes;
                halo_bytes += Chunk::round_up(streamed.halo_bytes());
            }
            if (!pinned && group == &this->stores) staged_store_bytes = streamed_bytes;
        }
        if (!pinned) staged_bytes = streamed_bytes;
    }
}

static const Layout &single_unit() {
    static const Layout layout = [] {
        Layout one;
        one.shape = {1};
        one.size = 1;
        return one;
    }();
    return layout;
}

DeviceAlgorithm::DeviceAlgorithm() : DeviceAlgorithm(single_unit(), {}, {}, 0, 0) { can_run_async = true; }

bool DeviceAlgorithm::is_coalesced() const {
    auto is_wide = [](const StreamedOperand &streamed) { return streamed.item >= 4; };
    return !loads.empty() && std::all_of(loads.begin(), loads.end(), is_wide) &&
           std::all_of(stores.begin(), stores.end(), is_wide);
}

bool DeviceAlgorithm::uses_zero_copy(int64_t bytes) const {
    return single_pass_coalesced && is_staged() && scratch_bytes == 0 &&
           needed().host <= Lease::default_size(Lease::zero_copy).host &&
           (staged_store_bytes == 0 || bytes <= tuned(Tune::walk_both_ways));
}

namespace {

Lease::Kind lease_kind_for(const DeviceAlgorithm &algorithm, int64_t bytes) {
    if (algorithm.uses_zero_copy(bytes)) return Lease::zero_copy;
    return algorithm.staged_bytes == 0 ? Lease::pinned : Lease::staged;
}

// How a call is divided: threads, slots, and the sizes of its chunks.
struct Chunking {
    SlotBytes bytes{};
    int64_t threads, slots;     // host threads, and slots of each
    int64_t smallest, largest;  // units of a chunk
    int64_t run;                // consecutive chunks that a thread takes at once

    Chunking(const DeviceAlgorithm &algorithm, int64_t units, int64_t devices) {
        const int64_t bytes_per_unit =
            algorithm.unit_elements * std::max<int64_t>(1, algorithm.streamed_bytes);
        const int64_t all = units * bytes_per_unit;
        Lease::Kind kind = lease_kind_for(algorithm, all);
        // Without staging, host threads have little to do but deliver results.
        const int64_t staged = kind == Lease::pinned ? 0 : all / tuned(Tune::worth_a_thread);
        const int64_t delivered = units * algorithm.result_bytes / RESULT_BYTES_PER_THREAD;
        if (delivered > 1 && kind == Lease::pinned) kind = Lease::staged;  // smaller slots, for many threads
        bytes = Lease::default_size(kind, algorithm.needed());
        const int64_t max_units = std::min(tuned(Tune::threads), std::max(staged, delivered));
        threads = std::clamp<int64_t>(max_units * devices, 1, thread_count());
        slots = tuned(Tune::slots);
        run = algorithm.in_order ? 1 : tuned(Tune::run);
        largest = ChunkInFlight::capacity(algorithm, bytes);
        // A long call can begin and end with larger chunks, and so needs fewer; that matters most if chunks
        // wait for each other.
        const int64_t least = tuned(Tune::smallest_chunk);
        const int64_t first =
            std::clamp(all / 64, least, (algorithm.in_order ? 16 : 4) * least) / bytes_per_unit + 1;
        smallest = std::min(
            std::max(algorithm.unit_elements == 1 ? Chunk::round_up(first) : first, algorithm.min_units),
            largest);
        const int64_t granule = algorithm.cache_line_granule;
        if (algorithm.unit_elements == 1 && granule <= largest) {
            smallest = align_up(smallest, granule);
            largest = largest / granule * granule;
        }
        // Without transfers there is nothing to overlap: one chunk a thread.
        if (algorithm.is_resident()) smallest = largest = std::min(largest, ceil_div(units, threads));
        const int64_t chunks = ceil_div(units, smallest);
        threads = std::min(threads, chunks);
        slots = std::min(slots, ceil_div(chunks, threads));
    }
};

// An algorithm's state on each device.
class DeviceStates {
   public:
    DeviceStates(DeviceAlgorithm &algorithm, const std::vector<int> &devices)
        : algorithm_(algorithm), devices_(devices) {
        const int64_t bytes = algorithm.state_bytes();
        for (size_t i = 0; i < devices.size() && bytes != 0; ++i) {
            const CurrentDevice current(devices[i]);
            buffers_.emplace_back(devices[i], bytes);
            if (of(int(i)) == nullptr) fail_device_budget("the state of this call");
            const Stream stream = make_stream();
            algorithm.begin(of(int(i)), stream.get());
            PK_CUDA(cudaStreamSynchronize(stream.get()));
        }
    }
    char *of(int device_index) const {
        return buffers_.empty() ? nullptr : buffers_[size_t(device_index)].d_memory();
    }

    // Download the states, when all chunks have been delivered.
    void take(Call &call) const {
        std::vector<char> state(size_t(algorithm_.returned_bytes()));
        for (size_t i = 0; i < buffers_.size(); ++i) {
            const CurrentDevice current(devices_[i]);
            copy_and_wait(state.data(), of(int(i)), state.size(), cudaMemcpyDeviceToHost);
            algorithm_.take_state(state.data());
            call.report.bytes_down += int64_t(state.size());
        }
    }

   private:
    DeviceAlgorithm &algorithm_;
    const std::vector<int> &devices_;
    std::deque<DeviceBuffer> buffers_;
};

// A host thread of the pipeline. It takes the next range of units from the queue, waits for its oldest chunk
// in flight, and starts a new one in that slot. The first chunks are small, so that the link is busy soon,
// and so are the last, so that it is busy until the end.
class PipelineWorker {
   public:
    PipelineWorker(DeviceAlgorithm &algorithm, Call &call, RangeQueue &range_queue, const Chunking &chunking,
                   const DeviceStates &states)
        : algorithm_(algorithm),
          call_(call),
          range_queue_(range_queue),
          states_(states),
          chunking_(chunking),
          lane_(call),
          next_units_(chunking.smallest) {}

    void run(const std::vector<int> &devices, int64_t index) {
        // Chunks of an in-order algorithm wait for each other: no thread may wait for a slot while it owns
        // one.
        pk_range run{0, 0};
        if (!algorithm_.in_order) run = take();
        if (!algorithm_.in_order && run.count == 0) return;
        try {
            const auto device_count = int64_t(devices.size());
            for (int64_t device_index = index % device_count; device_index < device_count;
                 device_index += chunking_.threads) {
                add_device(devices[size_t(device_index)], int(device_index));
            }
            for (;;) {
                finish_ready();
                // Only now, since other threads may wait for this chunk.
                if (run.count == 0) run = take();
                if (run.count == 0) break;
                const pk_range range{run.start, std::min(run.count, next_units_)};
                run = {run.start + range.count, run.count - range.count};
                chunks_in_flight_.front()->begin(range);
                rotate();
                next_units_ = std::min(2 * next_units_, largest_);
            }
            for (size_t i = 0; i < chunks_in_flight_.size(); ++i) {
                if (chunks_in_flight_.front()->is_in_flight()) chunks_in_flight_.front()->finish();
                rotate();
            }
        } catch (const Aborted &) {
            abort(run);
        } catch (...) {
            abort(run);
            throw;
        }
    }

   private:
    void abort(pk_range run) {
        algorithm_.section.abort();  // from now on no thread launches into the slots or waits for a chunk
        drain();
        range_queue_.report_failed(run);
        for (const auto &chunk_in_flight : chunks_in_flight_)
            range_queue_.report_failed(chunk_in_flight->units());
    }

    pk_range take() {
        return range_queue_.take(chunking_.threads, chunking_.smallest, next_units_, chunking_.run);
    }

    void add_device(int device, int device_index) {
        const CurrentDevice current(device);
        leases_.emplace_back(chunking_.bytes, algorithm_.needed(), device, chunking_.slots, call_,
                             leases_.empty());
        for (const auto &slot : leases_.back().slots()) {
            chunks_in_flight_.push_back(std::make_unique<ChunkInFlight>(
                algorithm_, call_, lane_, *slot, device_index, states_.of(device_index)));
            largest_ = std::min(largest_,
                                ChunkInFlight::capacity(algorithm_, {slot->host_bytes, slot->device_bytes}));
            next_units_ = std::min(next_units_, largest_);
        }
    }

    // Wait for the chunks that a failed call left in flight. Errors are ignored: one was already reported.
    void drain() const {
        for (const auto &chunk_in_flight : chunks_in_flight_) {
            if (chunk_in_flight->is_in_flight()) chunk_in_flight->slot().drain();
        }
    }

    void finish_ready() {
        if (chunks_in_flight_.front()->is_in_flight()) finish_oldest();
        // Deliver finished chunks now rather than at the end, when every thread waits.
        for (const auto &chunk_in_flight : chunks_in_flight_) {
            if (!chunk_in_flight->is_in_flight()) continue;
            if (!chunk_in_flight->is_done()) break;
            chunk_in_flight->finish();
        }
    }

    void rotate() {
        chunks_in_flight_.push_back(std::move(chunks_in_flight_.front()));
        chunks_in_flight_.pop_front();
    }

    // Finish the oldest chunk. Return its slot to the pool if another thread waits for one and this thread
    // has others.
    void finish_oldest() {
        chunks_in_flight_.front()->finish();
        Slot &slot = chunks_in_flight_.front()->slot();
        for (Lease &lease : leases_) {
            if (!lease.should_share(slot)) continue;
            chunks_in_flight_.pop_front();
            lease.give_back(slot);
            if (chunks_in_flight_.front()->is_in_flight()) finish_oldest();
            return;
        }
    }

    DeviceAlgorithm &algorithm_;
    Call &call_;
    RangeQueue &range_queue_;
    const DeviceStates &states_;
    const Chunking &chunking_;
    TraceLane lane_;
    std::deque<Lease> leases_;
    std::deque<std::unique_ptr<ChunkInFlight>> chunks_in_flight_;  // the oldest in front
    int64_t next_units_;                                           // units of the next chunk
    int64_t largest_ = chunking_.largest;                          // units of any chunk
};

}  // namespace

void run_pipeline(DeviceAlgorithm &algorithm, Call &call, const std::vector<int> &devices,
                  const std::vector<pk_range> &ranges) {
    int64_t units = 0;
    for (const pk_range &range : ranges) units += range.count;
    if (units == 0) return;
    StreamScope::synchronize();
    const Chunking chunking(algorithm, units, int64_t(devices.size()));
    const DeviceStates states(algorithm, devices);
    RangeQueue range_queue(ranges);
    std::atomic<int64_t> arrived{0};
    try {
        run_on_threads(chunking.threads, call, [&] {
            const int64_t index = arrived++;
            if (index < chunking.threads)
                PipelineWorker(algorithm, call, range_queue, chunking, states).run(devices, index);
        });
    } catch (...) {
        call.report_undelivered(range_queue.report_undelivered());
        throw;
    }
    if (algorithm.returns_state) states.take(call);
}

}  // namespace pk
