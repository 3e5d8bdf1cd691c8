// Thread pool of the host: helper threads that join the calls that have work for them.
#include "thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
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
        quota = std::atof(word.c_str());
    } else {
        std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
        std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
    }
    if (quota <= 0 || period <= 0) return MAX_THREADS;
    return std::max<int64_t>(1, int64_t(quota / period + 0.5));
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

// How long both sides poll before they sleep. Sleeping and waking cost some 40 us on virtual processors.
constexpr std::chrono::microseconds POLL_INTERVAL(50);

template <class Condition>
void wait_awake(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + POLL_INTERVAL;
    while (!holds() && std::chrono::steady_clock::now() < end) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

// Work that a call shares with helpers. It exists while the call runs it.
struct Job {
    Job(const std::function<void()> &work, int64_t helpers) : work(work), open_places(helpers) {}

    const std::function<void()> &work;
    int64_t open_places;             // how many more helpers may join
    std::atomic<int64_t> active{0};  // helpers that run it
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
             const std::function<void(const Wake &)> &own) {
        Job job(work, helpers);
        bool is_open = false;
        const auto wake = [&] {
            if (!is_open) open(job);
            is_open = true;
        };
        std::exception_ptr error;
        try {
            own(std::cref(wake));
        } catch (...) {
            error = std::current_exception();
        }
        if (is_open) close(job);
        wait_awake([&] { return job.active == 0; });
        std::unique_lock<std::mutex> lock(mutex_);
        while (!idle_.wait_for(lock, Call::POLL_INTERVAL, [&] { return job.active == 0; })) {
            lock.unlock();
            call.poll_callback();
            lock.lock();
        }
        if (!error) error = job.error;
        lock.unlock();
        if (error) std::rethrow_exception(error);
    }

    bool has_some_awake() const { return looking_ > 0; }

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
            wake_.notify_one();
        } else {
            wake_.notify_all();
        }
    }

    void close(Job &job) {
        const std::lock_guard<std::mutex> lock(mutex_);
        Job **place = &jobs_;
        while (*place != &job) place = &(*place)->next;
        *place = job.next;
        open_places_ -= job.open_places;
    }

    // The job with the fewest active helpers among those that can take more. There is one, and the mutex is
    // held.
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
            ++looking_;
            wait_awake([&] { return open_places_ > 0; });
            --looking_;
            lock.lock();
            wake_.wait(lock, [&] { return open_places_ > 0; });
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

    std::mutex mutex_;  // guards all members below, and the jobs
    std::condition_variable wake_, idle_;
    Job *jobs_ = nullptr;                  // a linked list; each job is owned by its call
    std::atomic<int64_t> open_places_{0};  // of all jobs
    std::atomic<int64_t> looking_{0};      // helpers that poll for work
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
    sigset_t all, own;  // a new thread inherits the signal mask
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &own);
    bool started = true;
    try {
        std::thread(body).detach();
    } catch (const std::exception &) {
        started = false;
    }
    pthread_sigmask(SIG_SETMASK, &own, nullptr);
    return started;
}

void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work) {
    run_on_threads(threads, call, work, [&](const Wake &wake) {
        wake();
        work();
    });
}

void run_on_threads(int64_t threads, Call &call, const std::function<void()> &work,
                    const std::function<void(const Wake &)> &own) {
    const int64_t helpers = std::min(threads, thread_count()) - 1;
    if (helpers < 1) {
        own([] {});
    } else {
        pool().run(helpers, call, work, own);
    }
}

bool helpers_are_awake() { return thread_count() > 1 && pool().has_some_awake(); }

#if defined(__x86_64__)

// Only the SSE control register is saved and set, because all arithmetic uses it. fesetenv() sets the x87 one
// as well, which takes long.
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
