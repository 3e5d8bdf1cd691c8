// The pool of streams for user kernels, and the resources of detached runs.
#include "run_resources.h"

#include <algorithm>

#include "cache_flush.h"
#include "common/call/status.h"

namespace pk::kernels {

namespace {

// Idle streams, and resources whose kernels may still run. Never destroyed: at the process's exit the driver
// may be gone before it.
struct RunPool {
    std::mutex mutex;
    std::vector<std::unique_ptr<RunStream>> run_streams;
    std::list<RunResources> detached;

    // Remove the resources of detached runs that have ended. Called with the mutex held; the returned ones
    // are destroyed without it.
    std::list<RunResources> reap() {
        std::list<RunResources> ended;
        for (auto each = detached.begin(); each != detached.end();) {
            const auto resources = each++;
            if (cudaStreamQuery(resources->stream()) != cudaErrorNotReady)
                ended.splice(ended.end(), detached, resources);
        }
        return ended;
    }
};

RunPool &run_pool() {
    static RunPool *const run_pool = new RunPool;
    return *run_pool;
}

}  // namespace

DeviceBuffer allocate(int device, int64_t bytes) {
    DeviceBuffer buffer(device, bytes);
    return buffer.is_reserved() ? std::move(buffer) : DeviceBuffer(device, bytes, Account::program);
}

std::unique_ptr<RunStream> acquire_run_stream(int device) {
    {
        RunPool &from = run_pool();
        std::list<RunResources> ended;
        const std::lock_guard<std::mutex> lock(from.mutex);
        ended = from.reap();
        const auto idle = std::find_if(from.run_streams.begin(), from.run_streams.end(),
                                       [&](auto &run_stream) { return run_stream->device == device; });
        if (idle != from.run_streams.end()) {
            std::unique_ptr<RunStream> run_stream = std::move(*idle);
            from.run_streams.erase(idle);
            return run_stream;
        }
    }
    return std::make_unique<RunStream>(device);
}

void give_back(std::unique_ptr<RunStream> run_stream) noexcept {
    try {
        const std::lock_guard<std::mutex> lock(run_pool().mutex);
        run_pool().run_streams.push_back(std::move(run_stream));
    } catch (const std::bad_alloc &) {
        run_stream.reset();
    }
}

void detach(std::list<RunResources> &resources) noexcept {
    const std::lock_guard<std::mutex> lock(run_pool().mutex);
    run_pool().detached.splice(run_pool().detached.end(), resources);
}

void release() {
    {
        std::vector<std::unique_ptr<RunStream>> unused;
        std::list<RunResources> ended;
        const std::lock_guard<std::mutex> lock(run_pool().mutex);
        unused.swap(run_pool().run_streams);
        ended = run_pool().reap();
    }
    release_modules();
}

}  // namespace pk::kernels
