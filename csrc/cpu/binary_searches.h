// Binary searches that run side by side.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pk {

constexpr int64_t SEARCHES = 16;  // that take their steps together

// Finds the places of up to SEARCHES values in sorted ones: how many of these come before each, or are equal
// to it if `right`. The binary searches take their steps together, without branches that depend on the
// values, so that none waits for another's memory.
template <bool right, class Key, class KeyAt>
void places_of(KeyAt key_at, int64_t size, const Key *keys, int64_t count, int64_t *places) {
    int64_t firsts[SEARCHES] = {};
    for (int64_t left = size; left > 0;) {
        const int64_t half = (left + 1) / 2;
        for (int64_t j = 0; j < count; ++j) {
            const Key other = key_at(firsts[j] + half - 1);
            const bool before = right ? other <= keys[j] : other < keys[j];
            firsts[j] += before ? half : 0;
        }
        left -= half;
    }
    std::copy(firsts, firsts + count, places);
}

}  // namespace pk
