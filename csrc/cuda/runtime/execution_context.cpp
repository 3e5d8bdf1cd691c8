// ExecutionContext and StreamScope: where a call runs, and the calling thread's current stream.
#include "execution_context.h"

#include <algorithm>

#include "common/call/status.h"

namespace pk {

thread_local const StreamScope *StreamScope::current_ = nullptr;

bool is_capturing(cudaStream_t stream) {
    if (stream == nullptr || stream == cudaStreamLegacy) return false;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    PK_CUDA(cudaStreamIsCapturing(stream, &status));
    return status != cudaStreamCaptureStatusNone;
}

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
    if (current_ != nullptr && is_capturing(current_->stream))
        fail(PK_UNSUPPORTED,
             "this call cannot be captured in a CUDA graph: it synchronizes its stream, or uses pooled "
             "memory that later calls reuse");
}

std::vector<int> devices_of(const Call &call) {
    arm_faults();
    require_cuda();
    const pk_options &options = call.options();
    if (options.device_count == 0) return {0};
    const int64_t count = device_count();
    std::vector<int> devices;
    for (int64_t i = 0; i < options.device_count; ++i) {
        const int64_t device = reinterpret_cast<const int64_t *>(options.devices)[i];
        require(device >= 0 && device < count, "options.devices names a device that does not exist");
        require(std::find(devices.begin(), devices.end(), int(device)) == devices.end(),
                "options.devices names a device twice");
        devices.push_back(int(device));
    }
    return devices;
}

// Return the device of an array; throw unless it is the expected one (-1: any).
static int device_of(const void *array, int expected) {
    if (expected < 0) require_cuda();
    cudaPointerAttributes attributes{};
    PK_CUDA(cudaPointerGetAttributes(&attributes, array));
    require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
            "an array is not in memory of a device, or has been freed");
    require(expected < 0 || attributes.device == expected, "the arrays are on several GPUs");
    return attributes.device;
}

int device_of(const Layout &layout) {
    int device = -1;
    for (const View &view : layout.views) {
        if (view.on_device) device = device_of(view.base, device);
    }
    return device;
}

int device_of(std::initializer_list<const void *> arrays) {
    int device = -1;
    for (const void *array : arrays) device = device_of(array, device);
    return device;
}

ExecutionContext::ExecutionContext(const Call &call, int device)
    : devices(device < 0 ? devices_of(call) : std::vector<int>{device}), is_on_device(device >= 0) {
    if (is_on_device) {
        require(call.options().rest == 0, "options.rest is for arrays on the host");
        const uint64_t stream = call.options().stream;
        require(stream != 0 || call.options().asynchronous == 0,
                "options.asynchronous needs options.stream; the default stream is PK_STREAM_LEGACY");
        arm_faults();
        current_.emplace(device);
        if (stream != 0) caller_.emplace(device, reinterpret_cast<cudaStream_t>(stream));
    }
    is_synchronous = is_on_device ? call.options().asynchronous == 0 : stream_scope() == nullptr;
}

}  // namespace pk
