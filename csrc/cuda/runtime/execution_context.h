// Asynchronous mode of the calling thread: the stream that its calls on device-resident arrays are enqueued
// on, and markers that let freed buffers be reused in stream order.
#pragma once

#include <vector>

#include "cuda.h"

namespace pk {

// While a StreamScope is alive, calls of this thread whose operands are all device-resident are enqueued on
// the caller's stream and return without synchronizing. Scopes nest; the innermost is current.
class StreamScope {
   public:
    StreamScope(int device, cudaStream_t stream) : device(device), stream(stream), outer_(current_) {
        current_ = this;
    }
    ~StreamScope() { current_ = outer_; }
    StreamScope(const StreamScope &) = delete;
    StreamScope &operator=(const StreamScope &) = delete;

    // Return this thread's innermost scope, or null.
    static const StreamScope *current() { return current_; }
    // Return the current scope if it is on `device`, or on the only one of `devices`; else null.
    static const StreamScope *current_on(int device) {
        return current_ != nullptr && current_->device == device ? current_ : nullptr;
    }
    static const StreamScope *current_on(const std::vector<int> &devices) {
        return devices.size() == 1 ? current_on(devices[0]) : nullptr;
    }
    // Synchronize the streams of all of this thread's scopes.
    static void synchronize();
    // Make this scope's stream wait for the work that is enqueued on another one now.
    void wait_for(const StreamScope &earlier) const;
    const StreamScope *outer() const { return outer_; }
    // Throw if the current stream is being captured in a CUDA graph: a captured stream cannot be
    // synchronized, and a graph must not hold pooled memory that later calls reuse.
    static void refuse_capture();

    const int device;
    const cudaStream_t stream;

   private:
    static thread_local const StreamScope *current_;
    const StreamScope *const outer_;
};

// The point in a stream after which a freed pooled buffer may be reused.
class FreeMarker {
   public:
    // Record an event on the current stream, when the buffer is freed. Without a StreamScope the buffer is
    // idle already, and nothing is recorded.
    void record(int device) noexcept;
    // Return true if all work before the marker has finished.
    bool is_ready();
    // Return true if the marker is in this thread's current stream: what is enqueued now follows it anyway.
    bool is_same_stream() const;
    // Make the current stream wait for the marker; without a scope on that device, the host waits.
    void wait_on_stream(int device);
    void synchronize();

   private:
    Event event_;
    int device_ = -1;
    cudaStream_t stream_ = nullptr;
    bool is_pending_ = false;
};

}  // namespace pk
