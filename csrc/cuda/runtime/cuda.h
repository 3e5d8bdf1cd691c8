// Calls to CUDA, checked, and what they hand out, owned.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

namespace pk {

// Throws a Failure that carries CUDA's name for the error, the call, and where it stands.
void check_cuda(cudaError_t error, const char *call, const char *file, int line);
#define PK_CUDA(call) \
    ::pk::check_cuda(::pk::fault_due() ? ::pk::fault_of(#call) : (call), #call, __FILE__, __LINE__)

// For tests: PYCUDAKIT_FAIL_CUDA_CALL=n has the n-th CUDA call fail, unmade, that follows arm_faults().
void arm_faults();
bool fault_due();
cudaError_t fault_of(const char *call);

// Throws where this process can use no device: no driver, a driver too old for this build, no GPU, a process
// that was forked from one that used CUDA, or one in which an error has left CUDA unusable.
void require_cuda();
int device_count();

// Makes a device current while it lives, and then the one that was.
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

// A handle that its own function gives back.
template <class Handle, cudaError_t (*release)(Handle)>
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
        // A failure to release has no one to report to, and follows a failure that was reported.
        if (handle_ != nullptr) (void)release(handle_);
    }
    Handle get() const { return handle_; }

   private:
    Handle handle_ = nullptr;
};

using DeviceMemory = Owned<void *, cudaFree>;
using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;

// A stream, with nothing under way in it any more when it goes out of scope: declared after the memory that
// it works on.
class SyncOnExit {
   public:
    explicit SyncOnExit(const Stream &stream) : stream_(stream.get()) {}
    ~SyncOnExit() { (void)cudaStreamSynchronize(stream_); }  // a failure follows one that was reported
    SyncOnExit(const SyncOnExit &) = delete;
    SyncOnExit &operator=(const SyncOnExit &) = delete;
    cudaStream_t get() const { return stream_; }

   private:
    const cudaStream_t stream_;
};

// Memory of the host that every GPU can reach: huge pages of the process, registered, some seven times faster
// to have than the driver's small ones.
class PinnedMemory {
   public:
    PinnedMemory() = default;
    PinnedMemory(int64_t bytes, bool readable_after_fork);  // whether a forked child may read it
    PinnedMemory(PinnedMemory &&other) noexcept { *this = std::move(other); }
    PinnedMemory &operator=(PinnedMemory &&other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        std::swap(mapping_, other.mapping_);
        std::swap(mapped_bytes_, other.mapped_bytes_);
        return *this;
    }
    ~PinnedMemory();

    void *get() const { return memory_; }
    void *device_pointer() const;
    int64_t bytes() const { return int64_t(bytes_); }

   private:
    void map(bool readable_after_fork);
    void prefault(bool with_threads);
    void unmap();

    void *memory_ = nullptr;
    size_t bytes_ = 0;
    void *mapping_ = nullptr;  // null: the driver's memory
    size_t mapped_bytes_ = 0;
};

DeviceMemory allocate_device(int64_t bytes);
Stream make_stream();
Event make_event();

}  // namespace pk
