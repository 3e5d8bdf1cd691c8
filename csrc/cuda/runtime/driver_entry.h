// Entries of the CUDA driver that the runtime library has no counterpart of.
#pragma once

#include <cuda.h>

#include <string>

#include "common/call/status.h"
#include "cuda/runtime/cuda.h"

namespace pk {

// Return an entry of the driver, in the version of CUDA 12. Callers keep it.
template <class Entry>
Entry driver_entry(const char *name) {
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
    PK_CUDA(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess)
        fail(PK_DEVICE_ERROR, "the driver has no entry " + std::string(name));
    return reinterpret_cast<Entry>(entry);
}

// Throw unless a call of a driver's entry succeeded.
inline void check_driver(CUresult result, const char *name) {
    if (result == CUDA_SUCCESS) return;
    using GetName = CUresult (*)(CUresult, const char **);
    static const auto get_name = driver_entry<GetName>("cuGetErrorName");
    const char *text = nullptr;
    (void)get_name(result, &text);
    const pk_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? PK_OUT_OF_MEMORY : PK_DEVICE_ERROR;
    fail(status, std::string(text == nullptr ? "an unknown error" : text) + " from " + name);
}

}  // namespace pk
