#include "device_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "common/call/environment.h"
#include "common/call/status.h"

namespace pk::plan {

namespace {

// Of one device.
struct Pool {
    struct Kept {
        DeviceMemory memory;
        GivenBack given_back;
    };
    std::multimap<int64_t, Kept> kept;  // by bytes
    int64_t bytes = 0;                  // of all that there is, lent or not
    int64_t budget = 0;                 // 0: not known yet

    void release() {
        while (!kept.empty()) drop(std::prev(kept.end()));
    }

    void drop(std::multimap<int64_t, Kept>::iterator block) {
        block->second.given_back.wait();
        bytes -= block->first;
        kept.erase(block);
    }

    // One of that size for which nobody waits: rather one that nobody is at work on any more.
    std::multimap<int64_t, Kept>::iterator find(int64_t size) {
        const auto [first, end] = kept.equal_range(size);
        const auto rested =
            std::find_if(first, end, [](auto &one) { return one.second.given_back.is_over(); });
        if (rested != end) return rested;
        const auto own =
            std::find_if(first, end, [](auto &one) { return one.second.given_back.is_in_line(); });
        return own != end ? own : kept.end();
    }

    // The largest first, so that few go.
    bool make_room(int64_t wanted) {
        while (bytes + wanted > budget && !kept.empty()) {
            drop(std::prev(kept.end()));
        }
        return bytes + wanted <= budget;
    }
};

struct Pools {
    std::mutex mutex;
    std::map<int, Pool> of;  // by device; for whom the mutex is held
};

// Never destroyed: at the process's exit the driver may be gone before it.
Pools &pools() {
    static Pools *const pools = new Pools;
    return *pools;
}

// -1: not set.
int64_t budget_asked_for() {
    static const int64_t bytes = from_environment("PYCUDAKIT_PLAN_MEMORY", "bytes", -1, 0);
    return bytes;
}

// For the current device.
int64_t usual_budget() {
    size_t free = 0, total = 0;
    PK_CUDA(cudaMemGetInfo(&free, &total));
    return int64_t(free / 2);
}

// Of the current device, whose memory is known from then on.
Pool &with_budget(Pool &pool) {
    if (pool.budget == 0) pool.budget = budget_asked_for() >= 0 ? budget_asked_for() : usual_budget();
    return pool;
}

// As those of pinned arrays: sizes of which two neighbours differ by an eighth at most.
int64_t rounded(int64_t bytes) {
    int64_t step = 4096;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

// None if the device has not that much.
DeviceMemory allocated(int64_t bytes) {
    try {
        return device_memory(bytes);
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
    }
    return DeviceMemory();
}

}  // namespace

Memory::Memory(int device, int64_t bytes) : device_(device) {
    require_cuda();
    Line::refuse_capture();
    const CurrentDevice current(device);
    const int64_t size = rounded(bytes);
    std::unique_lock<std::mutex> lock(pools().mutex);
    Pool &from = pools().of[device];
    const auto kept = from.find(size);
    if (kept != from.kept.end()) {
        memory_ = std::move(kept->second.memory);
        given_back_ = std::move(kept->second.given_back);
        bytes_ = size;
        from.kept.erase(kept);
        lock.unlock();
        given_back_.follow(device);
        return;
    }
    if (!with_budget(from).make_room(size)) return;
    memory_ = allocated(size);
    if (memory_.get() == nullptr && !from.kept.empty()) {
        from.release();
        memory_ = allocated(size);
    }
    if (memory_.get() == nullptr) return;
    bytes_ = size;
    from.bytes += size;
}

Memory::~Memory() {
    if (bytes_ == 0) return;
    given_back_.note(device_);
    const std::lock_guard<std::mutex> lock(pools().mutex);
    pools().of[device_].kept.emplace(bytes_, Pool::Kept{std::move(memory_), std::move(given_back_)});
}

void Memory::abandon() {
    if (bytes_ == 0) return;
    (void)new DeviceMemory(std::move(memory_));
    bytes_ = 0;
}

int64_t budget_of(int device) {
    require_cuda();
    const CurrentDevice current(device);
    const std::lock_guard<std::mutex> lock(pools().mutex);
    return with_budget(pools().of[device]).budget;
}

void add_memory(pk_memory &memory) {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    for (const auto &[device, pool] : pools().of) {
        memory.plan_bytes += pool.bytes;
        if (device == 0) memory.plan_budget = pool.budget;
    }
    if (budget_asked_for() >= 0) memory.plan_budget = budget_asked_for();
}

void release_memory() {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    for (auto &of_device : pools().of) of_device.second.release();
}

}  // namespace pk::plan
