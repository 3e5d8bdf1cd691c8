// Sorting of arrays that lie on a device.
#pragma once

#include "common/sort.h"
#include "cuda/runtime/cuda.h"

namespace pk {

constexpr int64_t MOST_THERE = int64_t(1) << 30;  // elements

inline void check_there(int64_t elements) {
    require(elements <= MOST_THERE, "there are more than 2^30 elements on a device");
}

// The bytes that it takes.
int64_t bytes_there(const SortRequest &request);
int64_t bytes_there(const ArgsortRequest &request);

// Queues it, in so much memory of the device.
void sort_there(const SortRequest &request, char *memory, cudaStream_t queue);
void sort_there(const ArgsortRequest &request, char *memory, cudaStream_t queue);

// The same of a row of float32.
int64_t bytes_of_floats_there(int64_t count);
void sort_floats_there(const float *in, float *out, int64_t count, char *memory, cudaStream_t queue);

}  // namespace pk
