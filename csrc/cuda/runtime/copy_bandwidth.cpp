// Measures the copy bandwidth of each GPU with the pinned memory of a staging slot.
#include "copy_bandwidth.h"

#include <map>
#include <mutex>
#include <optional>

#include "common/call/call.h"
#include "common/call/status.h"
#include "cuda.h"
#include "cuda/pipeline/staging_slots.h"

namespace pk {

// Return seconds per byte of a copy between the slot's pinned and device memory, averaged over several
// copies. The events slot.origin and slot.uploaded serve as start and stop.
static double copy_seconds(const Slot &slot, cudaMemcpyKind kind) {
    constexpr int COPIES = 12;
    void *const to = kind == cudaMemcpyHostToDevice ? slot.d_memory() : slot.host();
    void *const from = kind == cudaMemcpyHostToDevice ? slot.host() : slot.d_memory();
    const size_t bytes = size_t(std::min(slot.host_bytes, slot.device_bytes));
    const SyncOnExit sync(slot.stream);  // after a failure, no copy still uses the slot
    const cudaStream_t stream = sync.get();
    PK_CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream));  // warm-up: the first is slower
    PK_CUDA(cudaEventRecord(slot.origin.get(), stream));
    for (int i = 0; i < COPIES; ++i) PK_CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream));
    PK_CUDA(cudaEventRecord(slot.uploaded.get(), stream));
    PK_CUDA(cudaEventSynchronize(slot.uploaded.get()));
    float milliseconds = 0;
    PK_CUDA(cudaEventElapsedTime(&milliseconds, slot.origin.get(), slot.uploaded.get()));
    return milliseconds * 1e-3 / COPIES / double(bytes);
}

pk_link copy_bandwidth(int device) {
    // Of each device; calls about one device wait for its measurement.
    struct Measured {
        std::mutex mutex;
        std::optional<pk_link> link;
    };
    static std::mutex mutex;
    static std::map<int, Measured> all;
    std::unique_lock<std::mutex> lock(mutex);
    Measured &measured = all[device];
    lock.unlock();
    const std::lock_guard<std::mutex> device_lock(measured.mutex);
    if (measured.link) return *measured.link;
    const CurrentDevice current(device);
    pk_report report;
    Call call(nullptr, &report);
    const Lease lease(Lease::default_size(Lease::staged), {0, 0}, device, 1, call);
    const Slot &slot = *lease.slots().front();
    measured.link = pk_link{1 / copy_seconds(slot, cudaMemcpyHostToDevice),
                            1 / copy_seconds(slot, cudaMemcpyDeviceToHost)};
    return *measured.link;
}

}  // namespace pk
