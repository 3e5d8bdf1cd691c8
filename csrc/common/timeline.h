// For how long each stage of a call was under way, in at least one of its chunks: a row of bits a stage, each
// bit a short time, which doubles when the call outlasts the row. So a call of any length takes the same
// memory.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "../pycudakit.h"

namespace pk {

class Timeline {
   public:
    void mark(int stage, double begin, double end) {
        while (end >= width_ * (BITS - 1)) widen();
        const auto first = int64_t(begin / width_ + 0.5), last = int64_t(end / width_ + 0.5);
        for (int64_t bit = first; bit < last; ++bit) rows_[stage][bit / 64] |= uint64_t(1) << bit % 64;
    }

    void merge(Timeline other) {
        while (width_ < other.width_) widen();
        while (other.width_ < width_) other.widen();
        for (int stage = 0; stage < PK_STAGES; ++stage) {
            for (int word = 0; word < WORDS; ++word) rows_[stage][word] |= other.rows_[stage][word];
        }
    }

    void report(pk_report &report) const {
        for (int word = 0; word < WORDS; ++word) {
            uint64_t once = 0, twice = 0;
            for (int stage = 0; stage < PK_STAGES; ++stage) {
                const uint64_t bits = rows_[stage][word];
                report.stage_seconds[stage] += width_ * __builtin_popcountll(bits);
                twice |= once & bits;
                once |= bits;
            }
            report.overlap_seconds += width_ * __builtin_popcountll(twice);
        }
    }

   private:
    static constexpr int WORDS = 64, BITS = 64 * WORDS;

    // A bit for each two.
    void widen() {
        for (auto &row : rows_) {
            for (int word = 0; word < WORDS; ++word) {
                uint64_t halves = 0;
                for (int half = 0; half < 2 && 2 * word + half < WORDS; ++half) {
                    halves |= every_second(row[2 * word + half]) << 32 * half;
                }
                row[word] = halves;
            }
        }
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

    double width_ = 0.25e-6;
    std::array<std::array<uint64_t, WORDS>, PK_STAGES> rows_{};
};

}  // namespace pk
