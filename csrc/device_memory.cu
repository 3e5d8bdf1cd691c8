// Entry points of device memory that outlives a call.
#include "common/device_memory.h"

#include <algorithm>
#include <vector>

#include "common/call/call.h"
#include "common/device.h"
#include "cuda/objects/allocations.h"
#include "cuda/objects/launched_kernels.h"
#include "cuda/objects/own_streams.h"
#include "cuda/pipeline/staged_copy.h"
#include "cuda/runtime/cuda.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/driver_entry.h"
#include "cuda/runtime/pinned_memory.h"

namespace pk::device_memory {

namespace {

// Ordinary host memory of so many bytes is copied through pinned memory by several threads.
constexpr int64_t MIN_STAGED_BYTES = int64_t(1) << 20;
// A synchronous copy of up to so many bytes to a device returns once CUDA has taken them from ordinary
// memory.
constexpr int64_t MAX_BUFFERED_BYTES = 64 << 10;

// Throw if an end of a copy or a fill is beyond its allocation. Memory of other libraries is the driver's
// to check.
void require_inside(const char *operation, const Extent &extent) {
    if (extent.is_empty()) return;
    const Range range = extent.range();
    const auto found = find(operation, range.begin);
    if (found && range.end() > found->range.end()) fail_outside(operation, range, found->range);
}

cudaMemcpyKind kind_of(const Copy &copy) {
    if (copy.from_device) return copy.to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
    return copy.to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

cudaPitchedPtr pitched(const Extent &extent) {
    return make_cudaPitchedPtr(reinterpret_cast<void *>(extent.address), size_t(extent.pitch),
                               size_t(extent.width), size_t(extent.height));
}

bool is_dense(const Copy &copy) { return copy.source.is_dense() && copy.destination.is_dense(); }

bool is_over_link(const Copy &copy) { return copy.from_device != copy.to_device; }

void *destination_of(const Copy &copy) { return reinterpret_cast<void *>(copy.destination.address); }
const void *source_of(const Copy &copy) { return reinterpret_cast<const void *>(copy.source.address); }

// Return true if a synchronous copy waits for all earlier work.
bool waits(const Copy &copy) {
    const bool is_upload = copy.to_device && is_over_link(copy);
    return !copy.source.is_empty() &&
           !(is_upload && is_dense(copy) && copy.source.bytes() <= MAX_BUFFERED_BYTES);
}

void enqueue(const Copy &copy, cudaStream_t stream) {
    if (is_dense(copy)) {
        PK_CUDA(cudaMemcpyAsync(destination_of(copy), source_of(copy), size_t(copy.source.bytes()),
                                kind_of(copy), stream));
        return;
    }
    cudaMemcpy3DParms parameters{};
    parameters.srcPtr = pitched(copy.source);
    parameters.dstPtr = pitched(copy.destination);
    parameters.extent =
        make_cudaExtent(size_t(copy.source.width), size_t(copy.source.rows), size_t(copy.source.layers));
    parameters.kind = kind_of(copy);
    PK_CUDA(cudaMemcpy3DAsync(&parameters, stream));
}

// Return true if the copy is between a device and ordinary host memory, and worth several threads.
bool is_staged(const Copy &copy) {
    const Extent &host = copy.to_device ? copy.source : copy.destination;
    return is_over_link(copy) && is_dense(copy) && host.bytes() >= MIN_STAGED_BYTES &&
           !is_pinned(reinterpret_cast<const void *>(host.address), host.bytes());
}

// Copy after the work that the stream holds, and wait: the threads have streams of their own.
void copy_staged(const Copy &copy, int device, cudaStream_t stream) {
    const Event arrived = make_event();
    PK_CUDA(cudaEventRecord(arrived.get(), stream));
    PK_CUDA(cudaEventSynchronize(arrived.get()));
    pk_report report{};
    Call call(nullptr, &report);
    call.begin(1);
    StagedCopy staged(call, device, copy.to_device ? StagedCopy::up : StagedCopy::down);
    const uint64_t host = copy.to_device ? copy.source.address : copy.destination.address;
    const uint64_t d_memory = copy.to_device ? copy.destination.address : copy.source.address;
    staged.add(reinterpret_cast<char *>(host), reinterpret_cast<char *>(d_memory), copy.source.bytes());
    staged.run();
    call.end();
}

void copy_all(const std::vector<Copy> &copies, int device, cudaStream_t stream, bool is_synchronous) {
    bool is_pending = false;
    for (const Copy &copy : copies) {
        if (copy.source.is_empty()) continue;
        if (is_staged(copy)) {
            copy_staged(copy, device, stream);
        } else if (is_synchronous && stream == cudaStreamLegacy && is_dense(copy) && is_over_link(copy)) {
            PK_CUDA(cudaMemcpy(destination_of(copy), source_of(copy), size_t(copy.source.bytes()),
                               kind_of(copy)));  // faster than to enqueue and to wait
        } else {
            enqueue(copy, stream);
            is_pending = true;
        }
    }
    if (is_synchronous && is_pending) PK_CUDA(cudaStreamSynchronize(stream));
}

// Fill by the driver: the runtime fills bytes only.
void enqueue(const Fill &fill, cudaStream_t stream) {
    using Fill8 = CUresult (*)(CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream);
    using Fill16 = CUresult (*)(CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream);
    using Fill32 = CUresult (*)(CUdeviceptr, size_t, unsigned int, size_t, size_t, CUstream);
    static const auto fill8 = driver_entry<Fill8>("cuMemsetD2D8Async");
    static const auto fill16 = driver_entry<Fill16>("cuMemsetD2D16Async");
    static const auto fill32 = driver_entry<Fill32>("cuMemsetD2D32Async");
    const auto pitch = size_t(fill.extent.pitch), width = size_t(fill.extent.width / fill.item_bytes);
    const auto rows = size_t(fill.extent.rows);
    const CUdeviceptr address = fill.extent.address;
    if (fill.item_bytes == 1)
        check_driver(fill8(address, pitch, uint8_t(fill.value), width, rows, stream), "cuMemsetD2D8Async");
    if (fill.item_bytes == 2)
        check_driver(fill16(address, pitch, uint16_t(fill.value), width, rows, stream), "cuMemsetD2D16Async");
    if (fill.item_bytes == 4)
        check_driver(fill32(address, pitch, fill.value, width, rows, stream), "cuMemsetD2D32Async");
}

}  // namespace

}  // namespace pk::device_memory

using namespace pk::device_memory;

extern "C" int32_t pk_device_memory_allocate(int64_t device, int64_t bytes, int32_t flags,
                                             uint64_t *address) {
    return pk::guarded([&] {
        require_allocation(bytes, flags, address);
        pk::streams::require_device(device);
        *address = allocate(int(device), bytes, flags);
    });
}

extern "C" int32_t pk_device_memory_free(uint64_t address) {
    return pk::guarded([&] { pk::device_memory::free(address); });
}

extern "C" int32_t pk_device_memory_find(uint64_t address, uint64_t *begin, int64_t *bytes, int64_t *device) {
    return pk::guarded([&] {
        pk::require(begin != nullptr && bytes != nullptr && device != nullptr,
                    "begin, bytes or device is a null pointer");
        pk::require_cuda();
        const Found found = find_any(address);
        *begin = found.range.begin;
        *bytes = found.range.bytes;
        *device = found.device;
    });
}

extern "C" int32_t pk_device_memory_info(int64_t device, int64_t *free_bytes, int64_t *bytes) {
    return pk::guarded([&] {
        pk::require(free_bytes != nullptr && bytes != nullptr, "free_bytes or bytes is a null pointer");
        pk::streams::require_device(device);
        const pk::CurrentDevice current{int(device)};
        size_t free = 0, total = 0;
        PK_CUDA(cudaMemGetInfo(&free, &total));
        *free_bytes = int64_t(free) + pk::DevicePool::of(int(device)).unused_bytes();
        *bytes = int64_t(total);
    });
}

extern "C" int32_t pk_device_memory_copy(const pk_copy *copies, int64_t count, int64_t device,
                                         uint64_t stream, int64_t synchronous) {
    return pk::guarded([&] {
        require_copies(copies, count);
        pk::streams::require_device(device);
        const std::vector<Copy> checked(copies, copies + count);
        for (const Copy &copy : checked) {
            if (copy.to_device) require_inside("a copy", copy.destination);
            if (copy.from_device) require_inside("a copy", copy.source);
        }
        const pk::CurrentDevice current{int(device)};
        const bool waits_for_all =
            synchronous != 0 && stream <= 1 && std::any_of(checked.begin(), checked.end(), waits);
        pk::kernels::synchronizing(waits_for_all, [&] {
            copy_all(checked, int(device), pk::streams::cuda_stream(stream), synchronous != 0);
        });
    });
}

extern "C" int32_t pk_device_memory_fill(uint64_t address, int64_t pitch, uint32_t value, int64_t item_bytes,
                                         int64_t width, int64_t rows, int64_t device, uint64_t stream) {
    return pk::guarded([&] {
        const Fill checked(address, pitch, value, item_bytes, width, rows);
        pk::streams::require_device(device);
        require_inside("a fill", checked.extent);
        if (checked.extent.is_empty()) return;
        const pk::CurrentDevice current{int(device)};
        enqueue(checked, pk::streams::cuda_stream(stream));
    });
}

extern "C" int32_t pk_host_memory_register(uint64_t address, int64_t bytes) {
    return pk::guarded([&] {
        pk::require(address != 0 && bytes > 0, "the memory has no address or no bytes");
        pk::require_cuda();
        PK_CUDA(cudaHostRegister(reinterpret_cast<void *>(address), size_t(bytes),
                                 cudaHostRegisterPortable | cudaHostRegisterMapped));
    });
}

extern "C" int32_t pk_host_memory_unregister(uint64_t address) {
    return pk::guarded([&] {
        pk::require_cuda();
        PK_CUDA(cudaHostUnregister(reinterpret_cast<void *>(address)));
    });
}

extern "C" int32_t pk_device_attribute(int64_t device, int32_t attribute, int64_t *value) {
    return pk::guarded([&] {
        pk::require(value != nullptr, "value is a null pointer");
        pk::streams::require_device(device);
        int number = 0;
        const cudaError_t error = cudaDeviceGetAttribute(&number, cudaDeviceAttr(attribute), int(device));
        if (error == cudaErrorInvalidValue) {
            (void)cudaGetLastError();
            pk::fail(PK_INVALID_ARGUMENT, "a device has no attribute " + std::to_string(attribute));
        }
        PK_CUDA(error);
        *value = number;
    });
}
