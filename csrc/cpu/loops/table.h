// Names of the functions that fill the table of loops, one set for each instruction set (PK_ISA).
#pragma once

#include "cpu/loops.h"

#define PK_JOIN_(a, b) a##b
#define PK_JOIN(a, b) PK_JOIN_(a, b)
#define PK_STRING_(a) #a
#define PK_STRING(a) PK_STRING_(a)
#define PK_ISA_FUNCTION(name) PK_JOIN(PK_JOIN(name, _), PK_ISA)

namespace pk {
namespace {

// Detects, in the pass of a loop, whether any result is infinite or NaN.
template <bool is_enabled, class T>
struct NonFiniteDetector {
    using Bits = typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;
    static constexpr Bits INFINITE = sizeof(T) == 8 ? Bits(0x7ff0000000000000u) : Bits(0x7f800000u);
    Bits seen = 0;

    PK_HD T note(T result) {
        if constexpr (is_enabled) seen |= Bits((bit_cast<Bits>(result) & INFINITE) == INFINITE);
        return result;
    }
    PK_HD bool any() const { return seen != 0; }
};

}  // namespace

void PK_ISA_FUNCTION(fill_operations)(Loops &loops);
void PK_ISA_FUNCTION(fill_casts)(Loops &loops);
void PK_ISA_FUNCTION(fill_reduce)(Loops &loops);
void PK_ISA_FUNCTION(fill_histogram)(Loops &loops);
void PK_ISA_FUNCTION(fill_matmul)(Loops &loops);
void PK_ISA_FUNCTION(fill_scan)(Loops &loops);
void PK_ISA_FUNCTION(fill_image_pixels)(Loops &loops);
void PK_ISA_FUNCTION(fill_random)(Loops &loops);
void PK_ISA_FUNCTION(fill_image_filters)(Loops &loops);
}  // namespace pk
