// Binary searches that run side by side.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pk {

constexpr int64_t SEARCH_WIDTH = 16;  // binary searches that take their steps together

// Finds the insertion points of up to SEARCH_WIDTH values in sorted keys: how many keys come before each or,
// with `right`, also how many are equal to it. Their cache misses overlap, and no branch depends on a value.
template <bool right, class Key, class KeyAt>
void insertion_points(KeyAt key_at, int64_t size, const Key *values, int64_t count, int64_t *points) {
    int64_t firsts[SEARCH_WIDTH] = {};
    for (int64_t left = size; left > 0;) {
        const int64_t half = (left + 1) / 2;
        for (int64_t j = 0; j < count; ++j) {
            const Key other = key_at(firsts[j] + half - 1);
            const bool before = right ? other <= values[j] : other < values[j];
            firsts[j] += before ? half : 0;
        }
        left -= half;
    }
    std::copy(firsts, firsts + count, points);
}

}  // namespace pk
