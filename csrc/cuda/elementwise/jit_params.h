// The parameters of a fused kernel. The host's compiler and NVRTC both read this.
#pragma once

#include <cstdint>

namespace pk::device {

// A kernel without coordinates declares as many operands as it has: a launch copies all parameters.
#ifndef PK_JIT_OPERANDS
#define PK_JIT_OPERANDS 96
#define PK_JIT_COORDINATES 96
#endif

// Passed by value, so that a launch needs no upload.
struct JitParams {
    static constexpr int OPERANDS = PK_JIT_OPERANDS, COORDINATES = PK_JIT_COORDINATES, THREADS = 256;

    unsigned *status;                  // exception flags, one word for each instruction
    int64_t start, count;              // elements
    int64_t operands[OPERANDS];        // for each load and store an address, or a constant's bits
    int64_t coordinates[COORDINATES];  // sizes and strides, as in UnravelTable
};

}  // namespace pk::device
