// What a compiled pass is given. NVRTC reads this, too.
#pragma once

#include <cstdint>

namespace pk::device {

struct Sweep {
    static constexpr int MOST_PLACES = 96, MOST_COORDINATES = 96, THREADS = 256;

    unsigned *notes;                        // what its instructions met
    int64_t start, count;                   // elements
    int64_t places[MOST_PLACES];            // for each load and store an address, or a constant's bits
    int64_t coordinates[MOST_COORDINATES];  // sizes and strides, as interpreter.h says
};

}  // namespace pk::device
