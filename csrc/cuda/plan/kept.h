// The ranges of the host's memory that have a home on device 0 while a plan lasts.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/call/call.h"
#include "memory.h"

namespace pk::plan {

struct Kept {
    char *host;
    int64_t bytes;
    int32_t what;  // PK_KEEP_...
    Memory memory;
    bool on_host, on_device;  // whether what is there is valid

    char *end() const { return host + bytes; }
    bool has(const char *low, const char *high) const { return low >= host && high <= end(); }
    char *home_of(const char *address) const { return memory.get() + (address - host); }

    void bring_up(Call &call);
    // Brings it down where only the device has it.
    void fetch(Call &call);
    void change_on_host() { on_host = true, on_device = false; }
};

// Copies from the device to the host.
void bring_down(char *home, char *host, int64_t bytes, Call &call);

// A scope on its thread. An inner one has its own ranges, and calls in it see those of the outer ones, too.
class Plan {
   public:
    Plan() : outer_(innermost_) { innermost_ = this; }
    ~Plan() { innermost_ = outer_; }
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;

    static Plan *innermost() { return innermost_; }

    // Those of the thread's plans that have a byte from low to before high.
    static std::vector<Kept *> overlapping(const char *low, const char *high);
    static Kept *find(uint64_t address);

    void add(Kept kept);
    static void drop(const Kept &kept);

   private:
    static thread_local Plan *innermost_;
    Plan *const outer_;
    std::map<const char *, Kept> kept_;  // by where they begin
};

}  // namespace pk::plan
