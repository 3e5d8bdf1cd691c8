// logaddexp and logaddexp2: the logarithm of a sum of powers, without the powers, which may overflow.
#pragma once

#include "exponential.h"
#include "logarithm.h"

namespace pk::math {

constexpr double LN2 = 0.693147180559945309417232121458, LOG2_E = 1.44269504088896340735992468100;

// log(e^a + e^b)
template <class T>
PK_HD T logaddexp(T a, T b) {
    if (a == b) return a + T(LN2);  // equal infinities as well, whose difference is NaN
    const T larger = a > b ? a : b, distance = pk::abs(a - b);
    return distance != distance ? distance : larger + log1p(exp(-distance));
}

// log2(2^a + 2^b)
template <class T>
PK_HD T logaddexp2(T a, T b) {
    if (a == b) return a + T(1);
    const T larger = a > b ? a : b, distance = pk::abs(a - b);
    return distance != distance ? distance : larger + T(LOG2_E) * log1p(exp2(-distance));
}

}  // namespace pk::math
