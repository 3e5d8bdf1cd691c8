// BlockExecutor: one CPU thread that emulates the threads of a block (SIMT), block after block.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/call/call.h"
#include "common/kernels.h"
#include "compiled_module.h"
#include "faults.h"
#include "fibers.h"
#include "guarded_memory.h"
#include "preemption.h"
#include "race_detector.h"

namespace pk::kernels {

// The text that the kernels of a call print.
class PrintBuffer {
   public:
    PrintBuffer() = default;
    PrintBuffer(uint8_t *text, int64_t capacity) : text_(text), capacity_(capacity) {}
    void set_memory(uint8_t *text, int64_t capacity) {
        text_ = text;
        capacity_ = capacity;
    }
    void add(const char *text, int64_t bytes);
    int64_t length() const { return length_; }
    // Copies the text, as much as fits, returns its whole length, and begins with none.
    int64_t take(uint8_t *text, int64_t capacity);

   private:
    std::mutex mutex_;
    uint8_t *text_ = nullptr;
    int64_t capacity_ = 0, length_ = 0;
};

// A launch, shared by all CPU threads that run its blocks.
struct Launch {
    const pk_image_kernel &kernel;
    bool checked;
    Code code;         // the kernel's own instructions
    std::string name;  // "kernel 'blur'"
    Shape shape;
    int64_t shared;
    void *const *arguments;
    GuardedMemory *guarded_memory;  // of the buffers; null if accesses are not checked
    std::chrono::milliseconds block_limit;
    Call &call;
    PrintBuffer &print_buffer;
};

class BlockExecutor {
   public:
    BlockExecutor();

    void begin(const Launch &launch);
    void run(int64_t first, int64_t count);  // runs blocks; throws their failure

    // The executor whose kernel the calling thread runs, or null.
    static BlockExecutor *of_this_thread();

    // Called by a signal handler, with the address of the interrupted instruction. In the kernel's own code,
    // which holds no locks, the progress callback is called at once; elsewhere, when the kernel next calls a
    // service.
    void interrupted(uint64_t at);
    // Whether the thread was interrupted in the kernel's own code, or in a function that this called and that
    // holds no locks, as it has no stack frame: memset, for example.
    bool is_at(const Interrupted &interrupted) const {
        return inside_ && (launch_->code.has(interrupted.at) || launch_->code.has(interrupted.caller));
    }
    // Called by a signal handler: abandons the kernel, and run() throws.
    [[noreturn]] void leave(const Fault &fault);
    bool is_inside() const { return inside_.load(std::memory_order_relaxed); }
    bool is_due() const { return due_.load(std::memory_order_relaxed); }
    void set_preempted(bool preempted) { is_preempted_ = preempted; }

    int64_t stacks = 0;  // how many it has reserved, see worker_pool.h
    // Takes over the stacks of an executor that has nothing left to do, and its count of them.
    void adopt_stacks(BlockExecutor &other);

   private:
    enum class State : uint8_t { READY, BARRIER, WARP, ACTIVE, TURN, SPIN, DONE };

    struct Thread {
        int fiber;  // -1: it has not begun
        int32_t line;
        uint32_t lanes;  // the lanes that came to the same line
    };

    // The lanes of a warp that are ready, that have returned, and that wait for a turn at a volatile access.
    struct Warp {
        uint32_t ready, done, turn, spin;
        uint32_t operations;  // how many have completed
        bool spun;            // the spinning lanes have gone on since the last turn
    };

    // A warp operation: lanes that wait for each other, and the values that they exchange.
    struct WarpExchange {
        int warp;
        int32_t operation;
        uint32_t mask, arrived;
        bool open;
        int readers;  // lanes that have not read the values
        uint64_t values[PK_WARP];
    };

    // The context that services get is the first member.
    struct ServiceContext {
        pk_context context;
        BlockExecutor *worker;
    };

    static constexpr int YIELD_EVERY = 512;  // switches between threads

    template <class Body>
    static auto serve(pk_context *context, Body &&body);
    static const pk_services SERVICES;
    static void base();
    [[noreturn]] void fiber_main();

    void enter(int thread);
    void run_block(int64_t block);
    void resume(int fiber);
    void change_to(int thread);
    void suspend();
    void suspend_for(int thread);
    void set_state(int thread, State state);
    void yield_for_callback();
    void finish();
    int next() const;
    int next_of_other_warps() const;
    int next_in_warp() const;
    int choose();
    int choose_in_warp();
    int choose_active();
    int take_fiber();
    void make_fibers();
    void wait_for_stacks();
    [[noreturn]] void cancel_fiber();
    [[noreturn]] void stop(const std::string &why);
    std::string reason(const Fault &fault) const;

