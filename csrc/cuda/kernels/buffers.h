// Device buffers of a run, of user kernels or of requests: small ones are copied together, through pinned
// memory, and large ones by a StagedCopy each way.
#pragma once

#include <algorithm>
#include <vector>

#include "common/call/call.h"
#include "common/kernels.h"
#include "device_operands.h"

namespace pk::kernels {

// Lays out, uploads and downloads the buffers of one run.
class Buffers {
   public:
    Buffers(Table<pk_buffer> buffers, Call &call, int device);

    int64_t bytes() const { return all_; }                                 // of the device memory
    int64_t pinned_bytes() const { return std::max(up_end_, down_end_); }  // of the pinned memory

    // Set the memory of the buffers, one of three kinds: device memory, and pinned memory through which
    // copies are enqueued, for small buffers; device memory alone, for large ones; or pinned memory that
    // kernels access by its device address, without copies.
    void set_memory(char *d_memory, char *pinned);
    void set_memory(char *d_memory) { set_memory(d_memory, nullptr); }
    void set_mapped_memory(char *d_memory, char *pinned);

    char *address(int64_t buffer) const;  // on the device
    bool has_pinned_memory() const { return pinned_ != nullptr; }
    int64_t bytes_up() const { return bytes_up_; }
    int64_t bytes_down() const { return bytes_down_; }

    // Upload or fill the buffers. With pinned memory, copies are only enqueued.
    void upload(cudaStream_t stream);
    // With pinned memory, enqueue the copy of the outputs to it.
    void enqueue_download(cudaStream_t stream);
    // Copy the outputs to the host memory, after enqueue_download() and after the stream was synchronized.
    void download();

   private:
    void lay_out();
    void upload_through_pinned(cudaStream_t stream);
    void initialize_on_device(cudaStream_t stream);
    void fill(int64_t index, cudaStream_t stream);

    // Visit the host buffers with that flag, PK_BUFFER_UPLOAD or PK_BUFFER_DOWNLOAD.
    template <class Visit>
    void each(int flag, Visit visit) const {
        for (int64_t i = 0; i < buffers_.size; ++i) {
            const pk_buffer &buffer = buffers_[i];
            if ((buffer.flags & flag) != 0 && !is_on_device(buffer) && buffer.bytes != 0) visit(i, buffer);
        }
    }

    // Visit the buffers on the device: those whose initial values are passed, or those that are filled.
    template <class Visit>
    void each_on_device(bool as_passed, Visit visit) const {
        for (int64_t i = 0; i < buffers_.size; ++i) {
            const pk_buffer &buffer = buffers_[i];
            const bool begins_as_passed = (buffer.flags & PK_BUFFER_UPLOAD) != 0;
            if (is_on_device(buffer) && begins_as_passed == as_passed && buffer.bytes != 0) visit(i, buffer);
        }
    }

    const Table<pk_buffer> buffers_;
    Call &call_;
    const int device_;
    std::vector<int64_t> offsets_;  // of each buffer in d_memory_
    // Ranges of d_memory_: [0, up_end_) is uploaded, [down_begin_, down_end_) downloaded.
    int64_t up_end_ = 0, down_begin_ = 0, down_end_ = 0, all_ = 0;
    int64_t bytes_up_ = 0, bytes_down_ = 0;
    char *d_memory_ = nullptr, *pinned_ = nullptr;
    bool is_mapped_ = false;  // whether these are addresses of the same memory
};

}  // namespace pk::kernels
