#include <cstdio>

#include "common/call/result_memory.h"
#include "common/call/status.h"
#include "cuda/kernels/release.h"
#include "cuda/stream/link.h"
#include "cuda/stream/pinned.h"
#include "cuda/stream/runtime.h"
#include "cuda/stream/slots.h"

int32_t pk_device_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::device_count();
    });
}

int32_t pk_device_info(int64_t index, pk_device *device) {
    return pk::guarded([&] {
        pk::require(device != nullptr, "device is a null pointer");
        pk::require(index >= 0 && index < pk::device_count(), "there is no device of that index");
        cudaDeviceProp properties;
        PK_CUDA(cudaGetDeviceProperties(&properties, int(index)));
        pk_device found{};
        std::snprintf(found.name, sizeof(found.name), "%s", properties.name);
        PK_CUDA(cudaDeviceGetPCIBusId(found.pci_bus_id, sizeof(found.pci_bus_id), int(index)));
        found.memory = int64_t(properties.totalGlobalMem);
        found.compute_major = properties.major;
        found.compute_minor = properties.minor;
        found.multiprocessors = properties.multiProcessorCount;
        *device = found;
    });
}

int32_t pk_link_speed(int64_t device, pk_link *link) {
    return pk::guarded([&] {
        pk::require(link != nullptr, "link is a null pointer");
        pk::require(device >= 0 && device < pk::device_count(), "there is no device of that index");
        *link = pk::link_speed(int(device));
    });
}

int32_t pk_memory_info(pk_memory *memory) {
    return pk::guarded([&] {
        pk::require(memory != nullptr, "memory is a null pointer");
        *memory = pk::streaming_memory();
        pk::add_pinned_arrays(*memory);
        pk::add_result_memory(*memory);
    });
}

int32_t pk_release(void) {
    return pk::guarded([] {
        pk::require_cuda();
        pk::kernels::release();
        pk::release_streaming_memory();
        pk::release_pinned_arrays();
        pk::release_result_memory();
    });
}

int32_t pk_instruction_set(const char **name) {
    return pk::guarded([&] {
        pk::require(name != nullptr, "name is a null pointer");
        *name = "cuda";
    });
}
