// The pool of staging slots: budgets, eviction, and a FIFO queue of waiting threads.
#include "staging_slots.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "common/call/environment.h"
#include "common/call/status.h"
#include "cuda/runtime/tuning.h"

namespace pk {

static std::atomic<int> slots_made{0};

// Return the shared streams of the current device.
static const DeviceStreams &streams_of(int device) {
    static std::mutex mutex;
    static auto *const existing = new std::map<int, DeviceStreams>;  // never destroyed, as the pool below
    const std::lock_guard<std::mutex> lock(mutex);
    return (*existing)[device];
}

Slot::Slot(int device, SlotReservation reservation)
    : streams(streams_of(device)),  // created before the slot's own stream, to get their own channels
      device(device),
      number(slots_made++),
      host_bytes(reservation.bytes.host),
      device_bytes(reservation.bytes.device),
      pinned_(std::move(reservation.pinned)),
      host_(host_bytes, false),
      device_(std::move(reservation.device)),
      mapped_(static_cast<char *>(host_.device_pointer())),
      stream(make_stream()),
      origin(make_timing_event()),
      uploaded(make_timing_event()),
      computed(make_timing_event()),
      downloaded(make_timing_event()) {
    device_.obtain();
}

void Slot::drain() const {
    for (const Stream *each : {&streams.upload, &streams.compute, &streams.download, &stream}) {
        (void)cudaStreamSynchronize(each->get());
    }
}

namespace {

constexpr int64_t MIN_HOST_BYTES = 256 << 10, MIN_DEVICE_BYTES = 512 << 10;

// Return the most pinned memory that slots may take.
int64_t pinned_budget() {
    constexpr int64_t DEFAULT = 256 << 20, MIN = 2 << 20;
    static const int64_t bytes = integer_from_environment("PYCUDAKIT_PINNED_MEMORY", "bytes", DEFAULT, MIN);
    return bytes;
}

// The free slots, and the threads that wait for slots.
struct SlotPool {
    using Slots = std::vector<std::unique_ptr<Slot>>;

    SlotPool();

    std::mutex mutex;
    std::condition_variable changed;
    Slots slots;
    std::atomic<int64_t> pinned_bytes{0};  // of all slots, free or in use; grows only with the mutex held
    std::deque<const void *> waiting;
    std::atomic<int64_t> waiting_count{0};

    // The functions below are called with the mutex held.

    bool is_short_of_pinned(SlotBytes more) const { return pinned_bytes + more.host > pinned_budget(); }

    // Book the memory of a slot, unless a budget has too little left.
    std::optional<SlotReservation> reserve(int device, SlotBytes bytes) {
        if (is_short_of_pinned(bytes)) return std::nullopt;
        DeviceBuffer buffer;
        if (bytes.device != 0) {
            buffer = DevicePool::of(device).reserve(bytes.device, std::nullopt, Account::slot);
            if (!buffer.is_reserved()) return std::nullopt;
        }
        pinned_bytes += bytes.host;
        return SlotReservation{bytes, PinnedReservation(bytes.host), std::move(buffer)};
    }

    // Remove the slot that has been free for longest of those for which `matches`; null if there is none.
    template <class Matches>
    std::unique_ptr<Slot> remove(Matches matches) {
        const auto found =
            std::find_if(slots.begin(), slots.end(), [&](const auto &slot) { return matches(*slot); });
        if (found == slots.end()) return nullptr;
        std::unique_ptr<Slot> slot = std::move(*found);
        slots.erase(found);
        return slot;
    }

    // Free an unused block of device memory or a free slot for which `alike` is false, of the memory that is
    // short. Return false if there is none. The mutex is released meanwhile, since this waits for the GPU.
    template <class Alike>
    bool make_room(std::unique_lock<std::mutex> &lock, int device, SlotBytes wanted, Alike alike) {
        const bool pinned_is_short = is_short_of_pinned(wanted);
        lock.unlock();
        DevicePool &device_pool = DevicePool::of(device);
        const bool device_is_short =
            wanted.device != 0 && !device_pool.has_room(wanted.device, Account::slot);
        const bool has_evicted = device_is_short && device_pool.evict(Account::slot);
        lock.lock();
        if (has_evicted) return true;
        std::unique_ptr<Slot> slot = remove([&](const Slot &slot) {
            const bool has_device_memory = slot.device == device && slot.device_bytes != 0;
            return (pinned_is_short || (device_is_short && has_device_memory)) && !alike(slot);
        });
        if (slot == nullptr) return false;
        lock.unlock();
        slot.reset();
        lock.lock();
        return true;
    }
};

// Never destroyed: at the process's exit the driver may be gone before it.
SlotPool &pool() {
    static SlotPool *const pool = new SlotPool;
    return *pool;
}

SlotPool::SlotPool() {
    DevicePool::set_staging_callbacks(
        [](int device) {
            std::unique_lock<std::mutex> lock(pool().mutex);
            const std::unique_ptr<Slot> slot = pool().remove(
                [=](const Slot &slot) { return slot.device == device && slot.device_bytes != 0; });
            lock.unlock();
            return slot != nullptr;
        },
        [] { pool().changed.notify_all(); });
}

// A ticket in the FIFO queue of threads that wait for slots.
class Ticket {
   public:
    Ticket(SlotPool &pool, std::unique_lock<std::mutex> &lock) : pool_(pool), lock_(lock) {
        pool.waiting.push_back(this);
        ++pool.waiting_count;
    }
    ~Ticket() {
        if (!lock_.owns_lock()) lock_.lock();
        pool_.waiting.erase(std::find(pool_.waiting.begin(), pool_.waiting.end(), this));
        --pool_.waiting_count;
        pool_.changed.notify_all();
    }
    Ticket(const Ticket &) = delete;

