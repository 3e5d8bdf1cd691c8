// The state of each byte of shared memory, and the comparison of values before and after a write.
#include "race_detector.h"

#include <cstring>
#include <utility>

#include "../../../pycudakit/kernels/compiling/include/pycudakit_image.h"

namespace pk::kernels {

bool RaceDetector::conflicts(const Access &access, int thread, uint32_t warp_epoch) const {
    if (access.epoch != epoch_ || access.thread == thread || access.thread < 0) return false;
    const bool is_of_warp = access.thread / PK_WARP == thread / PK_WARP;
    return !is_of_warp || access.warp_epoch == warp_epoch;
}

RaceDetector::Byte *RaceDetector::shadow(const GuardedMemory::GuardedBuffer &buffer, uint64_t address) {
    std::vector<Byte> &bytes = shadows_[buffer.begin];
    if (bytes.size() < buffer.bytes) bytes.resize(buffer.bytes);
    return &bytes[address - buffer.begin];
}

std::optional<RaceDetector::Race> RaceDetector::access(const GuardedMemory::GuardedBuffer &buffer,
                                                       uint64_t address, uint64_t bytes, int thread,
                                                       uint32_t warp_epoch, bool writes) {
    Byte *const shadow = this->shadow(buffer, address);
    std::optional<Race> race;
    for (uint64_t i = 0; i < bytes && !race; ++i) {
        const bool after_write = conflicts(shadow[i].write, thread, warp_epoch);
        const bool after_read = writes && conflicts(shadow[i].read, thread, warp_epoch);
        if (after_write || after_read)
            race = Race{&buffer, address,
                        thread,  after_write ? shadow[i].write.thread : shadow[i].read.thread,
                        writes,  after_write};
    }
    if (!writes) {
        for (uint64_t i = 0; i < bytes; ++i) shadow[i].read = {epoch_, thread, warp_epoch};
        return race;
    }
    if (race) {
        pending_ =
            PendingWrite{*race, address, std::string(reinterpret_cast<const char *>(address), size_t(bytes)),
                         shadow, warp_epoch};
        return {};
    }
    for (uint64_t i = 0; i < bytes; ++i) shadow[i].write = {epoch_, thread, warp_epoch};
    return {};
}

void RaceDetector::forget(const GuardedMemory::GuardedBuffer &buffer, uint64_t address, uint64_t bytes) {
    Byte *const shadow = this->shadow(buffer, address);
    for (uint64_t i = 0; i < bytes; ++i) shadow[i] = {};
}

std::optional<RaceDetector::Race> RaceDetector::last_write() {
    if (!pending_) return {};
    const PendingWrite write = std::move(*pending_);
    pending_.reset();
    if (std::memcmp(reinterpret_cast<const void *>(write.address), write.before.data(),
                    write.before.size()) != 0) {
        if (write.race.other_writes) return write.race;
        for (size_t i = 0; i < write.before.size(); ++i)
            write.bytes[i].write = {epoch_, write.race.thread, write.warp_epoch};
        if (!after_read_) after_read_ = write.race;
        return {};
    }
    // Threads that write equal values may each read them.
    for (size_t i = 0; i < write.before.size(); ++i) write.bytes[i].write.thread = SEVERAL;
    return {};
}

}  // namespace pk::kernels
