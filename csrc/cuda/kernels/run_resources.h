// Resources of a run of user kernels: memory, stream and events, kept alive until its last kernel has ended,
// even if the call is interrupted.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/cuda.h"
#include "module_cache.h"

namespace pk::kernels {

// The stream and events of a run, and pinned memory for those that need it; pooled.
struct RunStream {
    explicit RunStream(int device) : device(device) {}

    void obtain_pinned(int64_t bytes) {
        if (pinned_.bytes() < bytes) pinned_ = PinnedMemory(bytes, false);
    }
    char *pinned() const { return static_cast<char *>(pinned_.get()); }
    int64_t pinned_bytes() const { return pinned_.bytes(); }
    char *d_pinned() const { return static_cast<char *>(pinned_.device_pointer()); }

    const int device;
    Stream stream = make_stream();
    Event arrived = make_event(), begun = make_timing_event(), ended = make_timing_event(),
          pace_events[2] = {make_event(), make_event()};

   private:
    PinnedMemory pinned_;
};

// Everything that a run's kernels use on a device.
struct RunResources {
    std::vector<ModuleLock> module_locks;
    std::optional<Lease> lease;
    DeviceBuffer buffer, printf_buffer;
    std::unique_ptr<RunStream> run_stream;  // last, so that it is destroyed before the memory

    cudaStream_t stream() const { return run_stream->stream.get(); }
};

// Allocate memory on a device: in the budget of calls or, if that has no room, beside it.
DeviceBuffer allocate(int device, int64_t bytes);

std::unique_ptr<RunStream> acquire_run_stream(int device);
void give_back(std::unique_ptr<RunStream> run_stream) noexcept;

// Detach resources that a running kernel still uses; they are freed after it has ended. A list of one
// element, so that this needs no allocation and cannot fail.
void detach(std::list<RunResources> &resources) noexcept;

}  // namespace pk::kernels
