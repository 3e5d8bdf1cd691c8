// Hands out the elements of a call to the threads that stream them.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "pycudakit.h"

namespace pk {

class Cursor {
   public:
    explicit Cursor(const std::vector<pk_range> &ranges) : left_(ranges.rbegin(), ranges.rend()) {}

    // The next elements, none if there are no more: `run` times `most` of them, and less when fewer are left
    // than would do for all threads, so that none has much to do when the others are done.
    pk_range take(int64_t threads, int64_t least, int64_t most, int64_t run) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (left_.empty() || !lost_.empty()) return {0, 0};
        pk_range &next = left_.back();
        int64_t share = most * run;
        if (next.count < threads * share) share = std::min(most, next.count / threads / least * least);
        share = std::max(share, least);
        const pk_range taken{next.start, std::min(share, next.count)};
        next.start += taken.count;
        next.count -= taken.count;
        if (next.count == 0) left_.pop_back();
        return taken;
    }

    // Says that a range that was taken was not delivered; the others need not go on.
    void lose(pk_range range) {
        const std::lock_guard<std::mutex> lock(mutex_);
        lost_.push_back(range);
    }

    std::vector<pk_range> not_delivered() const {
        std::vector<pk_range> ranges = lost_;
        ranges.insert(ranges.end(), left_.begin(), left_.end());
        ranges.erase(std::remove_if(ranges.begin(), ranges.end(), [](auto &r) { return r.count == 0; }),
                     ranges.end());
        return ranges;
    }

   private:
    std::mutex mutex_;
    std::vector<pk_range> left_;  // the next one last
    std::vector<pk_range> lost_;
};

}  // namespace pk
