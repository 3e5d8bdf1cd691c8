// pk_interp on the CPU.
#include "common/interp.h"

#include <algorithm>

#include "common/call/parallel_for.h"

namespace pk::interp {

namespace {

constexpr int64_t WORTH_A_THREAD = 8192;  // values, below which no thread is woken
constexpr int64_t SHARE = 65536;          // values between two checks for cancellation

void launch(const Request &request, Call &call) {
    if (request.count == 0) return;
    const int64_t threads = threads_for(request.count, WORTH_A_THREAD);
    const int64_t share = std::min(SHARE, ceil_div(request.count, threads));
    parallel_for(
        call, request.count, share, threads, [] { return int64_t(0); },
        [&](int64_t &point, int64_t first, int64_t count) {
            for (int64_t i = first; i < first + count; ++i) {
                request.out[i] = value_at(request.curve, request.x[i], point);
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
