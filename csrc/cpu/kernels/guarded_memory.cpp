// Buffers with wide red zones around them.
#include "guarded_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "common/rounding.h"

namespace pk::kernels {

// The red zone on either side of a buffer: the reach of a 32-bit index of 8-byte elements; less if that is
// refused.
static constexpr uint64_t MAX_RED_ZONE = uint64_t(16) << 30, MIN_RED_ZONE = uint64_t(1) << 20;

void *GuardedMemory::allocate(int64_t bytes, int64_t item_bytes, const std::string &label) {
    constexpr int64_t ALIGNED = 64 << 10;  // a multiple of the page size, whatever it is
    const auto inside = uint64_t(align_up(bytes, ALIGNED));
    for (uint64_t red_zone = MAX_RED_ZONE; red_zone >= MIN_RED_ZONE; red_zone /= 4) {
        Mapping mapping(inside + 2 * red_zone, PROT_NONE, MAP_NORESERVE);
        if (!mapping) continue;
        char *const data = mapping.memory() + red_zone;
        if (inside != 0 && mprotect(data, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
        const auto begin = reinterpret_cast<uint64_t>(mapping.memory());
        guarded_buffers_.push_back(
            {begin + red_zone, uint64_t(bytes), item_bytes < 1 ? 1 : item_bytes, label});
        const uint64_t reserved = mapping.bytes();
        reservations_.push_back({std::move(mapping), begin, reserved, guarded_buffers_.size() - 1});
        return data;
    }
    throw std::bad_alloc();
}

void GuardedMemory::add(uint64_t begin, int64_t bytes, int64_t item_bytes, const std::string &label,
                        int64_t red_zone) {
    guarded_buffers_.push_back({begin, uint64_t(bytes), item_bytes < 1 ? 1 : item_bytes, label});
    const uint64_t reserved = uint64_t(bytes + red_zone);
    reservations_.push_back({std::nullopt, begin, reserved, guarded_buffers_.size() - 1});
}

const GuardedMemory::GuardedBuffer *GuardedMemory::nearest(uint64_t address) const {
    const auto distance = [=](const GuardedBuffer &guarded_buffer) {
        return std::min(address - guarded_buffer.begin,
                        // either difference may have wrapped
                        guarded_buffer.begin - address);
    };
    const auto closest = std::min_element(
        guarded_buffers_.begin(), guarded_buffers_.end(),
        [&](const GuardedBuffer &a, const GuardedBuffer &b) { return distance(a) < distance(b); });
    return closest == guarded_buffers_.end() ? nullptr : &*closest;
}

}  // namespace pk::kernels
