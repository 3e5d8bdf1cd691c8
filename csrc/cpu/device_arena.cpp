// The arena of device memory: size classes with free lists, and a table of allocations by their addresses.
#include "device_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "common/call/call.h"
#include "common/call/forks.h"
#include "common/memory_mapping.h"
#include "common/rounding.h"
#include "cpu/kernels/buffers.h"

namespace pk::device_memory {

namespace {

constexpr int64_t PAGE = 4096, HUGE_PAGE = int64_t(pk::HUGE_PAGE), LARGE = int64_t(4) << 20;
constexpr size_t MAX_ARENA = size_t(1) << 40, MIN_ARENA = size_t(1) << 30;
constexpr int64_t COMMIT_STEP = int64_t(64) << 20;
// Freed memory up to so many bytes stays in use by the process.
constexpr int64_t MAX_IDLE_BYTES = int64_t(1) << 30;
constexpr int64_t MAX_FREE = int64_t(4) << 30;  // as the device reports

// The bytes of addresses that an allocation takes, with its guard.
int64_t span_of(int64_t bytes) {
    return align_up(size_class(bytes) + GUARD, bytes >= LARGE ? HUGE_PAGE : PAGE);
}

int64_t physical_memory() {
    return std::max<int64_t>(int64_t(1) << 30, int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

Mapping reserved() {
    for (size_t bytes = MAX_ARENA; bytes >= MIN_ARENA; bytes /= 4) {
        Mapping mapping(bytes, PROT_NONE, MAP_NORESERVE);
        if (mapping) return mapping;
    }
    fail(PK_OUT_OF_MEMORY, "out of host memory: the system reserves no addresses for device memory");
}

struct Allocation {
    int64_t bytes, span;  // span is 0 for a registered range
};

struct IdleBlock {
    uint64_t begin;
    bool is_zero;
};

class Arena {
   public:
    Arena() : mapping_(reserved()), total_(physical_memory()) {
        const auto begin = reinterpret_cast<uint64_t>(mapping_.memory());
        committed_ = uint64_t(align_up(int64_t(begin), HUGE_PAGE));
        frontier_ = committed_ + GUARD;  // as all others, the first allocation has memory before it
        end_ = begin + mapping_.bytes();
    }

    IdleBlock allocate(int64_t bytes) {
        if (bytes > total_ - live_bytes_) fail_no_memory(bytes, usage().free, total_);
        const int64_t span = span_of(bytes);
        IdleBlock block{};
        const auto idle = idle_.find(span);
        if (idle != idle_.end() && !idle->second.empty()) {
            block = idle->second.back();
            allocations_.emplace(block.begin, Allocation{bytes, span});
            idle->second.pop_back();
            if (!block.is_zero) idle_bytes_ -= span;
        } else {
            block = cut(span);
            allocations_.emplace(block.begin, Allocation{bytes, span});
            frontier_ = block.begin + uint64_t(span);
        }
        live_bytes_ += bytes;
        return block;
    }

    void free(uint64_t address) {
        const auto found = allocations_.find(address);
        if (found == allocations_.end() || found->second.span == 0) fail_unknown("a free", address);
        const auto [bytes, span] = found->second;
        std::vector<IdleBlock> &idle = idle_[span];
        const bool drops = idle_bytes_ + span > MAX_IDLE_BYTES;
        idle.push_back({address, drops});
        if (drops) {
            (void)madvise(reinterpret_cast<void *>(address), size_t(span), MADV_DONTNEED);
        } else {
            idle_bytes_ += span;
        }
        allocations_.erase(found);
        live_bytes_ -= bytes;
    }

    void add(const Range &range) {
        if (!allocations_.emplace(range.begin, Allocation{range.bytes, 0}).second)
            fail(PK_INVALID_ARGUMENT, "the memory at " + hexadecimal(range.begin) + " is registered already");
    }

    void remove(uint64_t begin) {
        const auto found = allocations_.find(begin);
        if (found == allocations_.end() || found->second.span != 0)
            fail(PK_INVALID_ARGUMENT, "the memory at " + hexadecimal(begin) + " is not registered");
        allocations_.erase(found);
    }

    // The last range that begins at the address or before it; bytes = 0: none.
    Range before(uint64_t address) const {
        auto next = allocations_.upper_bound(address);
        if (next == allocations_.begin()) return {};
        --next;
        return {next->first, next->second.bytes};
    }
    Range after(uint64_t address) const {
        const auto next = allocations_.upper_bound(address);
        return next == allocations_.end() ? Range{} : Range{next->first, next->second.bytes};
    }

    std::vector<Range> all() const {
        std::vector<Range> ranges;
        ranges.reserve(allocations_.size());
        for (const auto &[begin, allocation] : allocations_) ranges.push_back({begin, allocation.bytes});
        return ranges;
    }

    Range reservation() const {
        const auto begin = reinterpret_cast<uint64_t>(mapping_.memory());
        return {begin, int64_t(end_ - begin)};
    }

    Usage usage() const { return {std::min(MAX_FREE, total_ - live_bytes_), total_}; }

   private:
    // A block of fresh pages behind all others, which the caller takes by moving the frontier.
    IdleBlock cut(int64_t span) {
        const uint64_t begin = span >= LARGE ? uint64_t(align_up(int64_t(frontier_), HUGE_PAGE)) : frontier_;
        if (uint64_t(span) > end_ - std::min(begin, end_)) fail_no_memory(span, usage().free, total_);
        const uint64_t needed = begin + uint64_t(span);
        if (needed > committed_) {
            const uint64_t wanted = std::min(end_, uint64_t(align_up(int64_t(needed), COMMIT_STEP)));
            if (mprotect(reinterpret_cast<void *>(committed_), wanted - committed_, PROT_READ | PROT_WRITE) !=
                0)
                fail_no_memory(span, usage().free, total_);
            committed_ = wanted;
        }
        if (span >= LARGE) advise_huge_pages(reinterpret_cast<void *>(begin), size_t(span));
        return {begin, true};
    }

    Mapping mapping_;
    const int64_t total_;
    uint64_t frontier_, committed_, end_;
    int64_t live_bytes_ = 0, idle_bytes_ = 0;
    std::map<int64_t, std::vector<IdleBlock>> idle_;  // by span
    std::map<uint64_t, Allocation> allocations_;      // by address
};

std::mutex arena_mutex;

// The arena; the mutex is held. Never destroyed: programs free memory until the process ends.
Arena &arena() {
    hold_over_forks<arena_mutex>();
    static Arena *const arena = new Arena;
    return *arena;
}

bool contains(const Range &range, uint64_t address) {
    return range.bytes != 0 && address >= range.begin && address - range.begin < uint64_t(range.bytes);
}

}  // namespace

uint64_t allocate(int64_t bytes, bool zeros) {
    IdleBlock block{};
    {
        const std::lock_guard<std::mutex> lock(arena_mutex);
        block = arena().allocate(bytes);
    }
    if (zeros && !block.is_zero) {
        pk_report report{};
        Call call(nullptr, &report);
        auto *const memory = reinterpret_cast<char *>(block.begin);
        parallel_for_pieces(call, bytes, kernels::COPY_PIECE, [&](int64_t, int64_t first, int64_t end) {
            std::memset(memory + first, 0, size_t(end - first));
        });
    }
    return block.begin;
}

void free(uint64_t address) {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    arena().free(address);
}

void add_range(const Range &range) {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    arena().add(range);
}

void remove_range(uint64_t begin) {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    arena().remove(begin);
}

Range find(const char *operation, uint64_t address) {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    const Range range = arena().before(address);
    if (!contains(range, address)) fail_unknown(operation, address);
    return range;
}

Range find_near(uint64_t address) {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    const Range before = arena().before(address);
    if (before.bytes != 0 && address - before.begin < uint64_t(before.bytes + GUARD)) return before;
    const Range after = arena().after(address);
    if (after.bytes != 0 && after.begin - address <= uint64_t(GUARD)) return after;
    return {};
}

std::vector<Range> all_ranges() {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    return arena().all();
}

Range reservation() {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    return arena().reservation();
}

Usage usage() {
    const std::lock_guard<std::mutex> lock(arena_mutex);
    return arena().usage();
}

}  // namespace pk::device_memory
