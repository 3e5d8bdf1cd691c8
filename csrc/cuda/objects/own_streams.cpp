// The table of streams that the caller owns.
#include "own_streams.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "common/device.h"

namespace pk::streams {

namespace {

struct OwnStream {
    int device;
    bool is_non_blocking;
};

struct Streams {
    std::mutex mutex;
    std::unordered_map<uint64_t, OwnStream> of;  // by handle
};

// Never destroyed: streams are given back until the process ends.
Streams &streams() {
    static auto *const streams = new Streams;
    return *streams;
}

// Make one stream wait for the work that another holds now.
void wait_for(cudaStream_t waiting, cudaStream_t earlier) {
    const Event event = make_event();
    PK_CUDA(cudaEventRecord(event.get(), earlier));
    PK_CUDA(cudaStreamWaitEvent(waiting, event.get()));
}

template <class Visit>
void each_non_blocking(int device, Visit visit) {
    const std::lock_guard<std::mutex> lock(streams().mutex);
    for (const auto &[handle, own] : streams().of) {
        if (own.device == device && own.is_non_blocking) visit(cuda_stream(handle));
    }
}

}  // namespace

void require_device(int64_t device) { require_index(device, device_count(), "device"); }

uint64_t create_stream(int device, bool is_non_blocking, int priority) {
    int lowest = 0, highest = 0;
    PK_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    const int allowed = std::clamp(priority, highest, lowest);
    cudaStream_t stream = nullptr;
    PK_CUDA(cudaStreamCreateWithPriority(&stream, is_non_blocking ? cudaStreamNonBlocking : cudaStreamDefault,
                                         allowed));
    Stream owned(stream);
    // Memory that exists already may still be cleared in the legacy stream.
    if (is_non_blocking) wait_for(stream, cudaStreamLegacy);
    const auto handle = reinterpret_cast<uint64_t>(stream);
    const std::lock_guard<std::mutex> lock(streams().mutex);
    streams().of[handle] = {device, is_non_blocking};
    (void)owned.release();
    return handle;
}

void destroy_stream(uint64_t stream) {
    OwnStream own{};
    {
        const std::lock_guard<std::mutex> lock(streams().mutex);
        const auto found = streams().of.find(stream);
        if (found == streams().of.end()) fail_no_stream(stream);
        own = found->second;
        streams().of.erase(found);
    }
    require_cuda();
    const CurrentDevice current(own.device);
    // Its work may still use memory that is freed next, in the legacy stream.
    if (own.is_non_blocking) wait_for(cudaStreamLegacy, cuda_stream(stream));
    PK_CUDA(cudaStreamDestroy(cuda_stream(stream)));
}

void wait_for_non_blocking_streams(int device) {
    each_non_blocking(device, [](cudaStream_t stream) { wait_for(cudaStreamLegacy, stream); });
}

void make_non_blocking_streams_wait(int device) {
    each_non_blocking(device, [](cudaStream_t stream) { wait_for(stream, cudaStreamLegacy); });
}

}  // namespace pk::streams
