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

// Of the current device.
static const Queues &queues_of(int device) {
    static std::mutex mutex;
    static auto *const made = new std::map<int, Queues>;  // never destroyed, as the shelf below
    const std::lock_guard<std::mutex> lock(mutex);
    return (*made)[device];
}

Slot::Slot(int device, int64_t host_bytes, int64_t device_bytes)
    : queues(queues_of(device)),  // before the slot's own, so that they get channels of their own
      device(device),
      number(slots_made++),
      host_bytes(host_bytes),
      device_bytes(device_bytes),
      host_(host_bytes, false),
      memory_(device_bytes == 0 ? DeviceMemory() : device_memory(device_bytes)),
      host_on_device_(static_cast<char *>(host_.on_device())),
      queue(stream()),
      origin(event()),
      uploaded(event()),
      computed(event()),
      downloaded(event()) {}

void Slot::drain() const {
    for (const Stream *stream : {&queues.up, &queues.compute, &queues.down, &queue}) {
        (void)cudaStreamSynchronize(stream->get());
    }
}

namespace {

constexpr int64_t LEAST_BUDGET = 2 << 20;
constexpr int64_t LEAST_HOST_BYTES = 256 << 10, LEAST_DEVICE_BYTES = 512 << 10;

struct Budgets {
    int64_t device = from_environment("PYCUDAKIT_DEVICE_MEMORY", "bytes", 512 << 20, LEAST_BUDGET);
    int64_t pinned = from_environment("PYCUDAKIT_PINNED_MEMORY", "bytes", 256 << 20, LEAST_BUDGET);
};

const Budgets &budgets() {
    static const Budgets set;
    return set;
}

struct KeptBlock {
    DeviceMemory memory;
    GivenBack given_back;
    int device;
    int64_t bytes;
};

// All that is kept, and who waits for it.
struct Shelf {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<KeptBlock> blocks;
    int64_t pinned_bytes = 0;               // of all that there is, lent or not
    std::map<int, int64_t> device_bytes;    // and so of each device
    std::map<int, int64_t> lent_to_blocks;  // half of its budget at most: the rest is for slots
    std::deque<const void *> waiting;
    std::atomic<int64_t> waiting_count{0};

    // For the callers below the mutex is held.

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

    // Destroys something that nobody has, to make room for slots that are not like that.
    template <class Alike>
    bool drop_one(int device, SlotBytes wanted, Alike alike) {
        const bool device_is_short = is_short(device, wanted), pinned_is_short = is_short_of_pinned(wanted);
        const auto block = std::find_if(blocks.begin(), blocks.end(), [&](const KeptBlock &kept) {
            return device_is_short && kept.device == device;
        });
        if (block != blocks.end()) {
            destroy(block);
            return true;
        }
        const auto other = std::find_if(slots.begin(), slots.end(), [&](const auto &slot) {
            return (pinned_is_short || (device_is_short && slot->device == device)) && !alike(*slot);
        });
        if (other == slots.end()) return false;
        destroy(other);
        return true;
    }
    void destroy(std::vector<KeptBlock>::iterator block) {
        block->given_back.wait();
        unreserve(block->device, {0, block->bytes});
        blocks.erase(block);
    }
    void destroy(std::vector<std::unique_ptr<Slot>>::iterator slot) {
        unreserve((*slot)->device, {(*slot)->host_bytes, (*slot)->device_bytes});
        slots.erase(slot);
    }
};

// Never destroyed: at the process's exit the driver may be gone before it.
Shelf &shelf() {
    static Shelf *const shelf = new Shelf;
    return *shelf;
}

// A place in the queue of those that wait for slots.
class PlaceInLine {
   public:
    PlaceInLine(Shelf &shelf, std::unique_lock<std::mutex> &lock) : shelf_(shelf), lock_(lock) {
        shelf.waiting.push_back(this);
        ++shelf.waiting_count;
    }
    ~PlaceInLine() {
        if (!lock_.owns_lock()) lock_.lock();
        shelf_.waiting.erase(std::find(shelf_.waiting.begin(), shelf_.waiting.end(), this));
        --shelf_.waiting_count;
        shelf_.changed.notify_all();
    }
    PlaceInLine(const PlaceInLine &) = delete;

    template <class Condition>
    void wait(Call &call, Condition holds) {
        while (shelf_.waiting.front() != this || !holds()) {
            shelf_.changed.wait_for(lock_, Call::PATIENCE);
            lock_.unlock();
            call.look();
            lock_.lock();
        }
    }

   private:
    Shelf &shelf_;
    std::unique_lock<std::mutex> &lock_;
};

}  // namespace

