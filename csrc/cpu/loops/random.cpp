// Inner loops of random numbers: Philox4x64-10 in vectors, and transformations of its words.
#include "common/math/exponential.h"
#include "common/random_gamma.h"
#include "table.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace pk {
namespace {

#if defined(__AVX512F__)

// Sixteen Philox blocks at a time, in two groups of eight, so that one is computed while the other waits. The
// upper halves of 64-bit products are built from four 32-bit products. (Groups of four, on AVX2, are no
// faster than scalar multiplications.)
using Lanes = uint64_t __attribute__((vector_size(64)));
constexpr int64_t LANES = 8, SIDE = 2 * LANES;

PK_HD Lanes product32(Lanes a, Lanes b) {
    return Lanes(_mm512_maskz_mul_epu32(0xff, __m512i(a), __m512i(b)));
}

PK_HD Lanes high_product(Lanes x, uint64_t factor) {
    const Lanes lower = Lanes{} + factor, upper = Lanes{} + (factor >> 32), x_upper = x >> 32;
    const Lanes middle = product32(x_upper, lower) + (product32(x, lower) >> 32);
    const Lanes other = product32(x, upper) + (middle & 0xffffffff);
    return product32(x_upper, upper) + (middle >> 32) + (other >> 32);
}

template <int lane>
PK_HD __m512i join_lanes(__m512i ab0, __m512i ab1, __m512i cd0, __m512i cd1) {
    constexpr int SAME = lane * 0x55;  // four times that lane
    const __m512i left = _mm512_maskz_shuffle_i64x2(0xff, ab0, cd0, SAME),
                  right = _mm512_maskz_shuffle_i64x2(0xff, ab1, cd1, SAME);
    return _mm512_maskz_shuffle_i64x2(0xff, left, right, 0x88);
}

PK_HD void store_blocks(Lanes a, Lanes b, Lanes c, Lanes d, uint64_t *words) {
    const __m512i ab0 = _mm512_maskz_unpacklo_epi64(0xff, __m512i(a), __m512i(b));  // of blocks 0, 2, 4 and 6
    const __m512i ab1 = _mm512_maskz_unpackhi_epi64(0xff, __m512i(a), __m512i(b));
    const __m512i cd0 = _mm512_maskz_unpacklo_epi64(0xff, __m512i(c), __m512i(d));
    const __m512i cd1 = _mm512_maskz_unpackhi_epi64(0xff, __m512i(c), __m512i(d));
    _mm512_storeu_si512(words, join_lanes<0>(ab0, ab1, cd0, cd1));
    _mm512_storeu_si512(words + 8, join_lanes<1>(ab0, ab1, cd0, cd1));
    _mm512_storeu_si512(words + 16, join_lanes<2>(ab0, ab1, cd0, cd1));
    _mm512_storeu_si512(words + 24, join_lanes<3>(ab0, ab1, cd0, cd1));
}

void words_side_by_side(uint64_t key0, uint64_t key1, const philox::Counter &first, uint64_t *words) {
    constexpr uint64_t FACTORS[2] = {0xd2e7470ee14c6c93u, 0xca5a826395121157u};
    constexpr uint64_t STEPS[2] = {0x9e3779b97f4a7c15u, 0xbb67ae8584caa73bu};
    // The first two rounds, in each of which one product is the same for all blocks.
    const uint64_t a1 = philox::high_product(first.part[2], FACTORS[1]) ^ first.part[1] ^ key0;
    const uint64_t b1 = first.part[2] * FACTORS[1];
    const uint64_t high1 = philox::high_product(a1, FACTORS[0]), low1 = a1 * FACTORS[0];
    Lanes a[2], b[2], c[2], d[2];
    for (int i = 0; i < 2; ++i) {
        const Lanes a0 = Lanes{0, 1, 2, 3, 4, 5, 6, 7} + (first.part[0] + uint64_t(i * LANES));
        const Lanes c1 = high_product(a0, FACTORS[0]) ^ (first.part[3] ^ key1);
        a[i] = high_product(c1, FACTORS[1]) ^ (b1 ^ (key0 + STEPS[0]));
        b[i] = c1 * FACTORS[1];
        c[i] = (a0 * FACTORS[0]) ^ (high1 ^ (key1 + STEPS[1]));
        d[i] = Lanes{} + low1;
    }
#pragma GCC unroll 8
    for (int round = 2; round < 10; ++round) {
        key0 += STEPS[0];
        key1 += STEPS[1];
        const uint64_t now0 = key0 + STEPS[0], now1 = key1 + STEPS[1];
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            const Lanes high_a = high_product(a[i], FACTORS[0]), low_a = a[i] * FACTORS[0];
            const Lanes high_c = high_product(c[i], FACTORS[1]), low_c = c[i] * FACTORS[1];
            a[i] = high_c ^ b[i] ^ now0;
            b[i] = low_c;
            c[i] = high_a ^ d[i] ^ now1;
            d[i] = low_a;
        }
    }
    for (int i = 0; i < 2; ++i) store_blocks(a[i], b[i], c[i], d[i], words + i * LANES * philox::WORDS);
}

