// Services that kernels call while they run: barriers and warp operations, printf, checked accesses.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "block_executor.h"

namespace pk::kernels {

void PrintBuffer::add(const char *text, int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t fits = std::min(bytes, capacity_ - length_);
    if (fits > 0) std::memcpy(text_ + length_, text, size_t(fits));
    length_ += bytes;
}

int64_t PrintBuffer::take(uint8_t *text, int64_t capacity) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t copied = std::min(std::min(length_, capacity_), capacity);
    if (copied > 0) std::memcpy(text, text_, size_t(copied));
    return std::exchange(length_, 0);
}

// ---- Waiting ----

int32_t BlockExecutor::barrier(int32_t line, int32_t value) {
    if (alone()) return value != 0;
    begin_waiting();
    set_state(current_, State::BARRIER);
    threads_[size_t(current_)].line = line;
    ++arrived_;
    counting_ += value != 0;
    if (arrived_ + done_ == size_) {
        complete_barrier();
        suspend_for(first_ready());  // those before this thread go on first
    } else {
        suspend();
    }
    return counted_;
}

// Called when all threads are at a barrier or have returned.
void BlockExecutor::complete_barrier() {
    if (launch_->checked) check_same_barrier();
    std::replace(states_.begin(), states_.end(), State::BARRIER, State::READY);
    for (Warp &warp : warps_) warp.ready = ~warp.done;
    if (size_ % PK_WARP != 0) warps_.back().ready &= (1u << size_ % PK_WARP) - 1;
    if (launch_->checked) check_barrier();
    counted_ = counting_;
    arrived_ = counting_ = 0;
}

// Stops if threads have returned, or wait in different lines.
void BlockExecutor::check_same_barrier() {
    for (const Thread &thread : threads_) {
        if (done_ != 0 || thread.line != threads_[0].line) stop(stuck());
    }
}

int BlockExecutor::first_ready() const {
    size_t warp = 0;
    while (warps_[warp].ready == 0) ++warp;
    return int(warp) * PK_WARP + __builtin_ctz(warps_[warp].ready);
}

BlockExecutor::WarpExchange &BlockExecutor::exchange_of(int32_t operation, uint32_t mask) {
    const int warp = current_ / PK_WARP;
    WarpExchange *free = nullptr;
    for (WarpExchange &record : exchanges_) {
        if (record.open && record.warp == warp && record.operation == operation && record.mask == mask)
            return record;
        if (!record.open && record.readers == 0) free = &record;
    }
    if (free == nullptr) {
        exchanges_.push_back({});
        free = &exchanges_.back();
    }
    *free = {warp, operation, mask, 0, true, 0, {}};
    return *free;
}

uint32_t BlockExecutor::exchange(int32_t line, int32_t operation, uint32_t mask, uint64_t value,
                                 uint64_t *values) {
    const int lane = current_ % PK_WARP, first = current_ - lane;
    const uint32_t bit = 1u << lane;
    if (alone()) {
        values[0] = value;
        return bit;
    }
    begin_waiting();
    if (launch_->checked && (mask & bit) == 0)
        stop(where() + ": the mask in line " + std::to_string(line) + " does not have the lane itself");
    const int lanes = std::min<int>(PK_WARP, size_ - first);
    mask = (mask | bit) & (lanes == PK_WARP ? ~0u : (1u << lanes) - 1);
    const uint32_t done = warps_[size_t(current_ / PK_WARP)].done & mask;
    if (launch_->checked && done != 0)
        stop(where() + ": the mask in line " + std::to_string(line) + " has lane " +
             std::to_string(__builtin_ctz(done)) + ", which has returned");
    WarpExchange &record = exchange_of(operation, mask);
    const size_t index = size_t(&record - exchanges_.data());
    record.values[lane] = value;
    record.arrived |= bit;
    threads_[size_t(current_)].line = line;
    if (record.arrived == (mask & ~done)) {
        complete(record);
    } else {
        set_state(current_, State::WARP);
        suspend();
    }
    WarpExchange &filled = exchanges_[index];  // a reference that is valid after others have grown the vector
    std::memcpy(values, filled.values, sizeof(filled.values));
    --filled.readers;
    return filled.arrived;
}

