// StreamScope and FreeMarker: the calling thread's current stream, and reuse of freed buffers in stream
// order.
#include "execution_context.h"

#include "common/call/status.h"

namespace pk {

thread_local const StreamScope *StreamScope::current_ = nullptr;

void StreamScope::synchronize() {
    refuse_capture();
    for (const StreamScope *stream_scope = current_; stream_scope != nullptr;
         stream_scope = stream_scope->outer_) {
        // The handle of the legacy stream is the same on every device, and so the device must be current.
        const CurrentDevice current(stream_scope->device);
        PK_CUDA(cudaStreamSynchronize(stream_scope->stream));
    }
}

void StreamScope::wait_for(const StreamScope &earlier) const {
    if (device == earlier.device && stream == earlier.stream) return;
    Event event;
    {
        const CurrentDevice current(earlier.device);
        event = make_event();
        PK_CUDA(cudaEventRecord(event.get(), earlier.stream));
    }
    const CurrentDevice current(device);
    PK_CUDA(cudaStreamWaitEvent(stream, event.get()));
}

void StreamScope::refuse_capture() {
    if (current_ == nullptr || current_->stream == cudaStreamLegacy ||
        current_->stream == cudaStreamPerThread)
        return;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    PK_CUDA(cudaStreamIsCapturing(current_->stream, &status));
    if (status != cudaStreamCaptureStatusNone)
        fail(PK_UNSUPPORTED,
             "this call cannot be captured in a CUDA graph: it synchronizes its stream, or uses pooled "
             "memory that later calls reuse");
}

void FreeMarker::record(int device) noexcept {
    const StreamScope *const stream_scope = StreamScope::current();
    if (stream_scope == nullptr) return;
    try {
        const CurrentDevice current(stream_scope->device);
        if (stream_scope->device == device) {
            if (event_.get() == nullptr) event_ = make_event();
            PK_CUDA(cudaEventRecord(event_.get(), stream_scope->stream));
            device_ = device;
            stream_ = stream_scope->stream;
            is_pending_ = true;
        } else {
            PK_CUDA(cudaStreamSynchronize(stream_scope->stream));
        }
        return;
    } catch (const Failure &) {
        // The next call on the device reports the error.
    }
    (void)cudaStreamSynchronize(stream_scope->stream);
}

bool FreeMarker::is_ready() {
    // Any other status is an error; the call that waits for the event reports it.
    if (is_pending_ && cudaEventQuery(event_.get()) == cudaSuccess) is_pending_ = false;
    return !is_pending_;
}

bool FreeMarker::is_same_stream() const {
    const StreamScope *const stream_scope = StreamScope::current();
    return stream_scope != nullptr && stream_scope->device == device_ && stream_scope->stream == stream_;
}

void FreeMarker::wait_on_stream(int device) {
    const StreamScope *const stream_scope = StreamScope::current();
    if (stream_scope == nullptr || stream_scope->device != device) return synchronize();
    const CurrentDevice current(device);
    if (is_pending_) PK_CUDA(cudaStreamWaitEvent(stream_scope->stream, event_.get()));
    is_pending_ = false;
}

void FreeMarker::synchronize() {
    if (is_pending_) PK_CUDA(cudaEventSynchronize(event_.get()));
    is_pending_ = false;
}

}  // namespace pk
