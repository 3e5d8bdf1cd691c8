// A kernel's own code asks nobody whether it is to go on. So a signal takes threads out of it now and then.
#pragma once

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PK_SANITIZED 1
#endif
#endif

// Sanitizers hold signals back, and other systems are untried.
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(PK_SANITIZED)
#define PK_INTERRUPTING 1
#endif

namespace pk::kernels {

// Where instructions lie.
struct Code {
    uint64_t begin = 0, bytes = 0;
    bool has(uint64_t address) const { return address - begin < bytes; }
};

// Those of the library that a function is of.
Code code_around(const void *function);

class BlockExecutor;

// While one lives, the calling thread has worker.interrupted() called, in a handler of a signal, each time
// that it has been in a kernel for long.
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
