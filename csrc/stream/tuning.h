// The streaming engine's constants, each of which the environment or pk_tune can change.
#pragma once

#include <cstdint>

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
    block
};

int64_t tuned(Tune constant);

// A number from the environment, with a K, M or G behind it or none; `what` it is.
int64_t from_environment(const char *variable, const char *what, int64_t usual, int64_t least);

}  // namespace pk
