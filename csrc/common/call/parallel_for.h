// parallel_for: dynamic loops over [0, count) on the host's threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <tuple>
#include <utility>

#include "call.h"
#include "common/rounding.h"
#include "thread_pool.h"

namespace pk {

// Seconds of remaining work for one thread from which other threads are woken. Waking takes some 60 us on
// virtual processors, of which the waking thread spends a third.
constexpr double WORTH_WAKING = 110e-6;

// When helper threads are woken: at once, or only if the first parts show that the rest takes long.
enum class Waking { at_once, if_long };

// Whether a loop records its parts as PK_STAGE_COMPUTE of the call; else its caller does.
enum class Recording { on, off };

// The number of threads for so much work, of which `worth_a_thread` is worth waking another one.
inline int64_t threads_for(int64_t work, int64_t worth_a_thread) {
    return std::clamp<int64_t>(work / worth_a_thread, 1, thread_count());
}

// Computes [0, count) as parallel_for does, on the calling thread alone: nothing is locked or shared.
template <class Make, class Run, class End>
void loop_alone(Call &call, int64_t count, int64_t grain, Make make, Run run, End end, Recording recording) {
    if (count <= 0) return;
    const DefaultFloatingPoint environment;
    const bool begins_the_call = recording == Recording::off || call.report.chunks == 0;
    double begin = begins_the_call ? 0 : call.seconds();
    auto &&worker = make();
    for (int64_t first = 0; first < count; first += grain) {
        const int64_t elements = run(worker, first, std::min(grain, count - first));
        if (recording == Recording::off) continue;
        const double now = call.seconds();
        call.record_computing(begin, now, elements);
        begin = now;
        ++call.report.chunks;
    }
    end(worker);
}

// Distributes [0, count) to threads, `grain` elements at a time, or, if helpers are woken late, fewer. Each
// thread makes its own worker by make(), and computes each part by run(worker, first, count), which returns
// how many elements it computed. After its last part it calls end(worker) while it holds call.mutex, so that
// end() may write shared results.
template <class Make, class Run, class End>
void parallel_for(Call &call, int64_t count, int64_t grain, int64_t threads, Make make, Run run, End end,
                  Waking waking = Waking::at_once, Recording recording = Recording::on) {
    if (threads <= 1 || thread_count() <= 1) return loop_alone(call, count, grain, make, run, end, recording);
    if (count / grain < 4 * threads) waking = Waking::at_once;
    const int64_t min_grain = waking == Waking::at_once ? grain : (grain + 3) / 4;
    std::atomic<int64_t> next{0};
    const auto take = [&](int64_t max_part) {
        const int64_t fair = (count - next) / (2 * threads);
        const int64_t part = std::clamp(fair, min_grain, max_part), first = next.fetch_add(part);
        return std::pair(first, std::min(part, count - first));
    };
    // Processes parts until none is left; the first has at most max_part elements. The calling thread wakes
    // helpers by *wake_helpers once the rest is worth it.
    const auto take_parts = [&](int64_t max_part, const WakeHelpers *wake_helpers) {
        if (next >= count) return;
        const DefaultFloatingPoint environment;
        // The calls that can fail come before a part is taken, since other threads may wait for a taken part.
        TraceLane lane(call);
        auto worker = make();
        auto [first, part] = take(max_part);
        if (part <= 0) return;
        while (part > 0) {
            const double begin = call.seconds();
            const int64_t elements = run(worker, first, part);
            const double now = call.seconds();
            if (recording == Recording::on) lane.add(PK_STAGE_COMPUTE, begin, now, 0, elements);
            if (wake_helpers != nullptr &&
                (now - begin) / double(part) * double(count - next) > WORTH_WAKING) {
                (*wake_helpers)();
                wake_helpers = nullptr;
            }
            std::tie(first, part) = take(grain);
        }
        const std::lock_guard<std::mutex> lock(call.mutex);
        end(worker);
    };
    const auto work = [&] { take_parts(grain, nullptr); };
    const auto caller_work = [&](const WakeHelpers &wake_helpers) {
        const bool at_once = waking == Waking::at_once || helpers_are_spinning();
        if (at_once) wake_helpers();
        take_parts(at_once ? grain : min_grain, at_once ? nullptr : &wake_helpers);
    };
    run_on_threads(threads, call, std::ref(work),
                   std::ref(caller_work));  // references: std::function then allocates nothing
    if (recording == Recording::on) call.report.chunks += ceil_div(count, grain);
}

template <class Make, class Run>
void parallel_for(Call &call, int64_t count, int64_t grain, int64_t threads, Make make, Run run) {
    parallel_for(call, count, grain, threads, make, run, [](auto &) {});
}

// A loop without workers: calls body(index, begin, end) for each piece of `piece` elements of [0, count), on
// at most max_threads threads. It records nothing.
void parallel_for_pieces(Call &call, int64_t count, int64_t piece, int64_t max_threads,
                         const std::function<void(int64_t, int64_t, int64_t)> &body);

inline void parallel_for_pieces(Call &call, int64_t count, int64_t piece,
                                const std::function<void(int64_t, int64_t, int64_t)> &body) {
    parallel_for_pieces(call, count, piece, thread_count(), body);
}

}  // namespace pk
