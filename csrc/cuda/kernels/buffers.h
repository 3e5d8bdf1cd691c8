// The buffers of a run on a GPU: small ones go up in one copy and come home in one, large ones in pieces.
#pragma once

#include <vector>

#include "common/call/call.h"
#include "common/kernels.h"
#include "device_operands.h"
#include "run_resources.h"

namespace pk::kernels {

class Buffers {
   public:
    // Takes their memory, which `held` keeps.
    Buffers(const Run &run, Call &call, int device, RunResources &resources);

    char *address(int64_t buffer) const;
    bool are_small() const { return staged_ != nullptr; }
    int64_t bytes_up() const { return bytes_up_; }
    int64_t bytes_down() const { return bytes_down_; }

    // Small ones are only queued.
    void upload(cudaStream_t stream);
    // For small ones, before `download`: queues their way home.
    void queue_download(cudaStream_t stream);
    // When all that was queued is done.
    void download(cudaStream_t stream);

   private:
    void lay_out();
    void upload_small(cudaStream_t stream);
    void begin_on_device(cudaStream_t stream);
    void fill(int64_t index, cudaStream_t stream);

    // Those of the host's that move that way.
    template <class Visit>
    void each(int flag, Visit visit) const {
        for (int64_t i = 0; i < run_.buffers.size; ++i) {
            const pk_buffer &buffer = run_.buffers[i];
            if ((buffer.flags & flag) != 0 && !is_on_device(buffer) && buffer.bytes != 0) visit(i, buffer);
        }
    }

    // Those that lie there, and begin as they are, or filled.
    template <class Visit>
    void each_on_device(bool as_passed, Visit visit) const {
        for (int64_t i = 0; i < run_.buffers.size; ++i) {
            const pk_buffer &buffer = run_.buffers[i];
            const bool begins_as_passed = (buffer.flags & PK_BUFFER_UPLOAD) != 0;
            if (is_on_device(buffer) && begins_as_passed == as_passed && buffer.bytes != 0) visit(i, buffer);
        }
    }

    const Run &run_;
    Call &call_;
    const int device_;
    std::vector<int64_t> offsets_;  // a buffer's each
    int64_t up_end_ = 0, down_begin_ = 0, down_end_ = 0, all_ = 0;
    int64_t bytes_up_ = 0, bytes_down_ = 0;
    char *d_memory_ = nullptr, *staged_ = nullptr;
};

}  // namespace pk::kernels
