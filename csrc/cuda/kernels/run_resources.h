// What a run of kernels has of a GPU, and what becomes of it when the call is stopped while a kernel runs.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/cuda.h"
#include "module_cache.h"

namespace pk::kernels {

// What a run's steps go through, kept for the next.
struct Track {
    explicit Track(int device) : device(device) {}

    const int device;
    Stream queue = stream();
    Event arrived = event(), begun = event(), ended = event(), paces[2] = {event(), event()};
};

// All that a run has of a device until its last kernel is done.
struct Holdings {
    std::vector<Use> uses;
    std::optional<Lease> lease;
    std::optional<Block> block, printed_block;
    DeviceMemory memory, printed_memory;
    std::unique_ptr<Track> track;  // last, and so destroyed before the memory

    cudaStream_t queue() const { return track->queue.get(); }
};

// Memory of the current device; of the engine's if that has room, else its own.
char *take_memory(int device, int64_t bytes, std::optional<Block> &block, DeviceMemory &memory);

std::unique_ptr<Track> take_track(int device);
void give_back(std::unique_ptr<Track> track);

// For what a kernel still uses: it is freed some time after that. A list of one, so that this cannot fail.
void abandon(std::list<Holdings> &held) noexcept;

}  // namespace pk::kernels
