// In-core sort and argsort of arrays on a device, in temporary storage of the caller's.
#pragma once

#include "common/sort.h"
#include "cuda/runtime/cuda.h"

namespace pk {

constexpr int64_t MAX_DEVICE_ELEMENTS = int64_t(1) << 30;

// Refuse more elements than 32-bit indices are used for.
inline void check_device_elements(int64_t elements) {
    require(elements <= MAX_DEVICE_ELEMENTS, "there are more than 2^30 elements on a device");
}

// Return the bytes of temporary storage that sort_on_device() needs.
int64_t temporary_bytes(const SortRequest &request);
int64_t temporary_bytes(const ArgsortRequest &request);

// Enqueue the sort of device arrays, with `memory` as temporary storage.
void sort_on_device(const SortRequest &request, char *memory, cudaStream_t stream);
void sort_on_device(const ArgsortRequest &request, char *memory, cudaStream_t stream);

// The same for one row of float32, which has a faster algorithm.
int64_t temporary_bytes_float32(int64_t count);
void sort_float32_on_device(const float *in, float *out, int64_t count, char *memory, cudaStream_t stream);

}  // namespace pk