    template <class Condition>
    void wait(Call &call, Condition holds) {
        while (pool_.waiting.front() != this || !holds()) {
            pool_.changed.wait_for(lock_, Call::POLL_INTERVAL);
            lock_.unlock();
            call.check_interrupt();
            lock_.lock();
        }
    }

   private:
    SlotPool &pool_;
    std::unique_lock<std::mutex> &lock_;
};

}  // namespace

SlotBytes Lease::default_size(Kind kind, SlotBytes needed) {
    if (kind == zero_copy) needed.device = 0;
    const SlotBytes wanted = [kind]() -> SlotBytes {
        switch (kind) {
            case pinned: return {MIN_HOST_BYTES, tuned(Tune::direct_bytes)};
            case zero_copy: return {std::min(tuned(Tune::walk_bytes), tuned(Tune::in_place_bytes)), 0};
            default: return {tuned(Tune::chunk_bytes), tuned(Tune::device_bytes)};
        }
    }();
    // Buffers may take half of the device's budget.
    const SlotBytes most{pinned_budget(), DevicePool::staging_budget() / 2};
    const SlotBytes bytes{std::max(std::min(wanted.host, most.host / 2), needed.host),
                          std::max(std::min(wanted.device, most.device), needed.device)};
    if (bytes.host > most.host || bytes.device > most.device) {
        fail(PK_OUT_OF_MEMORY, "the smallest chunk of this call needs " + std::to_string(bytes.host) +
                                   " bytes of pinned and " + std::to_string(bytes.device) +
                                   " of device memory: raise PYCUDAKIT_PINNED_MEMORY to that, and "
                                   "PYCUDAKIT_DEVICE_MEMORY to twice as "
                                   "much");
    }
    return bytes;
}

Lease::Lease(SlotBytes bytes, SlotBytes needed, int device, int64_t wanted, Call &call, bool waits) {
    const auto fits = [=](const Slot &slot) {
        return slot.device == device && slot.host_bytes == bytes.host && slot.device_bytes == bytes.device;
    };
    SlotPool &from = pool();
    std::vector<SlotReservation> reservations;
    {
        std::unique_lock<std::mutex> lock(from.mutex);
        Ticket(from, lock).wait(call, [&] {
            for (size_t i = from.slots.size(); i-- > 0 && int64_t(slots_.size()) < wanted;) {
                if (!fits(*from.slots[i])) continue;
                slots_.push_back(std::move(from.slots[i]));
                from.slots.erase(from.slots.begin() + std::ptrdiff_t(i));
            }
            while (int64_t(slots_.size() + reservations.size()) < wanted) {
                if (std::optional<SlotReservation> reservation = from.reserve(device, bytes)) {
                    reservations.push_back(std::move(*reservation));
                } else if (!from.make_room(lock, device, bytes, fits)) {
                    break;
                }
            }
            return !slots_.empty() || !reservations.empty() || !waits;
        });
    }
    SlotBytes size = bytes;
    while (!reservations.empty()) {
        try {
            SlotReservation reservation = std::move(reservations.back());
            reservations.pop_back();
            slots_.push_back(std::make_unique<Slot>(device, std::move(reservation)));
            slots_.back()->is_undersized = !fits(*slots_.back());
        } catch (const Failure &failure) {
            reservations.clear();
            if (!slots_.empty()) return;  // fewer slots will do
            // If not even one fits, try a smaller one.
            size.device /= 2;
            if (failure.status() != PK_OUT_OF_MEMORY ||
                size.device < std::max(needed.device, MIN_DEVICE_BYTES))
                throw;
            const std::lock_guard<std::mutex> lock(from.mutex);
            std::optional<SlotReservation> smaller = from.reserve(device, size);
            if (!smaller) throw;
            reservations.push_back(std::move(*smaller));
        }
    }
}

Lease::~Lease() {
    while (!slots_.empty()) give_back(*slots_.back());
}

bool Lease::should_share(const Slot &slot) const {
    if (slots_.size() < 2 || pool().waiting_count == 0) return false;
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto &own) { return own.get() == &slot; });
}

void Lease::give_back(const Slot &slot) {
    const auto place =
        std::find_if(slots_.begin(), slots_.end(), [&](const auto &own) { return own.get() == &slot; });
    std::unique_ptr<Slot> given = std::move(*place);
    slots_.erase(place);
    SlotPool &to = pool();
    if (!slot.is_undersized) {
        const std::lock_guard<std::mutex> lock(to.mutex);
        to.slots.push_back(std::move(given));
    }
    given.reset();
    to.changed.notify_all();
}

PinnedReservation::~PinnedReservation() {
    if (bytes_ == 0) return;
    pool().pinned_bytes -= bytes_;
    pool().changed.notify_all();
}

pk_memory streaming_memory() {
    pk_memory memory{};
    DevicePool::add_to(memory);
    memory.pinned_bytes = pool().pinned_bytes;
    memory.pinned_budget = pinned_budget();
    return memory;
}

void release_slots() {
    SlotPool &from = pool();
    SlotPool::Slots released;
    const std::lock_guard<std::mutex> lock(from.mutex);
    released.swap(from.slots);
}

}  // namespace pk
