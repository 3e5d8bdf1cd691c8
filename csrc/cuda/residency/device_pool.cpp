// A pool of device memory with a budget and free lists by size; freed buffers are reused in stream order.
#include "device_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "common/call/environment.h"
#include "common/call/status.h"

namespace pk::plan {

namespace {

// The pool of one device.
struct Pool {
    // A buffer that no scope uses, and the point in a stream after which it is idle.
    struct FreeBuffer {
        DeviceMemory memory;
        FreeMarker free_marker;
    };
    std::multimap<int64_t, FreeBuffer> free_buffers;  // by bytes
    int64_t bytes = 0;                                // of all buffers, free or in use
    int64_t budget = 0;                               // 0: not determined yet

    void release() {
        while (!free_buffers.empty()) drop(std::prev(free_buffers.end()));
    }

    void drop(std::multimap<int64_t, FreeBuffer>::iterator block) {
        block->second.free_marker.synchronize();
        bytes -= block->first;
        free_buffers.erase(block);
    }

    // Find a free buffer of that size that needs no waiting: preferably an idle one, else one that was freed
    // in the current stream.
    std::multimap<int64_t, FreeBuffer>::iterator find(int64_t size) {
        const auto [first, end] = free_buffers.equal_range(size);
        const auto ready =
            std::find_if(first, end, [](auto &one) { return one.second.free_marker.is_ready(); });
        if (ready != end) return ready;
        const auto same_stream =
            std::find_if(first, end, [](auto &one) { return one.second.free_marker.is_same_stream(); });
        return same_stream != end ? same_stream : free_buffers.end();
    }

    // Free buffers, the largest first, until so many bytes fit in the budget. Return whether they do.
    bool evict(int64_t bytes_needed) {
        while (bytes + bytes_needed > budget && !free_buffers.empty()) {
            drop(std::prev(free_buffers.end()));
        }
        return bytes + bytes_needed <= budget;
    }
};

// The pools of all devices.
struct Pools {
    std::mutex mutex;
    std::map<int, Pool> of;  // by device; guarded by the mutex
};

// Never destroyed: at the process's exit the driver may be gone before it.
Pools &pools() {
    static Pools *const pools = new Pools;
    return *pools;
}

// Return PYCUDAKIT_PLAN_MEMORY, or -1 if it is not set.
int64_t requested_budget() {
    static const int64_t bytes = integer_from_environment("PYCUDAKIT_PLAN_MEMORY", "bytes", -1, 0);
    return bytes;
}

// Return half of the current device's free memory.
int64_t default_budget() {
    size_t free = 0, total = 0;
    PK_CUDA(cudaMemGetInfo(&free, &total));
    return int64_t(free / 2);
}

// Determine the budget of the current device's pool on first use.
Pool &with_budget(Pool &pool) {
    if (pool.budget == 0) pool.budget = requested_budget() >= 0 ? requested_budget() : default_budget();
    return pool;
}

// Round up to a size class; neighbouring classes differ by an eighth at most, as those of pinned arrays.
int64_t rounded(int64_t bytes) {
    int64_t step = 4096;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
}

// Allocate device memory; null if the device is out of memory.
DeviceMemory allocated(int64_t bytes) {
    try {
        return allocate_device(bytes);
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
    }
    return DeviceMemory();
}

}  // namespace

PooledBuffer::PooledBuffer(int device, int64_t bytes) : device_(device) {
    require_cuda();
    StreamScope::refuse_capture();
    const CurrentDevice current(device);
    const int64_t size = rounded(bytes);
    std::unique_lock<std::mutex> lock(pools().mutex);
    Pool &from = pools().of[device];
    const auto reused = from.find(size);
    if (reused != from.free_buffers.end()) {
        memory_ = std::move(reused->second.memory);
        free_marker_ = std::move(reused->second.free_marker);
        bytes_ = size;
        from.free_buffers.erase(reused);
        lock.unlock();
        free_marker_.wait_on_stream(device);
        return;
    }
    if (!with_budget(from).evict(size)) return;
    memory_ = allocated(size);
    if (memory_.get() == nullptr && !from.free_buffers.empty()) {
        from.release();
        memory_ = allocated(size);
    }
    if (memory_.get() == nullptr) return;
    bytes_ = size;
    from.bytes += size;
}

PooledBuffer::~PooledBuffer() {
    if (bytes_ == 0) return;
    free_marker_.record(device_);
    const std::lock_guard<std::mutex> lock(pools().mutex);
    pools().of[device_].free_buffers.emplace(bytes_,
                                             Pool::FreeBuffer{std::move(memory_), std::move(free_marker_)});
}

void PooledBuffer::leak() {
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
    if (requested_budget() >= 0) memory.plan_budget = requested_budget();
}

void release_memory() {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    for (auto &of_device : pools().of) of_device.second.release();
}

}  // namespace pk::plan
