// Inner loops of grayscale conversion, table lookup and resizing.
#include "table.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace pk {
namespace {

// Grayscale of pixels of bytes, in whole vectors; returns the number of pixels.
#if defined(__AVX2__)
template <int channels>
int64_t gray_in_vectors(const uint8_t *in, uint8_t *out, int64_t pixels,
                        const image::pixels::GrayWeights &gray_weights) {
    // Each half of a register holds four pixels, with the channels as pairs of 16 bits: the first two, and
    // the others.
    alignas(16) int8_t first[16], second[16];
    int32_t weights[4] = {};
    for (int i = 0; i < 3; ++i) weights[gray_weights.positions[i]] = gray_weights.weights[i];
    for (int p = 0; p < 4; ++p) {
        const auto at = int8_t(p * channels);
        const int8_t pairs[2][4] = {{at, -1, int8_t(at + 1), -1},
                                    {int8_t(at + 2), -1, channels == 4 ? int8_t(at + 3) : int8_t(-1), -1}};
        std::memcpy(first + 4 * p, pairs[0], 4);
        std::memcpy(second + 4 * p, pairs[1], 4);
    }
    auto both = [](const int8_t *half) {
        return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(half)));
    };
    const __m256i take_first = both(first), take_second = both(second);
    const __m256i by_first = _mm256_set1_epi32(weights[0] | weights[1] << 16);
    const __m256i by_second = _mm256_set1_epi32(weights[2] | weights[3] << 16);
    // The reciprocal as a sum of two floats. The quotient has fewer than 24 bits over 14, so it is rounded as
    // the exact one is; a tie or an integer is exact.
    const float reciprocal = 1.0f / float(gray_weights.divisor);
    const auto rest = float((1.0 - double(reciprocal) * gray_weights.divisor) / gray_weights.divisor);
    const __m256 high = _mm256_set1_ps(reciprocal), low = _mm256_set1_ps(rest);
    auto eight = [&](const uint8_t *at) {
        const __m128i halves[2] = {
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(at)),
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(at + 4 * channels)),
        };
        const __m256i raw = _mm256_inserti128_si256(_mm256_castsi128_si256(halves[0]), halves[1], 1);
        const __m256i sum =
            _mm256_add_epi32(_mm256_madd_epi16(_mm256_shuffle_epi8(raw, take_first), by_first),
                             _mm256_madd_epi16(_mm256_shuffle_epi8(raw, take_second), by_second));
        const __m256 exact = _mm256_cvtepi32_ps(sum);
        const __m256 quotient = _mm256_fmadd_ps(exact, high, _mm256_mul_ps(exact, low));
        return gray_weights.truncates ? _mm256_cvttps_epi32(quotient) : _mm256_cvtps_epi32(quotient);
    };
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    constexpr int64_t STEP = 32, BEYOND = 2;  // the last pixels are read with bytes beyond them
    int64_t i = 0;
    for (; i + STEP + BEYOND <= pixels; i += STEP) {
        const uint8_t *at = in + i * channels;
        const __m256i low_half = _mm256_packus_epi32(eight(at), eight(at + 8 * channels));
        const __m256i high_half = _mm256_packus_epi32(eight(at + 16 * channels), eight(at + 24 * channels));
        const __m256i bytes = _mm256_packus_epi16(low_half, high_half);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + i),
                            _mm256_permutevar8x32_epi32(bytes, in_order));
    }
    return i;
}
#endif

template <class T, int channels>
void gray_of(const T *in, T *out, int64_t pixels, const image::pixels::GrayWeights &gray_weights) {
    int64_t i = 0;
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 1) i = gray_in_vectors<channels>(in, out, pixels, gray_weights);
#endif
    const image::pixels::GrayWeights own = gray_weights;  // a local copy, which no store can change
#pragma GCC ivdep
    for (; i < pixels; ++i) out[i] = image::pixels::gray_value(in + i * channels, own);
}

template <class T>
void gray(const void *in_, void *out_, int64_t pixels, const image::pixels::GrayWeights &gray_weights) {
    const T *in = static_cast<const T *>(in_);
    T *out = static_cast<T *>(out_);
    gray_weights.channels == 3 ? gray_of<T, 3>(in, out, pixels, gray_weights)
                               : gray_of<T, 4>(in, out, pixels, gray_weights);
}

