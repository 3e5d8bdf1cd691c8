// What a call sorts with on a GPU: threads, slots to stage in, and most of the device's memory that there may
// be.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "common/call/thread_pool.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/tuning.h"

namespace pk {

// One call at a time sorts: it takes most of the memory there is.
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

// What a call sorts with: slots, which threads have one each, and a block of the device's memory.
class SortWorkspace {
   public:
    SortWorkspace(Call &call, int64_t bytes)
        : call_(call),
          device_(devices_of(call).front()),
          lock_(call),
          current_(device_),
          lease_(Lease::default_size(Lease::staged), {0, 0}, device_, slots_for(bytes), call),
          sorted_{make_event(), make_event()} {}
    // What still works on the memory is waited for; that it failed, too, is nothing new.
    ~SortWorkspace() {
        slot().drain();  // they share the device's queues
    }
    SortWorkspace(const SortWorkspace &) = delete;
    SortWorkspace &operator=(const SortWorkspace &) = delete;

    int64_t most_memory() const {
        int64_t slots = 0;
        for (const auto &slot : lease_.slots()) slots += slot->device_bytes;
        return streaming_memory().device_budget - slots;
    }

    // Takes memory, or as much less as there is. Other calls may have it, for a while.
    int64_t take_memory(int64_t bytes) {
        const auto latest = Clock::now() + std::chrono::seconds(10);
        while (Clock::now() < latest) {
            for (int64_t taken = bytes; taken >= bytes / 8; taken = taken * 3 / 4) {
                try {
                    buffer_ = std::make_unique<DeviceBuffer>(device_, taken, true);
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
        fail(PK_OUT_OF_MEMORY,
             "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left to sort with");
    }
    char *d_memory() const { return buffer_->d_memory(); }

    // Calls work(slot, lane) on several threads, each with a slot of its own.
    template <class Body>
    void on_slots(int64_t wanted, Body body) {
        const auto count = int64_t(lease_.slots().size());
        std::atomic<int64_t> arrived{0};
        run_on_threads(std::clamp<int64_t>(wanted, 1, count), call_, [&] {
            const int64_t index = arrived++;
            if (index >= count) return;
            const CurrentDevice current(device_);
            TraceLane lane(call_);
            body(*lease_.slots()[size_t(index)], lane);
        });
    }

    const Slot &slot() const { return *lease_.slots().front(); }
    cudaStream_t compute() const { return slot().streams.compute.get(); }
    const Event &sorted(size_t buffer) const { return sorted_[buffer]; }

   private:
    static int64_t slots_for(int64_t bytes) {
        const int64_t fit = streaming_memory().device_budget / 4 / Lease::default_size(Lease::staged).device;
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
