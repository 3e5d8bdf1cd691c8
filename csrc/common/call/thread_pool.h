// Thread pool of the host.
#pragma once

#include <cstdint>
#include <functional>

namespace pk {

// The number of threads that compute, the calling one included: PYCUDAKIT_THREADS, or as many as the process
// may use; 1 inside a SingleThreadScope.
int64_t thread_count();

// While it exists, calls of its thread use that thread alone, because the other threads have work of their
// own.
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

// Runs work() on the calling thread and, at the same time, on up to `threads` - 1 helpers. `work` distributes
// its parts itself, through an atomic counter; helpers that come too late are not waited for. Concurrent
// calls share the helpers. Throws the first exception of any thread.
void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work);

// The same, but the calling thread runs own(wake), and helpers join when it calls wake().
using Wake = std::function<void()>;
void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work,
                    const std::function<void(const Wake &)> &own);

// Whether some helpers are polling for work: they join at once, while waking the others takes some time.
bool helpers_are_awake();

// Runs body() on a new detached thread with all signals blocked, since signals are for the program's threads.
// Returns false if the system refuses the thread.
bool start_thread(const std::function<void()> &body);

// Sets default rounding and no flushing to zero while it exists, whatever the calling thread has set.
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
