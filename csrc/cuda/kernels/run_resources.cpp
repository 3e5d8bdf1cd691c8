#include "run_resources.h"

#include <algorithm>

#include "cache_flush.h"
#include "common/call/status.h"

namespace pk::kernels {

namespace {

// Never destroyed: at the process's exit the driver may be gone before it.
struct Depot {
    std::mutex mutex;
    std::vector<std::unique_ptr<Track>> tracks;
    std::list<Holdings> abandoned;

    // Frees what is done with. The mutex is held.
    void reap() {
        abandoned.remove_if(
            [](const Holdings &held) { return cudaStreamQuery(held.queue()) != cudaErrorNotReady; });
    }
};

Depot &depot() {
    static Depot *const depot = new Depot;
    return *depot;
}

}  // namespace

char *take_memory(int device, int64_t bytes, std::optional<Block> &block, DeviceMemory &memory) {
    auto take = [&] {
        block.emplace(device, bytes);
        if (block->memory() == nullptr) memory = device_memory(bytes);
    };
    try {
        take();
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
        release_streaming_memory();
        take();
    }
    return block->memory() != nullptr ? block->memory() : static_cast<char *>(memory.get());
}

std::unique_ptr<Track> take_track(int device) {
    {
        Depot &from = depot();
        const std::lock_guard<std::mutex> lock(from.mutex);
        from.reap();
        const auto kept = std::find_if(from.tracks.begin(), from.tracks.end(),
                                       [&](auto &track) { return track->device == device; });
        if (kept != from.tracks.end()) {
            std::unique_ptr<Track> track = std::move(*kept);
            from.tracks.erase(kept);
            return track;
        }
    }
    return std::make_unique<Track>(device);
}

void give_back(std::unique_ptr<Track> track) {
    const std::lock_guard<std::mutex> lock(depot().mutex);
    depot().tracks.push_back(std::move(track));
}

void abandon(std::list<Holdings> &held) noexcept {
    const std::lock_guard<std::mutex> lock(depot().mutex);
    depot().abandoned.splice(depot().abandoned.end(), held);
}

void release() {
    {
        const std::lock_guard<std::mutex> lock(depot().mutex);
        depot().tracks.clear();
        depot().reap();
    }
    release_modules();
}

}  // namespace pk::kernels
