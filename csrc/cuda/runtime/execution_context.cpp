#include "execution_context.h"

#include "common/call/status.h"

namespace pk {

thread_local const Line *Line::here_ = nullptr;

void Line::wait() {
    refuse_capture();
    for (const Line *line = here_; line != nullptr; line = line->outer_) {
        const CurrentDevice current(line->device);  // each has a legacy stream, all by one name
        PK_CUDA(cudaStreamSynchronize(line->stream));
    }
}

void Line::refuse_capture() {
    if (here_ == nullptr || here_->stream == cudaStreamLegacy || here_->stream == cudaStreamPerThread) return;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    PK_CUDA(cudaStreamIsCapturing(here_->stream, &status));
    if (status != cudaStreamCaptureStatusNone)
        fail(PK_UNSUPPORTED,
             "this call cannot be captured in a CUDA graph: it waits for what it has queued, or takes memory "
             "that later calls take, too");
}

void GivenBack::note(int device) noexcept {
    const Line *const line = Line::here();
    if (line == nullptr) return;
    try {
        const CurrentDevice current(line->device);
        if (line->device == device) {
            if (event_.get() == nullptr) event_ = event();
            PK_CUDA(cudaEventRecord(event_.get(), line->stream));
            device_ = device;
            stream_ = line->stream;
            is_pending_ = true;
        } else {
            PK_CUDA(cudaStreamSynchronize(line->stream));
        }
        return;
    } catch (const Failure &) {
        // What has failed is reported by whoever comes next to the device.
    }
    (void)cudaStreamSynchronize(line->stream);
}

bool GivenBack::is_over() {
    // What else the event may say is for whoever waits for it to find.
    if (is_pending_ && cudaEventQuery(event_.get()) == cudaSuccess) is_pending_ = false;
    return !is_pending_;
}

bool GivenBack::is_in_line() const {
    const Line *const line = Line::here();
    return line != nullptr && line->device == device_ && line->stream == stream_;
}

void GivenBack::follow(int device) {
    const Line *const line = Line::here();
    if (line == nullptr || line->device != device) return wait();
    const CurrentDevice current(device);
    if (is_pending_) PK_CUDA(cudaStreamWaitEvent(line->stream, event_.get()));
    is_pending_ = false;
}

void GivenBack::wait() {
    if (is_pending_) PK_CUDA(cudaEventSynchronize(event_.get()));
    is_pending_ = false;
}

}  // namespace pk
