// Polynomial evaluation for the elementary functions.
#pragma once

#include "common/portable.h"

namespace pk::math::detail {

template <class T>
PK_HD T polynomial(T, T c0) {
    return c0;
}

// c0 + c1 x + c2 x^2 + ..., by Horner's rule with one rounding per step.
template <class T, class... C>
PK_HD T polynomial(T x, T c0, C... coefficients) {
    return pk::fma(x, polynomial(x, T(coefficients)...), c0);
}

}  // namespace pk::math::detail
