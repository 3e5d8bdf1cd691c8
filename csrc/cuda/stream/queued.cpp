#include "queued.h"

#include <mutex>
#include <unordered_map>

#include "common/call/status.h"

namespace pk {

// The device of an array, which is that of those before it, if there are any.
static int device_of(const void *array, int before) {
    if (before < 0) require_cuda();
    cudaPointerAttributes attributes{};
    PK_CUDA(cudaPointerGetAttributes(&attributes, array));
    require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
            "an array is not in memory of a device, or has been freed");
    require(before < 0 || attributes.device == before, "the arrays lie on several GPUs");
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

Queued::Queued(int device, const Call &call)
    : device(device),
      stream(reinterpret_cast<cudaStream_t>(call.options().stream)),
      waits_(call.options().waits != 0),
      current_(device) {
    require(call.options().rest == 0, "options.rest is for arrays on the host");
    arm_faults();
}

void Queued::end(bool must_wait) const {
    if (waits_ || must_wait) PK_CUDA(cudaStreamSynchronize(stream));
}

char *unread_notes() {
    int device = 0;
    PK_CUDA(cudaGetDevice(&device));
    static std::mutex mutex;
    // Never destroyed: at the process's exit the driver may be gone before it.
    static auto *const notes = new std::unordered_map<int, DeviceMemory>;
    const std::lock_guard<std::mutex> lock(mutex);
    DeviceMemory &found = (*notes)[device];
    if (found.get() == nullptr) found = device_memory(PK_MAX_INSTRUCTIONS * int64_t(sizeof(unsigned)));
    return static_cast<char *>(found.get());
}

}  // namespace pk
