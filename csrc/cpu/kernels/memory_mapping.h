// RAII for anonymous memory mappings.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif
#if !defined(MAP_STACK)
#define MAP_STACK 0
#endif

namespace pk::kernels {

// A mapping, which is unmapped on destruction. Null if the operating system refused it.
class Mapping {
   public:
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
    void *memory_;
    size_t bytes_;
};

}  // namespace pk::kernels