#else

constexpr int64_t SIDE = INT64_MAX;
void words_side_by_side(uint64_t, uint64_t, const philox::Counter &, uint64_t *) {}

#endif

void words(const uint64_t *key, const philox::Counter &first, int64_t blocks, uint64_t *words) {
    const uint64_t key0 = key[0], key1 = key[1];
    philox::Counter counter = first;
    while (blocks > 0) {
        // Stops where the lowest part of the counter wraps to 0.
        const uint64_t left = 0 - counter.part[0];
        const int64_t run = left != 0 && left < uint64_t(blocks) ? int64_t(left) : blocks;
        const uint64_t start = counter.part[0], c1 = counter.part[1], c2 = counter.part[2],
                       c3 = counter.part[3];
        int64_t i = 0;
        for (; i <= run - SIDE; i += SIDE) {
            words_side_by_side(key0, key1, {{start + uint64_t(i), c1, c2, c3}}, words + philox::WORDS * i);
        }
        for (; i < run; ++i) {
            const philox::Block block = philox::block(key0, key1, {{start + uint64_t(i), c1, c2, c3}});
            for (int j = 0; j < philox::WORDS; ++j) words[philox::WORDS * i + j] = block.word[j];
        }
        counter = counter + uint64_t(run);
        words += philox::WORDS * run;
        blocks -= run;
    }
}

template <class Bits, class T, class F>
void each(const void *bits_, int64_t count, void *results_, F f) {
    const Bits *bits = static_cast<const Bits *>(bits_);
    T *results = static_cast<T *>(results_);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) results[i] = f(bits[i]);
}

void uniform_float(const void *bits, int64_t count, void *results) {
    each<uint32_t, float>(bits, count, results, [](uint32_t b) { return random::uniform(b); });
}
void uniform_double(const void *bits, int64_t count, void *results) {
    each<uint64_t, double>(bits, count, results, [](uint64_t b) { return random::uniform(b); });
}
void normal_float(const void *bits, int64_t count, void *results) {
    each<uint32_t, float>(bits, count, results, [](uint32_t b) { return random::normal(b); });
}
void normal_double(const void *bits_, int64_t count, void *results_) {
    each<uint64_t, double>(bits_, count, results_, [](uint64_t b) { return random::normal_central(b); });
    const uint64_t *bits = static_cast<const uint64_t *>(bits_);
    double *results = static_cast<double *>(results_);
    for (int64_t i = 0; i < count; ++i) {
        if (!random::is_central(bits[i])) results[i] = random::normal(bits[i]);
    }
}
void exponential_float(const void *bits, int64_t count, void *results) {
    each<uint32_t, float>(bits, count, results, [](uint32_t b) { return random::exponential(b); });
}
void exponential_double(const void *bits, int64_t count, void *results) {
    each<uint64_t, double>(bits, count, results, [](uint64_t b) { return random::exponential(b); });
}

