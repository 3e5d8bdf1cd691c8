// Preemption of kernels on the CPU: a kernel's own code never checks for cancellation, so a signal interrupts
// its thread periodically.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PK_SANITIZED 1
#endif
#endif

// Not with sanitizers, which delay signals, nor on platforms where it is untested.
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(PK_SANITIZED)
#define PK_INTERRUPTING 1
#endif

namespace pk::kernels {

// A range of instructions.
struct Code {
    uint64_t begin = 0, bytes = 0;
    bool has(uint64_t address) const { return address - begin < bytes; }
};

// Where a signal has interrupted a thread: the instruction, and the one that a function without a stack frame
// of its own would return to. `context` is the ucontext_t of the signal's handler.
struct Interrupted {
    explicit Interrupted(const void *context);
    uint64_t at = 0, caller = 0;
};

// The code segment of the library that contains a function.
Code code_around(const void *function);

class BlockExecutor;

// While it exists, a signal handler calls worker.interrupted() on the calling thread whenever it has been in
// a kernel for long.
class PreemptionScope {
   public:
    explicit PreemptionScope(BlockExecutor &worker);
    ~PreemptionScope();
    PreemptionScope(const PreemptionScope &) = delete;
    PreemptionScope &operator=(const PreemptionScope &) = delete;

   private:
    BlockExecutor &worker_;
};

}  // namespace pk::kernels
