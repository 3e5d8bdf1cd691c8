// New pages cost more than most calls compute: the system hands them out one by one, and cleans each. So
// those of a result that is no more wait for the next of about its size. Meanwhile they are the system's to
// take, should it run short of memory.
#include "result_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "environment.h"
#include "forks.h"
#include "status.h"

namespace pk {

namespace {

constexpr size_t HUGE_PAGE = size_t(2) << 20;
constexpr size_t MOST_BYTES = size_t(1) << 50;
constexpr size_t MOST_KEPT = 64, WORTH_KEEPING = size_t(1) << 20;

size_t page() {
    static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

// What is known of a block stands before its memory, at the end of the page there.
struct Header {
    void *mapping;
    size_t mapped, room;
};

Header &header(char *memory) { return *reinterpret_cast<Header *>(memory - sizeof(Header)); }

struct Unmap {
    void operator()(char *memory) const {
        const Header block = header(memory);
        munmap(block.mapping, block.mapped);
    }
};

using Block = std::unique_ptr<char, Unmap>;

// There is the room, and not much more.
bool fits(size_t bytes, size_t room) { return bytes <= room && room - bytes <= room / 8; }

size_t room_of(const Block &block) { return header(block.get()).room; }

// Null if there is no such memory.
Block map(size_t room) {
    const size_t mapped = room + HUGE_PAGE;
    void *mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    const uintptr_t first = reinterpret_cast<uintptr_t>(mapping) + page();
    Block block(reinterpret_cast<char *>((first + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE));
    header(block.get()) = {mapping, mapped, room};
#if defined(MADV_HUGEPAGE)
    (void)madvise(block.get(), room, MADV_HUGEPAGE);  // a hint
#endif
    return block;
}

int64_t usual_budget() { return std::min(int64_t(1) << 30, sysconf(_SC_PHYS_PAGES) * int64_t(page()) / 8); }

std::mutex shelf_mutex;

class Shelf {
   public:
    Shelf() { kept_.reserve(MOST_KEPT + 1); }

    int64_t budget() const { return int64_t(budget_); }

    // The smallest block that fits, or null.
    Block take(size_t room) {
        const std::lock_guard<std::mutex> lock(shelf_mutex);
        auto best = kept_.end();
        for (auto at = kept_.begin(); at != kept_.end(); ++at) {
            if (!fits(room, room_of(*at))) continue;
            if (best == kept_.end() || room_of(*at) < room_of(*best)) best = at;
        }
        if (best == kept_.end()) return nullptr;
        Block block = std::move(*best);
        kept_.erase(best);
        bytes_ -= room_of(block);
        return block;
    }

    void keep(Block block) {
        const size_t room = room_of(block);
        if (room > budget_ || room < WORTH_KEEPING) return;
#if defined(MADV_FREE)
        (void)madvise(block.get(), room, MADV_FREE);  // a kindness, which some systems do not know
#endif
        Blocks dropped;
        const std::lock_guard<std::mutex> lock(shelf_mutex);
        kept_.push_back(std::move(block));
        bytes_ += room;
        size_t count = 0;
        for (; bytes_ > budget_ || kept_.size() - count > MOST_KEPT; ++count) {
            bytes_ -= room_of(kept_[count]);
            dropped[count] = std::move(kept_[count]);
        }
        kept_.erase(kept_.begin(), kept_.begin() + std::ptrdiff_t(count));
    }

    void clear() {
        Blocks dropped;
        const std::lock_guard<std::mutex> lock(shelf_mutex);
        std::move(kept_.begin(), kept_.end(), dropped.begin());
        kept_.clear();
        bytes_ = 0;
    }

    int64_t bytes() {
        const std::lock_guard<std::mutex> lock(shelf_mutex);
        return int64_t(bytes_);
    }

   private:
    using Blocks = std::array<Block, MOST_KEPT + 1>;  // which end when the lock has

    const size_t budget_ = size_t(from_environment("PYCUDAKIT_RESULT_MEMORY", "bytes", usual_budget(), 0));
    std::vector<Block> kept_;  // the oldest first; never more than it has room for
    size_t bytes_ = 0;
};

// Never destroyed: results may die after everything else.
Shelf &shelf() {
    static Shelf *const shelf = new Shelf;
    hold_over_forks<shelf_mutex>();
    return *shelf;
}

void *allocate(void *, size_t bytes) noexcept {
    if (bytes > MOST_BYTES) return nullptr;
    const size_t room = (std::max<size_t>(bytes, 1) + page() - 1) / page() * page();
    Block block = shelf().take(room);
    if (!block) block = map(room);
    if (!block) {
        shelf().clear();
        block = map(room);
    }
    return block.release();
}

void *allocate_zeros(void *context, size_t count, size_t bytes) noexcept {
    if (bytes != 0 && count > MOST_BYTES / bytes) return nullptr;
    void *memory = allocate(context, count * bytes);
    if (memory != nullptr) std::memset(memory, 0, count * bytes);
    return memory;
}

void release(void *, void *memory, size_t) noexcept {
    if (memory != nullptr) shelf().keep(Block(static_cast<char *>(memory)));
}

void *resize(void *context, void *memory, size_t bytes) noexcept {
    const size_t room = memory == nullptr ? 0 : header(static_cast<char *>(memory)).room;
    if (fits(bytes, room)) return memory;
    void *const moved = allocate(context, bytes);
    if (memory == nullptr || moved == nullptr) return moved;
    std::memcpy(moved, memory, std::min(bytes, room));
    release(context, memory, bytes);
    return moved;
}

// As NumPy lays out its PyDataMem_Handler, in version 1.
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

void add_result_memory(pk_memory &memory) {
    memory.results_kept = shelf().bytes();
    memory.results_budget = shelf().budget();
}

void release_result_memory() { shelf().clear(); }

}  // namespace pk

extern "C" int32_t pk_result_allocator(uint64_t *address) {
    return pk::guarded([&] {
        pk::require(address != nullptr, "address is a null pointer");
        (void)pk::shelf();  // or why it cannot be
        *address = reinterpret_cast<uint64_t>(&pk::handler);
    });
}
