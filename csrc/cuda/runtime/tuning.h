// Tuning constants of the pipeline, each of which an environment variable or pk_tune can change.
#pragma once

#include <cstdint>

#include "pycudakit.h"

namespace pk {

// In the order of the table in tuning.cpp, which describes each.
enum class Tune {
    threads,
    worth_a_thread,
    slots,
    chunk_bytes,
    device_bytes,
    direct_bytes,
    smallest_chunk,
    run,
    in_place_bytes,  // of a zero-copy chunk
    walk_bytes,
    walk_both_ways,
    block,
    worth_compiling
};

// Return a constant's current value.
int64_t tuned(Tune constant);

// The ABI names constants by index.
int64_t tuning_count();
pk_tuning tuning_of(int64_t index);
void tune(int64_t index, int64_t value);

}  // namespace pk