void BlockExecutor::complete(WarpExchange &record) {
    record.open = false;
    ++warps_[size_t(record.warp)].operations;
    record.readers = __builtin_popcount(record.arrived);
    for (int lane = 0; lane < PK_WARP; ++lane) {
        if (record.arrived >> lane & 1) set_state(record.warp * PK_WARP + lane, State::READY);
    }
}

// Called when a thread has returned: completes the operations that waited for it.
void BlockExecutor::complete_without(int thread) {
    if (arrived_ != 0 && arrived_ + done_ == size_) complete_barrier();
    const int warp = thread / PK_WARP;
    for (WarpExchange &record : exchanges_) {
        if (!record.open || record.warp != warp) continue;
        if (launch_->checked && (record.mask >> thread % PK_WARP & 1) != 0)
            stop("in " + block_name() + ", lanes of a warp wait for " + thread_name(thread) +
                 ", which has returned");
        if (record.arrived == (record.mask & ~warps_[size_t(warp)].done)) complete(record);
    }
}

uint32_t BlockExecutor::active(int32_t line) {
    if (alone()) return 1;
    begin_waiting();
    set_state(current_, State::ACTIVE);
    threads_[size_t(current_)].line = line;
    suspend();
    return threads_[size_t(current_)].lanes;
}

// Called when no thread is ready: the active lanes of a warp are those that wait in the same line.
bool BlockExecutor::wake_active() {
    int first = 0;
    while (first < size_ && states_[size_t(first)] != State::ACTIVE) ++first;
    if (first == size_) return false;
    const int begin = first / PK_WARP * PK_WARP, end = std::min(size_, begin + PK_WARP);
    const int32_t line = threads_[size_t(first)].line;
    auto belongs = [&](int i) {
        return states_[size_t(i)] == State::ACTIVE && threads_[size_t(i)].line == line;
    };
    uint32_t lanes = 0;
    for (int i = begin; i < end; ++i) lanes |= uint32_t(belongs(i)) << (i - begin);
    for (int i = begin; i < end; ++i) {
        if (!belongs(i)) continue;
        set_state(i, State::READY);
        threads_[size_t(i)].lanes = lanes;
    }
    return true;
}

// Waits at a volatile access until no lane of the warp can go on: those that are not at a barrier, in a warp
// operation or done are at volatile accesses, too. If the thread spins on a value, the lanes that write may
// go on, as often as those that spin.
void BlockExecutor::turn(int32_t spins) {
    if (alone()) return;
    begin_waiting();
    Warp &warp = warps_[size_t(current_ / PK_WARP)];
    (spins != 0 ? warp.spin : warp.turn) |= 1u << current_ % PK_WARP;
    set_state(current_, spins != 0 ? State::SPIN : State::TURN);
    if (++switches_ % YIELD_EVERY == 0) yield_for_callback();
    suspend_for(spins == 0 ? choose_in_warp() : choose());
}

// Called when no lane of the warp is ready. Lanes that spin go on first: a lane that has read the same value
// many times, but does not wait for it, then comes to the write that the others are at.
void BlockExecutor::end_turn(int index) {
    Warp &warp = warps_[size_t(index)];
    uint32_t lanes = warp.spin;
    warp.spin = 0;
    if (lanes == 0 || warp.spun) {
        lanes |= std::exchange(warp.turn, 0);
        warp.spun = false;
    } else {
        warp.spun = true;
    }
    for (; lanes != 0; lanes &= lanes - 1) set_state(index * PK_WARP + __builtin_ctz(lanes), State::READY);
}

void BlockExecutor::yield() {
    if (!loops_) suspend();
}

void BlockExecutor::begin_waiting() {
    waited_ = true;
    if (loops_) fail(PK_DEVICE_ERROR, launch_->name + " waits where it was taken not to");
}

// ---- Checked accesses ----

