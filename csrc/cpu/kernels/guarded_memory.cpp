#include "guarded_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace pk::kernels {

// On either side of a buffer: what a 32-bit index reaches of elements of 8 bytes; less where that is refused.
static constexpr uint64_t MOST_ROOM = uint64_t(16) << 30, LEAST_ROOM = uint64_t(1) << 20;

void *GuardedMemory::take(int64_t bytes, int64_t item, const std::string &label) {
    constexpr uint64_t ALIGNED = uint64_t(64) << 10;  // a whole number of pages, whatever their size
    const uint64_t inside = (uint64_t(bytes) + ALIGNED - 1) / ALIGNED * ALIGNED;
    for (uint64_t room = MOST_ROOM; room >= LEAST_ROOM; room /= 4) {
        Mapping mapping(inside + 2 * room, PROT_NONE, MAP_NORESERVE);
        if (!mapping) continue;
        char *const data = mapping.memory() + room;
        if (inside != 0 && mprotect(data, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
        const auto begin = reinterpret_cast<uint64_t>(mapping.memory());
        guarded_buffers_.push_back({begin + room, uint64_t(bytes), item < 1 ? 1 : item, label});
        reservations_.push_back({std::move(mapping), begin, guarded_buffers_.size() - 1});
        return data;
    }
    throw std::bad_alloc();
}

const GuardedMemory::GuardedBuffer *GuardedMemory::nearest(uint64_t address) const {
    const auto away = [=](const GuardedBuffer &guarded_buffer) {
        return std::min(address - guarded_buffer.begin,
                        guarded_buffer.begin - address);  // either may have gone round
    };
    const auto found =
        std::min_element(guarded_buffers_.begin(), guarded_buffers_.end(),
                         [&](const GuardedBuffer &a, const GuardedBuffer &b) { return away(a) < away(b); });
    return found == guarded_buffers_.end() ? nullptr : &*found;
}

}  // namespace pk::kernels
