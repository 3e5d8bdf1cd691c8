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
struct RunStream {
    explicit RunStream(int device) : device(device) {}

    const int device;
    Stream stream = make_stream();
    Event arrived = make_event(), begun = make_event(), ended = make_event(),
          pace_events[2] = {make_event(), make_event()};
};

// All that a run has of a device until its last kernel is done.
struct RunResources {
    std::vector<ModuleLock> module_locks;
    std::optional<Lease> lease;
    std::optional<DeviceBuffer> buffer, printf_block;
    DeviceMemory memory, printf_memory;
    std::unique_ptr<RunStream> run_stream;  // last, and so destroyed before the memory

    cudaStream_t stream() const { return run_stream->stream.get(); }
};

// Memory of the current device; of the engine's if that has room, else its own.
char *allocate(int device, int64_t bytes, std::optional<DeviceBuffer> &buffer, DeviceMemory &memory);

std::unique_ptr<RunStream> acquire_run_stream(int device);
void give_back(std::unique_ptr<RunStream> run_stream);

// For what a kernel still uses: it is freed some time after that. A list of one, so that this cannot fail.
void detach(std::list<RunResources> &resources) noexcept;

}  // namespace pk::kernels
