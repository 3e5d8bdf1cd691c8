// The buffers of status words that are never read: one for each device.
#include "status_sink.h"

#include <map>
#include <mutex>

namespace pk {

char *status_sink(const StreamScope &stream_scope) {
    static std::mutex mutex;
    // Never destroyed: at the process's exit the driver may be gone before it.
    static auto *const sinks = new std::map<int, DeviceMemory>;
    const std::lock_guard<std::mutex> lock(mutex);
    DeviceMemory &sink = (*sinks)[stream_scope.device];
    if (sink.get() == nullptr) {
        if (is_capturing(stream_scope.stream)) return nullptr;
        sink = allocate_device(STATUS_SINK_BYTES);
    }
    return static_cast<char *>(sink.get());
}

}  // namespace pk
