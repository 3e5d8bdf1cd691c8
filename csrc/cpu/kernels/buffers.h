// The buffers of a run, in the memory where kernels use them.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/call/call.h"
#include "common/call/parallel_for.h"
#include "common/kernels.h"
#include "common/memory_mapping.h"
#include "guarded_memory.h"

namespace pk::kernels {

constexpr int64_t COPY_PIECE = int64_t(1) << 20;  // bytes that a thread copies at once

// Gives each buffer memory, in place or beside the caller's, with its first contents; downloads the outputs.
class Buffers {
   public:
    Buffers(const Run &run, bool checked, Call &call) : run_(run) {
        for (int64_t i = 0; i < run.buffers.size; ++i) addresses_.push_back(allocate(i, checked));
        for (int64_t i = 0; i < run.buffers.size; ++i) fill(i, call);
    }
    Buffers(const Buffers &) = delete;
    Buffers &operator=(const Buffers &) = delete;

    char *operator[](int64_t buffer) const { return addresses_[size_t(buffer)]; }
    GuardedMemory *guarded_memory() { return &guarded_memory_; }

    void download(Call &call) {
        for (int64_t i = 0; i < run_.buffers.size; ++i) {
            const pk_buffer &buffer = run_.buffers[i];
            if ((buffer.flags & PK_BUFFER_DOWNLOAD) == 0 || addresses_[size_t(i)] == host(buffer)) continue;
            parallel_for_pieces(call, buffer.bytes, COPY_PIECE, [&](int64_t, int64_t begin, int64_t end) {
                std::memcpy(host(buffer) + begin, addresses_[size_t(i)] + begin, size_t(end - begin));
            });
        }
    }

   private:
    static char *host(const pk_buffer &buffer) { return reinterpret_cast<char *>(buffer.address); }
    static bool is_read_only(const pk_buffer &buffer) {
        return (buffer.flags & PK_BUFFER_CONSTANT) != 0 && (buffer.flags & PK_BUFFER_DOWNLOAD) == 0;
    }

    bool overlaps(const pk_buffer &a) const {
        return std::any_of(run_.buffers.begin(), run_.buffers.end(), [&](const pk_buffer &b) {
            return &a != &b && b.address != 0 && a.address < b.address + uint64_t(b.bytes) &&
                   b.address < a.address + uint64_t(a.bytes) && !(is_read_only(a) && is_read_only(b));
        });
    }

    char *allocate(int64_t index, bool checked) {
        const pk_buffer &buffer = run_.buffers[index];
        const std::string label(buffer.label, strnlen(buffer.label, sizeof(buffer.label)));
        if (checked)
            return static_cast<char *>(guarded_memory_.allocate(buffer.bytes, buffer.itemsize, label));
        constexpr uint64_t ALIGNED = 16;  // the alignment of vector types
        const bool in_place = (buffer.flags & PK_BUFFER_DOWNLOAD) != 0 ||
                              (buffer.flags & (PK_BUFFER_UPLOAD | PK_BUFFER_CONSTANT)) ==
                                  (PK_BUFFER_UPLOAD | PK_BUFFER_CONSTANT);
        if (in_place && buffer.address % ALIGNED == 0 && !overlaps(buffer)) return host(buffer);
        const auto bytes = size_t(std::max<int64_t>(buffer.bytes, 1));
        mapped_.emplace_back(bytes, PROT_READ | PROT_WRITE);
        if (!mapped_.back()) {
            fail(PK_OUT_OF_MEMORY,
                 "no memory for the " + std::to_string(bytes) + " bytes of the buffer '" + label + "'");
        }
        return mapped_.back().memory();
    }

    void fill(int64_t index, Call &call) {
        const pk_buffer &buffer = run_.buffers[index];
        char *const to = addresses_[size_t(index)];
        const bool is_host = to == host(buffer);
        if ((buffer.flags & PK_BUFFER_UPLOAD) != 0) {
            if (is_host) return;
            parallel_for_pieces(call, buffer.bytes, COPY_PIECE, [&](int64_t, int64_t begin, int64_t end) {
                std::memcpy(to + begin, host(buffer) + begin, size_t(end - begin));
            });
        } else if (is_host || (buffer.flags & PK_BUFFER_POISON) != 0) {  // new memory begins as zeros
            const int byte = (buffer.flags & PK_BUFFER_POISON) != 0 ? PK_BUFFER_POISON_BYTE : 0;
            parallel_for_pieces(call, buffer.bytes, COPY_PIECE, [&](int64_t, int64_t begin, int64_t end) {
                std::memset(to + begin, byte, size_t(end - begin));
            });
        }
    }

    const Run &run_;
    GuardedMemory guarded_memory_;
    std::vector<Mapping> mapped_;
    std::vector<char *> addresses_;
};

}  // namespace pk::kernels
