// float16 as bits, converted by integer arithmetic, so that every compiler vectorises it to the same bits.
#pragma once

#include "portable.h"

namespace pk::half {

PK_HD float to_float(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    // In the fields of a float, a normal or subnormal float16 is smaller by exactly 2^112.
    const float scaled = bit_cast<float>(magnitude << 13) * 0x1p112f;
    const uint32_t special = 0x7f800000u | (magnitude << 13);
    return bit_cast<float>(sign | select(magnitude >= 0x7c00u, special, bit_cast<uint32_t>(scaled)));
}

// The bits of the nearest float16, ties to even.
PK_HD uint16_t from_float(float value) {
    const uint32_t bits = bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    // Adding 0.5 leaves a subnormal result, rounded, in the low bits of the sum.
    const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t finite = select(magnitude < 0x38800000u, subnormal, normal);
    const uint32_t special = select(magnitude > 0x7f800000u, 0x7e00u, 0x7c00u);
    const uint32_t result = select(magnitude >= 0x477ff000u, special, finite);
    return uint16_t(result | ((bits >> 16) & 0x8000u));
}

// The nearest float, rounded to odd: if inexact, its last bit is 1. A second rounding, to a format at least
// two bits shorter, then gives the result of a single rounding.
PK_HD float to_odd(double value) {
    const uint64_t bits = bit_cast<uint64_t>(value);
    const double magnitude = abs(value);
    const uint32_t truncated = uint32_t(bits >> 29) - (896u << 23);
    const uint32_t sticky = uint32_t((bits & 0x1fffffffu) != 0);
    const uint32_t normal = (truncated & 0x7fffffffu) | sticky;
    // Below 2^-64 every value rounds to a zero float16; above 2^64 to infinity; NaN stays NaN.
    const uint32_t small = select(magnitude < 0x1p-64, uint32_t(0), normal);
    const uint32_t large = select(magnitude > 0x1p64, 0x7f800000u, small);
    const uint32_t result = select(value != value, 0x7fc00000u, large);
    return bit_cast<float>(result | (uint32_t(bits >> 32) & 0x80000000u));
}

// Rounds to float16, and returns it as a float: the representation of a float16 in a register.
PK_HD float round(float value) { return to_float(from_float(value)); }
PK_HD float round(double value) { return round(to_odd(value)); }

// The neighbour of a in the direction of b, where both are float16 values in floats.
PK_HD float nextafter(float a, float b) {
    const uint16_t from = from_float(a);
    const bool away = (b > a) == !(from & 0x8000u);
    const uint16_t moved = select((from & 0x7fffu) == 0, uint16_t(select(b > 0, 0x0001u, 0x8001u)),
                                  uint16_t(from + select(away, 1u, 0xffffu)));
    return a != a || b != b ? a + b : (a == b ? b : to_float(moved));
}
// Never called: float16 values are never doubles.
PK_HD double nextafter(double a, double) { return a; }

}  // namespace pk::half
