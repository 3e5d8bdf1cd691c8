// An in-order executor for chunks whose kernels must be enqueued in sequence, such as those of a scan.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "common/call/call.h"

namespace pk {

// Thrown in a thread that waits for a chunk whose pipeline has failed; the failing thread reports the cause.
struct PipelineAborted {};

// A combining executor: the thread that holds the next ticket also runs the tickets behind it that have
// arrived; other threads enqueue theirs and return at once. So no thread waits for its turn.
class InOrderExecutor {
   public:
    // Run the work of a chunk when all chunks before it have run, in this thread or a later one.
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

    // Return true if the chunk of this unit has run.
    bool has_run(int64_t unit) const { return next_ > unit; }

    // Wait until the chunk of this unit has run. Throw PipelineAborted after abort().
    void wait_for(int64_t unit, Call &call) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!changed_.wait_for(lock, Call::POLL_INTERVAL, [&] { return is_over_ || has_run(unit); })) {
            lock.unlock();
            call.check_interrupt();
            lock.lock();
        }
        if (!has_run(unit)) throw PipelineAborted();
    }

    // Stop the executor, after the ticket that is running: no other runs.
    void abort() {
        std::unique_lock<std::mutex> lock(mutex_);
        is_over_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !is_busy_; });
    }

   private:
    // A chunk's work, and the first unit after the chunk.
    struct Ticket {
        int64_t end;
        std::function<void()> work;
    };

    // Marks the executor as running while it lives.
    struct Busy {
        Busy(InOrderExecutor &owner, std::unique_lock<std::mutex> &held) : executor(owner), lock(held) {
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
