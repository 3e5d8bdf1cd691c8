// Allocations in pooled memory; freed in the legacy default stream.
#include "allocations.h"

#include <map>
#include <mutex>
#include <utility>

#include "common/rounding.h"
#include "cuda/runtime/cuda.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/driver_entry.h"
#include "own_streams.h"

namespace pk::device_memory {

namespace {

// Memory of a device: of its pool, or managed memory of its own. It is allocated and freed in the order of
// the legacy default stream; the device is current.
class Block {
   public:
    Block(int device, int64_t bytes, bool is_managed) {
        if (is_managed) {
            void *memory = nullptr;
            PK_CUDA(cudaMallocManaged(&memory, size_t(bytes)));
            managed_ = DeviceMemory(memory);
        } else {
            pooled_ = DevicePool::of(device).allocate(bytes, cudaStreamLegacy, Account::program);
        }
    }
    ~Block() { pooled_.free(cudaStreamLegacy); }
    Block(Block &&) = default;
    Block &operator=(Block &&) = delete;

    uint64_t address() const {
        return reinterpret_cast<uint64_t>(is_pooled() ? pooled_.d_memory() : managed_.get());
    }
    bool is_pooled() const { return pooled_.d_memory() != nullptr; }

   private:
    DeviceBuffer pooled_;
    DeviceMemory managed_;
};

struct Allocation {
    int device;
    int64_t bytes;
    Block block;
};

// A freed range of the pool, and CUDA's number of the buffer that it was in.
struct FreedRange {
    int64_t bytes;
    uint64_t buffer;
};

struct Table {
    std::mutex mutex;
    std::map<uint64_t, Allocation> live;
    std::map<uint64_t, FreedRange> freed;
};

constexpr size_t MAX_FREED_RANGES = 1 << 16;

// Never destroyed: memory is freed until the process ends, when the driver may be gone.
Table &table() {
    static auto *const table = new Table;
    return *table;
}

CUresult pointer_attribute(void *value, CUpointer_attribute attribute, uint64_t address) {
    using GetAttribute = CUresult (*)(void *, CUpointer_attribute, CUdeviceptr);
    static const auto get = driver_entry<GetAttribute>("cuPointerGetAttribute");
    return get(value, attribute, CUdeviceptr(address));
}

// Return CUDA's number of the buffer at an address, which no other buffer of the process has or gets; 0 if
// there is none.
uint64_t buffer_at(uint64_t address) {
    unsigned long long number = 0;
    return pointer_attribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) == CUDA_SUCCESS ? number : 0;
}

template <class Map>
auto containing(Map &map, uint64_t address) {
    auto next = map.upper_bound(address);
    if (next == map.begin()) return map.end();
    --next;
    return address - next->first < uint64_t(next->second.bytes) ? next : map.end();
}

}  // namespace

uint64_t allocate(int device, int64_t bytes, int32_t flags) {
    const CurrentDevice current(device);
    const bool is_managed = (flags & PK_MEMORY_MANAGED) != 0;
    Allocation allocation{device, bytes, Block(device, bytes, is_managed)};
    const uint64_t address = allocation.block.address();
    if ((flags & PK_MEMORY_ZEROS) != 0)
        PK_CUDA(cudaMemsetAsync(reinterpret_cast<void *>(address), 0, size_t(bytes), cudaStreamLegacy));
    // The host may access managed memory at once.
    if (is_managed) PK_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
    streams::make_non_blocking_streams_wait(device);
    const std::lock_guard<std::mutex> lock(table().mutex);
    table().freed.erase(address);
    table().live.emplace(address, std::move(allocation));
    return address;
}

void free(uint64_t address) {
    std::map<uint64_t, Allocation>::node_type removed;  // destroyed last, without the lock
    const std::lock_guard<std::mutex> lock(table().mutex);
    const auto found = table().live.find(address);
    if (found == table().live.end()) fail_unknown("a free", address);
    const int device = found->second.device;
    // After a failure that makes CUDA unusable the memory cannot be freed.
    require_cuda();
    const CurrentDevice current(device);
    streams::wait_for_non_blocking_streams(device);
    if (found->second.block.is_pooled()) {
        if (table().freed.size() > MAX_FREED_RANGES) table().freed.clear();
        table().freed[address] = {found->second.bytes, buffer_at(address)};
    }
    removed = table().live.extract(found);
}

std::optional<Found> find(const char *operation, uint64_t address) {
    const std::lock_guard<std::mutex> lock(table().mutex);
    // Also the rest of a block, which belongs to no allocation: the caller's range is then beyond the end.
    auto live = table().live.upper_bound(address);
    if (live != table().live.begin()) {
        --live;
        const auto &[begin, allocation] = *live;
        if (address - begin < uint64_t(size_class(allocation.bytes)))
            return Found{{begin, allocation.bytes}, allocation.device};
    }
    const auto freed = containing(table().freed, address);
    if (freed == table().freed.end()) return std::nullopt;
    if (freed->second.buffer != 0 && buffer_at(address) == freed->second.buffer)
        fail_unknown(operation, address);
    table().freed.erase(freed);  // the pool has given it back to CUDA
    return std::nullopt;
}

Found find_any(uint64_t address) {
    const auto found = find("an address", address);
    if (found && address < found->range.end()) return *found;
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    int device = 0;
    if (pointer_attribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS ||
        pointer_attribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS ||
        pointer_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) != CUDA_SUCCESS)
        fail_unknown("an address", address);
    return {{uint64_t(begin), int64_t(bytes)}, device};
}

}  // namespace pk::device_memory
