// Thread pool of the host: helper threads that join the calls that have work for them. Also a class that sets
// the floating-point environment in which threads compute.
#include "thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "call.h"
#include "forks.h"
#include "status.h"

namespace pk {

static constexpr int64_t MAX_THREADS = 1024;

// The processors that a container's quota allows, in either version of control groups.
static int64_t quota_processors() {
    double quota = 0, period = 0;
    std::string word;
    if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> word >> period && word != "max") {
        quota = std::strtod(word.c_str(), nullptr);
    } else {
        std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
        std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
    }
    if (quota <= 0 || period <= 0) return MAX_THREADS;
    return std::max<int64_t>(1, int64_t(std::llround(quota / period)));
}

static int64_t usable_processors() {
    int64_t processors = std::max<int64_t>(1, std::thread::hardware_concurrency());
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) processors = std::max<int64_t>(1, CPU_COUNT(&set));
#endif
    return std::min({processors, quota_processors(), MAX_THREADS});
}

static int64_t configured_threads() {
    const char *text = std::getenv("PYCUDAKIT_THREADS");
    if (text == nullptr || *text == '\0') return usable_processors();
    char *end = nullptr;
    const long threads = std::strtol(text, &end, 10);
    if (*end != '\0' || threads < 1 || threads > MAX_THREADS) {
        fail(PK_INVALID_ARGUMENT, "PYCUDAKIT_THREADS is '" + std::string(text) +
                                      "'; set it to a number from 1 to " + std::to_string(MAX_THREADS) +
                                      ", or unset it");
    }
    return threads;
}

static thread_local bool is_alone = false;

SingleThreadScope::SingleThreadScope() : was_(is_alone) { is_alone = true; }
SingleThreadScope::~SingleThreadScope() { is_alone = was_; }

int64_t thread_count() {
    static const int64_t threads = configured_threads();
    return is_alone ? 1 : threads;
}

namespace {

// How long a helper spins until there is work, and a call until its helpers are done, before the thread
// sleeps. Sleeping and waking cost some 40 us on virtual processors.
constexpr std::chrono::microseconds SPIN_TIME(50);

// Spins until the condition holds, or SPIN_TIME is over.
template <class Condition>
void spin_until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + SPIN_TIME;
    while (!holds() && std::chrono::steady_clock::now() < end) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

// Work that a call shares with helpers. Each helper calls work() once; work() takes parts of the work until
// none is left. The job is on the stack of Pool::run(), so run() returns only when no helper is active.
struct Job {
    Job(const std::function<void()> &work, int64_t helpers) : work(work), open_places(helpers) {}

    const std::function<void()> &work;
    int64_t open_places;             // how many more helpers may join
    std::atomic<int64_t> active{0};  // helpers that are in work()
    std::exception_ptr error;
    Job *next = nullptr;
};

class Pool {
   public:
    explicit Pool(int64_t helpers) {
        // If the system refuses threads, the pool has fewer helpers.
        while (helpers > 0 && start_thread([this] { help(); })) --helpers;
    }

    void run(int64_t helpers, Call &call, const std::function<void()> &work,
             const std::function<void(const WakeHelpers &)> &caller_work) {
        Job job(work, helpers);
        bool is_open = false;
        const auto wake_helpers = [&] {
            if (!is_open) open(job);
            is_open = true;
        };
        std::exception_ptr error;
        try {
            caller_work(std::cref(wake_helpers));
        } catch (...) {
            error = std::current_exception();
        }
        if (is_open) close(job);
        spin_until([&] { return job.active == 0; });
        std::unique_lock<std::mutex> lock(mutex_);
        while (!idle_.wait_for(lock, Call::POLL_INTERVAL, [&] { return job.active == 0; })) {
            lock.unlock();
            try {
                call.poll_callback();
            } catch (...) {  // a callback in C++ threw; the helpers still use the job
                if (!error) error = std::current_exception();
            }
            lock.lock();
        }
        if (!error) error = job.error;
        lock.unlock();
        if (error) std::rethrow_exception(error);
    }

    bool has_spinning_helpers() const { return spinning_helpers_ > 0; }

