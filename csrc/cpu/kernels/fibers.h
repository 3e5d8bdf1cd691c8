// Fibers: stacks that one CPU thread switches between, for kernel threads that wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/memory_mapping.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#define PK_UCONTEXT 1
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define PK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PK_ASAN 1
#endif
#endif
#if defined(__x86_64__) && !defined(PK_ASAN)
#define PK_SWITCH_BY_JUMP 1
#endif

namespace pk::kernels {

// The state of a fiber that is not running; `bottom` and `bytes` are the bounds of its stack, for
// AddressSanitizer.
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
    // The bytes of a stack without its guard: a thread of a GPU may have 512 KiB of local memory, and loops
    // over threads have 160 KiB of locals.
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
    // Takes over the stacks of others, which have nothing left to do, or throws std::bad_alloc.
    void adopt(Fibers &others);
    int count() const { return int(contexts_.size()); }

    // Whether an address is in the guard of the fiber's stack: an access there is an overflow.
    bool is_guard(int fiber, uint64_t address) const;

    // Makes the fiber begin anew at its next switch.
    void reset(int fiber);

    // Switches to the fiber, and returns when it yields.
    void enter(int fiber) { change(scheduler_, contexts_[size_t(fiber)]); }
    void change(int from, int to) { change(contexts_[size_t(from)], contexts_[size_t(to)]); }
    void yield_to_scheduler(int fiber) { change(contexts_[size_t(fiber)], scheduler_); }

    // Loads the part of the stack that a switch to the fiber reads into the cache.
    void prefetch(int fiber) const {
#if !defined(PK_UCONTEXT)
        const char *const top = static_cast<const char *>(contexts_[size_t(fiber)].stack_pointer);
        __builtin_prefetch(top);
        __builtin_prefetch(top + 192);
#endif
        (void)fiber;
    }

    // The main function of a fiber calls this first: AddressSanitizer is told that the switch has ended.
    static void on_entry();

   private:
    static void change(FiberContext &from, FiberContext &to);

    Base base_;
    FiberContext scheduler_;
#if defined(PK_UCONTEXT)
    std::deque<FiberContext> contexts_;  // a deque: a ucontext_t has pointers to itself
#else
    std::vector<FiberContext> contexts_;
#endif
    std::vector<Mapping> stacks_;
};

// Switches stacks: pushes the frame pointer and an address, and jumps to the address that the other stack
// has. The asm clobbers the other registers, so the compiler saves those that it uses. It is a jump, because
// a return would be predicted to go where the last call came from.
#if defined(PK_SWITCH_BY_JUMP)
__attribute__((always_inline)) inline void Fibers::change(FiberContext &from, FiberContext &to) {
    void **save = &from.stack_pointer;
    void *next = to.stack_pointer;
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\t"  // the red zone
        "pushq %%rbp\n\t"
        "leaq 1f(%%rip), %%rax\n\t"
        "pushq %%rax\n\t"
        "movq %%rsp, (%0)\n\t"
        "movq %1, %%rsp\n\t"
        "popq %%rax\n\t"
        "jmp *%%rax\n"
        "1:\n\t"
        "popq %%rbp\n\t"
        "leaq 128(%%rsp), %%rsp"
        : "+D"(save), "+S"(next)
        :
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1",
          "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
          "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "cc",
          "memory");
}
#endif

}  // namespace pk::kernels
