// The status words of asynchronous calls: a buffer for each device whose words are never read, and the
// addition of one call's words to those of a list.
#include "status_words.h"

#include <map>
#include <mutex>

#include "launch.h"

namespace pk {

namespace {

constexpr int THREADS = 128;
constexpr int64_t SINK_BYTES = PK_MAX_INSTRUCTIONS * int64_t(sizeof(unsigned));

__global__ void add_words(const unsigned *from, int count, unsigned *to) {
    const int i = int(blockIdx.x) * THREADS + int(threadIdx.x);
    if (i < count && from[i] != 0) atomicOr(&to[i], from[i]);
}

}  // namespace

char *shared_status_words(const StreamScope &stream_scope, int64_t bytes) {
    if (stream_scope.status.d_words != nullptr)
        return bytes <= stream_scope.status.bytes ? stream_scope.status.d_words : nullptr;
    if (bytes > SINK_BYTES) return nullptr;
    static std::mutex mutex;
    // Never destroyed: at the process's exit the driver may be gone before it.
    static auto *const sinks = new std::map<int, DeviceMemory>;
    const std::lock_guard<std::mutex> lock(mutex);
    DeviceMemory &sink = (*sinks)[stream_scope.device];
    if (sink.get() == nullptr) {
        if (is_capturing(stream_scope.stream)) return nullptr;
        sink = allocate_device(SINK_BYTES);
    }
    return static_cast<char *>(sink.get());
}

void add_status_words(const char *d_words, int64_t bytes, const StreamScope &stream_scope) {
    const StatusWords &status = stream_scope.status;
    if (status.d_words == nullptr || bytes == 0) return;
    ensure(bytes <= status.bytes, "a list has room for the status words of its requests");
    const auto count = int(bytes / int64_t(sizeof(unsigned)));
    add_words<<<grid_for(count, THREADS), THREADS, 0, stream_scope.stream>>>(
        reinterpret_cast<const unsigned *>(d_words), count, reinterpret_cast<unsigned *>(status.d_words));
    PK_CUDA(cudaGetLastError());
}

}  // namespace pk
