// Linear interpolation: the checked arguments of pk_interp, and NumPy's arithmetic. Both engines are built
// without contraction to fused multiply-add, so their bits are the same.
#pragma once

#include <cstdint>

#include "common/call/call.h"
#include "portable.h"

namespace pk::interp {

// The points (xp, fp), of which there is at least one, in ascending order of xp; and the results left and
// right of all points.
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

// Returns the index of the last point with xp <= x, by binary search. x is from xp[0] to xp[size - 1].
PK_HD int64_t last_point_at_or_below(const Curve &curve, double x) {
    int64_t first = 0, count = curve.size;  // the range that contains the point
    while (count > 1) {
        const int64_t half = count / 2;
        if (curve.xp[first + half] <= x) first += half;
        count -= half;
    }
    return first;
}

// Returns true if `point` is the last one with xp <= x, or x is at the end of the curve.
PK_HD bool is_last_point_at_or_below(const Curve &curve, int64_t point, double x) {
    return curve.xp[point] <= x && (point == curve.size - 1 || x < curve.xp[point + 1]);
}

// Returns the interpolated value at x. `point` is the index of any point, as a guess for the last point with
// xp <= x: usually the one that the previous call has set. It is set to that point if x is between the first
// and the last one.
PK_HD double value_at(const Curve &curve, double x, int64_t &point) {
    const int64_t last = curve.size - 1;
    if (x != x) return last == 0 ? curve.fp[0] : x;  // as in NumPy
    if (x < curve.xp[0]) return curve.left;
    if (x > curve.xp[last]) return curve.right;
    if (!is_last_point_at_or_below(curve, point, x)) point = last_point_at_or_below(curve, x);
    const double x0 = curve.xp[point], y0 = curve.fp[point];
    if (point == last || x == x0) return y0;
    const double x1 = curve.xp[point + 1], y1 = curve.fp[point + 1];
    const double slope = (y1 - y0) / (x1 - x0);
    double value = slope * (x - x0) + y0;
    // If a point is infinite, the formula may give NaN from one side and not from the other.
    if (value != value) value = slope * (x - x1) + y1;
    if (value != value && y0 == y1) value = y0;
    return value;
}

}  // namespace pk::interp