template <class T>
void lookup(const void *in_, void *out_, int64_t count, const uint16_t *table) {
    const T *in = static_cast<const T *>(in_);
    T *out = static_cast<T *>(out_);
    for (int64_t i = 0; i < count; ++i) out[i] = T(table[in[i]]);
}

template <class T, int known>
void along_row_of(const T *row, double *sums, int64_t channels, const image::pixels::Taps &taps) {
    const int64_t wide = known == 0 ? channels : known;
    if (!std::is_same<T, float>::value && taps.max_count <= 2) {
        // Branch-free: for integers, an element with the weight 0 may be added.
        for (int64_t i = 0; i < taps.size; ++i) {
            const double *weights = taps.weights + taps.begin[i];
            const int64_t more = taps.count(i) - 1;
            const double first = weights[0], second = more != 0 ? weights[more] : 0.0;
            const T *a = row + taps.first[i] * wide, *b = a + more * wide;
            for (int64_t c = 0; c < wide; ++c)
                sums[i * wide + c] = first * double(a[c]) + second * double(b[c]);
        }
        return;
    }
    for (int64_t i = 0; i < taps.size; ++i) {
        for (int64_t c = 0; c < wide; ++c)
            sums[i * wide + c] = image::pixels::along_row(row + c, wide, taps, i);
    }
}

template <class T>
void along_row(const void *row_, double *sums, int64_t channels, const image::pixels::Taps &taps) {
    const T *row = static_cast<const T *>(row_);
    switch (channels) {
        case 1: return along_row_of<T, 1>(row, sums, 1, taps);
        case 3: return along_row_of<T, 3>(row, sums, 3, taps);
        default: return along_row_of<T, 0>(row, sums, channels, taps);
    }
}

void add_row(double weight, const double *row, double *sums, int64_t count, bool is_first) {
    if (is_first) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) sums[i] = weight * row[i];
    } else {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) sums[i] += weight * row[i];
    }
}

// Writes each element three times: gray to color.
template <class T>
void triple(const T *row, T *out, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        out[3 * i] = row[i];
        out[3 * i + 1] = row[i];
        out[3 * i + 2] = row[i];
    }
}

template <class T, int known>
void pick_of(const T *row, T *out, int64_t channels, const image::pixels::Taps &taps) {
    const int64_t wide = known == 0 ? channels : known;
#pragma GCC ivdep
    for (int64_t i = 0; i < taps.size; ++i) {
        for (int64_t c = 0; c < wide; ++c) out[i * wide + c] = row[taps.first[i] * wide + c];
    }
}

template <class T>
void pick(const void *row_, void *out_, int64_t channels, const image::pixels::Taps &taps) {
    const T *row = static_cast<const T *>(row_);
    T *out = static_cast<T *>(out_);
    switch (channels) {
        case 1: {
            const int64_t third = taps.size / 3;
            const bool triples = 3 * third == taps.size && taps.first[taps.size - 1] == third - 1;
            return triples ? triple(row, out, third) : pick_of<T, 1>(row, out, 1, taps);
        }
        case 3: return pick_of<T, 3>(row, out, 3, taps);
        default: return pick_of<T, 0>(row, out, channels, taps);
    }
}

template <class T>
void round_row(const double *sums, double divisor, void *out_, int64_t count) {
    T *out = static_cast<T *>(out_);
    int exponent;
    if (std::frexp(divisor, &exponent) == 0.5) {  // a power of 2, whose reciprocal is exact
        const double factor = 1 / divisor;
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) out[i] = image::pixels::rounded<T>(sums[i] * factor, 1);
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = image::pixels::rounded<T>(sums[i], divisor);
}

template <int type>
void fill(PixelLoops &loops) {
    using T = typename type_of<type>::type;
    loops.gray[type] = gray<T>;
    loops.along_row[type] = along_row<T>;
    loops.round_row[type] = round_row<T>;
    loops.pick[type] = pick<T>;
    if constexpr (!is_float_type(type)) loops.lookup[type] = lookup<T>;
}

}  // namespace

void PK_ISA_FUNCTION(fill_image_pixels)(Loops &loops) {
    fill<PK_UINT8>(loops.pixels);
    fill<PK_UINT16>(loops.pixels);
    fill<PK_FLOAT32>(loops.pixels);
    loops.pixels.add_row = add_row;
}

}  // namespace pk
