// The pool of staging slots and device buffers: budgets, eviction, and a FIFO queue of waiting threads.
#include "staging_slots.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

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

Slot::Slot(int device, int64_t host_bytes, int64_t device_bytes)
    : streams(streams_of(device)),  // created before the slot's own stream, to get their own channels
      device(device),
      number(slots_made++),
      host_bytes(host_bytes),
      device_bytes(device_bytes),
      host_(host_bytes, false),
      memory_(device_bytes == 0 ? DeviceMemory() : allocate_device(device_bytes)),
      mapped_(static_cast<char *>(host_.device_pointer())),
      stream(make_stream()),
      origin(make_event()),
      uploaded(make_event()),
      computed(make_event()),
      downloaded(make_event()) {}

void Slot::drain() const {
    for (const Stream *each : {&streams.upload, &streams.compute, &streams.download, &stream}) {
        (void)cudaStreamSynchronize(each->get());
    }
}

namespace {

constexpr int64_t MIN_BUDGET = 2 << 20;
constexpr int64_t MIN_HOST_BYTES = 256 << 10, MIN_DEVICE_BYTES = 512 << 10;

// The most device memory (of each device) and pinned memory that slots and buffers may take.
struct Budgets {
    int64_t device = integer_from_environment("PYCUDAKIT_DEVICE_MEMORY", "bytes", 512 << 20, MIN_BUDGET);
    int64_t pinned = integer_from_environment("PYCUDAKIT_PINNED_MEMORY", "bytes", 256 << 20, MIN_BUDGET);
};

const Budgets &budgets() {
    static const Budgets budgets;
    return budgets;
}

// A device buffer that no call uses, and the point in a stream after which it is idle.
struct FreeBuffer {
    DeviceMemory memory;
    FreeMarker free_marker;
    int device;
    int64_t bytes;
};

// The free slots and buffers, the memory of all, and the threads that wait for slots.
struct SlotPool {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<FreeBuffer> free_buffers;
    int64_t pinned_bytes = 0;                    // of all slots, free or in use
    std::map<int, int64_t> device_bytes;         // of each device, likewise
    std::map<int, int64_t> buffer_bytes_in_use;  // at most half of the budget: the rest is for slots
    std::deque<const void *> waiting;
    std::atomic<int64_t> waiting_count{0};

    // The functions below are called with the mutex held.

    bool is_short_of_pinned(SlotBytes more) const { return pinned_bytes + more.host > budgets().pinned; }
    bool is_short(int device, SlotBytes more) {
        return device_bytes[device] + more.device > budgets().device;
    }
    bool reserve(int device, SlotBytes more) {
        if (is_short_of_pinned(more) || is_short(device, more)) return false;
        pinned_bytes += more.host;
        device_bytes[device] += more.device;
        return true;
    }
    void unreserve(int device, SlotBytes less) {
        pinned_bytes -= less.host;
        device_bytes[device] -= less.device;
        changed.notify_all();
    }

