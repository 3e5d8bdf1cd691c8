// The order of chunks whose work must be queued one after the other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "common/call/call.h"

namespace pk {

// Thrown where a chunk waits for another one that has failed, which tells why.
struct PipelineAborted {};

// Nobody waits to queue: whoever comes when it is his chunk's turn also does so for those behind it that are
// there, and the others leave theirs to whoever has the chunk before.
class InOrderExecutor {
   public:
    void enqueue(pk_range units, std::function<void()> work) {
        std::unique_lock<std::mutex> lock(mutex_);
        waiting_[units.start] = {units.start + units.count, std::move(work)};
        if (is_busy_) return;
        const Busy busy(*this, lock);
        for (auto ticket = waiting_.find(next_); ticket != waiting_.end() && !is_over_;
             ticket = waiting_.find(next_)) {
            const Ticket current = std::move(ticket->second);
            waiting_.erase(ticket);
            lock.unlock();
            current.work();
            lock.lock();
            next_ = current.end;
            changed_.notify_all();
        }
    }

    bool has_run(int64_t unit) const { return next_ > unit; }

    void wait_for(int64_t unit, Call &call) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!changed_.wait_for(lock, Call::POLL_INTERVAL, [&] { return is_over_ || has_run(unit); })) {
            lock.unlock();
            call.check_interrupt();
            lock.lock();
        }
        if (!has_run(unit)) throw PipelineAborted();
    }

    // From now on nothing is queued, and nothing is being queued.
    void abort() {
        std::unique_lock<std::mutex> lock(mutex_);
        is_over_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !is_busy_; });
    }

   private:
    struct Ticket {
        int64_t end;
        std::function<void()> work;
    };

    struct Busy {
        Busy(InOrderExecutor &busy, std::unique_lock<std::mutex> &held) : executor(busy), lock(held) {
            executor.is_busy_ = true;
        }
        ~Busy() {
            if (!lock.owns_lock()) lock.lock();
            executor.is_busy_ = false;
            executor.changed_.notify_all();
        }
        Busy(const Busy &) = delete;

        InOrderExecutor &executor;
        std::unique_lock<std::mutex> &lock;
    };

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<int64_t, Ticket> waiting_;  // by the first unit of a chunk
    std::atomic<int64_t> next_{0};
    bool is_busy_ = false, is_over_ = false;
};

}  // namespace pk
