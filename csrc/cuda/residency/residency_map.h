// The ranges of the host's memory that have a home on a device while a plan lasts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/call/call.h"
#include "device_pool.h"

namespace pk::plan {

struct Kept {
    char *host;
    int64_t bytes;
    int32_t what;  // PK_KEEP_...
    Memory memory;
    bool on_host, on_device;  // whether what is there is valid
    int device = 0;
    char *lent = nullptr;  // the home, if that is the caller's own

    char *home() const { return lent != nullptr ? lent : memory.get(); }
    char *end() const { return host + bytes; }
    bool has(const char *low, const char *high) const { return low >= host && high <= end(); }
    char *home_of(const char *address) const { return home() + (address - host); }

    void bring_up(Call &call);
    // The same where nobody need wait for it. Returns whether it is there.
    bool bring_up_in_line(Call &call);
    // Brings it down where only the device has it.
    void fetch(Call &call);
    void change_on_host() { on_host = true, on_device = false; }
};

// Copies from a device to the host.
void bring_down(int device, char *home, char *host, int64_t bytes, Call &call);

// The device that memory of the caller's lies on, complete: what its stream was to do before is done, if it
// has one.
int device_of_lent(uint64_t home, int64_t bytes, uint64_t stream);

// A scope on its thread. An inner one has its own ranges, and calls in it see those of the outer ones, too.
class Plan {
   public:
    Plan() : outer_(innermost_) { innermost_ = this; }
    ~Plan() { innermost_ = outer_; }
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;

    static Plan *innermost() { return innermost_; }

    // Where ranges are kept from now on.
    void be_on(int device) { device_ = device; }
    // Calls stand in line from now on, in a stream of the caller's on that device; or no longer, in none.
    void queue_in(cudaStream_t stream);
    int device() const { return device_; }

    // Those of the thread's plans that have a byte from low to before high.
    static std::vector<Kept *> overlapping(const char *low, const char *high);
    static Kept *find(uint64_t address);

    void add(Kept kept);
    static void drop(const Kept &kept);

   private:
    static thread_local Plan *innermost_;
    Plan *const outer_;
    int device_ = 0;
    std::optional<Line> line_;
    std::map<const char *, Kept> kept_;  // by where they begin
};

}  // namespace pk::plan
