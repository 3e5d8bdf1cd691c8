// Fibers: stacks that one CPU thread switches between, for kernel threads that wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "memory_mapping.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#define PK_UCONTEXT 1
#include <ucontext.h>
#endif

namespace pk::kernels {

// The saved stack pointer of a fiber that is not running.
struct FiberContext {
#if defined(PK_UCONTEXT)
    ucontext_t context{};
#else
    void *stack_pointer = nullptr;
#endif
    const void *bottom = nullptr;
    size_t bytes = 0;
};

using Base = void (*)();  // the main function of a fiber, which never returns

class Fibers {
   public:
    // Without the guard. A thread of a GPU may have 512 KiB of local memory.
    static constexpr size_t STACK = size_t(704) << 10;

    // The maximum of stacks in a process: the operating system limits mappings, and a stack with its guard
    // may be two.
    static int64_t max_count();

    explicit Fibers(Base base) : base_(base) {}
    ~Fibers();
    Fibers(const Fibers &) = delete;
    Fibers &operator=(const Fibers &) = delete;

    // Grows to `count` fibers, or throws std::bad_alloc. Existing fibers are unchanged.
    void make(int count);
    int count() const { return int(contexts_.size()); }

    // Makes the fiber begin anew at its next switch.
    void reset(int fiber);

    // Switches to the fiber, and returns when it yields.
    void enter(int fiber) { change(scheduler_, contexts_[size_t(fiber)]); }
    void change(int from, int to) { change(contexts_[size_t(from)], contexts_[size_t(to)]); }
    void yield_to_scheduler(int fiber) { change(contexts_[size_t(fiber)], scheduler_); }

    // A base calls this first.
    static void on_entry();

   private:
    void change(FiberContext &from, FiberContext &to);

    Base base_;
    FiberContext scheduler_;
    std::deque<FiberContext> contexts_;  // a deque: addresses are stable
    std::vector<Mapping> stacks_;
};

}  // namespace pk::kernels
