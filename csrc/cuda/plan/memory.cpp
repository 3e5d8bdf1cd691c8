#include "memory.h"

#include <map>
#include <mutex>

#include "common/call/environment.h"
#include "common/call/status.h"

namespace pk::plan {

namespace {

// Of one device.
struct Pool {
    std::multimap<int64_t, DeviceMemory> kept;  // by bytes
    int64_t bytes = 0;                          // of all that there is, lent or not
    int64_t budget = 0;                         // 0: not known yet

    void release() {
        for (const auto &block : kept) bytes -= block.first;
        kept.clear();
    }

    // The largest first, so that few go.
    bool make_room(int64_t wanted) {
        while (bytes + wanted > budget && !kept.empty()) {
            bytes -= kept.rbegin()->first;
            kept.erase(std::prev(kept.end()));
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
    const CurrentDevice current(device);
    const int64_t size = rounded(bytes);
    const std::lock_guard<std::mutex> lock(pools().mutex);
    Pool &from = pools().of[device];
    const auto kept = from.kept.find(size);
    if (kept != from.kept.end()) {
        memory_ = std::move(kept->second);
        bytes_ = size;
        from.kept.erase(kept);
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
    const std::lock_guard<std::mutex> lock(pools().mutex);
    pools().of[device_].kept.emplace(bytes_, std::move(memory_));
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
