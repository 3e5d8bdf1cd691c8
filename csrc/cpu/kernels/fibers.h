// Stacks that one thread of the CPU switches between: what a kernel's threads run on where they wait for each
// other.
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

// Where a stack stands while another runs.
struct FiberContext {
#if defined(PK_UCONTEXT)
    ucontext_t context{};
#else
    void *stack_pointer = nullptr;
#endif
    const void *bottom = nullptr;
    size_t bytes = 0;
};

using Base = void (*)();  // what a fiber begins with; it never returns

class Fibers {
   public:
    // Beside its guard. A thread of a GPU may have 512 KiB of memory of its own.
    static constexpr size_t STACK = size_t(704) << 10;

    // How many the process may have: the system bounds the mappings of a process, and a guard may be two.
    static int64_t max_count();

    explicit Fibers(Base base) : base_(base) {}
    ~Fibers();
    Fibers(const Fibers &) = delete;
    Fibers &operator=(const Fibers &) = delete;

    // So many of them, or std::bad_alloc; those that there were stay as they are.
    void make(int count);
    int count() const { return int(contexts_.size()); }

    // The fiber begins anew when it is switched to.
    void reset(int fiber);

    // Goes on there, until somebody comes back.
    void enter(int fiber) { change(scheduler_, contexts_[size_t(fiber)]); }
    void change(int from, int to) { change(contexts_[size_t(from)], contexts_[size_t(to)]); }
    void yield_to_scheduler(int fiber) { change(contexts_[size_t(fiber)], scheduler_); }

    // To be called first by a base.
    static void on_entry();

   private:
    void change(FiberContext &from, FiberContext &to);

    Base base_;
    FiberContext scheduler_;
    std::deque<FiberContext> contexts_;  // which stay where they are
    std::vector<Mapping> stacks_;
};

}  // namespace pk::kernels
