// A faked CUDA runtime, for tests of the host's code without a GPU.
//
// It has logical time: each stream, each event and the host has a vector clock, which says how much of each
// stream it comes after. An event is found complete at random, and work is done as late as it may be. Device
// memory is host memory, and each of its addresses remembers the stream and the time of its last use, so that
// reuse without order is found, and so are copies by another device than the memory's. A test prints the
// first violation and exits with 1.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::map<const void *, int64_t>;  // by stream

void merge(Clock &to, const Clock &from) {
    for (const auto &[stream, time] : from) to[stream] = std::max(to[stream], time);
}
bool comes_after(const Clock &later, const Clock &earlier) {
    return std::all_of(earlier.begin(), earlier.end(), [&](auto &one) {
        const auto found = later.find(one.first);
        return one.second == 0 || (found != later.end() && found->second >= one.second);
    });
}

std::recursive_mutex mutex;  // guards the fake's state
std::mt19937 generator(1);
std::map<const void *, Clock> streams;  // each stream's clock; the host's under null
std::map<const void *, Clock> events;
std::map<void *, size_t> allocations;
std::map<const void *, int> devices;  // of streams and of device memory
std::map<const void *, Clock> last_uses;
size_t allocated = 0, most_allocated = 0, capacity = size_t(1) << 40;
int64_t device_mallocs = 0, captured_mallocs = 0, host_waits = 0;  // cudaFree waits, too
const void *capturing = nullptr;
using Graph = std::vector<std::function<void()>>;
Graph *captured = nullptr;  // what cudaStreamBeginCapture() captures
int64_t graph_launches = 0, graphs = 0;
thread_local int current_device = 0;

// A copy that is enqueued, and the time of its stream then.
struct Pending {
    int64_t time;
    std::function<void()> copy;
};
std::map<const void *, std::deque<Pending>> pending;  // by stream
const char *pinned_begin = nullptr, *pinned_end = nullptr;
int64_t pinned_copies = 0;

[[noreturn]] void fail_test(const std::string &message) {
    std::printf("%s\n", message.c_str());
    std::fflush(stdout);
    std::_Exit(1);
}
void expect(bool holds, const char *condition) {
    if (!holds) fail_test(std::string("not so: ") + condition);
}
#define EXPECT(condition) expect(condition, #condition)

// Make the host come after a clock: work that is enqueued before is done now.
void wait_on_host(const Clock &clock) {
    merge(streams[nullptr], clock);
    for (auto &[stream, copies] : pending) {
        while (!copies.empty() && copies.front().time <= streams[nullptr][stream]) {
            copies.front().copy();
            copies.pop_front();
        }
    }
}

// The stream's number, so that `legacy` and null are one.
const void *key(cudaStream_t stream) { return stream == nullptr ? cudaStreamLegacy : stream; }

// The device of a stream. The legacy stream is the current device's.
[[maybe_unused]] int device_of_stream(cudaStream_t stream) {
    const auto found = devices.find(stream);
    return found != devices.end() ? found->second : current_device;
}
// The device of memory; -1: the host's.
[[maybe_unused]] int device_of_memory(const void *at) {
    auto next = allocations.upper_bound(const_cast<void *>(at));
    if (next == allocations.begin()) return -1;
    const auto &[memory, bytes] = *--next;
    return at < static_cast<char *>(memory) + bytes ? devices[memory] : -1;
}

// Enqueue work in a stream.
[[maybe_unused]] void enqueue(cudaStream_t stream, std::function<void()> work) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (captured != nullptr && capturing == key(stream)) return captured->push_back(std::move(work));
    Clock &clock = streams[key(stream)];
    merge(clock, streams[nullptr]);
    pending[key(stream)].push_back({++clock[key(stream)], std::move(work)});
}

