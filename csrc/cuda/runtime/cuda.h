// Checked CUDA calls (PK_CUDA), and owners of CUDA's resources: device memory, pinned memory, streams,
// events.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "common/memory_mapping.h"

namespace pk {

// Throw a Failure whose message has CUDA's name for the error, the call, and its file and line.
void check_cuda(cudaError_t error, const char *call, const char *file, int line);
#define PK_CUDA(call) \
    ::pk::check_cuda(::pk::fault_due() ? ::pk::fault_of(#call) : (call), #call, __FILE__, __LINE__)

// Fault injection for tests: with PYCUDAKIT_FAIL_CUDA_CALL=n, the n-th CUDA call after arm_faults() fails
// without being made.
void arm_faults();
bool fault_due();
cudaError_t fault_of(const char *call);

// Throw if this process can use no device: no driver, a driver too old for this build, no GPU, a process
// that was forked from one that used CUDA, or a process in which a sticky error has made CUDA unusable.
void require_cuda();
int device_count();

// Makes a device current while this lives, then restores the previous one.
class CurrentDevice {
   public:
    explicit CurrentDevice(int device);
    ~CurrentDevice();
    CurrentDevice(const CurrentDevice &) = delete;
    CurrentDevice &operator=(const CurrentDevice &) = delete;

   private:
    const int device_;
    int previous_ = 0;
};

// While this lives, the thread captures a stream in a CUDA graph. CUDA forbids other threads to synchronize
// the device meanwhile: synchronize_current_device() waits for the end of captures.
class CaptureScope {
   public:
    CaptureScope();
    ~CaptureScope();
    CaptureScope(const CaptureScope &) = delete;
    CaptureScope &operator=(const CaptureScope &) = delete;

    // Return true if the calling thread has such a scope.
    static bool is_active();
};

// Wait for all work of the current device.
void synchronize_current_device();
// Wait for all work of a device. For destructors: errors are ignored, since they follow reported ones.
void synchronize_device(int device) noexcept;

// A unique owner of a handle, which `destroy` frees.
template <class Handle, cudaError_t (*destroy)(Handle)>
class Owned {
   public:
    Owned() = default;
    explicit Owned(Handle handle) : handle_(handle) {}
    Owned(Owned &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Owned &operator=(Owned &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Owned() {
        // A destructor cannot report an error; such an error follows one that was already reported.
        if (handle_ != nullptr) (void)destroy(handle_);
    }
    Handle get() const { return handle_; }
    // Return the handle, which is the caller's from here on.
    Handle release() { return std::exchange(handle_, nullptr); }

   private:
    Handle handle_ = nullptr;
};

using DeviceMemory = Owned<void *, cudaFree>;
// cudaStreamDestroy does not wait for the stream's work, which may still use memory that is freed next.
inline cudaError_t drain_and_destroy(cudaStream_t stream) {
    const cudaError_t error = cudaStreamSynchronize(stream);
    const cudaError_t destroyed = cudaStreamDestroy(stream);
    return error != cudaSuccess ? error : destroyed;
}

using Stream = Owned<cudaStream_t, drain_and_destroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;

// Synchronizes a stream at the end of a scope. Declare it after the memory that the stream works on.
class SyncOnExit {
   public:
    explicit SyncOnExit(const Stream &stream) : stream_(stream.get()) {}
    ~SyncOnExit() { (void)cudaStreamSynchronize(stream_); }  // an error follows one that was reported
    SyncOnExit(const SyncOnExit &) = delete;
    SyncOnExit &operator=(const SyncOnExit &) = delete;
    cudaStream_t get() const { return stream_; }

   private:
    const cudaStream_t stream_;
};

// Pinned, mapped host memory that every GPU can access: huge pages of the process, registered with
// cudaHostRegister, which is some seven times faster than cudaHostAlloc and its small pages. If they cannot
// be registered, cudaHostAlloc allocates the memory.
class PinnedMemory {
   public:
    PinnedMemory() = default;
    PinnedMemory(int64_t bytes, bool readable_after_fork);  // whether a forked child may read it
    PinnedMemory(PinnedMemory &&other) noexcept { *this = std::move(other); }
    PinnedMemory &operator=(PinnedMemory &&other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        std::swap(pages_, other.pages_);
        return *this;
    }
    ~PinnedMemory();

    void *get() const { return memory_; }
    void *device_pointer() const;
    int64_t bytes() const { return int64_t(bytes_); }

   private:
    void map(bool readable_after_fork);
    void prefault(bool with_threads);

    void *memory_ = nullptr;
    size_t bytes_ = 0;
    HugePages pages_;  // null: allocated by cudaHostAlloc
};

DeviceMemory allocate_device(int64_t bytes);
Stream make_stream();
// Copy in a stream of its own, and wait. (cudaMemcpy waits for, and holds up, the legacy default stream of
// the whole process.)
void copy_and_wait(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
Event make_event();         // for ordering
Event make_timing_event();  // for cudaEventElapsedTime, too

}  // namespace pk
