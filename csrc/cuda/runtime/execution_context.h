// The line that a thread's calls stand in while they work on arrays that lie on a device: what they queue in
// a stream of the caller's, one after the other, without waiting for it.
#pragma once

#include <vector>

#include "cuda.h"

namespace pk {

class Line {
   public:
    Line(int device, cudaStream_t stream) : device(device), stream(stream), outer_(here_) { here_ = this; }
    ~Line() { here_ = outer_; }
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;

    // This thread's, or null.
    static const Line *here() { return here_; }
    // The same, if it is on a device; on the only one of some.
    static const Line *on(int device) {
        return here_ != nullptr && here_->device == device ? here_ : nullptr;
    }
    static const Line *on(const std::vector<int> &devices) {
        return devices.size() == 1 ? on(devices[0]) : nullptr;
    }
    // Returns when all that stands in this thread's lines is done.
    static void wait();
    // Throws where a CUDA graph is made of what this thread's line queues: nobody can wait for that, and
    // memory that later calls use, too, is not for it.
    static void refuse_capture();

    const int device;
    const cudaStream_t stream;

   private:
    static thread_local const Line *here_;
    const Line *const outer_;
};

// The place in a line where memory of a device was given back: what is queued behind it may have that memory.
class GivenBack {
   public:
    // Now, by this thread; without a line, everything that used the memory is done.
    void note(int device) noexcept;
    // Whether all before it is done.
    bool is_over();
    // Whether what this thread queues comes after it anyway.
    bool is_in_line() const;
    // What this thread queues on comes after it; without a line on that device, this waits.
    void follow(int device);
    void wait();

   private:
    Event event_;
    int device_ = -1;
    cudaStream_t stream_ = nullptr;
    bool is_pending_ = false;
};

}  // namespace pk
