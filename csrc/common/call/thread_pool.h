// The library's host threads.
#pragma once

#include <cstdint>
#include <functional>

namespace pk {

// Threads that compute, the caller's included: PYCUDAKIT_THREADS, or as many as the process may use. One,
// where the caller computes alone.
int64_t thread_count();

// While it lives, what its thread calls is computed by that thread alone, as others have work of their own.
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

// Calls work() on the calling thread and, at the same time, on up to `threads` - 1 of the pool's. Work is
// shared out by `work` itself, through a counter of its own; a thread that comes too late is not waited
// for. Calls at the same time share the pool's threads. Throws the first exception of any.
void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work);

// The same, but on the calling thread `own`, at whose argument's call the other threads are asked to come.
using Wake = std::function<void()>;
void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work,
                    const std::function<void(const Wake &)> &own);

// Whether some of the pool's threads look for work: they come at once. Those that sleep take a while.
bool helpers_are_awake();

// Has body() run by a thread of its own, which nobody joins and no signal reaches: those are for the
// program's threads. Returns whether the system had one.
bool start_thread(const std::function<void()> &body);

// Default rounding and no flushing to zero while it lives, whatever the calling thread had set.
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
