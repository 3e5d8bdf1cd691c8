// PhiloxStreams: the words of each element, its own in the generator's sequence, and further ones for
// elements that need more than one or reject some.
#pragma once

#include "random_philox.h"

namespace pk::random {

// Element i has word i of each stream. Streams are Philox sequences whose counters differ in the highest 16
// bits; stream 0 is the generator's own.
struct PhiloxStreams {
    uint64_t key[2];
    philox::Counter counter;  // of the block that contains word 0
    uint64_t skipped;         // words of that block before word 0

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

// Attempts of a rejection method. Each is rejected with a probability below 1/2, most of them below 1/8.
constexpr int MAX_ATTEMPTS = 64;

}  // namespace pk::random
