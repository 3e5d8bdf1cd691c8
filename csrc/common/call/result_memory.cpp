// Allocator of large results (pk_result_allocator): a free list of the memory of freed results.
//
// Touching new pages costs more than most calls compute, because the operating system maps and clears each of
// them. So a freed block is kept for the next result of about its size. Free blocks are marked with
// MADV_FREE, so that the operating system may reclaim their pages when memory is short.
#include "result_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "common/memory_mapping.h"
#include "environment.h"
#include "forks.h"
#include "status.h"

namespace pk {

namespace {

constexpr size_t MAX_BYTES = size_t(1) << 50;
constexpr size_t MAX_FREE_BLOCKS = 64, MIN_CACHED_BYTES = size_t(1) << 20;

size_t page_size() {
    static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

// The header of a block. It is in front of the block's memory, at the end of the page before.
struct Header {
    HugePages pages;
    size_t capacity;
};

Header &header(char *memory) { return *reinterpret_cast<Header *>(memory - sizeof(Header)); }

struct Unmap {
    void operator()(char *memory) const { const HugePages unmapped = std::move(header(memory).pages); }
};

using Block = std::unique_ptr<char, Unmap>;

// Whether a block of this capacity holds so many bytes, and at most an eighth of the capacity is left over.
bool fits(size_t bytes, size_t capacity) { return bytes <= capacity && capacity - bytes <= capacity / 8; }

size_t capacity_of(const Block &block) { return header(block.get()).capacity; }

// Maps a new block; returns null if the system refuses the memory.
Block map(size_t capacity) {
    HugePages pages(capacity, page_size());
    if (!pages) return nullptr;
    char *const memory = pages.memory();
    new (&header(memory)) Header{std::move(pages), capacity};
    return Block(memory);
}

int64_t default_budget() {
    return std::min(int64_t(1) << 30, sysconf(_SC_PHYS_PAGES) * int64_t(page_size()) / 8);
}

std::mutex free_list_mutex;

class FreeList {
   public:
    FreeList() { blocks_.reserve(MAX_FREE_BLOCKS + 1); }

    int64_t budget() const { return int64_t(budget_); }

    // Removes the smallest block that fits, and returns it; returns null if no block fits.
    Block take(size_t capacity) {
        const std::lock_guard<std::mutex> lock(free_list_mutex);
        auto best = blocks_.end();
        for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
            if (!fits(capacity, capacity_of(*at))) continue;
            if (best == blocks_.end() || capacity_of(*at) < capacity_of(*best)) best = at;
        }
        if (best == blocks_.end()) return nullptr;
        Block block = std::move(*best);
        blocks_.erase(best);
        bytes_ -= capacity_of(block);
        return block;
    }

    void put(Block block) {
        const size_t capacity = capacity_of(block);
        if (capacity > budget_ || capacity < MIN_CACHED_BYTES) return;
#if defined(MADV_FREE)
        (void)madvise(block.get(), capacity, MADV_FREE);  // a hint, which some systems do not support
#endif
        Blocks dropped;  // declared before the lock, so that the blocks are unmapped after it is released
        const std::lock_guard<std::mutex> lock(free_list_mutex);
        blocks_.push_back(std::move(block));
        bytes_ += capacity;
        size_t count = 0;
        for (; bytes_ > budget_ || blocks_.size() - count > MAX_FREE_BLOCKS; ++count) {
            bytes_ -= capacity_of(blocks_[count]);
            dropped[count] = std::move(blocks_[count]);
        }
        blocks_.erase(blocks_.begin(), blocks_.begin() + std::ptrdiff_t(count));
    }

    void clear() {
        Blocks dropped;  // declared before the lock, as in put()
        const std::lock_guard<std::mutex> lock(free_list_mutex);
        std::move(blocks_.begin(), blocks_.end(), dropped.begin());
        blocks_.clear();
        bytes_ = 0;
    }

    int64_t bytes() {
        const std::lock_guard<std::mutex> lock(free_list_mutex);
        return int64_t(bytes_);
    }

   private:
    using Blocks = std::array<Block, MAX_FREE_BLOCKS + 1>;

    const size_t budget_ =
        size_t(integer_from_environment("PYCUDAKIT_RESULT_MEMORY", "bytes", default_budget(), 0));
    std::vector<Block> blocks_;  // the oldest first; at most MAX_FREE_BLOCKS + 1
    size_t bytes_ = 0;
};

// The free list is never destroyed: results may be freed after everything else.
FreeList &free_list() {
    static FreeList *const free_list = new FreeList;
    hold_over_forks<free_list_mutex>();
    return *free_list;
}

void *allocate(void *, size_t bytes) noexcept {
    if (bytes > MAX_BYTES) return nullptr;
    const size_t capacity = (std::max<size_t>(bytes, 1) + page_size() - 1) / page_size() * page_size();
    Block block = free_list().take(capacity);
    if (!block) block = map(capacity);
    if (!block) {
        free_list().clear();
        block = map(capacity);
    }
    return block.release();
}

void *allocate_zeros(void *context, size_t count, size_t bytes) noexcept {
    if (bytes != 0 && count > MAX_BYTES / bytes) return nullptr;
    void *memory = allocate(context, count * bytes);
    if (memory != nullptr) std::memset(memory, 0, count * bytes);
    return memory;
}

void release(void *, void *memory, size_t) noexcept {
    if (memory != nullptr) free_list().put(Block(static_cast<char *>(memory)));
}

void *resize(void *context, void *memory, size_t bytes) noexcept {
    if (memory == nullptr) return allocate(context, bytes);  // as realloc() does
    const size_t capacity = header(static_cast<char *>(memory)).capacity;
    if (fits(bytes, capacity)) return memory;
    void *const moved = allocate(context, bytes);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, memory, std::min(bytes, capacity));
    release(context, memory, bytes);
    return moved;
}

// The layout of NumPy's PyDataMem_Handler, version 1.
struct Handler {
    char name[127];
    uint8_t version;
    void *context;
    void *(*allocate)(void *context, size_t bytes);
    void *(*allocate_zeros)(void *context, size_t count, size_t bytes);
    void *(*resize)(void *context, void *memory, size_t bytes);
    void (*release)(void *context, void *memory, size_t bytes);
};

constexpr Handler handler{"pycudakit", 1, nullptr, allocate, allocate_zeros, resize, release};

}  // namespace

void report_result_memory(pk_memory &memory) {
    memory.results_kept = free_list().bytes();
    memory.results_budget = free_list().budget();
}

void release_result_memory() { free_list().clear(); }

}  // namespace pk

extern "C" int32_t pk_result_allocator(uint64_t *address) {
    return pk::guarded([&] {
        pk::require(address != nullptr, "address is a null pointer");
        (void)pk::free_list();  // throws if PYCUDAKIT_RESULT_MEMORY is malformed
        *address = reinterpret_cast<uint64_t>(&pk::handler);
    });
}
