// The resources of an out-of-core sort on a GPU: staging slots, a thread for each, and most of the device
// memory that the budget allows.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "common/call/thread_pool.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/pipeline/staged_copy.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/tuning.h"

namespace pk {

// Process-wide lock: one out-of-core sort at a time, since each takes most of the device memory.
class SortLock {
   public:
    explicit SortLock(Call &call) {
        while (!mutex().try_lock_for(Call::POLL_INTERVAL)) call.check_interrupt();
    }
    ~SortLock() { mutex().unlock(); }
    SortLock(const SortLock &) = delete;
    SortLock &operator=(const SortLock &) = delete;

   private:
    static std::timed_mutex &mutex() {
        static auto *const mutex = new std::timed_mutex;
        return *mutex;
    }
};

// The staging slots and the device buffer of a sort.
class SortWorkspace {
   public:
    SortWorkspace(Call &call, int64_t bytes)
        : call_(call),
          device_(devices_of(call).front()),
          lock_(call),
          current_(device_),
          lease_(Lease::default_size(Lease::staged), {0, 0}, device_, slots_for(bytes), call),
          sorted_{make_event(), make_event()} {}
    // Wait for all work on the memory; its errors have been reported. A sort uses only the device's shared
    // streams, so draining one slot drains all.
    ~SortWorkspace() { slot().drain(); }
    SortWorkspace(const SortWorkspace &) = delete;
    SortWorkspace &operator=(const SortWorkspace &) = delete;

    // Return the most device memory that the budget allows beside the slots.
    int64_t most_memory() const {
        int64_t slots = 0;
        for (const auto &slot : lease_.slots()) slots += slot->device_bytes;
        return DevicePool::staging_budget() - slots;
    }

    // Allocate `bytes` of device memory or, if the budget is short, less, down to an eighth. Wait up to ten
    // seconds for other calls to free some. Return the bytes allocated.
    int64_t take_memory(int64_t bytes) {
        const auto latest = Clock::now() + std::chrono::seconds(10);
        while (Clock::now() < latest) {
            for (int64_t taken = bytes; taken >= bytes / 8; taken = taken * 3 / 4) {
                try {
                    buffer_ = std::make_unique<DeviceBuffer>(device_, taken, Account::large_call);
                } catch (const Failure &failure) {
                    const bool may_shrink = taken * 3 / 4 >= bytes / 8;
                    if (failure.status() != PK_OUT_OF_MEMORY || !may_shrink) throw;
                    continue;
                }
                if (buffer_->d_memory() != nullptr) return taken;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            call_.check_interrupt();
        }
        fail_device_budget("a sort");
    }
    char *d_memory() const { return buffer_->d_memory(); }

    // Call body(slot) on several threads, each with a slot of its own.
    template <class Body>
    void on_slots(int64_t wanted, Body body) {
        const auto count = int64_t(lease_.slots().size());
        std::atomic<int64_t> arrived{0};
        run_on_threads(std::clamp<int64_t>(wanted, 1, count), call_, [&] {
            const int64_t index = arrived++;
            if (index >= count) return;
            const CurrentDevice current(device_);
            body(*lease_.slots()[size_t(index)]);
        });
    }

    const Lease &lease() const { return lease_; }
    const Slot &slot() const { return *lease_.slots().front(); }
    cudaStream_t compute() const { return slot().streams.compute.get(); }
    // The event after the sort whose results are in one of the two buffers for results.
    const Event &sorted(size_t buffer) const { return sorted_[buffer]; }

   private:
    static int64_t slots_for(int64_t bytes) {
        const int64_t fit = DevicePool::staging_budget() / 4 / Lease::default_size(Lease::staged).device;
        const int64_t worth = std::min(tuned(Tune::threads), bytes / tuned(Tune::worth_a_thread) + 1);
        return std::clamp<int64_t>(std::min(fit, worth), 1, thread_count());
    }

    Call &call_;
    const int device_;
    const SortLock lock_;
    const CurrentDevice current_;
    std::unique_ptr<DeviceBuffer> buffer_;
    const Lease lease_;
    const Event sorted_[2];
};

}  // namespace pk