void BlockExecutor::access(uint64_t address, uint64_t bytes, int32_t how) {
    const std::string attempt =
        std::string((how & PK_WRITES) != 0 ? "writes " : "reads ") + std::to_string(bytes) + " bytes ";
    if (address < 65536) stop(where() + " " + attempt + "at a null pointer");
    const GuardedMemory::GuardedBuffer *guarded_buffer = launch_->guarded_memory->find(address);
    const bool is_shared = guarded_buffer == nullptr;
    if (is_shared && guarded_memory_ != nullptr) guarded_buffer = guarded_memory_->find(address);
    if (guarded_buffer == nullptr) {
        if (is_memory(address) && is_memory(address + bytes - 1)) return;  // it is the thread's own memory
        char place[32];
        std::snprintf(place, sizeof(place), "0x%llx", static_cast<unsigned long long>(address));
        const std::string message = where() + " " + attempt + "at " + place + ", which is not mapped memory";
        guarded_buffer = launch_->guarded_memory->nearest(address);
        if (guarded_buffer == nullptr) stop(message);
        stop(message + "; the nearest is '" + guarded_buffer->label + "', of which that would be element " +
             std::to_string(int64_t(address - guarded_buffer->begin) / guarded_buffer->item_bytes));
    }
    const int64_t distance = int64_t(address - guarded_buffer->begin);
    const int64_t size = int64_t(guarded_buffer->bytes), item = guarded_buffer->item_bytes;
    if (distance >= 0 && distance <= size - int64_t(bytes)) {
        if ((how & PK_ANYWHERE) == 0 && address % bytes != 0)
            stop(where() + " " + attempt + "of '" + guarded_buffer->label + "' at byte " +
                 std::to_string(distance) + ", which is not a multiple of that");
        if (is_shared) check_race(*guarded_buffer, address, bytes, how);
        return;
    }
    const int64_t index = distance >= 0 ? distance / item : -((item - 1 - distance) / item);
    stop(where() + " " + attempt + "at '" + guarded_buffer->label + "[" + std::to_string(index) +
         "]', which has " + std::to_string(size / item) + " elements of " + std::to_string(item) + " bytes");
}

// Checks an access of shared memory against those of the block's other threads since the last barrier.
void BlockExecutor::check_race(const GuardedMemory::GuardedBuffer &buffer, uint64_t address, uint64_t bytes,
                               int32_t how) {
    if (alone()) return;
    if ((how & PK_ORDERED) != 0) {
        if ((how & PK_WRITES) != 0) races_.forget(buffer, address, bytes);
        return;
    }
    const uint32_t operations = warps_[size_t(current_ / PK_WARP)].operations;
    const auto race = races_.access(buffer, address, bytes, current_, operations, (how & PK_WRITES) != 0);
    if (race) stop_at(*race);
}

// A write of a value that is there already is no race, which its next action tells.
void BlockExecutor::check_last_write() {
    if (const auto race = races_.last_write()) stop_at(*race);
}

void BlockExecutor::check_barrier() {
    if (const auto race = races_.barrier()) stop_at(*race);
}

void BlockExecutor::stop_at(const RaceDetector::Race &race) {
    const auto &[buffer, address, thread, other, writes, other_writes] = race;
    const auto item = uint64_t(buffer->item_bytes);
    stop("in " + block_name() + ", " + thread_name(thread) + (writes ? " writes '" : " reads '") +
         buffer->label + "[" + std::to_string((address - buffer->begin) / item) + "]', which " +
         thread_name(other) + (other_writes ? " wrote" : " read") +
         " since the last barrier: put __syncthreads() between them");
}

// Asks the operating system whether a page is mapped, once for each page and launch; true if that is unknown.
bool BlockExecutor::is_memory(uint64_t address) {
#if defined(__linux__)
    static const auto bytes = uint64_t(sysconf(_SC_PAGESIZE));
    const uint64_t page = address / bytes;
    uint64_t &last_page = pages_[page % pages_.size()];
    unsigned char resident = 0;
    if (last_page != page && mincore(reinterpret_cast<void *>(page * bytes), 1, &resident) != 0 &&
        errno == ENOMEM)
        return false;
    last_page = page;
#else
    (void)address;
#endif
    return true;
}

void BlockExecutor::check_limit() {
    const std::chrono::milliseconds limit = launch_->block_limit;
    if (!launch_->checked || limit.count() == 0 || Clock::now() - began_ < limit) return;
    stop(where() + " is still running: a block may take " + std::to_string(limit.count()) + " ms");
}

