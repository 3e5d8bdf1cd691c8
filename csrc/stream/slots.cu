#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "slots.h"

namespace pk {

// 48 slots pin 192 MiB and take 384 MiB of device memory.
static constexpr size_t MOST_SLOTS = 48;

Slot::Slot()
    : host_(pinned_memory(HOST_BYTES)),
      device_(device_memory(DEVICE_BYTES)),
      queue(stream()),
      begun(event()),
      uploaded(event()),
      computed(event()),
      downloaded(event()) {}

namespace {

struct Shelf {
    std::mutex mutex;
    std::condition_variable returned;
    std::vector<std::unique_ptr<Slot>> free;
    size_t made = 0;
};

// Never destroyed: at the process's exit the driver may be gone before it.
Shelf &shelf() {
    static Shelf *const shelf = new Shelf;
    return *shelf;
}

}  // namespace

Lease::Lease(size_t wanted) {
    Shelf &from = shelf();
    std::unique_lock<std::mutex> lock(from.mutex);
    from.returned.wait(lock, [&] { return !from.free.empty() || from.made < MOST_SLOTS; });
    while (slots_.size() < wanted && !from.free.empty()) {
        slots_.push_back(std::move(from.free.back()));
        from.free.pop_back();
    }
    const size_t making = std::min(wanted - slots_.size(), MOST_SLOTS - from.made);
    from.made += making;
    lock.unlock();
    for (size_t i = 0; i < making; ++i) {
        try {
            slots_.push_back(std::make_unique<Slot>());
        } catch (...) {
            lock.lock();
            from.made -= making - i;
            lock.unlock();
            from.returned.notify_all();
            // Fewer slots will do; without any the reason is the call's.
            if (slots_.empty()) throw;
            return;
        }
    }
}

Lease::~Lease() {
    Shelf &to = shelf();
    for (auto &slot : slots_)
        (void)cudaStreamSynchronize(slot->queue.get());  // a failed call leaves work behind
    {
        std::lock_guard<std::mutex> lock(to.mutex);
        for (auto &slot : slots_) to.free.push_back(std::move(slot));
    }
    to.returned.notify_all();
}

}  // namespace pk
