// Where an element's words are: its own in the generator's sequence, and further ones for those that need
// more than one, or that draw again.
#pragma once

#include "random_philox.h"

namespace pk::random {

// Element i has word i of each plane: the sequences of as many counters, which differ in their highest bits,
// and of which the first is the generator's own.
struct PhiloxStreams {
    uint64_t key[2];
    philox::Counter counter;  // of the block that has word 0
    uint64_t skipped;         // words of that block

    PK_HD philox::Block block(uint64_t index, int stream_index) const {
        philox::Counter at = counter + index;
        at.part[3] ^= uint64_t(stream_index) << 48;
        return philox::block(key[0], key[1], at);
    }
    PK_HD uint64_t word(uint64_t element, int stream_index) const {
        const uint64_t at = element + skipped;
        return block(at / philox::WORDS, stream_index).word[at % philox::WORDS];
    }
};

// Each but the first with a chance of less than 1/2, and most of 1/8, to go on.
constexpr int MAX_ATTEMPTS = 64;

}  // namespace pk::random
