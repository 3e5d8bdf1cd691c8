// Sorting of arrays that lie on a device.
#pragma once

#include "common/sort.h"
#include "cuda/stream/runtime.h"

namespace pk {

constexpr int64_t MOST_THERE = int64_t(1) << 30;  // elements

// The bytes that it takes.
int64_t bytes_there(const SortRequest &request);
int64_t bytes_there(const ArgsortRequest &request);

// Queues it, in so much memory of the device.
void sort_there(const SortRequest &request, char *memory, cudaStream_t queue);
void sort_there(const ArgsortRequest &request, char *memory, cudaStream_t queue);

}  // namespace pk
