// A pool of pinned host memory for the caller's arrays, with free lists by size.
#include "pinned_memory.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/device.h"
#include "common/rounding.h"
#include "cuda.h"
#include "driver_entry.h"

namespace pk {

namespace {

// Pinned arrays: those in use by the caller, and the free ones.
struct Pool {
    std::mutex mutex;
    std::unordered_map<uint64_t, PinnedMemory> taken;  // by address
    std::multimap<int64_t, PinnedMemory> free;         // by bytes
    pid_t owner = getpid();                            // a forked child must not free pinned memory
};

// Never destroyed: at the process's exit the driver may be gone before it.
Pool &pool() {
    static Pool *const pool = new Pool;
    return *pool;
}

// Allocate pinned memory; if that fails, free the pool's free arrays and try again.
PinnedMemory take(int64_t bytes) {
    try {
        return PinnedMemory(bytes, true);
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
    }
    release_pinned_arrays();
    return PinnedMemory(bytes, true);
}

}  // namespace

bool is_pinned(const void *memory, int64_t bytes) {
    constexpr int64_t MIN_BYTES = 256 << 10;
    if (bytes < MIN_BYTES) return false;
    cudaPointerAttributes attributes{};
    PK_CUDA(cudaPointerGetAttributes(&attributes, memory));
    if (attributes.type != cudaMemoryTypeHost) return false;
    // The runtime tells of one byte; the driver gives the allocation's range.
    using GetAttribute = CUresult (*)(void *, CUpointer_attribute, CUdeviceptr);
    static const auto get = driver_entry<GetAttribute>("cuPointerGetAttribute");
    const auto address = reinterpret_cast<CUdeviceptr>(attributes.devicePointer);
    CUdeviceptr start = 0;
    size_t size = 0;
    return get(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) == CUDA_SUCCESS &&
           get(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) == CUDA_SUCCESS &&
           address + size_t(bytes) <= start + size;
}

void add_pinned_arrays(pk_memory &memory) {
    Pool &from = pool();
    const std::lock_guard<std::mutex> lock(from.mutex);
    for (const auto &block : from.taken) memory.arrays_bytes += block.second.bytes();
    for (const auto &block : from.free) memory.arrays_kept += block.second.bytes();
}

void release_pinned_arrays() {
    Pool &from = pool();
    std::multimap<int64_t, PinnedMemory> released;
    const std::lock_guard<std::mutex> lock(from.mutex);
    released.swap(from.free);
}

uint64_t take_pinned_array(int64_t bytes) {
    require_cuda();
    const int64_t size = size_class(bytes);
    Pool &from = pool();
    PinnedMemory memory;
    {
        const std::lock_guard<std::mutex> lock(from.mutex);
        const auto reused = from.free.find(size);
        if (reused != from.free.end()) {
            memory = std::move(reused->second);
            from.free.erase(reused);
        }
    }
    if (memory.get() == nullptr) memory = take(size);
    const std::lock_guard<std::mutex> lock(from.mutex);
    const auto address = reinterpret_cast<uint64_t>(memory.get());
    from.taken[address] = std::move(memory);
    return address;
}

void return_pinned_array(uint64_t address) {
    Pool &to = pool();
    if (to.owner != getpid()) return;
    const std::lock_guard<std::mutex> lock(to.mutex);
    const auto taken = to.taken.find(address);
    require_taken(taken != to.taken.end());
    const int64_t size = taken->second.bytes();
    to.free.emplace(size, std::move(taken->second));
    to.taken.erase(taken);
}

}  // namespace pk
