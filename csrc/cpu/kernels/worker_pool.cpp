// The pool of block executors, and the process-wide quota of fiber stacks.
#include "worker_pool.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "common/call/forks.h"
#include "common/call/thread_pool.h"

namespace pk::kernels {

namespace {

using Workers = std::vector<std::unique_ptr<BlockExecutor>>;

// A forked child begins with an empty pool, because its parent's may have been in use.
struct WorkerPool {
    Workers idle;
    int64_t taken = 0;  // stacks that all executors have reserved
};
WorkerPool *pool = nullptr;
std::mutex mutex;
std::atomic<int64_t> returns{0};

// The pool. The mutex is held.
WorkerPool &all() {
    hold_over_forks<mutex, pool>();
    if (pool == nullptr) pool = new WorkerPool;
    return *pool;
}

// Destroys an executor and frees its stacks. The mutex is held. In a forked child, executors of the parent
// are not counted.
void end(std::unique_ptr<BlockExecutor> worker) {
    all().taken = std::max<int64_t>(0, all().taken - worker->stacks);
}

// The stacks that idle executors may keep: a block's for each thread of this engine, and some for threads of
// callers.
int64_t max_idle_stacks() {
    constexpr int64_t BLOCK = 1024, SOME = 8192;
    return std::min(Fibers::max_count() / 2, std::max(SOME, BLOCK * thread_count()));
}

}  // namespace

WorkerLease::WorkerLease() {
    {
        const std::lock_guard<std::mutex> lock(mutex);
        Workers &idle = all().idle;
        if (!idle.empty()) {
            worker_ = std::move(idle.back());
            idle.pop_back();
            return;
        }
    }
    worker_ = std::make_unique<BlockExecutor>();
}

WorkerLease::~WorkerLease() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (worker_->stacks != 0) ++returns;
    try {
        WorkerPool &to = all();
        int64_t kept = worker_->stacks;
        for (const auto &worker : to.idle) kept += worker->stacks;
        if (kept <= max_idle_stacks()) {
            to.idle.push_back(std::move(worker_));
        } else {
            end(std::move(worker_));
        }
    } catch (const std::bad_alloc &) {
        if (pool != nullptr) end(std::move(worker_));
    }
}

bool reserve_stacks(BlockExecutor &worker, int64_t count) {
    const int64_t more = count - worker.stacks;
    if (more <= 0) return true;
    const std::lock_guard<std::mutex> lock(mutex);
    WorkerPool &from = all();
    int64_t lacking = from.taken + more - Fibers::max_count(), spare = 0;
    for (const auto &idle : from.idle) spare += idle->stacks;
    if (lacking > spare) return false;
    while (lacking > 0) {
        lacking -= from.idle.back()->stacks;
        worker.adopt_stacks(*from.idle.back());
        from.idle.pop_back();
    }
    if (worker.stacks < count) {
        from.taken += count - worker.stacks;
        worker.stacks = count;
    }
    return true;
}

int64_t stack_returns() { return returns; }

void release_workers() {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto &worker : all().idle) end(std::move(worker));
    all().idle.clear();
}

}  // namespace pk::kernels