SlotBytes Lease::usual(Kind kind, SlotBytes needed) {
    if (kind == in_place) needed.device = 0;
    const SlotBytes wanted = [kind]() -> SlotBytes {
        switch (kind) {
            case direct: return {LEAST_HOST_BYTES, tuned(Tune::direct_bytes)};
            case in_place: return {std::min(tuned(Tune::walk_bytes), tuned(Tune::in_place_bytes)), 0};
            default: return {tuned(Tune::chunk_bytes), tuned(Tune::device_bytes)};
        }
    }();
    // Half of the device's budget may be taken by blocks.
    const SlotBytes most{budgets().pinned, budgets().device / 2};
    const SlotBytes bytes{std::max(std::min(wanted.host, most.host / 2), needed.host),
                          std::max(std::min(wanted.device, most.device), needed.device)};
    if (bytes.host > most.host || bytes.device > most.device) {
        fail(PK_OUT_OF_MEMORY, "a few elements of this call need " + std::to_string(bytes.host) +
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
    Shelf &from = shelf();
    int64_t making = 0;
    {
        std::unique_lock<std::mutex> lock(from.mutex);
        PlaceInLine(from, lock).wait(call, [&] {
            for (size_t i = from.slots.size(); i-- > 0 && int64_t(slots_.size()) < wanted;) {
                if (!fits(*from.slots[i])) continue;
                slots_.push_back(std::move(from.slots[i]));
                from.slots.erase(from.slots.begin() + std::ptrdiff_t(i));
            }
            while (int64_t(slots_.size()) + making < wanted) {
                if (from.reserve(device, bytes)) {
                    ++making;
                } else if (!from.drop_one(device, bytes, fits)) {
                    break;
                }
            }
            return !slots_.empty() || making != 0 || !waits;
        });
    }
    SlotBytes made = bytes;
    auto reserve_but = [&](int64_t count, int64_t smaller) {
        const std::lock_guard<std::mutex> lock(from.mutex);
        from.unreserve(device, {(making - count) * made.host, making * made.device - count * smaller});
        making = count;
        made.device = smaller;
    };
    while (making != 0) {
        try {
            slots_.push_back(std::make_unique<Slot>(device, made.host, made.device));
            slots_.back()->is_makeshift = !fits(*slots_.back());
            --making;
        } catch (const Failure &failure) {
            // Fewer slots will do; where there is room for none, a smaller one.
            const bool may_shrink = failure.status() == PK_OUT_OF_MEMORY &&
                                    made.device / 2 >= std::max(needed.device, LEAST_DEVICE_BYTES);
            if (slots_.empty() && may_shrink) {
                reserve_but(1, made.device / 2);
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
    if (slots_.size() < 2 || shelf().waiting_count == 0) return false;
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto &mine) { return mine.get() == &slot; });
}

void Lease::give_back(const Slot &slot) {
    const auto place =
        std::find_if(slots_.begin(), slots_.end(), [&](const auto &mine) { return mine.get() == &slot; });
    Shelf &to = shelf();
    {
        const std::lock_guard<std::mutex> lock(to.mutex);
        to.slots.push_back(std::move(*place));
        if (slot.is_makeshift) to.destroy(to.slots.end() - 1);
    }
    slots_.erase(place);
    to.changed.notify_all();
}

Block::Block(int device, int64_t bytes, bool large, bool in_line) : device_(device) {
    Line::refuse_capture();
    Shelf &from = shelf();
    {
        const std::lock_guard<std::mutex> lock(from.mutex);
        const auto kept = std::find_if(from.blocks.begin(), from.blocks.end(), [&](KeptBlock &block) {
            return block.device == device && block.bytes >= bytes && block.bytes <= 2 * bytes &&
                   (block.given_back.is_over() || (in_line && block.given_back.is_in_line()));
        });
        if (kept != from.blocks.end()) {
            memory_ = std::move(kept->memory);
            given_back_ = std::move(kept->given_back);
            bytes_ = kept->bytes;
            from.blocks.erase(kept);
            from.lent_to_blocks[device] += bytes_;
            if (in_line) given_back_.follow(device);
            return;
        }
        if (!large && from.lent_to_blocks[device] + bytes > budgets().device / 2) return;
        while (!from.reserve(device, {0, bytes})) {
            if (from.drop_one(device, {0, bytes}, [](const Slot &) { return false; })) continue;
            return;
        }
        from.lent_to_blocks[device] += bytes;
    }
    try {
        memory_ = device_memory(bytes);
        bytes_ = bytes;
    } catch (...) {
        const std::lock_guard<std::mutex> lock(from.mutex);
        from.unreserve(device, {0, bytes});
        from.lent_to_blocks[device] -= bytes;
        throw;
    }
}

Block::~Block() {
    if (bytes_ == 0) return;
    given_back_.note(device_);
    Shelf &to = shelf();
    {
        const std::lock_guard<std::mutex> lock(to.mutex);
        to.blocks.push_back({std::move(memory_), std::move(given_back_), device_, bytes_});
        to.lent_to_blocks[device_] -= bytes_;
    }
    to.changed.notify_all();
}

pk_memory streaming_memory() {
    Shelf &all = shelf();
    const std::lock_guard<std::mutex> lock(all.mutex);
    pk_memory memory{};
    for (const auto &[device, bytes] : all.device_bytes) memory.device_bytes += bytes;
    memory.device_budget = budgets().device;
    memory.pinned_bytes = all.pinned_bytes;
    memory.pinned_budget = budgets().pinned;
    return memory;
}

void release_streaming_memory() {
    Shelf &from = shelf();
    const std::lock_guard<std::mutex> lock(from.mutex);
    while (!from.blocks.empty()) from.destroy(from.blocks.end() - 1);
    while (!from.slots.empty()) from.destroy(from.slots.end() - 1);
}

}  // namespace pk