void *BlockExecutor::variable(int32_t index, int64_t bytes, int64_t item, const char *name) {
    if (size_t(index) >= variables_.size()) variables_.resize(size_t(index) + 1);
    void *&memory = variables_[size_t(index)];
    if (memory == nullptr) memory = guarded_memory_->allocate(bytes, item, name);
    return memory;
}

// ---- Messages ----

static std::string triple(int64_t x, int64_t y, int64_t z) {
    return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

std::string BlockExecutor::thread_name(int thread) const {
    const auto *block = launch_->shape.block;
    return "thread " + triple(thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]);
}

std::string BlockExecutor::block_name() const {
    const uint32_t *block = service_context_.context.block_index;
    return "block " + triple(block[0], block[1], block[2]);
}

std::string BlockExecutor::where() const { return "in " + block_name() + ", " + thread_name(current_); }

// Describes the deadlock: one waiting thread of each kind.
std::string BlockExecutor::stuck() const {
    std::string text;
    std::vector<std::pair<State, int32_t>> seen;
    for (int i = 0; i < size_ && seen.size() < 4; ++i) {
        const Thread &thread = threads_[size_t(i)];
        const State state = states_[size_t(i)];
        const std::pair<State, int32_t> kind(state, state == State::DONE ? 0 : thread.line);
        if (state == State::READY || std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
        seen.push_back(kind);
        const std::string line = "line " + std::to_string(thread.line);
        text += (text.empty() ? ": " : "; ") + thread_name(i);
        text += state == State::DONE      ? " has returned"
                : state == State::BARRIER ? " waits at the barrier in " + line
                                          : " waits for lanes of its warp in " + line;
    }
    return "its threads wait for each other in divergent code, in " + block_name() + text;
}

// ---- The functions that kernels call ----

// Runs a service. A failure abandons the kernel's stack; no exception handler is left by switching stacks.
template <class Body>
auto BlockExecutor::serve(pk_context *context, Body &&body) {
    BlockExecutor &worker = *reinterpret_cast<ServiceContext *>(context)->worker;
    if (worker.is_due()) worker.yield_for_callback();
    try {
        if (worker.launch_->checked) worker.check_last_write();
        return body(worker);
    } catch (...) {
        worker.failure_ = std::current_exception();
    }
    worker.cancel_fiber();
}

// Conversions of lambdas to function pointers throw nothing.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const pk_services BlockExecutor::SERVICES = {
    [](pk_context *context, int32_t line, int32_t value) {
        return serve(context, [&](BlockExecutor &worker) { return worker.barrier(line, value); });
    },
    [](pk_context *context, int32_t line, int32_t operation, uint32_t mask, uint64_t value,
       uint64_t *values) {
        return serve(context, [&](BlockExecutor &worker) {
            return worker.exchange(line, operation, mask, value, values);
        });
    },
    [](pk_context *context, int32_t line) {
        return serve(context, [&](BlockExecutor &worker) { return worker.active(line); });
    },
    [](pk_context *context, int32_t spins) {
        serve(context, [&](BlockExecutor &worker) { worker.turn(spins); });
    },
    [](pk_context *context) { serve(context, [](BlockExecutor &worker) { worker.yield(); }); },
    [](pk_context *context, const char *text, int64_t bytes) {
        serve(context, [&](BlockExecutor &worker) { worker.launch_->print_buffer.add(text, bytes); });
    },
    [](pk_context *context, const char *why, int32_t line) {
        serve(context, [&](BlockExecutor &worker) {
            const std::string place = worker.loops_ ? "" : worker.where() + " ";
            worker.stop(place + why + " in line " + std::to_string(line));
        });
    },
    [](pk_context *context, uint64_t address, uint64_t bytes, int32_t how) {
        serve(context, [&](BlockExecutor &worker) { worker.access(address, bytes, how); });
    },
    [](pk_context *context) { serve(context, [](BlockExecutor &worker) { worker.yield_for_callback(); }); },
    [](pk_context *context, int32_t index, int64_t bytes, int64_t item, const char *name) {
        return serve(context,
                     [&](BlockExecutor &worker) { return worker.variable(index, bytes, item, name); });
    },
};

}  // namespace pk::kernels
