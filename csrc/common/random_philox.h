// Philox4x64-10, the counter-based generator of Salmon, Moraes, Dror and Shaw (2011), as in NumPy: a block of
// four words for each value of a 256-bit counter.
#pragma once

#include <cstdint>

#include "portable.h"

namespace pk::philox {

constexpr int WORDS = 4;  // of a block

struct Block {
    uint64_t word[WORDS];
};

PK_HD uint64_t high_product(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 uint128_t;
    return uint64_t(uint128_t(a) * b >> 64);
#endif
}

struct Counter {
    uint64_t part[4];  // the lowest bits first

    // Addition of 256-bit integers, modulo 2^256.
    PK_HD Counter operator+(uint64_t steps) const {
        Counter sum = *this;
        sum.part[0] += steps;
        uint64_t carry = sum.part[0] < steps;
        for (int i = 1; i < 4; ++i) {
            sum.part[i] += carry;
            carry = carry != 0 && sum.part[i] == 0;
        }
        return sum;
    }
};

PK_HD Block block(uint64_t key0, uint64_t key1, const Counter &counter) {
    uint64_t a = counter.part[0], b = counter.part[1], c = counter.part[2], d = counter.part[3];
    for (int round = 0; round < 10; ++round) {
        const uint64_t high0 = high_product(0xd2e7470ee14c6c93u, a), low0 = 0xd2e7470ee14c6c93u * a;
        const uint64_t high1 = high_product(0xca5a826395121157u, c), low1 = 0xca5a826395121157u * c;
        a = high1 ^ b ^ key0;
        b = low1;
        c = high0 ^ d ^ key1;
        d = low0;
        key0 += 0x9e3779b97f4a7c15u;
        key1 += 0xbb67ae8584caa73bu;
    }
    return {{a, b, c, d}};
}

}  // namespace pk::philox
