// Checks the arguments of pk_interp.
#include "interp.h"

#include "common/call/status.h"

namespace pk::interp {

Request::Request(const Curve &curve, const double *x, double *out, int64_t count)
    : curve(curve), x(x), out(out), count(count) {
    require(curve.size > 0, "xp and fp have no points");
    require(count >= 0, "count is negative");
    require_array(curve.xp, curve.size, sizeof(double), "xp");
    require_array(curve.fp, curve.size, sizeof(double), "fp");
    require_array(x, count, sizeof(double), "x");
    require_array(out, count, sizeof(double), "out");
}

}  // namespace pk::interp
