#include "common/interp.h"

#include <algorithm>

#include "common/call/share_out.h"

namespace pk::interpolation {

namespace {

constexpr int64_t WORTH_A_THREAD = 8192;  // values, below which a thread is not woken for more
constexpr int64_t SHARE = 65536;          // values between two looks at whether the call is to stop

}  // namespace

void interpolate(const Interpolation &given, Call &call) {
    const int64_t threads = std::clamp<int64_t>(given.count / WORTH_A_THREAD, 1, thread_count());
    const int64_t share = std::min(SHARE, (given.count + threads - 1) / threads);
    share_out(
        call, given.count, share, threads, [] { return int64_t(0); },
        [&](int64_t &point, int64_t first, int64_t count) {
            for (int64_t i = first; i < first + count; ++i) {
                given.out[i] = value_at(given.curve, given.x[i], point);
            }
            call.advance(count);
            return count;
        });
}

}  // namespace pk::interpolation
