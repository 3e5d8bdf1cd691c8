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
class SortingTurn {
   public:
    explicit SortingTurn(Call &call) {
        while (!mutex().try_lock_for(Call::PATIENCE)) call.look();
    }
    ~SortingTurn() { mutex().unlock(); }
    SortingTurn(const SortingTurn &) = delete;
    SortingTurn &operator=(const SortingTurn &) = delete;

   private:
    static std::timed_mutex &mutex() {
        static auto *const mutex = new std::timed_mutex;
        return *mutex;
    }
};

// What a call sorts with: slots, which threads have one each, and a block of the device's memory.
class Equipment {
   public:
    Equipment(Call &call, int64_t bytes)
        : call_(call),
          device_(devices_of(call).front()),
          turn_(call),
          current_(device_),
          lease_(Lease::usual(Lease::staged), {0, 0}, device_, slots_for(bytes), call),
          sorted_{event(), event()} {}
    // What still works on the memory is waited for; that it failed, too, is nothing new.
    ~Equipment() {
        slot().drain();  // they share the device's queues
    }
    Equipment(const Equipment &) = delete;
    Equipment &operator=(const Equipment &) = delete;

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
                    block_ = std::make_unique<Block>(device_, taken, true);
                } catch (const Failure &failure) {
                    const bool may_shrink = taken * 3 / 4 >= bytes / 8;
                    if (failure.status() != PK_OUT_OF_MEMORY || !may_shrink) throw;
                    continue;
                }
                if (block_->memory() != nullptr) return taken;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            call_.look();
        }
        fail(PK_OUT_OF_MEMORY,
             "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left to sort with");
    }
    char *memory() const { return block_->memory(); }

    // Calls work(slot, lane) on several threads, each with a slot of its own.
    template <class Work>
    void on_slots(int64_t wanted, Work work) {
        const auto count = int64_t(lease_.slots().size());
        std::atomic<int64_t> arrived{0};
        run_on_threads(std::clamp<int64_t>(wanted, 1, count), call_, [&] {
            const int64_t index = arrived++;
            if (index >= count) return;
            const CurrentDevice current(device_);
            Lane lane(call_);
            work(*lease_.slots()[size_t(index)], lane);
        });
    }

    const Slot &slot() const { return *lease_.slots().front(); }
    cudaStream_t compute() const { return slot().queues.compute.get(); }
    const Event &sorted(size_t buffer) const { return sorted_[buffer]; }

   private:
    static int64_t slots_for(int64_t bytes) {
        const int64_t fit = streaming_memory().device_budget / 4 / Lease::usual(Lease::staged).device;
        const int64_t worth = std::min(tuned(Tune::threads), bytes / tuned(Tune::worth_a_thread) + 1);
        return std::clamp<int64_t>(std::min(fit, worth), 1, thread_count());
    }

    Call &call_;
    const int device_;
    const SortingTurn turn_;
    const CurrentDevice current_;
    std::unique_ptr<Block> block_;
    const Lease lease_;
    const Event sorted_[2];
};

}  // namespace pk
