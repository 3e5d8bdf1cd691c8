// Runs the threads of a block on fibers, one after the other, and switches between them where they wait.
#include "block_executor.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/rounding.h"
#include "worker_pool.h"

namespace pk::kernels {

static constexpr int YIELD_EVERY_END = 8;         // threads that end, if nothing interrupts them
static constexpr int64_t TURNS_OF_A_WARP = 2048;  // switches within a warp before another has a chance
// The longest block that may run as a loop, which cannot be cancelled within a block.
static constexpr std::chrono::milliseconds QUICK(5);

// The executor whose fibers the thread is on.
static thread_local BlockExecutor *running = nullptr;

BlockExecutor::BlockExecutor() : fibers_(base) {
    service_context_.context.services = &SERVICES;
    service_context_.worker = this;
}

void BlockExecutor::begin(const Launch &launch) {
    catch_faults();
    launch_ = &launch;
    // Loops from barrier to barrier assume that the indices of threads do not wrap.
    constexpr int64_t MAX_INDEX = INT32_MAX - 1024;
    const bool wraps = launch.shape.grid[0] * launch.shape.block[0] > MAX_INDEX;
    may_loop_ = launch.kernel.blocks != nullptr && !launch.checked && (launch.kernel.waits == 0 || !wraps);
    loops_ = due_ = false;
    size_ = int(launch.shape.threads());
    for (int d = 0; d < 3; ++d) {
        service_context_.context.grid[d] = uint32_t(launch.shape.grid[d]);
        service_context_.context.block[d] = uint32_t(launch.shape.block[d]);
    }
    threads_.resize(size_t(size_));
    states_.resize(size_t(size_));
    warps_.resize(size_t(ceil_div(size_, PK_WARP)));
    variables_.clear();
    pages_.fill(0);
    guarded_memory_.reset();
    races_ = {};
    if (launch.checked) {
        guarded_memory_ = std::make_unique<GuardedMemory>();
        service_context_.context.shared =
            guarded_memory_->allocate(launch.shared, 1, "the dynamic shared memory");
        return;
    }
    constexpr size_t ALIGNED = 128;
    if (shared_.size() < size_t(launch.shared) + ALIGNED) shared_.resize(size_t(launch.shared) + ALIGNED);
    const auto address = reinterpret_cast<uint64_t>(shared_.data());
    service_context_.context.shared = shared_.data() + (ALIGNED - address % ALIGNED) % ALIGNED;
}

void BlockExecutor::run(int64_t first, int64_t count) {
    const int64_t end = first + count;
    // A hash table of kernels, by their addresses.
    const pk_image_kernel *&quick =
        quick_[reinterpret_cast<uint64_t>(&launch_->kernel) / sizeof(pk_image_kernel) % quick_.size()];
    while (first < end) {
        const Clock::time_point began = Clock::now();
        // A kernel with barriers takes far longer on fibers, even for one block.
        const bool loops_at_once = launch_->kernel.waits != 0 && is_preempted_;
        loops_ = may_loop_ && (loops_at_once || quick == &launch_->kernel);
        waited_ = false;
        first_ = first;
        count_ = loops_ ? end - first : 1;
        first += count_;
        if (loops_) {
            enter(0);
        } else {
            run_block(first_);
        }
        const bool is_quick =
            may_loop_ && (!waited_ || launch_->kernel.waits != 0) && Clock::now() - began < QUICK * count_;
        quick = is_quick ? &launch_->kernel : nullptr;
    }
}

void BlockExecutor::run_block(int64_t block) {
    const auto *grid = launch_->shape.grid;
    const int64_t place[] = {block % grid[0], block / grid[0] % grid[1], block / grid[0] / grid[1]};
    std::copy(place, place + 3, service_context_.context.block_index);
    std::fill(threads_.begin(), threads_.end(), Thread{-1, 0, 0});
    std::fill(states_.begin(), states_.end(), State::READY);
    std::fill(warps_.begin(), warps_.end(), Warp{~0u, 0, 0, 0, 0, false});
    if (size_ % PK_WARP != 0) warps_.back().ready = (1u << size_ % PK_WARP) - 1;
    done_ = arrived_ = counting_ = 0;
    between_callbacks_ = (launch_->checked || !is_preempted_ ? YIELD_EVERY_END : YIELD_EVERY) - 1;
    if (launch_->checked) {
        began_ = Clock::now();
        races_.begin();
    }
    enter(0);
}

void BlockExecutor::enter(int thread) {
    current_ = thread;
    fiber_ = take_fiber();
    resume(fiber_);
    while (yields_for_callback_) {
        yields_for_callback_ = false;
        try {
            launch_->call.check_interrupt();
            check_limit();
        } catch (...) {
            failure_ = std::current_exception();
            break;
        }
        resume(fiber_);
    }
    if (const Fault fault = std::exchange(fault_, Fault{}); fault.number != 0) {
        try {
            stop((loops_ ? "" : where() + " ") + reason(fault));
        } catch (...) {
            failure_ = std::current_exception();
        }
    }
    if (!failure_) return;
    // After a failure, the other fibers are abandoned.
    idle_.clear();
    exchanges_.clear();
    for (int fiber = fibers_.count() - 1; fiber >= 0; --fiber) {
        fibers_.reset(fiber);
        idle_.push_back(fiber);
    }
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

// Runs a fiber until it yields for the callback or has nothing left to do.
void BlockExecutor::resume(int fiber) {
    BlockExecutor *const outer = std::exchange(running, this);
    inside_ = true;
    fibers_.enter(fiber);
    inside_ = false;
    running = outer;
}

BlockExecutor *BlockExecutor::of_this_thread() { return running; }

void BlockExecutor::interrupted(uint64_t at) {
    if (!inside_) return;
    due_ = !launch_->code.has(at);
    if (!due_) yield_for_callback();
}

void BlockExecutor::leave(const Fault &fault) {
    fault_ = fault;
    cancel_fiber();
}

std::string BlockExecutor::reason(const Fault &fault) const {
    if (fibers_.is_guard(fiber_, fault.address))
        return "needs more stack than a thread has, " + std::to_string(Fibers::STACK >> 10) + " KiB";
    return describe(fault) + "; with debug=True, the error names the parameter and the index";
}

int BlockExecutor::take_fiber() {
    if (idle_.empty()) make_fibers();
    const int fiber = idle_.back();
    idle_.pop_back();
    if (!idle_.empty()) fibers_.prefetch(idle_.back());
    return fiber;
}

void BlockExecutor::make_fibers() {
    const int had = fibers_.count(), most = std::max(had + 1, size_);
    if (had != 0) wait_for_stacks();
    if (!idle_.empty()) return;  // adopted
    const int count = std::min(most, std::max(1, 4 * had));
    idle_.reserve(size_t(count));  // space for all, so that pushing cannot fail
    fibers_.make(count);
    for (int fiber = fibers_.count() - 1; fiber >= had; --fiber) idle_.push_back(fiber);
}

void BlockExecutor::adopt_stacks(BlockExecutor &other) {
    const int had = fibers_.count();
    idle_.reserve(size_t(had) + size_t(other.fibers_.count()));
    fibers_.adopt(other.fibers_);
    for (int fiber = fibers_.count() - 1; fiber >= had; --fiber) idle_.push_back(fiber);
    other.idle_.clear();
    stacks += std::exchange(other.stacks, 0);
}

// Called on a fiber: waits while kernels of other threads have too many stacks. If all kernels wait for each
// other, so that none gives its stacks back, it times out.
void BlockExecutor::wait_for_stacks() {
    constexpr std::chrono::seconds PATIENCE(10);
    Clock::time_point latest = Clock::now() + PATIENCE;
    int64_t known_returns = stack_returns();
    while (!reserve_stacks(*this, size_)) {
        if (known_returns != stack_returns()) {
            known_returns = stack_returns();
            latest = Clock::now() + PATIENCE;
        }
        if (Clock::now() > latest)
            fail(PK_OUT_OF_MEMORY, launch_->name + ": no stacks for the " + std::to_string(size_) +
                                       " threads of a block, which wait for each other, beside those of "
                                       "kernels that other threads run; run fewer of them at a time");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        yield_for_callback();
    }
}

void BlockExecutor::base() {
    Fibers::on_entry();
    running->fiber_main();
}

// Called when the current thread has returned. This fiber takes the next thread that has not begun, or
// becomes idle.
__attribute__((always_inline)) inline void BlockExecutor::finish() {
    if (launch_->checked) check_last_write();
    set_state(current_, State::DONE);
    ++done_;
    if (is_due() || (done_ & between_callbacks_) == 0) yield_for_callback();
    warps_[size_t(current_ / PK_WARP)].done |= 1u << current_ % PK_WARP;
    complete_without(current_);
    if (done_ == size_) {
        if (launch_->checked) check_barrier();
        idle_.push_back(fiber_);
        fibers_.yield_to_scheduler(fiber_);
        return;
    }
    const int thread = choose();
    if (threads_[size_t(thread)].fiber < 0) {
        current_ = thread;
    } else {
        idle_.push_back(fiber_);
        change_to(thread);
    }
}

void BlockExecutor::fiber_main() {
    for (;;) {
        if (loops_) {
            launch_->kernel.blocks(&service_context_.context, launch_->arguments, first_, count_);
            idle_.push_back(fiber_);
            fibers_.yield_to_scheduler(fiber_);
        } else {
            launch_->kernel.thread(&service_context_.context, launch_->arguments, current_);
            try {
                finish();
            } catch (...) {
                failure_ = std::current_exception();
            }
            if (failure_) cancel_fiber();
        }
    }
}

// Returns to the scheduler's stack to call the progress callback, which may need more stack than a fiber has,
// or the thread's own.
void BlockExecutor::yield_for_callback() {
    due_ = false;
    yields_for_callback_ = true;
    fibers_.yield_to_scheduler(fiber_);
}

// Never returns; objects on the stack need no cleanup.
void BlockExecutor::cancel_fiber() {
    for (;;) fibers_.yield_to_scheduler(fiber_);
}

void BlockExecutor::stop(const std::string &why) { fail(PK_DEVICE_ERROR, launch_->name + ": " + why); }

int BlockExecutor::next_of_other_warps() const {
    const int warps = int(warps_.size()), own = current_ / PK_WARP;
    for (int i = 1; i <= warps; ++i) {
        const int warp = own + i < warps ? own + i : own + i - warps;
        const uint32_t ready = warps_[size_t(warp)].ready;
        if (ready != 0) return warp * PK_WARP + __builtin_ctz(ready);
    }
    return -1;
}

// As next(), but from the current thread's warp, if it has a ready one.
int BlockExecutor::next_in_warp() const {
    const int own = current_ / PK_WARP;
    const uint32_t ready = warps_[size_t(own)].ready;
    const uint32_t later = ready & ~((2u << current_ % PK_WARP) - 1);
    return ready == 0 ? next() : own * PK_WARP + __builtin_ctz(later != 0 ? later : ready);
}

// As choose(), but mostly from the current thread's warp.
int BlockExecutor::choose_in_warp() {
    const int warp = current_ / PK_WARP;
    if (warps_[size_t(warp)].ready == 0) end_turn(warp);
    const int thread = ++turns_ % TURNS_OF_A_WARP != 0 ? next_in_warp() : next();
    return thread >= 0 ? thread : choose_active();
}

// Called when no thread is ready.
int BlockExecutor::choose_active() {
    const int thread = wake_active() ? next() : -1;
    if (thread < 0) stop(stuck());
    return thread;
}

}  // namespace pk::kernels
