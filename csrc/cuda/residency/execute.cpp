// Runs algorithms whose operands are all on the device, in one stream, and hands the others to the pipeline.
#include "execute.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/status_words.h"

namespace pk {

namespace {

// The most temporary storage of a chunk, unless a single unit needs more.
constexpr int64_t TEMPORARY = 32 << 20;
// A synchronous call waits each time when so many operations are enqueued, some 20 ms of work, so that it can
// be stopped, and reports progress.
constexpr int64_t SLICE_OPERATIONS = int64_t(1) << 33;
// A chunk of at most this many elements writes its status words to pinned memory: it is one launch without
// copies. In a longer one, writes over the link would slow the kernel down.
constexpr int64_t SHORT = 4 << 20;

int64_t units_of_slice(const DeviceAlgorithm &algorithm) {
    const int64_t units = SLICE_OPERATIONS / algorithm.operations / algorithm.unit_elements;
    return units < Chunk::ROUND ? std::max<int64_t>(1, units) : units / Chunk::ROUND * Chunk::ROUND;
}

// The memory of a run: status words | state | temporary storage. It lasts until the stream has passed the
// run.
class ResidentMemory {
   public:
    // `most` is the number of units that a chunk may have. `slot` is null for a call that does not wait.
    ResidentMemory(const DeviceAlgorithm &algorithm, int64_t most, const Slot *slot,
                   const ExecutionContext &context)
        : units(most), status_bytes_(algorithm.status_bytes) {
        const int64_t lasting = status_bytes_ + Chunk::round_up(algorithm.state_bytes());
        const bool fits_in_slot = slot != nullptr && lasting < slot->device_bytes;
        const int64_t limit = fits_in_slot ? std::min(TEMPORARY, slot->device_bytes - lasting) : TEMPORARY;
        while (units > 1 && algorithm.temporary_bytes(units) > limit)
            units = std::min(units - 1, Chunk::round_up(units / 2));
        const int64_t temporary = algorithm.temporary_bytes(units), bytes = lasting + temporary;
        scratch_ = lasting;
        const bool is_status_alone = bytes == status_bytes_;
        if (slot != nullptr && is_status_alone && most * algorithm.unit_elements <= SHORT) {
            is_pinned = true;
            d_memory_ = slot->mapped();
        } else if (slot != nullptr && bytes <= slot->device_bytes) {
            d_memory_ = slot->d_memory();
        } else if (slot == nullptr && is_status_alone) {
            d_memory_ = shared_status_words(*context.stream_scope(), bytes);
        }
        if (d_memory_ != nullptr) return;
        has_own_words_ = slot == nullptr && context.stream_scope()->status.d_words != nullptr;
        storage_.emplace(context.device(), stream_of(context.stream_scope()), bytes);
        d_memory_ = storage_->get();
    }

    // Enqueue the clearing of an asynchronous call's own status words, and their addition to its list's.
    void clear_words(const StreamScope *stream_scope) const {
        if (has_own_words_)
            PK_CUDA(cudaMemsetAsync(d_memory_, 0, size_t(status_bytes_), stream_scope->stream));
    }
    void add_words(const StreamScope *stream_scope) const {
        if (has_own_words_) add_status_words(d_memory_, status_bytes_, *stream_scope);
    }

    char *d_status() const { return d_memory_; }
    char *d_state() const { return d_memory_ + status_bytes_; }
    Chunk chunk(const DeviceAlgorithm &algorithm, pk_range range, cudaStream_t stream) const {
        Chunk chunk = algorithm.chunk_of(range);
        chunk.d_memory = d_memory_;
        chunk.operands = chunk.scratch = scratch_;  // values of a program begin where its operands end
        chunk.stream = stream;
        chunk.d_state = d_state();
        return chunk;
    }

    int64_t units;           // of a chunk, at most
    bool is_pinned = false;  // status words are in the slot's pinned memory

   private:
    const int64_t status_bytes_;
    int64_t scratch_ = 0;
    bool has_own_words_ = false;  // of an asynchronous call in a list
    char *d_memory_ = nullptr;
    std::optional<TemporaryStorage> storage_;
};

// A call that waits: its slot, and the stages that it reports.
class SynchronousRun {
   public:
    SynchronousRun(DeviceAlgorithm &algorithm, Call &call, const ExecutionContext &context)
        : algorithm_(algorithm),
          call_(call),
          lane_(call),
          lease_(Lease::default_size(Lease::pinned), {0, 0}, context.device(), 1, call),
          stream_(context.stream_scope() != nullptr ? context.stream_scope()->stream : slot().stream.get()) {}
    ~SynchronousRun() {
        if (is_pending_) (void)cudaStreamSynchronize(stream_);  // an error follows one that is reported
    }
    SynchronousRun(const SynchronousRun &) = delete;
    SynchronousRun &operator=(const SynchronousRun &) = delete;

    const Slot &slot() const { return *lease_.slots().front(); }
    cudaStream_t stream() const { return stream_; }

    void begin(const ResidentMemory &memory) {
        is_pending_ = true;
        began_ = call_.seconds();
        const auto bytes = size_t(algorithm_.status_bytes);
        if (memory.is_pinned)
            std::memset(slot().host(), 0, bytes);
        else if (bytes != 0)
            PK_CUDA(cudaMemsetAsync(memory.d_status(), 0, bytes, stream_));
    }

