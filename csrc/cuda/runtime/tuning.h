// The streaming engine's constants, each of which the environment or pk_tune can change.
#pragma once

#include <cstdint>

#include "pycudakit.h"

namespace pk {

enum class Tune {
    threads,
    worth_a_thread,
    slots,
    chunk_bytes,
    device_bytes,
    direct_bytes,
    smallest_chunk,
    run,
    in_place_bytes,
    walk_bytes,
    walk_both_ways,
    block,
    worth_compiling
};

int64_t tuned(Tune constant);

// For callers of the ABI, who have them by their index.
int64_t tuning_count();
pk_tuning tuning_of(int64_t index);
void tune(int64_t index, int64_t value);

}  // namespace pk
