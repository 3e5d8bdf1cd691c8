// parallel_for_pieces, which is compiled once for all bodies.
#include "parallel_for.h"

namespace pk {

void parallel_for_pieces(Call &call, int64_t count, int64_t piece, int64_t max_threads,
                         const std::function<void(int64_t, int64_t, int64_t)> &body) {
    const auto run = [&](auto &, int64_t begin, int64_t part) {
        call.check_interrupt();
        body(begin / piece, begin, begin + part);
        return part;
    };
    parallel_for(
        call, count, piece, std::min(ceil_div(count, piece), max_threads), [] { return 0; }, run,
        [](auto &) {}, Waking::at_once, Recording::off);
}

}  // namespace pk
