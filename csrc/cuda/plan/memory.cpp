#include "memory.h"

#include <map>
#include <mutex>

#include "common/call/environment.h"
#include "common/call/status.h"

namespace pk::plan {

namespace {

struct Pool {
    std::mutex mutex;
    std::multimap<int64_t, DeviceMemory> kept;  // by bytes
    int64_t bytes = 0;                          // of all that there is, lent or not
    int64_t budget = 0;                         // 0: not known yet

    // For the callers of these the mutex is held.

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

// Never destroyed: at the process's exit the driver may be gone before it.
Pool &pool() {
    static Pool *const pool = new Pool;
    return *pool;
}

// -1: not set.
int64_t budget_asked_for() {
    static const int64_t bytes = from_environment("PYCUDAKIT_PLAN_MEMORY", "bytes", -1, 0);
    return bytes;
}

int64_t usual_budget() {
    size_t free = 0, total = 0;
    PK_CUDA(cudaMemGetInfo(&free, &total));
    return int64_t(free / 2);
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

Memory::Memory(int64_t bytes) {
    require_cuda();
    const CurrentDevice current(0);
    const int64_t size = rounded(bytes);
    Pool &from = pool();
    const std::lock_guard<std::mutex> lock(from.mutex);
    const auto kept = from.kept.find(size);
    if (kept != from.kept.end()) {
        memory_ = std::move(kept->second);
        bytes_ = size;
        from.kept.erase(kept);
        return;
    }
    if (from.budget == 0) from.budget = budget_asked_for() >= 0 ? budget_asked_for() : usual_budget();
    if (!from.make_room(size)) return;
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
    Pool &to = pool();
    const std::lock_guard<std::mutex> lock(to.mutex);
    to.kept.emplace(bytes_, std::move(memory_));
}

void Memory::abandon() {
    if (bytes_ == 0) return;
    (void)new DeviceMemory(std::move(memory_));
    bytes_ = 0;
}

void add_memory(pk_memory &memory) {
    Pool &of = pool();
    const std::lock_guard<std::mutex> lock(of.mutex);
    memory.plan_bytes = of.bytes;
    memory.plan_budget = budget_asked_for() >= 0 ? budget_asked_for() : of.budget;
}

void release_memory() {
    Pool &from = pool();
    const std::lock_guard<std::mutex> lock(from.mutex);
    from.release();
}

}  // namespace pk::plan
