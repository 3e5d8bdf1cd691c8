// A call under way: what its caller asked for beside the work, and what became of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "pycudakit.h"
#include "status.h"
#include "timeline.h"

namespace pk {

using Clock = std::chrono::steady_clock;

class Call {
   public:
    Call(const pk_options *options, pk_report *report);
    ~Call();
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    void begin(int64_t elements);
    void end();  // throws if the call was stopped

    // What is to be computed of the elements: all, or what options.rest says.
    const std::vector<pk_range> &ranges() const { return ranges_; }

    // For every thread, as often as may be: counts elements done, and throws if the call is to stop.
    void advance(int64_t elements) {
        done_.fetch_add(elements, std::memory_order_relaxed);
        check_interrupt();
    }
    void check_interrupt();

    // For the calling thread while it waits: asks the caller whether to go on, now and then.
    void poll_callback();
    static constexpr std::chrono::milliseconds POLL_INTERVAL{50};

    double seconds() const { return std::chrono::duration<double>(Clock::now() - start_time_).count(); }

    const pk_options &options() const { return options_; }
    void report_undelivered(const std::vector<pk_range> &ranges);

    // The seconds of a stage as a device's own clock has them, finer than those of the chunks' spans.
    void set_stage_seconds(int stage, double seconds) { stage_seconds_[stage] = seconds; }

    std::mutex mutex;  // guards the report
    pk_report &report;

   private:
    friend class TraceLane;

    const Clock::time_point start_time_ = Clock::now();
    const std::thread::id caller_ = std::this_thread::get_id();
    Clock::time_point last_poll_ = start_time_;
    pk_options options_{};
    std::vector<pk_range> ranges_;
    int64_t total_ = 0;
    std::atomic<int64_t> done_{0};
    std::atomic<int64_t> spans_{0};
    std::atomic<bool> stopped_{false};
    Timeline timeline_;
    std::optional<double> stage_seconds_[PK_STAGE_COUNT];
    std::vector<std::thread::id> threads_;  // that took part
};

// What an entry that computes is, in either engine. check() makes a request of the entry's arguments, or
// throws; then the call begins, of as many elements as the request has, and launch(request, call) is the
// engine's.
template <class Check, class Launch>
int32_t run_ranged_entry(const pk_options *options, pk_report *report, Check check, Launch launch) {
    return guarded([&] {
        const auto request = check();
        require(report != nullptr, "report is a null pointer");
        Call call(options, report);
        call.begin(request.elements());
        launch(request, call);
        call.end();
    });
}

// The same, for an entry that does all of its work or none of it.
template <class Check, class Launch>
int32_t run_entry(const pk_options *options, pk_report *report, Check check, Launch launch) {
    const auto check_whole = [&] {
        require(options == nullptr || options->rest == 0, "options.rest is for pk_evaluate");
        return check();
    };
    return run_ranged_entry(options, report, check_whole, launch);
}

// What one thread tells of the stages that its chunks went through; by the same number, all through a call.
class TraceLane {
   public:
    explicit TraceLane(Call &call);
    ~TraceLane();
    TraceLane(const TraceLane &) = delete;
    TraceLane &operator=(const TraceLane &) = delete;

    // On the host, or on a device in a slot.
    void add(int stage, double begin, double end, int64_t bytes, int64_t elements) {
        add(stage, begin, end, bytes, elements, -1, number_);
    }
    void add(int stage, double begin, double end, int64_t bytes, int64_t elements, int device, int slot);

   private:
    Call &call_;
    int number_;
    Timeline timeline_;
};

}  // namespace pk
