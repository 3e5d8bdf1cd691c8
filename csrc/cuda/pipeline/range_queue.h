// A work queue of ranges: hands out the units of a call to the pipeline's threads.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "pycudakit.h"

namespace pk {

// The units of a call that no thread has taken yet, and the ranges that failed.
class RangeQueue {
   public:
    explicit RangeQueue(const std::vector<pk_range> &ranges) : remaining_(ranges.rbegin(), ranges.rend()) {}

    // Take the next units: `run_chunks` chunks of `max_units`, or fewer near the end, so that all threads
    // finish at about the same time. Return an empty range if none are left or a chunk has failed.
    pk_range take(int64_t threads, int64_t min_units, int64_t max_units, int64_t run_chunks) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (remaining_.empty() || !failed_.empty()) return {0, 0};
        pk_range &next = remaining_.back();
        int64_t share = max_units * run_chunks;
        if (next.count < threads * share)
            share = std::min(max_units, next.count / threads / min_units * min_units);
        share = std::max(share, min_units);
        const pk_range taken{next.start, std::min(share, next.count)};
        next.start += taken.count;
        next.count -= taken.count;
        if (next.count == 0) remaining_.pop_back();
        return taken;
    }

    // Record a taken range that was not delivered, and stop the queue.
    void report_failed(pk_range range) {
        const std::lock_guard<std::mutex> lock(mutex_);
        failed_.push_back(range);
    }

    // Return the ranges that failed or were never taken.
    std::vector<pk_range> report_undelivered() const {
        std::vector<pk_range> ranges = failed_;
        ranges.insert(ranges.end(), remaining_.begin(), remaining_.end());
        ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](auto &r) { return r.count == 0; }),
                     ranges.end());
        return ranges;
    }

   private:
    std::mutex mutex_;
    std::vector<pk_range> remaining_;  // in reverse: the next one is last
    std::vector<pk_range> failed_;
};

}  // namespace pk
