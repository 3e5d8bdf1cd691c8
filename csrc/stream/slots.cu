#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>

#include "../common/status.h"
#include "slots.h"

namespace pk {

namespace {

// A number of bytes from the environment, with a K, M or G behind it or none.
int64_t budget(const char *variable, int64_t usual, int64_t least) {
    const char *text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return usual;
    char *end = nullptr;
    const double number = std::strtod(text, &end);
    const std::string units = "KMG", unit = end;
    const size_t place = unit.size() == 1 ? units.find(unit) : std::string::npos;
    const bool known = end != text && (unit.empty() || place != std::string::npos);
    const double bytes = unit.empty() ? number : std::ldexp(number, 10 * (int(place) + 1));
    if (!known || !(bytes >= double(least)) || bytes > 0x1p60) {
        fail(PK_INVALID_ARGUMENT, std::string(variable) + " is '" + text +
                                      "'; set it to bytes, as 512M or 2G, of " + std::to_string(least) +
                                      " at least, or unset it");
    }
    return int64_t(bytes);
}

struct Budgets {
    int64_t device = budget("PYCUDAKIT_DEVICE_MEMORY", 512 << 20, Slot::DEVICE_BYTES);
    int64_t pinned = budget("PYCUDAKIT_PINNED_MEMORY", 256 << 20, Slot::HOST_BYTES);
};

const Budgets &budgets() {
    static const Budgets set;
    return set;
}

size_t most_slots() {
    return size_t(std::min(budgets().device / Slot::DEVICE_BYTES, budgets().pinned / Slot::HOST_BYTES));
}

}  // namespace

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
    const size_t most = most_slots();
    Shelf &from = shelf();
    std::unique_lock<std::mutex> lock(from.mutex);
    from.returned.wait(lock, [&] { return !from.free.empty() || from.made < most; });
    while (slots_.size() < wanted && !from.free.empty()) {
        slots_.push_back(std::move(from.free.back()));
        from.free.pop_back();
    }
    const size_t making = std::min(wanted - slots_.size(), most - from.made);
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

pk_memory slots_memory() {
    Shelf &all = shelf();
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto made = int64_t(all.made);
    return {made * Slot::DEVICE_BYTES, budgets().device, made * Slot::HOST_BYTES, budgets().pinned};
}

void release_slots() {
    Shelf &from = shelf();
    std::vector<std::unique_ptr<Slot>> released;
    std::lock_guard<std::mutex> lock(from.mutex);
    released.swap(from.free);
    from.made -= released.size();
}

}  // namespace pk
