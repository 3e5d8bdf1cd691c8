// Passes one chunk at a time through a staging slot: staging, upload, kernel, download, unstaging.
// (pipeline.h explains units, status words and resident operands.)
#include "chunk_in_flight.h"

#include <algorithm>
#include <cstring>

#include "cuda/runtime/tuning.h"

namespace pk {

int64_t ChunkInFlight::capacity(const DeviceAlgorithm &algorithm, SlotBytes bytes) {
    auto fitting = [&](int64_t available, int64_t item) {
        const int64_t each = algorithm.result_bytes + algorithm.unit_elements * item;
        if (each == 0) return INT64_MAX;
        // One element per unit and no results: memory is allocated in multiples of ROUND elements, so round
        // the capacity down.
        const int64_t left = available - algorithm.status_bytes - algorithm.halo_bytes;
        if (each == item) return left / each / Chunk::ROUND * Chunk::ROUND;
        return std::max<int64_t>(1, (left - Chunk::ROUND * (1 + item)) / each);
    };
    const int64_t fits = fitting(bytes.host, algorithm.staged_bytes);
    if (bytes.device == 0) return fits;
    return std::min(fits, fitting(bytes.device, algorithm.streamed_bytes + algorithm.scratch_bytes));
}

void ChunkInFlight::begin(pk_range units) {
    chunk_ = algorithm_.chunk_of(units);
    chunk_.d_memory = slot_.d_memory();
    chunk_.device_index = device_index_;
    chunk_.d_state = d_state_;
    const bool is_small =  // small enough for zero-copy
        algorithm_.bytes_of(units.count, algorithm_.streamed_bytes + algorithm_.scratch_bytes) +
            algorithm_.halo_bytes <=
        std::min(tuned(Tune::in_place_bytes), slot_.host_bytes);
    const bool zero_copy =
        slot_.d_memory() == nullptr || (algorithm_.allow_zero_copy && algorithm_.is_staged() && is_small);
    const CurrentDevice current(slot_.device);
    stage();
    if (zero_copy) {
        begin_zero_copy();
    } else {
        begin_copied();
    }
}

void ChunkInFlight::begin_zero_copy() {
    zero_copy_ = true;
    chunk_.d_memory = slot_.mapped();
    chunk_.stream = algorithm_.in_order ? slot_.streams.compute.get() : slot_.stream.get();
    if (!host_status_is_zero_) std::memset(slot_.host(), 0, size_t(algorithm_.status_bytes));
    host_status_is_zero_ = true;
    bytes_up_ = chunk_.count * (algorithm_.staged_bytes - algorithm_.staged_store_bytes);
    for (const StreamedOperand &load : algorithm_.loads) bytes_up_ += load.halo_bytes();
    bytes_down_ = chunk_.count * algorithm_.staged_store_bytes + chunk_.units.count * algorithm_.result_bytes;
    compute();
}

void ChunkInFlight::launch() {
    call_.count_launch();
    algorithm_.enqueue(chunk_);
}

void ChunkInFlight::compute() {
    auto enqueue = [this] { zero_copy_ ? compute_zero_copy() : compute_copied(); };
    algorithm_.in_order ? algorithm_.section.enqueue(chunk_.units, enqueue) : enqueue();
}

void ChunkInFlight::compute_zero_copy() {
    enqueued_at_ = call_.seconds();
    launch();
}

void ChunkInFlight::begin_copied() {
    zero_copy_ = false;
    const cudaStream_t up = slot_.streams.upload.get();
    chunk_.stream = has_own_stream() ? slot_.stream.get() : slot_.streams.compute.get();
    if (origin_ < 0) {
        // A common origin for the times of the device's events and the host's clock.
        PK_CUDA(cudaEventRecord(slot_.origin.get(), slot_.streams.clock.get()));
        origin_ = call_.seconds();
        if (algorithm_.status_bytes != 0) {
            PK_CUDA(cudaMemsetAsync(chunk_.d_memory, 0, size_t(algorithm_.status_bytes), chunk_.stream));
        }
    }
    enqueued_at_ = call_.seconds();
    bytes_up_ = copy(algorithm_.loads, 0, cudaMemcpyHostToDevice, up);
    PK_CUDA(cudaEventRecord(slot_.uploaded.get(), up));
    compute();
}

void ChunkInFlight::compute_copied() {
    const cudaStream_t down = has_own_stream() ? chunk_.stream : slot_.streams.download.get();
    PK_CUDA(cudaStreamWaitEvent(chunk_.stream, slot_.uploaded.get()));
    launch();
    PK_CUDA(cudaEventRecord(slot_.computed.get(), chunk_.stream));
    if (!has_own_stream()) PK_CUDA(cudaStreamWaitEvent(down, slot_.computed.get()));
    const int64_t results = chunk_.results + chunk_.units.count * algorithm_.result_bytes;
    bytes_down_ = copy(algorithm_.stores, results, cudaMemcpyDeviceToHost, down);
    PK_CUDA(cudaEventRecord(slot_.downloaded.get(), down));
}

void ChunkInFlight::stage() {
    const double begin = call_.seconds();
    int64_t bytes = 0;
    for (const StreamedOperand &load : algorithm_.loads) {
        if (load.pinned) continue;
        algorithm_.stage(load, chunk_, slot_.host() + chunk_.operand(load));
        bytes += chunk_.count * load.item + load.halo_bytes();
    }
    if (bytes != 0) lane_.add(PK_STAGE_STAGE, begin, call_.seconds(), bytes, chunk_.count);
}

int64_t ChunkInFlight::copy(const std::vector<StreamedOperand> &group, int64_t before, cudaMemcpyKind kind,
                            cudaStream_t stream) const {
    const bool up = kind == cudaMemcpyHostToDevice;
    int64_t total = 0;
    auto one = [&](char *host, char *device, int64_t bytes) {
        if (bytes == 0) return;
        PK_CUDA(cudaMemcpyAsync(up ? device : host, up ? host : device, size_t(bytes), kind, stream));
        total += bytes;
    };
    // Operands that are adjacent in the chunk's memory are copied together.
    int64_t begin = 0, end = before;
    for (const StreamedOperand &streamed : group) {
        const int64_t bytes = chunk_.count * streamed.item + streamed.halo_bytes();
        const int64_t offset = chunk_.operand(streamed);
        if (streamed.pinned || streamed.d_resident != nullptr) {
            const int64_t start = chunk_.start * streamed.item;
            one(streamed.pinned ? algorithm_.layout.views[streamed.operand].base + start
                                : slot_.host() + offset,
                streamed.d_resident != nullptr ? streamed.d_resident + start : chunk_.d_memory + offset,
                bytes);
            continue;
        }
        if (offset != end) {
            one(slot_.host() + begin, chunk_.d_memory + begin, end - begin);
            begin = offset;
        }
        end = offset + bytes;
    }
    one(slot_.host() + begin, chunk_.d_memory + begin, end - begin);
    return total;
}

bool ChunkInFlight::is_done() const {
    // False for a zero-copy chunk, whose completion is not polled. A CUDA error also gives false; finish()
    // reports it.
    if (zero_copy_ || (algorithm_.in_order && !algorithm_.section.has_run(chunk_.units.start))) return false;
    return cudaEventQuery(slot_.downloaded.get()) == cudaSuccess;
}

void ChunkInFlight::finish() {
    const int64_t count = chunk_.count;
    if (algorithm_.in_order) algorithm_.section.wait_for(chunk_.units.start, call_);
    if (zero_copy_) {
        PK_CUDA(cudaStreamSynchronize(chunk_.stream));
        lane_.add(PK_STAGE_KERNEL, enqueued_at_, call_.seconds(), 0, count, slot_.device, slot_.number);
    } else {
        PK_CUDA(cudaEventSynchronize(slot_.origin.get()));
        PK_CUDA(cudaEventSynchronize(slot_.downloaded.get()));
        auto when = [&](const Event &event) {
            float milliseconds = 0;
            PK_CUDA(cudaEventElapsedTime(&milliseconds, slot_.origin.get(), event.get()));
            return std::max(enqueued_at_, origin_ + milliseconds * 1e-3);
        };
        const double uploaded = when(slot_.uploaded), computed = when(slot_.computed);
        auto add = [&](int stage, double begin, double end, int64_t bytes) {
            lane_.add(stage, begin, end, bytes, count, slot_.device, slot_.number);
        };
        if (bytes_up_ != 0) add(PK_STAGE_UPLOAD, enqueued_at_, uploaded, bytes_up_);
        add(PK_STAGE_KERNEL, uploaded, computed, 0);
        if (bytes_down_ != 0) add(PK_STAGE_DOWNLOAD, computed, when(slot_.downloaded), bytes_down_);
    }
    unstage();
    {
        const std::lock_guard<std::mutex> lock(call_.mutex);
        algorithm_.collect(slot_.host());
        call_.report.chunks += 1;
        call_.report.bytes_up += bytes_up_;
        call_.report.bytes_down += bytes_down_;
    }
    chunk_.units.count = 0;
    call_.advance(algorithm_.counts_progress ? count : 0);
}

void ChunkInFlight::unstage() {
    const double begin = call_.seconds();
    int64_t bytes = 0;
    for (const StreamedOperand &store : algorithm_.stores) {
        if (store.pinned) continue;
        const char *const from = slot_.host() + chunk_.operand(store);
        algorithm_.layout.scatter(algorithm_.layout.views[store.operand], chunk_.start, chunk_.count, from);
        bytes += chunk_.count * store.item;
    }
    if (algorithm_.result_bytes != 0) {
        algorithm_.deliver(chunk_, slot_.host() + chunk_.results);
        bytes += chunk_.units.count * algorithm_.result_bytes;
    }
    if (bytes != 0) lane_.add(PK_STAGE_UNSTAGE, begin, call_.seconds(), bytes, chunk_.count);
}

}  // namespace pk
