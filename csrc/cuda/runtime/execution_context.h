// The line that a thread's calls stand in while they work on arrays that lie on a device: what they queue in
// a stream of the caller's, one after the other, without waiting for it.
#pragma once

#include <vector>

#include "cuda.h"

namespace pk {

class StreamScope {
   public:
    StreamScope(int device, cudaStream_t stream) : device(device), stream(stream), outer_(current_) { current_ = this; }
    ~StreamScope() { current_ = outer_; }
    StreamScope(const StreamScope &) = delete;
    StreamScope &operator=(const StreamScope &) = delete;

    // This thread's, or null.
    static const StreamScope *current() { return current_; }
    // The same, if it is on a device; on the only one of some.
    static const StreamScope *current_on(int device) {
        return current_ != nullptr && current_->device == device ? current_ : nullptr;
    }
    static const StreamScope *current_on(const std::vector<int> &devices) {
        return devices.size() == 1 ? current_on(devices[0]) : nullptr;
    }
    // Returns when all that stands in this thread's lines is done.
    static void synchronize();
    // Throws where a CUDA graph is made of what this thread's line queues: nobody can wait for that, and
    // memory that later calls use, too, is not for it.
    static void refuse_capture();

    const int device;
    const cudaStream_t stream;

   private:
    static thread_local const StreamScope *current_;
    const StreamScope *const outer_;
};

// The place in a line where memory of a device was given back: what is queued behind it may have that memory.
class FreeMarker {
   public:
    // Now, by this thread; without a line, everything that used the memory is done.
    void record(int device) noexcept;
    // Whether all before it is done.
    bool is_ready();
    // Whether what this thread queues comes after it anyway.
    bool is_same_stream() const;
    // What this thread queues on comes after it; without a line on that device, this waits.
    void wait_on_stream(int device);
    void synchronize();

   private:
    Event event_;
    int device_ = -1;
    cudaStream_t stream_ = nullptr;
    bool is_pending_ = false;
};

}  // namespace pk
