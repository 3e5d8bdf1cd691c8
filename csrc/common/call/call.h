// A call under way: what its caller asked for beside the work, and what became of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
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

    // The elements to compute of a call that has `size`.
    std::vector<pk_range> begin(int64_t size);
    void end();  // throws if the call was stopped

    // For every thread, as often as may be: counts elements done, and throws if the call is to stop.
    void advance(int64_t elements) {
        done_.fetch_add(elements, std::memory_order_relaxed);
        look();
    }
    void look();

    // For the calling thread while it waits: asks the caller whether to go on, now and then.
    void ask();
    static constexpr std::chrono::milliseconds PATIENCE{50};

    double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

    const pk_options &options() const { return options_; }
    void not_delivered(const std::vector<pk_range> &ranges);

    std::mutex mutex;  // guards the report
    pk_report &report;

   private:
    friend class Lane;

    const Clock::time_point began_ = Clock::now();
    const std::thread::id caller_ = std::this_thread::get_id();
    Clock::time_point asked_ = began_;
    pk_options options_{};
    int64_t all_ = 0;
    std::atomic<int64_t> done_{0};
    std::atomic<int64_t> spans_{0};
    std::atomic<bool> stopped_{false};
    Timeline timeline_;
    std::vector<std::thread::id> threads_;  // that took part
};

// Calls compute(call), for a call of `size` elements that is done as a whole.
template <class Compute>
void run_call(const pk_options *options, pk_report *report, int64_t size, Compute compute) {
    require(report != nullptr, "report is a null pointer");
    require(options == nullptr || options->rest == 0, "options.rest is for pk_evaluate");
    Call call(options, report);
    call.begin(size);
    compute(call);
    call.end();
}

// What an entry that computes is around the computing itself.
template <class Compute>
int32_t called(const pk_options *options, pk_report *report, int64_t size, Compute compute) {
    return guarded([&] { run_call(options, report, size, compute); });
}

// What one thread tells of the stages that its chunks went through; by the same number, all through a call.
class Lane {
   public:
    explicit Lane(Call &call);
    ~Lane();
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;

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
