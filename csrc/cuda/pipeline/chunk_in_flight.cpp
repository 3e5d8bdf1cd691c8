#include "chunk_in_flight.h"

#include <algorithm>
#include <cstring>

#include "cuda/runtime/tuning.h"

namespace pk {

// Elements of a chunk that is all on the device, up to which the host's memory does for its notes: one launch
// then, and nothing beside it.
static constexpr int64_t SHORT_AT_HOME = 4 << 20;

int64_t Passage::capacity(const Work &work, SlotBytes bytes) {
    auto fitting = [&](int64_t room, int64_t item) {
        const int64_t each = work.result_bytes + work.unit_elements * item;
        if (each == 0) return INT64_MAX;
        // A unit of one element is rounded up with its neighbours, and so they are as many as that.
        const int64_t left = room - work.notes_bytes - work.halo_bytes;
        if (each == item) return left / each / Chunk::ROUND * Chunk::ROUND;
        return std::max<int64_t>(1, (left - Chunk::ROUND * (1 + item)) / each);
    };
    const int64_t fits = fitting(bytes.host, work.staged_bytes);
    if (bytes.device == 0) return fits;
    return std::min(fits, fitting(bytes.device, work.carried_bytes + work.scratch_bytes));
}

void Passage::begin(pk_range units) {
    const int64_t start = work_.start(units.start), count = work_.start(units.start + units.count) - start;
    const int64_t rounded = Chunk::round_up(units.count * work_.unit_elements);
    const int64_t operands = work_.bytes_of(units.count, 0);
    const int64_t scratch = operands + rounded * work_.carried_bytes + work_.halo_bytes;
    const bool is_small =
        work_.bytes_of(units.count, work_.carried_bytes + work_.scratch_bytes) + work_.halo_bytes <=
        std::min(tuned(Tune::in_place_bytes), slot_.host_bytes);
    // What a kernel notes goes over the link, too, and where that has nothing else to do, it is in the way.
    const bool is_short = !work_.is_at_home() || (work_.scratch_bytes == 0 && count <= SHORT_AT_HOME);
    const bool in_place =
        slot_.memory() == nullptr || (work_.may_stay && work_.is_staged() && is_small && is_short);
    chunk_ = {units,    start,   count,   rounded, slot_.memory(), work_.notes_bytes,
              operands, scratch, nullptr, place_};
    const CurrentDevice current(slot_.device);
    stage();
    if (in_place) {
        begin_in_place();
    } else if (work_.is_at_home() && !work_.in_order) {
        begin_at_home();
    } else {
        begin_copied();
    }
}

void Passage::begin_in_place() {
    in_place_ = true;
    chunk_.memory = slot_.host_on_device();
    chunk_.queue = work_.in_order ? slot_.queues.compute.get() : slot_.queue.get();
    if (!host_notes_are_zero_) std::memset(slot_.host(), 0, size_t(work_.notes_bytes));
    host_notes_are_zero_ = true;
    bytes_up_ = chunk_.count * (work_.staged_bytes - work_.staged_down_bytes);
    for (const Carried &load : work_.loads) bytes_up_ += load.halo_bytes();
    bytes_down_ = chunk_.count * work_.staged_down_bytes + chunk_.units.count * work_.result_bytes;
    compute();
}

// One after the other in the slot's own stream: so a chunk takes few calls, and no stream waits for another.
void Passage::begin_at_home() {
    in_place_ = false, at_home_ = true;
    chunk_.queue = slot_.queue.get();
    if (!notes_are_zero_ && work_.notes_bytes != 0)
        PK_CUDA(cudaMemsetAsync(chunk_.memory, 0, size_t(work_.notes_bytes), chunk_.queue));
    notes_are_zero_ = true;
    queued_ = call_.seconds();
    work_.launch(chunk_);
    const int64_t results = chunk_.results + chunk_.units.count * work_.result_bytes;
    bytes_down_ = copy({}, results, cudaMemcpyDeviceToHost, chunk_.queue);
}

void Passage::compute() {
    auto queue = [this] { in_place_ ? compute_in_place() : compute_copied(); };
    work_.in_order ? work_.turns.queue(chunk_.units, queue) : queue();
}

void Passage::compute_in_place() {
    queued_ = call_.seconds();
    work_.launch(chunk_);
}

void Passage::begin_copied() {
    in_place_ = false;
    const cudaStream_t up = slot_.queues.up.get();
    chunk_.queue = is_alone() ? slot_.queue.get() : slot_.queues.compute.get();
    if (origin_ < 0) {
        // Where the times of the device's events and of the host meet.
        PK_CUDA(cudaEventRecord(slot_.origin.get(), slot_.queues.clock.get()));
        origin_ = call_.seconds();
        if (work_.notes_bytes != 0) {
            PK_CUDA(cudaMemsetAsync(chunk_.memory, 0, size_t(work_.notes_bytes), chunk_.queue));
        }
    }
    queued_ = call_.seconds();
    bytes_up_ = copy(work_.loads, 0, cudaMemcpyHostToDevice, up);
    PK_CUDA(cudaEventRecord(slot_.uploaded.get(), up));
    compute();
}

void Passage::compute_copied() {
    const cudaStream_t down = is_alone() ? chunk_.queue : slot_.queues.down.get();
    PK_CUDA(cudaStreamWaitEvent(chunk_.queue, slot_.uploaded.get()));
    work_.launch(chunk_);
    PK_CUDA(cudaEventRecord(slot_.computed.get(), chunk_.queue));
    if (!is_alone()) PK_CUDA(cudaStreamWaitEvent(down, slot_.computed.get()));
    const int64_t results = chunk_.results + chunk_.units.count * work_.result_bytes;
    bytes_down_ = copy(work_.stores, results, cudaMemcpyDeviceToHost, down);
    PK_CUDA(cudaEventRecord(slot_.downloaded.get(), down));
}

void Passage::stage() {
    const double begin = call_.seconds();
    int64_t bytes = 0;
    for (const Carried &load : work_.loads) {
        if (load.direct) continue;
        work_.stage(load, chunk_, slot_.host() + chunk_.operand(load));
        bytes += chunk_.count * load.item + load.halo_bytes();
    }
    if (bytes != 0) lane_.add(PK_STAGE, begin, call_.seconds(), bytes, chunk_.count);
}

int64_t Passage::copy(const std::vector<Carried> &group, int64_t before, cudaMemcpyKind kind,
                      cudaStream_t queue) const {
    const bool up = kind == cudaMemcpyHostToDevice;
    int64_t total = 0;
    auto one = [&](char *host, char *device, int64_t bytes) {
        if (bytes == 0) return;
        PK_CUDA(cudaMemcpyAsync(up ? device : host, up ? host : device, size_t(bytes), kind, queue));
        total += bytes;
    };
    // What lies side by side in the chunk's memory is one copy.
    int64_t begin = 0, end = before;
    for (const Carried &carried : group) {
        const int64_t bytes = chunk_.count * carried.item + carried.halo_bytes();
        const int64_t offset = chunk_.operand(carried);
        if (carried.direct || carried.home != nullptr) {
            const int64_t start = chunk_.start * carried.item;
            one(carried.direct ? work_.layout.views[carried.operand].base + start : slot_.host() + offset,
                carried.home != nullptr ? carried.home + start : chunk_.memory + offset, bytes);
            continue;
        }
        if (offset != end) {
            one(slot_.host() + begin, chunk_.memory + begin, end - begin);
            begin = offset;
        }
        end = offset + bytes;
    }
    one(slot_.host() + begin, chunk_.memory + begin, end - begin);
    return total;
}

bool Passage::is_done() const {
    // What else an event may say is for finish() to find.
    if (in_place_ || (work_.in_order && !work_.turns.has_passed(chunk_.units.start))) return false;
    if (at_home_) return cudaStreamQuery(chunk_.queue) == cudaSuccess;
    return cudaEventQuery(slot_.downloaded.get()) == cudaSuccess;
}

void Passage::finish() {
    const int64_t count = chunk_.count;
    if (work_.in_order) work_.turns.wait_for(chunk_.units.start, call_);
    if (in_place_ || at_home_) {
        PK_CUDA(cudaStreamSynchronize(chunk_.queue));
        lane_.add(PK_KERNEL, queued_, call_.seconds(), 0, count, slot_.device, slot_.number);
    } else {
        PK_CUDA(cudaEventSynchronize(slot_.origin.get()));
        PK_CUDA(cudaEventSynchronize(slot_.downloaded.get()));
        auto when = [&](const Event &event) {
            float milliseconds = 0;
            PK_CUDA(cudaEventElapsedTime(&milliseconds, slot_.origin.get(), event.get()));
            return std::max(queued_, origin_ + milliseconds * 1e-3);
        };
        const double uploaded = when(slot_.uploaded), computed = when(slot_.computed);
        auto add = [&](int stage, double begin, double end, int64_t bytes) {
            lane_.add(stage, begin, end, bytes, count, slot_.device, slot_.number);
        };
        if (bytes_up_ != 0) add(PK_UPLOAD, queued_, uploaded, bytes_up_);
        add(PK_KERNEL, uploaded, computed, 0);
        if (bytes_down_ != 0) add(PK_DOWNLOAD, computed, when(slot_.downloaded), bytes_down_);
    }
    unstage();
    {
        const std::lock_guard<std::mutex> lock(call_.mutex);
        work_.collect(slot_.host());
        call_.report.chunks += 1;
        call_.report.bytes_up += bytes_up_;
        call_.report.bytes_down += bytes_down_;
    }
    chunk_.units.count = 0;
    call_.advance(work_.is_counted ? count : 0);
}

void Passage::unstage() {
    const double begin = call_.seconds();
    int64_t bytes = 0;
    for (const Carried &store : work_.stores) {
        if (store.direct) continue;
        const char *const from = slot_.host() + chunk_.operand(store);
        work_.layout.scatter(work_.layout.views[store.operand], chunk_.start, chunk_.count, from);
        bytes += chunk_.count * store.item;
    }
    if (work_.result_bytes != 0) {
        work_.deliver(chunk_, slot_.host() + chunk_.results);
        bytes += chunk_.units.count * work_.result_bytes;
    }
    if (bytes != 0) lane_.add(PK_UNSTAGE, begin, call_.seconds(), bytes, chunk_.count);
}

}  // namespace pk
