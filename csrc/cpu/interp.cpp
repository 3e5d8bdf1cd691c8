// pk_interp on the CPU.
#include "common/interp.h"

#include <algorithm>

#include "binary_searches.h"
#include "common/call/parallel_for.h"

namespace pk::interp {

namespace {

constexpr int64_t WORTH_A_THREAD = 1024;  // values, below which no thread is woken
constexpr int64_t SHARE = 65536;          // values between two checks for cancellation

// Interpolates at up to SEARCH_WIDTH values. `point` is as for value_at(): if it is no good guess for the
// first value, all are searched for.
void interpolate(const Curve &curve, const double *x, int64_t count, int64_t &point, double *out) {
    int64_t insertions[SEARCH_WIDTH];
    const bool is_right_guess = is_last_point_at_or_below(curve, point, x[0]);
    if (!is_right_guess) {
        const auto xp_at = [&](int64_t at) { return curve.xp[at]; };
        insertion_points<true>(xp_at, curve.size, x, count, insertions);
    }
    for (int64_t i = 0; i < count; ++i) {
        if (!is_right_guess) point = std::max<int64_t>(insertions[i] - 1, 0);
        out[i] = value_at(curve, x[i], point);
    }
}

void launch(const Request &request, Call &call) {
    if (request.count == 0) return;
    const int64_t threads = threads_for(request.count, WORTH_A_THREAD);
    const int64_t share = std::min(SHARE, ceil_div(request.count, threads));
    parallel_for(
        call, request.count, share, threads, [] { return int64_t(0); },
        [&](int64_t &point, int64_t first, int64_t count) {
            for (int64_t i = first; i < first + count; i += SEARCH_WIDTH) {
                const int64_t own = std::min(SEARCH_WIDTH, first + count - i);
                interpolate(request.curve, request.x + i, own, point, request.out + i);
            }
            call.advance(count);
            return count;
        });
}

}  // namespace

}  // namespace pk::interp

extern "C" int32_t pk_interp(const double *xp, const double *fp, int64_t size, double left, double right,
                             const double *x, double *out, int64_t count, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::interp::Request({xp, fp, size, left, right}, x, out, count); },
        pk::interp::launch);
}
