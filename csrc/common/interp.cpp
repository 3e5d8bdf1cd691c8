// pk_interp, up to where the engines differ.
#include "interp.h"

#include <algorithm>

int32_t pk_interp(const double *xp, const double *fp, int64_t size, double left, double right,
                  const double *x, double *out, int64_t count, const pk_options *options, pk_report *report) {
    return pk::called(options, report, std::max<int64_t>(count, 0), [&](pk::Call &call) {
        pk::require(size > 0, "xp and fp have no points");
        pk::require(count >= 0, "count is negative");
        pk::require_aligned(xp, size, sizeof(double));
        pk::require_aligned(fp, size, sizeof(double));
        pk::require_aligned(x, count, sizeof(double));
        pk::require_aligned(out, count, sizeof(double));
        if (count == 0) return;
        pk::interpolation::interpolate({{xp, fp, size, left, right}, x, count, out}, call);
    });
}
