// Thread pool of the host, and the floating-point environment of its threads.
#pragma once

#include <cstdint>
#include <functional>

namespace pk {

// The number of threads that compute, the calling one included: PYCUDAKIT_THREADS, or as many as the process
// may use; 1 inside a SingleThreadScope.
int64_t thread_count();

// While an object exists, calls of the thread that made it run on that thread alone: the other threads have
// work of their own.
class SingleThreadScope {
   public:
    SingleThreadScope();
    ~SingleThreadScope();
    SingleThreadScope(const SingleThreadScope &) = delete;
    SingleThreadScope &operator=(const SingleThreadScope &) = delete;

   private:
    const bool was_;
};

class Call;

// Calls work() on the calling thread and, at the same time, on up to `threads` - 1 helpers, once on each.
// work() takes parts of the work through an atomic counter until none is left. Helpers that have not begun
// when the calling thread's work() returns no longer begin. Concurrent calls share the helpers. Throws the
// calling thread's exception, or else the first of a helper.
void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work);

// The same, but the calling thread calls caller_work(wake_helpers) in place of work(), and helpers join when
// that function calls wake_helpers().
using WakeHelpers = std::function<void()>;
void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work,
                    const std::function<void(const WakeHelpers &)> &caller_work);

// Whether some helpers are spinning until there is work: they join at once, while a helper that sleeps takes
// some time to wake.
bool helpers_are_spinning();

// Runs body() on a new detached thread with all signals blocked, since signals are for the program's threads.
// Returns false if the system refuses the thread.
bool start_thread(const std::function<void()> &body);

// While an object exists, its thread rounds to nearest and does not flush to zero, whatever the program has
// set.
class DefaultFloatingPoint {
   public:
    DefaultFloatingPoint();
    ~DefaultFloatingPoint();
    DefaultFloatingPoint(const DefaultFloatingPoint &) = delete;
    DefaultFloatingPoint &operator=(const DefaultFloatingPoint &) = delete;

   private:
    alignas(8) unsigned char saved_[64];
};

}  // namespace pk
