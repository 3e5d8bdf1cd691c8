// What a compiled pass is given. NVRTC reads this, too.
#pragma once

#include <cstdint>

namespace pk::device {

struct JitParams {
    static constexpr int MAX_OPERANDS = 96, MAX_COORDINATES = 96, THREADS = 256;

    unsigned *status;                      // what its instructions met
    int64_t start, count;                  // elements
    int64_t operands[MAX_OPERANDS];        // for each load and store an address, or a constant's bits
    int64_t coordinates[MAX_COORDINATES];  // sizes and strides, as interpreter.h says
};

}  // namespace pk::device
