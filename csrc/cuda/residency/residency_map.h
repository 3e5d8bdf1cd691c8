// The ranges of the host's memory that have a home on a device while a plan lasts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/call/call.h"
#include "device_pool.h"

namespace pk::plan {

struct ResidentBuffer {
    char *host;
    int64_t bytes;
    int32_t intent;  // PK_RESIDENT_...
    PooledBuffer pooled;
    bool host_valid, device_valid;  // whether what is there is valid
    int device = 0;
    char *d_imported = nullptr;  // the home, if that is the caller's own

    char *d_data() const { return d_imported != nullptr ? d_imported : pooled.get(); }
    char *end() const { return host + bytes; }
    bool contains(const char *low, const char *high) const { return low >= host && high <= end(); }
    char *device_address(const char *address) const { return d_data() + (address - host); }

    void sync_to_device(Call &call);
    // The same where nobody need wait for it. Returns whether it is there.
    bool sync_to_device_async(Call &call);
    // Brings it down where only the device has it.
    void sync_to_host(Call &call);
    void invalidate_device() { host_valid = true, device_valid = false; }
};

// Copies from a device to the host.
void download(int device, char *d_data, char *host, int64_t bytes, Call &call);

// The device that memory of the caller's lies on, complete: what its stream was to do before is done, if it
// has one.
int device_of_imported(uint64_t d_data, int64_t bytes, uint64_t stream);

// A scope on its thread. An inner one has its own ranges, and calls in it see those of the outer ones, too.
class ResidencyScope {
   public:
    ResidencyScope() : outer_(current_) { current_ = this; }
    ~ResidencyScope() { current_ = outer_; }
    ResidencyScope(const ResidencyScope &) = delete;
    ResidencyScope &operator=(const ResidencyScope &) = delete;

    static ResidencyScope *current() { return current_; }

    // Where ranges are kept from now on.
    void set_device(int device) { device_ = device; }
    // Calls stand in line from now on, in a stream of the caller's on that device; or no longer, in none.
    void set_stream(cudaStream_t stream);
    int device() const { return device_; }

    // Those of the thread's plans that have a byte from low to before high.
    static std::vector<ResidentBuffer *> overlapping(const char *low, const char *high);
    static ResidentBuffer *find(uint64_t address);

    void add(ResidentBuffer buffer);
    static void drop(const ResidentBuffer &buffer);

   private:
    static thread_local ResidencyScope *current_;
    ResidencyScope *const outer_;
    int device_ = 0;
    std::optional<StreamScope> stream_scope_;
    std::map<const char *, ResidentBuffer> buffers_;  // by where they begin
};

}  // namespace pk::plan