    void complete_barrier();
    void check_same_barrier();
    int first_ready() const;
    void complete(WarpExchange &record);
    void complete_without(int thread);
    WarpExchange &exchange_of(int32_t operation, uint32_t mask);
    bool wake_active();
    void end_turn(int warp);
    void begin_waiting();
    bool alone() const { return size_ == 1; }

    int32_t barrier(int32_t line, int32_t value);
    uint32_t exchange(int32_t line, int32_t operation, uint32_t mask, uint64_t value, uint64_t *values);
    uint32_t active(int32_t line);
    void turn(int32_t spins);
    void yield();
    void access(uint64_t address, uint64_t bytes, int32_t how);
    void check_race(const GuardedMemory::GuardedBuffer &buffer, uint64_t address, uint64_t bytes,
                    int32_t how);
    void check_last_write();
    void check_barrier();
    [[noreturn]] void stop_at(const RaceDetector::Race &race);
    void check_limit();
    bool is_memory(uint64_t address);
    void *variable(int32_t index, int64_t bytes, int64_t item, const char *name);

    std::string thread_name(int thread) const;
    std::string block_name() const;
    std::string where() const;
    std::string stuck() const;

    ServiceContext service_context_{};
    const Launch *launch_ = nullptr;
    Fibers fibers_;
    std::vector<int> idle_;
    std::vector<Thread> threads_;
    std::vector<State> states_;
    std::vector<Warp> warps_;
    std::vector<WarpExchange> exchanges_;
    std::vector<char> shared_;
    std::unique_ptr<GuardedMemory> guarded_memory_;  // of shared memory; null if accesses are not checked
    RaceDetector races_;                             // of checked accesses
    std::vector<void *> variables_;
    std::array<uint64_t, 64> pages_{};  // pages that are known to be mapped, for checked accesses

    // The first fiber runs blocks from first_ on as a loop, if no thread waits for another, and this executor
    // has seen a fast block of the kernel.
    bool loops_ = false, may_loop_ = false, waited_ = false;
    std::array<const pk_image_kernel *, 16> quick_{};
    int64_t first_ = 0, count_ = 0;
    int current_ = 0, fiber_ = 0, size_ = 0, done_ = 0, arrived_ = 0;
    int32_t counting_ = 0, counted_ = 0;
    int64_t switches_ = 0, turns_ = 0;
    bool yields_for_callback_ = false;  // the scheduler is to call the progress callback
    std::atomic<bool> inside_{false};   // the thread is inside the kernel
    std::atomic<bool> due_{false};      // a call of the progress callback is due
    bool is_preempted_ = false;         // interrupted() is called periodically
    int between_callbacks_ = 0;         // a power of two less 1: yields after so many threads that end
    Clock::time_point began_{};
    Fault fault_;
    std::exception_ptr failure_;
};

// ---- Switches between threads, in line where threads wait ----

inline void BlockExecutor::set_state(int thread, State state) {
    uint32_t &ready = warps_[size_t(thread / PK_WARP)].ready;
    const uint32_t bit = 1u << thread % PK_WARP;
    states_[size_t(thread)] = state;
    ready = state == State::READY ? ready | bit : ready & ~bit;
}

// The next ready thread after the current one, round robin; -1 if there is none.
inline int BlockExecutor::next() const {
    const int own = current_ / PK_WARP;
    const uint32_t later = warps_[size_t(own)].ready & ~((2u << current_ % PK_WARP) - 1);
    return later != 0 ? own * PK_WARP + __builtin_ctz(later) : next_of_other_warps();
}

// The thread to run now that the current one waits or has returned.
inline int BlockExecutor::choose() {
    const int warp = current_ / PK_WARP;
    if (warps_[size_t(warp)].ready == 0) end_turn(warp);
    const int thread = next();
    return thread >= 0 ? thread : choose_active();
}

inline void BlockExecutor::change_to(int thread) {
    const int from = fiber_, after = thread + 1;
    current_ = thread;
    fiber_ = threads_[size_t(thread)].fiber;
    if (after < size_ && threads_[size_t(after)].fiber >= 0) fibers_.prefetch(threads_[size_t(after)].fiber);
    fibers_.change(from, fiber_);
}

// Switches from the current thread, which waits, to another.
inline void BlockExecutor::suspend_for(int thread) {
    if (thread == current_) return;
    if (threads_[size_t(thread)].fiber < 0) threads_[size_t(thread)].fiber = take_fiber();
    threads_[size_t(current_)].fiber = fiber_;
    change_to(thread);
}

// Suspends the current thread, and runs others until it is ready.
inline void BlockExecutor::suspend() {
    if (++switches_ % YIELD_EVERY == 0) yield_for_callback();
    suspend_for(choose());
}

}  // namespace pk::kernels
