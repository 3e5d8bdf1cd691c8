// Call: the state of one call of an entry (options, progress, cancellation, report), and the entry functions
// that every family's `extern "C"` functions use.
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
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    void begin(int64_t elements);
    // Begins the next call of a list, when the one before has ended, with the same options and report.
    void begin_next(int64_t elements);
    void end();  // throws if the call was stopped

    // The elements to compute: all, or the ranges of options.rest.
    const std::vector<pk_range> &ranges() const { return ranges_; }

    // Counts elements as done, and throws if the call is to stop. Every thread calls it as often as possible.
    void advance(int64_t elements) {
        done_.fetch_add(elements, std::memory_order_relaxed);
        check_interrupt();
    }
    void check_interrupt();

    // From now on, the call passes over elements this many times: an element that advance() counted so often
    // is done. The thread that made the call calls this, while no other thread takes part.
    void begin_passes(int64_t passes);

    // Calls the progress callback, at most every POLL_INTERVAL. The thread that made the call calls this
    // while it waits.
    void poll_callback();
    static constexpr std::chrono::milliseconds POLL_INTERVAL{50};

    // Records a part that the calling thread has computed, while no other thread takes part.
    void record_computing(double begin, double end, int64_t elements);

    // Counts launches of kernels. Until the first launch, outputs are as they were.
    void count_launch() { launches_.fetch_add(1, std::memory_order_relaxed); }
    int64_t launches() const { return launches_.load(std::memory_order_relaxed); }

    double seconds() const { return std::chrono::duration<double>(Clock::now() - start_time_).count(); }

    const pk_options &options() const { return options_; }
    void report_undelivered(const std::vector<pk_range> &ranges);

    // Overrides the seconds of a stage by a device's own clock, which is more precise than the chunks' spans.
    void set_stage_seconds(int stage, double seconds) { stage_seconds_[stage] = seconds; }

    std::mutex mutex;  // guards the report
    pk_report &report;

   private:
    friend class TraceLane;

    // Counts the call for pk_shutdown(), which waits for it, and blocks its thread if the process is exiting.
    // The counter goes up before the flag is read, so that pk_shutdown() waits for every call that it did not
    // block. This is the first member with a destructor, so the others are gone when the thread blocks.
    struct InFlight {
        InFlight();
        ~InFlight();
    };

    // Returns the lane number of this thread, which takes part in the call. The caller holds the mutex, or no
    // other thread takes part.
    int lane_of_this_thread();
    void add_span(const pk_span &span);

    const InFlight in_flight_;
    Clock::time_point start_time_ = Clock::now();
    const std::thread::id caller_ = std::this_thread::get_id();
    Clock::time_point last_poll_ = start_time_;
    pk_options options_{};
    std::vector<pk_range> ranges_;
    int64_t total_ = 0, passes_ = 1;
    int64_t done_before_ = 0;  // elements, when the passes began
    std::atomic<int64_t> done_{0}, launches_{0};
    std::atomic<int64_t> spans_{0};
    std::atomic<bool> stopped_{false};
    Timeline timeline_;
    std::optional<double> stage_seconds_[PK_STAGE_COUNT];
    std::vector<std::thread::id> threads_;  // those that took part
};

// Runs an entry that computes, in either engine. check() builds a request from the entry's arguments, or
// throws; then launch(request, call), which the engine provides, computes it.
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

// The same for an entry that does not support options.rest.
template <class Check, class Launch>
int32_t run_entry(const pk_options *options, pk_report *report, Check check, Launch launch) {
    const auto check_whole = [&] {
        require(options == nullptr || options->rest == 0, "options.rest is for pk_evaluate");
        return check();
    };
    return run_ranged_entry(options, report, check_whole, launch);
}

// Records the stages of the chunks that one thread processes. A thread has the same lane number throughout a
// call.
class TraceLane {
   public:
    explicit TraceLane(Call &call);
    ~TraceLane();
    TraceLane(const TraceLane &) = delete;
    TraceLane &operator=(const TraceLane &) = delete;

    // Records a stage on the host, or in a slot of a device.
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
