#include <cstdio>

#include "common/status.h"
#include "stream/cuda.h"
#include "stream/slots.h"

int32_t pk_device_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        pk::require_cuda();
        int devices = 0;
        PK_CUDA(cudaGetDeviceCount(&devices));
        *count = devices;
    });
}

int32_t pk_device_info(int64_t index, pk_device *device) {
    return pk::guarded([&] {
        pk::require(device != nullptr, "device is a null pointer");
        pk::require_cuda();
        int devices = 0;
        PK_CUDA(cudaGetDeviceCount(&devices));
        pk::require(index >= 0 && index < devices, "there is no device of that index");
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

int32_t pk_memory_info(pk_memory *memory) {
    return pk::guarded([&] {
        pk::require(memory != nullptr, "memory is a null pointer");
        *memory = pk::slots_memory();
    });
}

int32_t pk_release(void) {
    return pk::guarded([] {
        pk::require_cuda();
        pk::release_slots();
    });
}

int32_t pk_instruction_set(const char **name) {
    return pk::guarded([&] {
        pk::require(name != nullptr, "name is a null pointer");
        *name = "cuda";
    });
}