template <bool each_a, bool each_b>
void scale_by(const double *a, const double *b, int64_t count, double *results) {
    for (int64_t i = 0; i < count; ++i) results[i] = a[each_a ? i : 0] + b[each_b ? i : 0] * results[i];
}

void scale(const double *a, bool each_a, const double *b, bool each_b, int64_t count, double *results) {
    if (each_a) {
        each_b ? scale_by<true, true>(a, b, count, results) : scale_by<true, false>(a, b, count, results);
    } else {
        each_b ? scale_by<false, true>(a, b, count, results) : scale_by<false, false>(a, b, count, results);
    }
}

bool integers(const uint64_t *words, int64_t count, uint64_t low, uint64_t range, uint64_t *results) {
    constexpr uint64_t LOW = 0xffffffff;
    uint64_t found = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t lower = (words[i] & LOW) * (range & LOW);
        const uint64_t upper = (words[i] >> 32) * (range & LOW) + (lower >> 32);
        results[i] = low + (upper >> 32);
        found |= uint64_t(((upper << 32) | (lower & LOW)) < range);
    }
    return found != 0;
}

void invert(const uint64_t *words, int64_t count, const double *ends, int64_t end_count, int64_t *results) {
    constexpr int64_t PART = 64;
    double numbers[PART] = {};
    int64_t passed[PART];
    for (int64_t done = 0; done < count; done += PART) {
        const int64_t part = count - done < PART ? count - done : PART;
        for (int64_t i = 0; i < part; ++i) numbers[i] = random::uniform(words[done + i]);
        for (int64_t i = 0; i < PART; ++i) passed[i] = 0;
        // The last cumulative probability is not compared: numbers beyond it belong to the last value, too.
        for (int64_t k = 0; k + 1 < end_count; ++k) {
            for (int64_t i = 0; i < PART; ++i) passed[i] += numbers[i] >= ends[k];
        }
        for (int64_t i = 0; i < part; ++i) results[done + i] = passed[i];
    }
}

void candidates(const random::Hat &hat, const uint64_t *words, const uint64_t *seconds, int64_t count,
                double *results) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        bool is_sure, is_lost;
        const double k =
            hat.candidate(random::uniform(words[i]), random::uniform(seconds[i]), is_sure, is_lost);
        results[i] = is_sure ? k : -1.0;
    }
}

void exponentiate(int64_t count, double *values) {
    for (int64_t i = 0; i < count; ++i) values[i] = math::exp(values[i]);
}

void gamma_candidates(const double *shapes, bool each_shape, const double *normals, const double *uniforms,
                      int64_t count, double *results) {
    const auto candidate = [&](const random::Gamma &gamma, int64_t i) {
        bool is_sure, is_lost;
        const double value = gamma.candidate(normals[i], uniforms[i], is_sure, is_lost);
        results[i] = select(is_sure, value, -1.0);
    };
    const random::Gamma first(shapes[0]);
    if (each_shape) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) candidate(random::Gamma(shapes[i]), i);
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) candidate(first, i);
    }
}

void fallen(const double *falls, int64_t count, double *gammas) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) gammas[i] = random::fallen(gammas[i], falls[i]);
}

void shares(const double *gammas, const double *falls, const double *other_falls, int64_t count,
            double *others) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        others[i] = random::share(gammas[i], falls[i], others[i], other_falls[i]);
    }
}

}  // namespace

void PK_ISA_FUNCTION(fill_random)(Loops &loops) {
    loops.random = {words,
                    {{uniform_float, uniform_double},
                     {normal_float, normal_double},
                     {exponential_float, exponential_double}},
                    scale,
                    integers,
                    invert,
                    candidates,
                    exponentiate,
                    gamma_candidates,
                    fallen,
                    shares};
}

}  // namespace pk
