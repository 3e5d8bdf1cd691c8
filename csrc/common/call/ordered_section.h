// OrderedSection: the part of a parallel loop that runs in the order of the loop's iterations, like an
// `ordered` region of OpenMP.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "call.h"
#include "parallel_for.h"

namespace pk {

// Thrown in a thread that waits for another one that has failed; the failing thread reports the cause.
struct Aborted : std::exception {
    const char *what() const noexcept override { return "another thread has failed"; }
};

// Threads take ranges of iterations in ascending order, and enter the section of each range by run(), or all
// of them by enqueue().
class OrderedSection {
   public:
    OrderedSection() = default;
    OrderedSection(const OrderedSection &) = delete;
    OrderedSection &operator=(const OrderedSection &) = delete;

    // Runs work() once the sections of all iterations before these have run. Throws Aborted if abort() keeps
    // one of these from running.
    template <class Work>
    void run(pk_range iterations, Call &call, Work &&work) {
        wait_until(iterations.start, call);
        std::forward<Work>(work)();
        next_ = iterations.start + iterations.count;
        if (sleeping_ == 0) return;
        const std::lock_guard<std::mutex> lock(mutex_);  // a thread that has seen the old number waits by now
        changed_.notify_all();
    }

    // Runs work() once the sections of all iterations before these have run, on this thread or a later one: a
    // combining executor. The thread whose section is next also runs those behind it that have arrived; other
    // threads leave theirs and return at once. So no thread waits for its turn.
    void enqueue(pk_range iterations, std::function<void()> work) {
        std::unique_lock<std::mutex> lock(mutex_);
        waiting_[iterations.start] = {iterations.start + iterations.count, std::move(work)};
        if (is_busy_) return;
        const Busy busy(*this, lock);
        for (auto ticket = waiting_.find(next_); ticket != waiting_.end() && !is_aborted_;
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

    // Returns true if the section of this iteration has run.
    bool has_run(int64_t iteration) const { return next_ > iteration; }

    // Waits until the section of this iteration has run. Throws Aborted if abort() keeps it from running.
    void wait_for(int64_t iteration, Call &call) { wait_until(iteration + 1, call); }

    // Wakes the threads that wait for their turn, lets no further enqueued section run, and returns once none
    // is running.
    void abort() {
        std::unique_lock<std::mutex> lock(mutex_);
        is_aborted_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !is_busy_; });
    }
    bool is_aborted() const { return is_aborted_; }

   private:
    struct Ticket {
        int64_t end = 0;  // the first iteration after its range
        std::function<void()> work;
    };

    // Marks the executor as running while it lives.
    struct Busy {
        Busy(OrderedSection &owner, std::unique_lock<std::mutex> &held) : section(owner), lock(held) {
            section.is_busy_ = true;
        }
        ~Busy() {
            if (!lock.owns_lock()) lock.lock();
            section.is_busy_ = false;
            section.changed_.notify_all();
        }
        Busy(const Busy &) = delete;
        Busy &operator=(const Busy &) = delete;

        OrderedSection &section;
        std::unique_lock<std::mutex> &lock;
    };

    // Waits until the sections of all iterations before this one have run. The wait is short as a rule, since
    // threads take iterations in order, and waking a thread takes long: so the thread spins before it sleeps.
    void wait_until(int64_t iteration, Call &call) {
        constexpr int64_t SPINS = 1000, YIELDS = 1000;
        for (int64_t turn = 0; turn < SPINS + YIELDS && !is_aborted_; ++turn) {
            if (next_.load(std::memory_order_acquire) >= iteration) return;
            if (turn < SPINS) continue;
            std::this_thread::yield();
            if (turn % 64 == 0) call.check_interrupt();
        }
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleeping_;
        const auto is_over = [&] { return is_aborted_ || next_ >= iteration; };
        try {
            while (!changed_.wait_for(lock, Call::POLL_INTERVAL, is_over)) {
                lock.unlock();
                call.check_interrupt();
                lock.lock();
            }
        } catch (...) {
            --sleeping_;
            throw;
        }
        --sleeping_;
        if (next_ < iteration) throw Aborted();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<int64_t, Ticket> waiting_;  // by the first iteration of a range
    std::atomic<int64_t> next_{0};       // the first iteration whose section has not run
    std::atomic<int64_t> sleeping_{0};   // threads that wait_until() lets sleep
    std::atomic<bool> is_aborted_{false};
    bool is_busy_ = false;
};

// parallel_for with an ordered section: computes each part by run(worker, section, first, count), which
// enters the section for each part that it computes.
template <class Make, class Run, class End>
void parallel_for_ordered(Call &call, int64_t count, int64_t grain, int64_t threads, Make make, Run run,
                          End end) {
    OrderedSection section;
    parallel_for(
        call, count, grain, threads, make,
        [&](auto &worker, int64_t first, int64_t part) -> int64_t {
            if (section.is_aborted()) return 0;
            try {
                return run(worker, section, first, part);
            } catch (const Aborted &) {
                return 0;
            } catch (...) {
                section.abort();
                throw;
            }
        },
        end);
}

}  // namespace pk
