// The signal handler and the watchdog thread that preempt kernels.
#include "preemption.h"

#include "block_executor.h"

#if defined(PK_INTERRUPTING)
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/call/forks.h"
#include "common/call/thread_pool.h"
#endif

namespace pk::kernels {

#if !defined(PK_INTERRUPTING)

Code code_around(const void *) { return {}; }
Interrupted::Interrupted(const void *) {}
PreemptionScope::PreemptionScope(BlockExecutor &worker) : worker_(worker) {}
PreemptionScope::~PreemptionScope() = default;

#else

namespace {

// The handler may not return: the thread then continues where it entered the kernel. So it runs on the
// kernel's own stack, and blocks no signal.
void handle(int, siginfo_t *, void *context) {
    const int saved = errno;
    if (BlockExecutor *worker = BlockExecutor::of_this_thread()) worker->interrupted(Interrupted(context).at);
    errno = saved;
}

bool is_ours(const struct sigaction &action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handle;
}

// Installs the handler for an unused real-time signal, and returns its number; 0 if there is none.
int take_signal() {
    for (int number = SIGRTMAX; number >= SIGRTMIN; --number) {
        struct sigaction now{};
        if (sigaction(number, nullptr, &now) != 0) continue;
        if (is_ours(now)) return number;
        if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) continue;
        struct sigaction wanted{};
        wanted.sa_sigaction = handle;
        wanted.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;
        sigemptyset(&wanted.sa_mask);
        if (sigaction(number, &wanted, nullptr) == 0) return number;
    }
    return 0;
}

std::mutex mutex;

// The watchdog: a thread that interrupts kernels periodically. A forked child makes its own; none is ever
// destroyed.
class Watchdog {
   public:
    Watchdog() : signal_(take_signal()) {
        // Kernels run without preemption if there is no signal or thread.
        if (signal_ != 0 && !start_thread([this] { watch(); })) signal_ = 0;
    }

    int signal() const { return signal_; }

    // The mutex is held.
    void add(BlockExecutor &worker) {
        entries_.push_back({&worker, pthread_self(), false});
        if (is_idle_) begin_.notify_one();
    }
    void remove(const BlockExecutor &worker) {
        const auto at = std::find_if(entries_.begin(), entries_.end(),
                                     [&](const Entry &entry) { return entry.worker == &worker; });
        if (at == entries_.end()) return;
        *at = entries_.back();
        entries_.pop_back();
    }

   private:
    struct Entry {
        BlockExecutor *worker;
        pthread_t thread;
        bool seen;
    };

    void watch() {
        // Retries soon if a thread was outside the kernel's own code.
        constexpr std::chrono::milliseconds ROUND(20), SOON(1);
        constexpr int ROUNDS = 50;  // without any kernel, before it sleeps
        std::unique_lock<std::mutex> lock(mutex);
        for (int idle = 0;; ++idle) {
            if (idle == ROUNDS) {
                is_idle_ = true;
                begin_.wait(lock, [&] { return !entries_.empty(); });
                is_idle_ = false;
            }
            if (!entries_.empty()) idle = 0;
            const bool missed = send();
            lock.unlock();
            std::this_thread::sleep_for(missed ? SOON : ROUND);
            lock.lock();
        }
    }

    // Interrupts the threads that have been in a kernel since the last round. Returns whether any was not
    // interrupted in the kernel's own code. Threads in the list are alive, since they need the mutex to leave
    // it.
    bool send() {
        struct sigaction now{};
        if (sigaction(signal_, nullptr, &now) != 0 || !is_ours(now)) return false;
        bool missed = false;
        for (Entry &entry : entries_) {
            const bool seen = std::exchange(entry.seen, true);
            if (!seen || !entry.worker->is_inside()) continue;
            missed = missed || entry.worker->is_due();
            pthread_kill(entry.thread, signal_);
        }
        return missed;
    }

    int signal_;
    bool is_idle_ = false;
    std::condition_variable begin_;
    std::vector<Entry> entries_;
};

Watchdog *watchdog = nullptr;

// A thread of the library's pool blocks all signals, and so may a thread of the program.
void unblock_signal(int signal) {
    static thread_local int let = 0;
    if (let == signal) return;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    let = signal;
}

}  // namespace

Interrupted::Interrupted(const void *context) {
    const auto &registers = static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
    at = uint64_t(registers.gregs[REG_RIP]);
    caller = *reinterpret_cast<const uint64_t *>(registers.gregs[REG_RSP]);
#else
    at = uint64_t(registers.pc);
    caller = uint64_t(registers.regs[30]);
#endif
}

Code code_around(const void *function) {
    struct Search {
        uint64_t address = 0;
        Code found{};
    } search{reinterpret_cast<uint64_t>(function), {}};
    dl_iterate_phdr(
        [](dl_phdr_info *library, size_t, void *data) {
            auto &wanted = *static_cast<Search *>(data);
            for (int i = 0; i < library->dlpi_phnum; ++i) {
                const auto &part = library->dlpi_phdr[i];
                const Code code{library->dlpi_addr + part.p_vaddr, part.p_memsz};
                if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0 || !code.has(wanted.address))
                    continue;
                wanted.found = code;
                return 1;
            }
            return 0;
        },
        &search);
    return search.found;
}

PreemptionScope::PreemptionScope(BlockExecutor &worker) : worker_(worker) {
    const std::lock_guard<std::mutex> lock(mutex);
    hold_over_forks<mutex, watchdog>();
    if (watchdog == nullptr) watchdog = new Watchdog;
    if (watchdog->signal() == 0) return;
    unblock_signal(watchdog->signal());
    watchdog->add(worker);
    worker.set_preempted(true);
}

PreemptionScope::~PreemptionScope() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (watchdog != nullptr) watchdog->remove(worker_);
    worker_.set_preempted(false);
}

#endif

}  // namespace pk::kernels
