// The signal handlers that end a kernel after a fault of its own code.
#include "faults.h"

#include "block_executor.h"

#if defined(PK_INTERRUPTING)
#include <pthread.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstdio>
#endif

namespace pk::kernels {

#if !defined(PK_INTERRUPTING)

void catch_faults() {}
std::string describe(const Fault &) { return {}; }

#else

namespace {

struct Handled {
    int number;
    struct sigaction before;  // the action that was installed
};
std::array<Handled, 4> handled = {{{SIGSEGV, {}}, {SIGBUS, {}}, {SIGFPE, {}}, {SIGILL, {}}}};

// Calls the handler that was installed before. If there was none, the default one ends the process: a fault
// happens again, and a signal that was sent is sent again.
void pass_on(int number, siginfo_t *about, void *context) {
    for (const Handled &each : handled) {
        if (each.number != number) continue;
        if ((each.before.sa_flags & SA_SIGINFO) != 0) return each.before.sa_sigaction(number, about, context);
        if (each.before.sa_handler == SIG_IGN && about->si_code <= 0) return;
        if (each.before.sa_handler != SIG_DFL && each.before.sa_handler != SIG_IGN)
            return each.before.sa_handler(number);
        struct sigaction standard{};
        standard.sa_handler = SIG_DFL;
        sigaction(number, &standard, nullptr);
        if (about->si_code <= 0) raise(number);
    }
}

// Returns only if the fault is not the kernel's. It runs on the signal stack, if the thread has one (Python's
// faulthandler makes one), which is free again after the jump to another stack; else on the kernel's own.
void handle(int number, siginfo_t *about, void *context) {
    const int saved = errno;
    if (about->si_code > 0) {  // not sent by a process
        if (BlockExecutor *worker = BlockExecutor::of_this_thread()) {
            const Interrupted interrupted(context);
            if (worker->is_at(interrupted))
                worker->leave({number, about->si_code, reinterpret_cast<uint64_t>(about->si_addr)});
        }
    }
    errno = saved;
    pass_on(number, about, context);
}

bool install() {
    for (Handled &each : handled) {
        struct sigaction wanted{};
        wanted.sa_sigaction = handle;
        wanted.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&wanted.sa_mask);
        sigaction(each.number, &wanted, &each.before);
    }
    return true;
}

}  // namespace

std::string describe(const Fault &fault) {
    if (fault.number == SIGFPE) return "divides the least integer by -1, or an integer by zero (SIGFPE)";
    if (fault.number == SIGILL)
        return "executes an invalid instruction, which compilers emit for a null pointer (SIGILL)";
    const std::string name = fault.number == SIGBUS ? " (SIGBUS)" : " (SIGSEGV)";
    // The processor reports no address.
    if (fault.code == SI_KERNEL) return "accesses memory at an invalid or misaligned address" + name;
    if (fault.address < 65536) return "accesses memory at a null pointer" + name;
    std::array<char, 32> place{};
    std::snprintf(place.data(), place.size(), "0x%llx", static_cast<unsigned long long>(fault.address));
    return "accesses unmapped memory at " + std::string(place.data()) + name;
}

void catch_faults() {
    static const bool installed = install();
    static thread_local bool unblocked = false;
    if (!installed || unblocked) return;
    sigset_t signals;
    sigemptyset(&signals);
    for (const Handled &each : handled) sigaddset(&signals, each.number);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // threads of the library's pool block all
    unblocked = true;
}

#endif

}  // namespace pk::kernels
