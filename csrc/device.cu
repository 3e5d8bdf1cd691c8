// Entry points about devices, memory and tuning of the CUDA library.
#include "common/device.h"

#include <cstdio>

#include "common/call/result_memory.h"
#include "cuda/elementwise/jit_kernel.h"
#include "cuda/kernels/cache_flush.h"
#include "cuda/matmul/cublas.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/residency/request_graphs.h"
#include "cuda/residency/residency_map.h"
#include "cuda/runtime/copy_bandwidth.h"
#include "cuda/runtime/cuda.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/pinned_memory.h"
#include "cuda/runtime/tuning.h"

extern "C" int32_t pk_device_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::device_count();
    });
}

extern "C" int32_t pk_device_info(int64_t index, pk_device *device) {
    return pk::guarded([&] {
        pk::require(device != nullptr, "device is a null pointer");
        pk::require_index(index, pk::device_count(), "device");
        cudaDeviceProp properties;
        PK_CUDA(cudaGetDeviceProperties(&properties, int(index)));
        pk_device info{};
        std::snprintf(info.name, sizeof(info.name), "%s", properties.name);
        PK_CUDA(cudaDeviceGetPCIBusId(info.pci_bus_id, sizeof(info.pci_bus_id), int(index)));
        info.memory = int64_t(properties.totalGlobalMem);
        info.compute_major = properties.major;
        info.compute_minor = properties.minor;
        info.multiprocessors = properties.multiProcessorCount;
        *device = info;
    });
}

extern "C" int32_t pk_link_speed(int64_t device, pk_link *link) {
    return pk::guarded([&] {
        pk::require(link != nullptr, "link is a null pointer");
        pk::require_index(device, pk::device_count(), "device");
        *link = pk::copy_bandwidth(int(device));
    });
}

extern "C" int32_t pk_memory_info(pk_memory *memory) {
    return pk::guarded([&] {
        pk::require(memory != nullptr, "memory is a null pointer");
        *memory = pk::streaming_memory();
        pk::add_pinned_arrays(*memory);
        pk::report_result_memory(*memory);
        if (const auto *const scope = pk::ResidencyScope::current())
            memory->plan_budget = pk::DevicePool::of(scope->device()).plan_budget();
    });
}

extern "C" int32_t pk_release(void) {
    return pk::guarded([] {
        pk::require_cuda();
        pk::RequestGraphs::release();
        pk::kernels::release();
        pk::cublas::release();
        pk::release_slots();
        pk::release_pinned_arrays();
        pk::DevicePool::release_all();
        pk::FusedKernel::release();
        pk::release_result_memory();
    });
}

extern "C" int32_t pk_instruction_set(const char **name) {
    return pk::guarded([&] {
        pk::require(name != nullptr, "name is a null pointer");
        *name = "cuda";
    });
}

extern "C" int32_t pk_pinned_take(int64_t bytes, uint64_t *address) {
    return pk::guarded([&] {
        pk::require_pinned(bytes, address);
        *address = pk::take_pinned_array(bytes);
    });
}

extern "C" int32_t pk_pinned_return(uint64_t address) {
    return pk::guarded([&] { pk::return_pinned_array(address); });
}

extern "C" int32_t pk_tuning_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::tuning_count();
    });
}

extern "C" int32_t pk_tuning_info(int64_t index, pk_tuning *tuning) {
    return pk::guarded([&] {
        pk::require(tuning != nullptr, "tuning is a null pointer");
        *tuning = pk::tuning_of(index);
    });
}

extern "C" int32_t pk_tune(int64_t index, int64_t value) {
    return pk::guarded([&] { pk::tune(index, value); });
}
