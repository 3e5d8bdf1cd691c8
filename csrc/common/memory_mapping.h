// RAII for anonymous memory mappings, and memory in huge pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif
#if !defined(MAP_STACK)
#define MAP_STACK 0
#endif

namespace pk {

// A mapping, which is unmapped on destruction. Null if the operating system refused it.
class Mapping {
   public:
    Mapping() = default;
    Mapping(size_t bytes, int protection, int flags = 0)
        : memory_(mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0)),
          bytes_(bytes) {
        if (memory_ == MAP_FAILED) memory_ = nullptr;
    }
    ~Mapping() {
        if (memory_ != nullptr) munmap(memory_, bytes_);
    }
    Mapping(Mapping &&other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
    Mapping &operator=(Mapping &&other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }

    explicit operator bool() const { return memory_ != nullptr; }
    char *memory() const { return static_cast<char *>(memory_); }
    size_t bytes() const { return bytes_; }

   private:
    void *memory_ = nullptr;
    size_t bytes_ = 0;
};

// In huge pages, large memory has few page faults, each of which maps and clears a page.
constexpr size_t HUGE_PAGE = size_t(2) << 20;

// Asks the operating system for huge pages, which is a hint.
inline void advise_huge_pages([[maybe_unused]] void *memory, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
}

// Memory that begins at a huge page if it is as large as one, with at least `before` bytes of the mapping in
// front. Null if the operating system refused it.
class HugePages {
   public:
    HugePages() = default;
    explicit HugePages(size_t bytes, size_t before = 0)
        : mapping_(before + bytes + (bytes < HUGE_PAGE ? 0 : HUGE_PAGE), PROT_READ | PROT_WRITE) {
        if (!mapping_) return;
        auto first = reinterpret_cast<uintptr_t>(mapping_.memory()) + before;
        if (bytes >= HUGE_PAGE) first = (first + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        memory_ = reinterpret_cast<char *>(first);
        advise_huge_pages(memory_, bytes);
    }

    explicit operator bool() const { return bool(mapping_); }
    char *memory() const { return memory_; }
    const Mapping &mapping() const { return mapping_; }

   private:
    Mapping mapping_;
    char *memory_ = nullptr;
};

}  // namespace pk
