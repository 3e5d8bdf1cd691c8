// The residency map: ranges of host memory that have a device-resident copy while a residency scope lasts.
//
// Inside a scope (pk_run_in_residency_scope), calls that name such a host range use the device copy, and
// nothing is moved until the host needs the values. A range has a host copy and a device copy, each valid or
// not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/call/call.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/execution_context.h"

namespace pk {

// A range of host memory and its device copy.
struct ResidentBuffer {
    char *host;
    int64_t bytes;
    int32_t intent;  // PK_RESIDENT_...
    DeviceBuffer owned;
    bool host_valid, device_valid;  // coherence state: which copies are up to date
    int device = 0;
    char *d_imported = nullptr;  // the device copy, if that is the caller's own memory
    bool was_written = false;    // calls have written to the device copy

    char *d_data() const { return d_imported != nullptr ? d_imported : owned.d_memory(); }
    char *end() const { return host + bytes; }
    bool contains(const char *low, const char *high) const { return low >= host && high <= end(); }
    char *device_address(const char *address) const { return d_data() + (address - host); }

    // Upload the range if only the host copy is valid.
    void sync_to_device(Call &call);
    // Upload it through kernel parameters, if it is small and a stream is current. Return whether the
    // device copy is valid then.
    bool sync_to_device_async(Call &call);
    // Download the range if only the device copy is valid.
    void sync_to_host(Call &call);
    void invalidate_device() { host_valid = true, device_valid = false; }
};

// Copy from a device to the host, through the pipeline.
void download(int device, char *d_data, char *host, int64_t bytes, Call &call);

// Return the device of memory of the caller's, after synchronizing `stream`, if it is not 0. Throw unless
// all of the range is device memory of one device.
int device_of_imported(uint64_t d_data, int64_t bytes, uint64_t stream);

// A residency scope of the calling thread. Scopes nest: an inner one adds its own ranges, and its calls also
// see those of the outer ones.
class ResidencyScope {
   public:
    ResidencyScope() : outer_(current_) { current_ = this; }
    // Order the outer scope's later work after this scope's: on its stream or, if it has none, by waiting.
    ~ResidencyScope();
    ResidencyScope(const ResidencyScope &) = delete;
    ResidencyScope &operator=(const ResidencyScope &) = delete;

    static ResidencyScope *current() { return current_; }

    // Set the device that new ranges are resident on.
    void set_device(int device) { device_ = device; }
    // Make calls asynchronous from now on, in a stream of the caller's on that device, after the work that
    // is enqueued on an outer scope's stream; null: synchronous again. Their status words go to `status`.
    void set_stream(cudaStream_t stream, StatusWords status = {});
    int device() const { return device_; }

    // Return the ranges of the thread's scopes that overlap [low, high).
    static std::vector<ResidentBuffer *> overlapping(const char *low, const char *high);
    // Return the range that contains an address, or null.
    static ResidentBuffer *find(uint64_t address);

    void add(ResidentBuffer buffer);
    static void drop(const ResidentBuffer &buffer);

   private:
    static void order_outer(const StreamScope &scope);

    static thread_local ResidencyScope *current_;
    ResidencyScope *const outer_;
    int device_ = 0;
    std::optional<StreamScope> stream_scope_;
    std::map<const char *, ResidentBuffer> buffers_;  // by host address
};

}  // namespace pk
