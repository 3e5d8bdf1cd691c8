// Entry points of streams and events that outlive a call.
#include "common/stream.h"

#include "common/device.h"
#include "cuda/objects/launched_kernels.h"
#include "cuda/objects/own_streams.h"
#include "cuda/runtime/cuda.h"

#include <mutex>
#include <unordered_map>

namespace pk::streams {

namespace {

struct OwnEvent {
    int device;
    bool is_timed, is_recorded;
};

struct Events {
    std::mutex mutex;
    std::unordered_map<uint64_t, OwnEvent> of;  // by handle
};

// Never destroyed: events are given back until the process ends.
Events &events() {
    static auto *const events = new Events;
    return *events;
}

OwnEvent event_info(uint64_t event) {
    require_cuda();
    const std::lock_guard<std::mutex> lock(events().mutex);
    const auto found = events().of.find(event);
    if (found == events().of.end()) fail_no_event(event);
    return found->second;
}

cudaEvent_t event_of(uint64_t event) { return reinterpret_cast<cudaEvent_t>(event); }

// Return true if the state of a query is that the work has ended; throw if the work has failed.
bool is_complete(cudaError_t state, const char *call) {
    if (state == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
    }
    check_cuda(state, call, __FILE__, __LINE__);
    return true;
}

}  // namespace

}  // namespace pk::streams

using namespace pk::streams;

extern "C" int32_t pk_device_synchronize(int64_t device) {
    return pk::guarded([&] {
        require_device(device);
        const pk::CurrentDevice current{int(device)};
        pk::kernels::synchronizing(true, [] { pk::synchronize_current_device(); });
    });
}

extern "C" int32_t pk_stream_create(int64_t device, int32_t flags, int64_t priority, uint64_t *stream) {
    return pk::guarded([&] {
        require_stream_flags(flags, stream);
        require_device(device);
        const pk::CurrentDevice current{int(device)};
        *stream = create_stream(int(device), (flags & PK_STREAM_NON_BLOCKING) != 0, int(priority));
    });
}

extern "C" int32_t pk_stream_destroy(uint64_t stream) {
    return pk::guarded([&] { destroy_stream(stream); });
}

extern "C" int32_t pk_stream_synchronize(int64_t device, uint64_t stream) {
    return pk::guarded([&] {
        require_device(device);
        const pk::CurrentDevice current{int(device)};
        pk::kernels::synchronizing(false, [&] { PK_CUDA(cudaStreamSynchronize(cuda_stream(stream))); });
    });
}

extern "C" int32_t pk_stream_query(int64_t device, uint64_t stream, int64_t *is_done) {
    return pk::guarded([&] {
        pk::require(is_done != nullptr, "is_done is a null pointer");
        require_device(device);
        const pk::CurrentDevice current{int(device)};
        pk::kernels::synchronizing(
            false, [&] { *is_done = is_complete(cudaStreamQuery(cuda_stream(stream)), "cudaStreamQuery"); });
    });
}

extern "C" int32_t pk_stream_wait_event(int64_t device, uint64_t stream, uint64_t event) {
    return pk::guarded([&] {
        require_device(device);
        (void)event_info(event);
        const pk::CurrentDevice current{int(device)};
        PK_CUDA(cudaStreamWaitEvent(cuda_stream(stream), event_of(event)));
    });
}

extern "C" int32_t pk_event_create(int64_t device, int32_t flags, uint64_t *event) {
    return pk::guarded([&] {
        require_event_flags(flags, event);
        require_device(device);
        const pk::CurrentDevice current{int(device)};
        cudaEvent_t created = nullptr;
        PK_CUDA(cudaEventCreateWithFlags(&created, unsigned(flags)));
        pk::Event owned(created);
        const std::lock_guard<std::mutex> lock(events().mutex);
        events().of[reinterpret_cast<uint64_t>(created)] = {int(device),
                                                            (flags & PK_EVENT_DISABLE_TIMING) == 0, false};
        *event = reinterpret_cast<uint64_t>(owned.release());
    });
}

extern "C" int32_t pk_event_destroy(uint64_t event) {
    return pk::guarded([&] {
        {
            const std::lock_guard<std::mutex> lock(events().mutex);
            if (events().of.erase(event) == 0) fail_no_event(event);
        }
        pk::require_cuda();
        PK_CUDA(cudaEventDestroy(event_of(event)));
    });
}

extern "C" int32_t pk_event_record(uint64_t event, uint64_t stream) {
    return pk::guarded([&] {
        const pk::CurrentDevice current(event_info(event).device);
        PK_CUDA(cudaEventRecord(event_of(event), cuda_stream(stream)));
        const std::lock_guard<std::mutex> lock(events().mutex);
        const auto found = events().of.find(event);
        if (found != events().of.end()) found->second.is_recorded = true;
    });
}

extern "C" int32_t pk_event_synchronize(uint64_t event) {
    return pk::guarded([&] {
        (void)event_info(event);
        pk::kernels::synchronizing(false, [&] { PK_CUDA(cudaEventSynchronize(event_of(event))); });
    });
}

extern "C" int32_t pk_event_query(uint64_t event, int64_t *is_done) {
    return pk::guarded([&] {
        pk::require(is_done != nullptr, "is_done is a null pointer");
        (void)event_info(event);
        pk::kernels::synchronizing(
            false, [&] { *is_done = is_complete(cudaEventQuery(event_of(event)), "cudaEventQuery"); });
    });
}

extern "C" int32_t pk_event_elapsed(uint64_t begin, uint64_t end, double *milliseconds) {
    return pk::guarded([&] {
        pk::require(milliseconds != nullptr, "milliseconds is a null pointer");
        const OwnEvent first = event_info(begin), last = event_info(end);
        require_timed(first.is_timed && last.is_timed);
        require_recorded(first.is_recorded && last.is_recorded);
        float elapsed = 0;
        const cudaError_t state = cudaEventElapsedTime(&elapsed, event_of(begin), event_of(end));
        if (state == cudaErrorNotReady) {
            (void)cudaGetLastError();
            pk::fail(PK_INVALID_ARGUMENT, "an event has not happened yet: synchronize it first");
        }
        PK_CUDA(state);
        *milliseconds = double(elapsed);
    });
}
