#include "stream_memory.h"

#include <mutex>
#include <unordered_map>

#include "common/call/status.h"

namespace pk {

// The device of an array, which is that of those before it, if there are any.
static int device_of(const void *array, int before) {
    if (before < 0) require_cuda();
    cudaPointerAttributes attributes{};
    PK_CUDA(cudaPointerGetAttributes(&attributes, array));
    require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
            "an array is not in memory of a device, or has been freed");
    require(before < 0 || attributes.device == before, "the arrays lie on several GPUs");
    return attributes.device;
}

int device_of(const Layout &layout) {
    int device = -1;
    for (const View &view : layout.views) {
        if (view.on_device) device = device_of(view.base, device);
    }
    return device;
}

int device_of(std::initializer_list<const void *> arrays) {
    int device = -1;
    for (const void *array : arrays) device = device_of(array, device);
    return device;
}

Queued::Queued(int device, const Call &call)
    : Line(device, reinterpret_cast<cudaStream_t>(call.options().stream)),
      waits_(call.options().waits != 0),
      current_(device) {
    require(call.options().rest == 0, "options.rest is for arrays on the host");
    arm_faults();
}

void Queued::end() const {
    if (waits_) PK_CUDA(cudaStreamSynchronize(stream));
}

namespace {

constexpr int64_t MOST_QUEUED = 64 << 20;  // bytes of a call; and what is kept for the next ones

struct Pools {
    std::mutex mutex;
    std::unordered_map<int, cudaMemPool_t> of_devices;  // null: it has none
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
    uint64_t kept = MOST_QUEUED;
    PK_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
    return pool;
}

cudaMemPool_t pool_of(int device) {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    const auto known = pools().of_devices.find(device);
    if (known != pools().of_devices.end()) return known->second;
    return pools().of_devices[device] = new_pool(device);
}

}  // namespace

QueuedMemory::QueuedMemory(const Line &line, int64_t bytes) : stream_(line.stream) {
    const cudaMemPool_t pool = bytes <= MOST_QUEUED ? pool_of(line.device) : nullptr;
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

QueuedMemory::~QueuedMemory() {
    // A failure follows one that was reported.
    if (memory_ != nullptr) (void)cudaFreeAsync(memory_, stream_);
}

void release_queued_memory() {
    const std::lock_guard<std::mutex> lock(pools().mutex);
    for (const auto &[device, pool] : pools().of_devices) {
        if (pool != nullptr) PK_CUDA(cudaMemPoolTrimTo(pool, 0));
    }
}

char *unread_notes() {
    int device = 0;
    PK_CUDA(cudaGetDevice(&device));
    static std::mutex mutex;
    // Never destroyed: at the process's exit the driver may be gone before it.
    static auto *const notes = new std::unordered_map<int, DeviceMemory>;
    const std::lock_guard<std::mutex> lock(mutex);
    DeviceMemory &found = (*notes)[device];
    if (found.get() == nullptr) found = device_memory(UNREAD_NOTES);
    return static_cast<char *>(found.get());
}

}  // namespace pk
