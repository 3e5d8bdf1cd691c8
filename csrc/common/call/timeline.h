// Timeline of a call: how long each stage was active in at least one chunk. Each stage has a row of bits, and
// each bit stands for a short time, which doubles when the call outlasts the row. So a call of any length
// takes the same memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pycudakit.h"

namespace pk {

class Timeline {
   public:
    void clear() {
        width_ = FINEST;
        used_ = 0;
    }

    void mark(int stage, double begin, double end) {
        while (end >= width_ * (BITS - 1)) widen();
        const auto first = int64_t(std::llround(std::max(begin, 0.0) / width_)),
                   last = int64_t(std::llround(end / width_));
        use((last + 63) / 64);
        for (int64_t bit = first; bit < last;) {
            const int64_t word = bit / 64, next = std::min(last, 64 * (word + 1));
            words_[word][stage] |= ~uint64_t(0) << bit % 64 & ~uint64_t(0) >> (63 - (next - 1) % 64);
            bit = next;
        }
    }

    void merge(Timeline &other) {
        while (width_ < other.width_) widen();
        while (other.width_ < width_) other.widen();
        use(other.used_);
        for (int64_t word = 0; word < other.used_; ++word) {
            for (int stage = 0; stage < PK_STAGE_COUNT; ++stage)
                words_[word][stage] |= other.words_[word][stage];
        }
    }

    void report(pk_report &report) const {
        for (int64_t word = 0; word < used_; ++word) {
            uint64_t once = 0, twice = 0;
            for (int stage = 0; stage < PK_STAGE_COUNT; ++stage) {
                const uint64_t bits = words_[word][stage];
                report.stage_seconds[stage] += width_ * __builtin_popcountll(bits);
                twice |= once & bits;
                once |= bits;
            }
            report.overlap_seconds += width_ * __builtin_popcountll(twice);
        }
    }

   private:
    static constexpr int64_t WORDS = 64, BITS = 64 * WORDS;

    // Clears words when they are first used: short calls need few of them.
    void use(int64_t words) {
        for (; used_ < words; ++used_) std::fill_n(words_[used_], int(PK_STAGE_COUNT), uint64_t(0));
    }

    // Halves the resolution: each bit is the union of two.
    void widen() {
        use((used_ + 1) / 2 * 2);
        for (int64_t word = 0; word < used_ / 2; ++word) {
            for (int stage = 0; stage < PK_STAGE_COUNT; ++stage) {
                words_[word][stage] =
                    every_second(words_[2 * word][stage]) | every_second(words_[2 * word + 1][stage]) << 32;
            }
        }
        used_ /= 2;
        width_ *= 2;
    }

    static uint64_t every_second(uint64_t bits) {
        bits = (bits | bits >> 1) & 0x5555555555555555u;
        bits = (bits | bits >> 1) & 0x3333333333333333u;
        bits = (bits | bits >> 2) & 0x0F0F0F0F0F0F0F0Fu;
        bits = (bits | bits >> 4) & 0x00FF00FF00FF00FFu;
        bits = (bits | bits >> 8) & 0x0000FFFF0000FFFFu;
        return (bits | bits >> 16) & 0x00000000FFFFFFFFu;
    }

    static constexpr double FINEST = 0.25e-6;

    double width_ = FINEST;                  // seconds of a bit
    int64_t used_ = 0;                       // words of each stage
    uint64_t words_[WORDS][PK_STAGE_COUNT];  // those in use have values
};

}  // namespace pk
