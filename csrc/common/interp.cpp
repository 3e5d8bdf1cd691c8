#include "interp.h"

#include "common/call/status.h"

namespace pk::interp {

Request::Request(const Curve &curve, const double *x, double *out, int64_t count)
    : curve(curve), x(x), out(out), count(count) {
    require(curve.size > 0, "xp and fp have no points");
    require(count >= 0, "count is negative");
    require_aligned(curve.xp, curve.size, sizeof(double));
    require_aligned(curve.fp, curve.size, sizeof(double));
    require_aligned(x, count, sizeof(double));
    require_aligned(out, count, sizeof(double));
}

}  // namespace pk::interp
