// Transformations of random bits to uniform, normal and exponential numbers, one element from its own bits,
// by + - * /, sqrt and explicit fma alone, so that both engines have the same bits.
#pragma once

#include "common/math/logarithm.h"

namespace pk::random {

// In [0, 1), with NumPy's formula.
PK_HD float uniform(uint32_t bits) { return float(int32_t(bits >> 8)) * 0x1p-24f; }
PK_HD double uniform(uint64_t word) {
    // Exact. In two parts, because the vectors of older processors cannot convert 64-bit integers.
    const uint64_t bits = word >> 11;
    const double high = math::detail::integer_value<double>(bits >> 26);
    const double low = math::detail::integer_value<double>(bits & 0x3ffffff);
    return pk::fma(high, 0x1p-27, low * 0x1p-53);
}

// (bits + 1/2) / 2^32 for 31 bits, and (bits + 1/2) / 2^64 for 63 bits: in (0, 1/2), to full precision.
PK_HD float half_unit(uint32_t bits) { return (float(int32_t(bits)) + 0.5f) * 0x1p-32f; }
PK_HD double half_unit(uint64_t bits) {
    const double high = math::detail::integer_value<double>(bits >> 32);
    const double low = math::detail::integer_value<double>(bits & 0xffffffff);
    return pk::fma(high, 0x1p-32, (low + 0.5) * 0x1p-64);
}

constexpr uint32_t LOW31 = 0x7fffffffu;
constexpr uint64_t LOW63 = 0x7fffffffffffffffu;

PK_HD float with_sign(float x, uint32_t bits) {
    return bit_cast<float>(bit_cast<uint32_t>(x) | (bits & ~LOW31));
}
PK_HD double with_sign(double x, uint64_t bits) {
    return bit_cast<double>(bit_cast<uint64_t>(x) | (bits & ~LOW63));
}

// The quantile function of the normal distribution: x P(w), where x = 1 - 2 p, w = -log(1 - x^2), p is the
// tail probability, and the highest bit is the sign. P is minimax in w, and in its root where w is large.
PK_HD float normal(uint32_t bits) {
    using math::detail::polynomial;
    const float p = half_unit(bits & LOW31);
    const float x = half_unit(~bits & LOW31) * 2.0f;
    const float w = -math::log((p + p) * (1.0f + x));
    const float central =
        polynomial(w - 2.5f, 2.12331347f, 0.348802717f, -0.0059076601f, -0.00177308282f, 0.000308741177f,
                   -6.19474573e-6f, -4.88579604e-6f, 4.83978825e-7f, 3.19696803e-8f);
    const float tail =
        polynomial(pk::sqrt(select(w < 5.0f, 5.0f, w)) - 3.0f, 4.00643427f, 1.41658243f, 0.0133552349f,
                   -0.0108043584f, 0.0080605989f, -0.00506607834f, 0.00205026279f, -0.000122379722f,
                   -0.000375099749f, 0.000190372713f, -3.09891716e-5f);
    return with_sign(x * select(w < 5.0f, central, tail), bits);
}

// The same in double, in a central branch and a tail branch, which one in a thousand takes.
constexpr uint64_t TAIL = 0x20000000000000u;  // 2^-11 of the numbers of each sign
PK_HD bool is_central(uint64_t word) { return (word & LOW63) >= TAIL; }

PK_HD double normal_central(uint64_t word) {
    const double p = half_unit(word & LOW63);
    const double x = half_unit(~word & LOW63) * 2.0;
    const double w = -math::log((p + p) * (1.0 + x));
    const double factor = math::detail::polynomial(
        w - 3.125, 2.3386207100265932, 0.33963495870114104, -0.008532899177266171, -0.0010475115695045273,
        0.0002640820495366799, -1.9632852813890714e-5, -1.9310650230005064e-6, 5.9888942556471515e-7,
        -4.1111743450990353e-8, -5.8161392418347865e-9, 1.4866540580732524e-9, -7.6586711571100422e-11,
        -1.8354232544481728e-11, 3.7246096294655178e-12, -1.143948544924071e-13, -5.7376507097400465e-14,
        9.2767727076634598e-15, 3.2698869044040579e-17, -1.8006651995973525e-16, 1.5637421870874079e-17,
        1.4506525003565855e-18, -2.354563205101369e-19, 1.7399256720923461e-21);
    return with_sign(x * factor, word);
}

PK_HD double normal(uint64_t word) {
    if (is_central(word)) return normal_central(word);
    const double p = half_unit(word & LOW63);
    const double x = half_unit(~word & LOW63) * 2.0;
    const double root = pk::sqrt(-math::log((p + p) * (1.0 + x)));
    const double factor = math::detail::polynomial(
        1.0 / root - 0.275, 1.3506451104371901, -0.27310839785208789, 0.17269757949582531,
        0.78718926120889641, 0.69429560873608807, 16.498020018486375, 53.059861663999088, -255.86908699479632,
        -2786.8972871108034, 3738.6873430506968, 98248.544017572282, -134775.48178843993, -3155489.285371282,
        9148769.2629780196, 84422035.957704315, -502329798.99066511, -1389397404.1637847, 19854484635.15496,
        -9603230464.0858767, -540664575977.41094, 1347234049768.6577, 9130000367700.3583, -35615177618623.17,
        -72009196493308.812, 356959003631421.89);
    return with_sign(x * root * factor, word);
}

// -log of (bits + 1/2) / 2^32, and of (word + 1/2) / 2^64. Above 1/2 it is computed from the complement to 1.
PK_HD float exponential(uint32_t bits) {
    const bool is_high = bits > LOW31;
    const float part = half_unit(select(is_high, ~bits, bits) & LOW31);
    const float x = select(is_high, 1.0f - part, part);
    const float low = select(is_high, (1.0f - x) - part, 0.0f);
    return -math::detail::log_of_sum(x, low);
}
PK_HD double exponential(uint64_t word) {
    const bool is_high = word > LOW63;
    const double part = half_unit(select(is_high, ~word, word) & LOW63);
    const double x = select(is_high, 1.0 - part, part);
    const double low = select(is_high, (1.0 - x) - part, 0.0);
    return -math::detail::log_of_sum(x, low);
}

}  // namespace pk::random