    // If memory is short, evicts a free buffer, or a free slot for which `alike` is false; else returns
    // false.
    template <class Alike>
    bool drop_one(int device, SlotBytes wanted, Alike alike) {
        const bool device_is_short = is_short(device, wanted), pinned_is_short = is_short_of_pinned(wanted);
        const auto buffer = std::find_if(
            free_buffers.begin(), free_buffers.end(),
            [&](const FreeBuffer &free_buffer) { return device_is_short && free_buffer.device == device; });
        if (buffer != free_buffers.end()) {
            destroy(buffer);
            return true;
        }
        const auto other = std::find_if(slots.begin(), slots.end(), [&](const auto &slot) {
            return (pinned_is_short || (device_is_short && slot->device == device)) && !alike(*slot);
        });
        if (other == slots.end()) return false;
        destroy(other);
        return true;
    }
    void destroy(std::vector<FreeBuffer>::iterator buffer) {
        buffer->free_marker.synchronize();
        unreserve(buffer->device, {0, buffer->bytes});
        free_buffers.erase(buffer);
    }
    void destroy(std::vector<std::unique_ptr<Slot>>::iterator slot) {
        unreserve((*slot)->device, {(*slot)->host_bytes, (*slot)->device_bytes});
        slots.erase(slot);
    }
};

// Never destroyed: at the process's exit the driver may be gone before it.
SlotPool &pool() {
    static SlotPool *const pool = new SlotPool;
    return *pool;
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
    const SlotBytes most{budgets().pinned, budgets().device / 2};
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
    auto fits = [=](const Slot &slot) {
        return slot.device == device && slot.host_bytes == bytes.host && slot.device_bytes == bytes.device;
    };
    SlotPool &from = pool();
    int64_t to_create = 0;
    {
        std::unique_lock<std::mutex> lock(from.mutex);
        Ticket(from, lock).wait(call, [&] {
            for (size_t i = from.slots.size(); i-- > 0 && int64_t(slots_.size()) < wanted;) {
                if (!fits(*from.slots[i])) continue;
                slots_.push_back(std::move(from.slots[i]));
                from.slots.erase(from.slots.begin() + std::ptrdiff_t(i));
            }
            while (int64_t(slots_.size()) + to_create < wanted) {
                if (from.reserve(device, bytes)) {
                    ++to_create;
                } else if (!from.drop_one(device, bytes, fits)) {
                    break;
                }
            }
            return !slots_.empty() || to_create != 0 || !waits;
        });
    }
    SlotBytes size = bytes;
    auto reserve_but = [&](int64_t count, int64_t smaller) {
        const std::lock_guard<std::mutex> lock(from.mutex);
        from.unreserve(device, {(to_create - count) * size.host, to_create * size.device - count * smaller});
        to_create = count;
        size.device = smaller;
    };
    while (to_create != 0) {
        try {
            slots_.push_back(std::make_unique<Slot>(device, size.host, size.device));
            slots_.back()->is_undersized = !fits(*slots_.back());
            --to_create;
        } catch (const Failure &failure) {
            // Fewer slots will do; if not even one fits, try a smaller one.
            const bool may_shrink = failure.status() == PK_OUT_OF_MEMORY &&
                                    size.device / 2 >= std::max(needed.device, MIN_DEVICE_BYTES);
            if (slots_.empty() && may_shrink) {
                reserve_but(1, size.device / 2);
                continue;
            }
            reserve_but(0, 0);
            if (slots_.empty()) throw;
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
    SlotPool &to = pool();
    {
        const std::lock_guard<std::mutex> lock(to.mutex);
        to.slots.push_back(std::move(*place));
        if (slot.is_undersized) to.destroy(to.slots.end() - 1);
    }
    slots_.erase(place);
    to.changed.notify_all();
}

DeviceBuffer::DeviceBuffer(int device, int64_t bytes, bool large, bool reuse_on_stream) : device_(device) {
    StreamScope::refuse_capture();
    SlotPool &from = pool();
    {
        const std::lock_guard<std::mutex> lock(from.mutex);
        const auto free_buffer =
            std::find_if(from.free_buffers.begin(), from.free_buffers.end(), [&](FreeBuffer &buffer) {
                return buffer.device == device && buffer.bytes >= bytes && buffer.bytes <= 2 * bytes &&
                       (buffer.free_marker.is_ready() ||
                        (reuse_on_stream && buffer.free_marker.is_same_stream()));
            });
        if (free_buffer != from.free_buffers.end()) {
            memory_ = std::move(free_buffer->memory);
            free_marker_ = std::move(free_buffer->free_marker);
            bytes_ = free_buffer->bytes;
            from.free_buffers.erase(free_buffer);
            from.buffer_bytes_in_use[device] += bytes_;
            if (reuse_on_stream) free_marker_.wait_on_stream(device);
            return;
        }
        if (!large && from.buffer_bytes_in_use[device] + bytes > budgets().device / 2) return;
        while (!from.reserve(device, {0, bytes})) {
            if (from.drop_one(device, {0, bytes}, [](const Slot &) { return false; })) continue;
            return;
        }
        from.buffer_bytes_in_use[device] += bytes;
    }
    try {
        memory_ = allocate_device(bytes);
        bytes_ = bytes;
    } catch (...) {
        const std::lock_guard<std::mutex> lock(from.mutex);
        from.unreserve(device, {0, bytes});
        from.buffer_bytes_in_use[device] -= bytes;
        throw;
    }
}

DeviceBuffer::~DeviceBuffer() {
    if (bytes_ == 0) return;
    free_marker_.record(device_);
    SlotPool &to = pool();
    {
        const std::lock_guard<std::mutex> lock(to.mutex);
        to.free_buffers.push_back({std::move(memory_), std::move(free_marker_), device_, bytes_});
        to.buffer_bytes_in_use[device_] -= bytes_;
    }
    to.changed.notify_all();
}

pk_memory streaming_memory() {
    SlotPool &all = pool();
    const std::lock_guard<std::mutex> lock(all.mutex);
    pk_memory memory{};
    for (const auto &[device, bytes] : all.device_bytes) memory.device_bytes += bytes;
    memory.device_budget = budgets().device;
    memory.pinned_bytes = all.pinned_bytes;
    memory.pinned_budget = budgets().pinned;
    return memory;
}

void release_streaming_memory() {
    SlotPool &from = pool();
    const std::lock_guard<std::mutex> lock(from.mutex);
    while (!from.free_buffers.empty()) from.destroy(from.free_buffers.end() - 1);
    while (!from.slots.empty()) from.destroy(from.slots.end() - 1);
}

}  // namespace pk
