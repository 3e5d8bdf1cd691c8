// Stream-ordered temporary storage of asynchronous calls.
#include "stream_memory.h"

#include <mutex>
#include <unordered_map>

#include "common/call/status.h"

namespace pk {

namespace {

// The most that one call may take from a pool, and the pool's release threshold.
constexpr int64_t MAX_STREAM_ORDERED_BYTES = 64 << 20;

// The CUDA memory pool of each device.
struct Pools {
    std::mutex mutex;
    std::unordered_map<int, cudaMemPool_t> of_devices;  // null: the device supports none
};

// Never destroyed: at the process's exit the driver may be gone before it.
Pools &pools() {
    static auto *const pools = new Pools;
    return *pools;
}

cudaMemPool_t new_pool(int device) {
    int has_pools = 0;
    PK_CUDA(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device));
    if (has_pools == 0) return nullptr;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypeNone;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    cudaMemPool_t pool = nullptr;
    PK_CUDA(cudaMemPoolCreate(&pool, &properties));
    uint64_t release_threshold = MAX_STREAM_ORDERED_BYTES;
    PK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &release_threshold));
    return pool;
}

cudaMemPool_t pool_of(int device) {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    const auto existing = pools().of_devices.find(device);
    if (existing != pools().of_devices.end()) return existing->second;
    return pools().of_devices[device] = new_pool(device);
}

}  // namespace

StreamOrderedMemory::StreamOrderedMemory(const StreamScope &stream_scope, int64_t bytes)
    : stream_(stream_scope.stream) {
    const cudaMemPool_t pool = bytes <= MAX_STREAM_ORDERED_BYTES ? pool_of(stream_scope.device) : nullptr;
    if (pool == nullptr) return;
    void *memory = nullptr;
    const cudaError_t state = cudaMallocFromPoolAsync(&memory, size_t(bytes), pool, stream_);
    if (state == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return;
    }
    check_cuda(state, "cudaMallocFromPoolAsync", __FILE__, __LINE__);
    memory_ = static_cast<char *>(memory);
}

StreamOrderedMemory::~StreamOrderedMemory() {
    // An error here follows one that was already reported.
    if (memory_ != nullptr) (void)cudaFreeAsync(memory_, stream_);
}

void release_stream_memory() {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    for (const auto &[device, pool] : pools().of_devices) {
        if (pool != nullptr) PK_CUDA(cudaMemPoolTrimTo(pool, 0));
    }
}

char *status_sink() {
    int device = 0;
    PK_CUDA(cudaGetDevice(&device));
    static std::mutex mutex;
    // Never destroyed: at the process's exit the driver may be gone before it.
    static auto *const sinks = new std::unordered_map<int, DeviceMemory>;
    const std::lock_guard<std::mutex> lock(mutex);
    DeviceMemory &sink = (*sinks)[device];
    if (sink.get() == nullptr) sink = allocate_device(STATUS_SINK_BYTES);
    return static_cast<char *>(sink.get());
}

}  // namespace pk
