// Sorting of arrays that lie on a device.
#pragma once

#include "common/sort.h"
#include "cuda/runtime/cuda.h"

namespace pk {

constexpr int64_t MAX_DEVICE_ELEMENTS = int64_t(1) << 30;  // elements

inline void check_device_elements(int64_t elements) {
    require(elements <= MAX_DEVICE_ELEMENTS, "there are more than 2^30 elements on a device");
}

// The bytes that it takes.
int64_t temporary_bytes(const SortRequest &request);
int64_t temporary_bytes(const ArgsortRequest &request);

// Queues it, in so much memory of the device.
void sort_on_device(const SortRequest &request, char *memory, cudaStream_t stream);
void sort_on_device(const ArgsortRequest &request, char *memory, cudaStream_t stream);

// The same of a row of float32.
int64_t temporary_bytes_float32(int64_t count);
void sort_float32_on_device(const float *in, float *out, int64_t count, char *memory, cudaStream_t stream);

}  // namespace pk