    // Count a chunk that was enqueued, and wait if there is much to wait for.
    void count(int64_t elements) {
        elements_ += elements;
        operations_ += elements * algorithm_.operations;
        ++call_.report.chunks;
        if (operations_ < SLICE_OPERATIONS) return;
        PK_CUDA(cudaStreamSynchronize(stream_));
        trace();
    }

    // Wait for the last chunk, and take the status words and the results that fit in the slot behind them.
    void finish(const ResidentMemory &memory, std::vector<Download> &downloads) {
        int64_t end = algorithm_.status_bytes;
        if (!memory.is_pinned) download(memory.d_status(), slot().host(), end);
        std::vector<std::pair<Download *, const char *>> staged;
        for (Download &result : downloads) {
            if (end + result.bytes > slot().host_bytes) continue;
            staged.emplace_back(&result, slot().host() + end);
            download(result.d_data, slot().host() + end, result.bytes);
            end += Chunk::round_up(result.bytes);
        }
        std::vector<char> state(algorithm_.returns_state ? size_t(algorithm_.returned_bytes()) : 0);
        download(memory.d_state(), state.data(), int64_t(state.size()));
        if (!algorithm_.counts_returned_bytes) call_.report.bytes_down -= int64_t(state.size());
        PK_CUDA(cudaStreamSynchronize(stream_));
        is_pending_ = false;
        algorithm_.collect(slot().host());
        if (algorithm_.returns_state) algorithm_.take_state(state.data());
        for (const auto &[result, host] : staged) result->store(host);
        trace();
    }

   private:
    void download(const char *d_data, char *host, int64_t bytes) {
        if (bytes == 0) return;
        PK_CUDA(cudaMemcpyAsync(host, d_data, size_t(bytes), cudaMemcpyDeviceToHost, stream_));
        call_.report.bytes_down += bytes;
    }

    void trace() {
        const double now = call_.seconds();
        lane_.add(PK_STAGE_KERNEL, began_, now, 0, elements_, slot().device, slot().number);
        call_.advance(algorithm_.counts_progress ? elements_ : 0);
        began_ = now;
        elements_ = operations_ = 0;
    }

    DeviceAlgorithm &algorithm_;
    Call &call_;
    TraceLane lane_;
    const Lease lease_;
    const cudaStream_t stream_;
    bool is_pending_ = false;
    double began_ = 0;
    int64_t elements_ = 0, operations_ = 0;
};

void run_resident(DeviceAlgorithm &algorithm, Operands &operands, Call &call, const ExecutionContext &context,
                  const std::vector<pk_range> &ranges) {
    const bool is_synchronous = context.is_synchronous || !algorithm.can_run_async || algorithm.returns_state;
    if (is_synchronous) StreamScope::synchronize();
    const CurrentDevice current(context.device());
    std::optional<ResidentMemory> memory;
    std::optional<SynchronousRun> run;  // waits before the memory is freed
    if (is_synchronous) run.emplace(algorithm, call, context);
    const cudaStream_t stream = run ? run->stream() : context.stream_scope()->stream;

    int64_t most = 0;
    for (const pk_range &range : ranges) most = std::max(most, range.count);
    if (is_synchronous) most = std::min(most, units_of_slice(algorithm));
    memory.emplace(algorithm, most, run ? &run->slot() : nullptr, context);
    if (run)
        run->begin(*memory);
    else
        memory->clear_words(context.stream_scope());
    algorithm.begin(memory->d_state(), stream);
    for (const pk_range &range : ranges) {
        for (int64_t done = 0; done < range.count; done += memory->units) {
            const pk_range units{range.start + done, std::min(memory->units, range.count - done)};
            const Chunk chunk = memory->chunk(algorithm, units, stream);
            call.count_launch();
            algorithm.enqueue(chunk);
            if (run)
                run->count(chunk.count);
            else
                call.advance(algorithm.counts_progress ? chunk.count : 0);
        }
    }
    algorithm.finish(memory->d_state(), stream);
    if (run)
        run->finish(*memory, operands.downloads());
    else
        memory->add_words(context.stream_scope());
}

}  // namespace

void execute(DeviceAlgorithm &algorithm, Operands &operands, Call &call, const ExecutionContext &context,
             const std::vector<pk_range> &ranges) {
    if (ranges.empty()) return;
    if (algorithm.is_resident() && algorithm.result_bytes == 0) {
        run_resident(algorithm, operands, call, context, ranges);
    } else {
        require(!context.is_on_device, "some operands are on a device, and others are on the host");
        StreamScope::refuse_capture();
        run_pipeline(algorithm, call, context.devices, ranges);
    }
    operands.download_results();
}

void execute(DeviceAlgorithm &algorithm, Operands &operands, Call &call, const ExecutionContext &context) {
    execute(algorithm, operands, call, context, {{0, algorithm.units()}});
}

bool try_execute(DeviceAlgorithm &algorithm, Operands &operands, Call &call,
                 const ExecutionContext &context) {
    const int64_t launches = call.launches();
    try {
        execute(algorithm, operands, call, context);
        return true;
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY || call.launches() != launches) throw;
        return false;
    }
}

}  // namespace pk