   private:
    void open(Job &job) {
        const int64_t helpers = job.open_places;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            job.next = jobs_;
            jobs_ = &job;
            open_places_ += helpers;
        }
        if (helpers == 1) {
            work_came_.notify_one();
        } else {
            work_came_.notify_all();
        }
    }

    void close(Job &job) {
        const std::lock_guard<std::mutex> lock(mutex_);
        Job **link = &jobs_;
        while (*link != &job) link = &(*link)->next;
        *link = job.next;
        open_places_ -= job.open_places;
    }

    // Returns the job with the fewest active helpers of the jobs that can take more. The caller holds the
    // mutex, and has seen that open_places_ is not 0.
    Job &neediest() {
        Job *best = nullptr;
        for (Job *job = jobs_; job != nullptr; job = job->next) {
            if (job->open_places > 0 && (best == nullptr || job->active < best->active)) best = job;
        }
        return *best;
    }

    void help() {
        std::fesetenv(FE_DFL_ENV);
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            lock.unlock();
            ++spinning_helpers_;
            spin_until([&] { return open_places_ > 0; });
            --spinning_helpers_;
            lock.lock();
            work_came_.wait(lock, [&] { return open_places_ > 0; });
            Job &job = neediest();
            --job.open_places;
            --open_places_;
            ++job.active;
            lock.unlock();
            std::exception_ptr error;
            try {
                job.work();
            } catch (...) {
                error = std::current_exception();
            }
            lock.lock();
            if (error && !job.error) job.error = error;
            if (--job.active == 0) idle_.notify_all();
        }
    }

    // Guards the list, and the members of the jobs in it. Threads that spin read open_places_ and a job's
    // `active` without the mutex, so these are atomic; they change only under it.
    std::mutex mutex_;
    std::condition_variable work_came_, idle_;
    Job *jobs_ = nullptr;                       // a linked list; each job is owned by its call
    std::atomic<int64_t> open_places_{0};       // of all jobs
    std::atomic<int64_t> spinning_helpers_{0};  // without the mutex
};

// The process's pool. After a fork, the child has none of the threads, and its copy of the pool may be locked
// for ever, so it makes a new one. Pools are never destroyed, since their threads never end.
std::mutex pool_creation;
Pool *current_pool = nullptr;

Pool &pool() {
    std::lock_guard<std::mutex> lock(pool_creation);
    hold_over_forks<pool_creation, current_pool>();
    if (current_pool == nullptr) current_pool = new Pool(thread_count() - 1);
    return *current_pool;
}

}  // namespace

bool start_thread(const std::function<void()> &body) {
    sigset_t all, previous;  // a new thread inherits the signal mask
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    bool started = true;
    try {
        std::thread(body).detach();
    } catch (const std::exception &) {
        started = false;
    }
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    return started;
}

void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work) {
    run_on_threads(threads, call, work, [&](const WakeHelpers &wake_helpers) {
        wake_helpers();
        work();
    });
}

void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work,
                    const std::function<void(const WakeHelpers &)> &caller_work) {
    const int64_t helpers = std::min(threads, thread_count()) - 1;
    if (helpers < 1) {
        caller_work([] {});
    } else {
        pool().run(helpers, call, work, caller_work);
    }
}

bool helpers_are_spinning() { return thread_count() > 1 && pool().has_spinning_helpers(); }

#if defined(__x86_64__)

// All arithmetic uses the SSE control register, so only that register is saved and set. fesetenv() would set
// the x87 control word as well, which takes long.
DefaultFloatingPoint::DefaultFloatingPoint() {
    constexpr unsigned USUAL = 0x1f80;  // round to nearest, keep subnormals, all traps masked
    new (saved_) unsigned(_mm_getcsr());
    _mm_setcsr(USUAL);
}

DefaultFloatingPoint::~DefaultFloatingPoint() { _mm_setcsr(*reinterpret_cast<unsigned *>(saved_)); }

#else

DefaultFloatingPoint::DefaultFloatingPoint() {
    static_assert(sizeof(std::fenv_t) <= sizeof(saved_), "no room for the floating-point environment");
    std::fegetenv(new (saved_) std::fenv_t);
    std::fesetenv(FE_DFL_ENV);
}

DefaultFloatingPoint::~DefaultFloatingPoint() { std::fesetenv(reinterpret_cast<std::fenv_t *>(saved_)); }

#endif

}  // namespace pk
