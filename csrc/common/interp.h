// Linear interpolation between points: what is asked for, checked, and the arithmetic, which is NumPy's and
// the same on both engines.
#pragma once

#include <cstdint>

#include "common/call/call.h"
#include "portable.h"

namespace pk::interp {

// Points in order of xp, at least one; what is left and right of them.
struct Curve {
    const double *xp, *fp;
    int64_t size;
    double left, right;
};

struct Request {
    Curve curve;
    const double *x;
    double *out;
    int64_t count;

    Request(const Curve &curve, const double *x, double *out, int64_t count);
    int64_t elements() const { return count; }
};

// The last point that is not right of x, which is not right of the last and not left of the first.
PK_HD int64_t point_before(const Curve &curve, double x) {
    int64_t first = 0, count = curve.size;  // it is among these
    while (count > 1) {
        const int64_t half = count / 2;
        if (curve.xp[first + half] <= x) first += half;
        count -= half;
    }
    return first;
}

// The curve at x. Of neighbours, the same point is often before both: `point` is the one that was before the
// last x, or any other, and becomes that of this one.
PK_HD double value_at(const Curve &curve, double x, int64_t &point) {
    const int64_t last = curve.size - 1;
    if (x != x) return last == 0 ? curve.fp[0] : x;  // as NumPy has it
    if (x < curve.xp[0]) return curve.left;
    if (x > curve.xp[last]) return curve.right;
    const bool is_before = curve.xp[point] <= x && (point == last || x < curve.xp[point + 1]);
    if (!is_before) point = point_before(curve, x);
    const double x0 = curve.xp[point], y0 = curve.fp[point];
    if (point == last || x == x0) return y0;
    const double x1 = curve.xp[point + 1], y1 = curve.fp[point + 1];
    const double slope = (y1 - y0) / (x1 - x0);
    double value = slope * (x - x0) + y0;
    // An infinite point makes NaN from one side that is none from the other.
    if (value != value) value = slope * (x - x1) + y1;
    if (value != value && y0 == y1) value = y0;
    return value;
}

}  // namespace pk::interp
