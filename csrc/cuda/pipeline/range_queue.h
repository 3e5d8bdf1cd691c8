// Hands out the elements of a call to the threads that stream them.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "pycudakit.h"

namespace pk {

class RangeQueue {
   public:
    explicit RangeQueue(const std::vector<pk_range> &ranges) : remaining_(ranges.rbegin(), ranges.rend()) {}

    // The next elements, none if there are no more: `run` times `most` of them, and less when fewer are left
    // than would do for all threads, so that none has much to do when the others are done.
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

    // Says that a range that was taken was not delivered; the others need not go on.
    void report_failed(pk_range range) {
        const std::lock_guard<std::mutex> lock(mutex_);
        failed_.push_back(range);
    }

    std::vector<pk_range> report_undelivered() const {
        std::vector<pk_range> ranges = failed_;
        ranges.insert(ranges.end(), remaining_.begin(), remaining_.end());
        ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](auto &r) { return r.count == 0; }),
                     ranges.end());
        return ranges;
    }

   private:
    std::mutex mutex_;
    std::vector<pk_range> remaining_;  // the next one last
    std::vector<pk_range> failed_;
};

}  // namespace pk
