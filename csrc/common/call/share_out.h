// How the host's threads share what a call computes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "call.h"
#include "thread_pool.h"

namespace pk {

// Hands out [0, count) to threads, `share` at a time. Each thread that gets any makes its own worker by
// make(), computes by run(worker, first, count), which returns how many elements that were, and ends with
// end(worker), which is for one thread at a time.
template <class Make, class Run, class End>
void share_out(Call &call, int64_t count, int64_t share, int64_t threads, Make make, Run run, End end) {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
        int64_t first = next.fetch_add(share);
        if (first >= count) return;
        const DefaultFloatingPoint environment;
        Lane lane(call);
        auto worker = make();
        for (; first < count; first = next.fetch_add(share)) {
            const double begin = call.seconds();
            const int64_t elements = run(worker, first, std::min(share, count - first));
            lane.add(PK_COMPUTE, begin, call.seconds(), 0, elements);
        }
        const std::lock_guard<std::mutex> lock(call.mutex);
        end(worker);
    };
    run_on_threads(threads, call, std::ref(work));  // which costs no memory
    call.report.chunks += (count + share - 1) / share;
}

template <class Make, class Run>
void share_out(Call &call, int64_t count, int64_t share, int64_t threads, Make make, Run run) {
    share_out(call, count, share, threads, make, run, [](auto &) {});
}

}  // namespace pk
