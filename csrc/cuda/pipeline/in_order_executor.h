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
struct Abandoned {};

// Nobody waits to queue: whoever comes when it is his chunk's turn also does so for those behind it that are
// there, and the others leave theirs to whoever has the chunk before.
class Turns {
   public:
    void queue(pk_range units, std::function<void()> work) {
        std::unique_lock<std::mutex> lock(mutex_);
        waiting_[units.start] = {units.start + units.count, std::move(work)};
        if (is_busy_) return;
        const Busy busy(*this, lock);
        for (auto found = waiting_.find(next_); found != waiting_.end() && !is_over_;
             found = waiting_.find(next_)) {
            const Waiting own = std::move(found->second);
            waiting_.erase(found);
            lock.unlock();
            own.work();
            lock.lock();
            next_ = own.end;
            changed_.notify_all();
        }
    }

    bool has_passed(int64_t unit) const { return next_ > unit; }

    void wait_for(int64_t unit, Call &call) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!changed_.wait_for(lock, Call::PATIENCE, [&] { return is_over_ || has_passed(unit); })) {
            lock.unlock();
            call.look();
            lock.lock();
        }
        if (!has_passed(unit)) throw Abandoned();
    }

    // From now on nothing is queued, and nothing is being queued.
    void end() {
        std::unique_lock<std::mutex> lock(mutex_);
        is_over_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !is_busy_; });
    }

   private:
    struct Waiting {
        int64_t end;
        std::function<void()> work;
    };

    struct Busy {
        Busy(Turns &of, std::unique_lock<std::mutex> &held) : turns(of), lock(held) { turns.is_busy_ = true; }
        ~Busy() {
            if (!lock.owns_lock()) lock.lock();
            turns.is_busy_ = false;
            turns.changed_.notify_all();
        }
        Busy(const Busy &) = delete;

        Turns &turns;
        std::unique_lock<std::mutex> &lock;
    };

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<int64_t, Waiting> waiting_;  // by the first unit of a chunk
    std::atomic<int64_t> next_{0};
    bool is_busy_ = false, is_over_ = false;
};

}  // namespace pk
