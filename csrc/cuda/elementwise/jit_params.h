// The parameters of a fused kernel. The host's compiler and NVRTC both read this.
#pragma once

#include <cstdint>

namespace pk::device {

// Passed by value, so that a launch needs no upload.
struct JitParams {
    static constexpr int MAX_OPERANDS = 96, MAX_COORDINATES = 96, THREADS = 256;

    unsigned *status;                      // exception flags, one word for each instruction
    int64_t start, count;                  // elements
    int64_t operands[MAX_OPERANDS];        // for each load and store an address, or a constant's bits
    int64_t coordinates[MAX_COORDINATES];  // sizes and strides, as in UnravelTable
};

}  // namespace pk::device