// Use memory in a stream: its earlier uses must come before.
[[maybe_unused]] void use(const void *memory, cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (captured != nullptr && capturing == key(stream)) return;
    Clock &clock = streams[key(stream)];
    merge(clock, streams[nullptr]);  // enqueued by the host now
    if (!comes_after(clock, last_uses[memory])) fail_test("memory was reused before its last use has ended");
    ++clock[key(stream)];
    last_uses[memory] = clock;
}

}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int *device) { return *device = current_device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return current_device = device, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { return *count = 2, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "an error";
}
const char *cudaGetErrorString(cudaError_t) { return "fake"; }
cudaError_t cudaDriverGetVersion(int *version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    *free = capacity - allocated, *total = capacity;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **memory, size_t bytes) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (capturing != nullptr) fail_test("memory is allocated while a stream is being captured");
    if (allocated + bytes > capacity) return cudaErrorMemoryAllocation;
    *memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    allocations[*memory] = bytes;
    devices[*memory] = current_device;
    allocated += bytes;
    most_allocated = std::max(most_allocated, allocated);
    last_uses.erase(*memory);
    ++device_mallocs;
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    const auto found = allocations.find(memory);
    if (found == allocations.end()) fail_test("memory is freed twice");
    ++host_waits;
    if (!comes_after(streams[nullptr], last_uses[memory]))
        fail_test("memory is freed while a stream uses it");
    munmap(memory, found->second);
    allocated -= found->second;
    allocations.erase(found);
    return cudaSuccess;
}
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (capturing != key(stream)) fail_test("memory of a graph is for a captured stream alone");
    ++captured_mallocs;
    *memory = std::malloc(bytes + 16);
    last_uses.erase(*memory);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *memory, cudaStream_t) {
    if (captured == nullptr) std::free(memory);  // else the graph uses it at each launch
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    EXPECT(capturing == nullptr);
    capturing = key(stream);
    captured = new Graph;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    EXPECT(capturing == key(stream) && captured != nullptr);
    capturing = nullptr;
    *graph = reinterpret_cast<cudaGraph_t>(std::exchange(captured, nullptr));
    ++graphs;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
    *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph *>(graph)));
    ++graphs;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    ++graph_launches;
    for (const auto &work : *reinterpret_cast<Graph *>(executable)) enqueue(stream, work);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return delete reinterpret_cast<Graph *>(graph), --graphs, cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    return delete reinterpret_cast<Graph *>(executable), --graphs, cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    *event = reinterpret_cast<cudaEvent_t>(std::malloc(1));
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    events.erase(event);
    std::free(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (capturing == key(stream)) fail_test("an event is recorded in a captured stream");
    events[event] = streams[key(stream)];
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    if (!comes_after(streams[nullptr], events[event]) && generator() % 4 != 0) return cudaErrorNotReady;
    wait_on_host(events[event]);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    ++host_waits;
    wait_on_host(events[event]);
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    merge(streams[key(stream)], events[event]);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    ++host_waits;
    wait_on_host(Clock(streams[key(stream)]));
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    return comes_after(streams[nullptr], streams[key(stream)]) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    *stream = reinterpret_cast<cudaStream_t>(std::malloc(1));
    devices[*stream] = current_device;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    const bool is_capturing = capturing != nullptr && capturing == key(stream);
    *status = is_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    const std::lock_guard<std::recursive_mutex> lock(mutex);
    const bool is_pinned = from >= pinned_begin && from < pinned_end;
    pinned_copies += is_pinned || (to >= pinned_begin && to < pinned_end);
    for (const void *memory : {static_cast<const void *>(to), from}) {
        const int device = device_of_memory(memory);
        if (device >= 0 && device != device_of_stream(stream))
            fail_test("memory of one GPU is copied by another");
    }
    enqueue(stream, [=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    enqueue(stream, [=] { std::memset(to, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
    return *milliseconds = 1, cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *at) {
    attributes->type =
        at >= pinned_begin && at < pinned_end ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    attributes->devicePointer = const_cast<void *>(at);
    return cudaSuccess;
}
static CUresult get_attribute(void *value, CUpointer_attribute name, CUdeviceptr) {
    if (name == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *static_cast<CUdeviceptr *>(value) = reinterpret_cast<CUdeviceptr>(pinned_begin);
    else
        *static_cast<size_t *>(value) = size_t(pinned_end - pinned_begin);
    return CUDA_SUCCESS;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **entry, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *result) {
    *entry = reinterpret_cast<void *>(get_attribute);
    *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
cudaError_t cudaHostAlloc(void **, size_t, unsigned) { return cudaErrorMemoryAllocation; }
cudaError_t cudaFreeHost(void *) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
    return *device = host, cudaSuccess;
}
}
