// Checked CUDA calls, fault injection, device queries, and pinned host memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "common/call/call.h"
#include "common/call/parallel_for.h"
#include "common/call/status.h"
#include "cuda.h"

namespace pk {

static pk_status status_of(cudaError_t error) {
    switch (error) {
        case cudaErrorMemoryAllocation: return PK_OUT_OF_MEMORY;
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver: return PK_NO_DEVICE;
        default: return PK_DEVICE_ERROR;
    }
}

// Return true for errors after which every later CUDA call of the process fails, too.
static bool is_sticky(cudaError_t error) {
    switch (error) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorAssert:
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorContextIsDestroyed: return true;
        default: return false;
    }
}

static std::atomic<cudaError_t> sticky{cudaSuccess};  // the process's first sticky error

static std::string described(cudaError_t error) {
    return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

static const char *const REMEDY =
    "CUDA is unusable in this process from here on, whichever library's kernel it was: start a new process, "
    "or use the engine 'cpu'";

void check_cuda(cudaError_t error, const char *call, const char *file, int line) {
    if (error == cudaSuccess) return;
    (void)cudaGetLastError();  // the failure is reported here, not by some later call
    const std::string path = file;
    const size_t name = path.rfind("csrc/");
    std::string message = described(error) + " from " + call + " at " +
                          (name == std::string::npos ? path : path.substr(name)) + ":" + std::to_string(line);
    if (is_sticky(error)) {
        sticky = error;
        message += std::string("; ") + REMEDY;
    }
    fail(status_of(error), message);
}

static std::atomic<int64_t> calls_to_fault{0};

void arm_faults() {
    const char *text = std::getenv("PYCUDAKIT_FAIL_CUDA_CALL");
    calls_to_fault = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
}

bool fault_due() { return calls_to_fault > 0 && calls_to_fault.fetch_sub(1) == 1; }

cudaError_t fault_of(const char *call) {
    const bool allocates = std::strstr(call, "Malloc") != nullptr || std::strstr(call, "Alloc(") != nullptr;
    return allocates ? cudaErrorMemoryAllocation : cudaErrorUnknown;
}

static std::string release_name(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void require_cuda() {
    static std::atomic<pid_t> user{0};  // the process that used CUDA first
    const pid_t process = getpid();
    if (sticky != cudaSuccess && user == process) {
        fail(PK_NO_DEVICE, "an earlier " + described(sticky) + "; " + REMEDY);
    }
    if (user == process) return;
    if (user != 0) {
        fail(PK_NO_DEVICE,
             "this process was forked from one that used CUDA, which does not survive a fork: start "
             "processes with the 'spawn' or 'forkserver' method, or use the engine 'cpu'");
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        user = process;
        return;
    }
    (void)cudaGetLastError();
    if (error == cudaErrorNoDevice || error == cudaSuccess) {
        fail(PK_NO_DEVICE, "no device: an NVIDIA driver is installed, but it finds no GPU");
    }
    if (error == cudaErrorInitializationError) {
        fail(PK_NO_DEVICE,
             "CUDA does not start in this process, as after a fork while the parent used CUDA: start "
             "processes with the 'spawn' or 'forkserver' method, or use the engine 'cpu'");
    }
    int driver = 0, runtime = 0;
    PK_CUDA(cudaDriverGetVersion(&driver));
    PK_CUDA(cudaRuntimeGetVersion(&runtime));
    if (driver == 0) fail(PK_NO_DEVICE, "no driver: no NVIDIA driver is installed");
    if (error == cudaErrorInsufficientDriver) {
        fail(PK_NO_DEVICE, "driver too old for this build: the driver supports CUDA " + release_name(driver) +
                               " and this build needs CUDA " + release_name(runtime));
    }
    PK_CUDA(error);
}

int device_count() {
    require_cuda();
    int devices = 0;
    PK_CUDA(cudaGetDeviceCount(&devices));
    return devices;
}

CurrentDevice::CurrentDevice(int device) : device_(device) {
    PK_CUDA(cudaGetDevice(&previous_));
    if (device != previous_) PK_CUDA(cudaSetDevice(device));
}

CurrentDevice::~CurrentDevice() {
    if (device_ != previous_) (void)cudaSetDevice(previous_);
}

namespace {

std::shared_mutex capture_mutex;  // shared by captures
thread_local bool is_capturing_here = false;

}  // namespace

CaptureScope::CaptureScope() {
    capture_mutex.lock_shared();
    is_capturing_here = true;
}

CaptureScope::~CaptureScope() {
    is_capturing_here = false;
    capture_mutex.unlock_shared();
}

bool CaptureScope::is_active() { return is_capturing_here; }

void synchronize_current_device() {
    ensure(!is_capturing_here, "a capture does not synchronize its device");
    const std::lock_guard<std::shared_mutex> lock(capture_mutex);
    PK_CUDA(cudaDeviceSynchronize());
}

void synchronize_device(int device) noexcept {
    int before = 0;
    (void)cudaGetDevice(&before);
    (void)cudaSetDevice(device);
    if (!is_capturing_here) {
        const std::lock_guard<std::shared_mutex> lock(capture_mutex);
        (void)cudaDeviceSynchronize();
    }
    (void)cudaSetDevice(before);
}

DeviceMemory allocate_device(int64_t bytes) {
    void *memory = nullptr;
    try {
        PK_CUDA(cudaMalloc(&memory, size_t(bytes)));
    } catch (const Failure &failure) {
        size_t free = 0, total = 0;
        if (failure.status() != PK_OUT_OF_MEMORY || cudaMemGetInfo(&free, &total) != cudaSuccess) throw;
        fail(PK_OUT_OF_MEMORY, std::string(failure.what()) + ": asked for " + std::to_string(bytes) +
                                   " bytes; " + std::to_string(free) + " of the device's " +
                                   std::to_string(total) + " are free");
    }
    return DeviceMemory(memory);
}

PinnedMemory::PinnedMemory(int64_t bytes, bool readable_after_fork) : bytes_(size_t(bytes)) {
    try {
        map(readable_after_fork);
        PK_CUDA(cudaHostRegister(memory_, bytes_, cudaHostRegisterPortable | cudaHostRegisterMapped));
    } catch (const Failure &) {
        pages_ = {};  // if the system cannot register memory, let the driver allocate it
        PK_CUDA(cudaHostAlloc(&memory_, bytes_, cudaHostAllocPortable | cudaHostAllocMapped));
    }
}

void PinnedMemory::map(bool readable_after_fork) {
    pages_ = HugePages(bytes_);
    if (!pages_)
        fail(PK_OUT_OF_MEMORY, "out of host memory: asked for " + std::to_string(bytes_) + " bytes to pin");
    memory_ = pages_.memory();
    prefault(readable_after_fork);
    // Copy-on-write in a forked child may move the parent's pages away from the address that the GPU uses.
    if (!readable_after_fork)
        (void)madvise(pages_.mapping().memory(), pages_.mapping().bytes(), MADV_DONTFORK);
}

// Touch the pages, with several threads if asked: the driver would fault them in one after the other. Slots
// need no further threads, since several threads make slots at once.
void PinnedMemory::prefault(bool with_threads) {
    constexpr int64_t SHARE = 4 * HUGE_PAGE, SMALL_PAGE = 4096;
    pk_report report;
    Call call(nullptr, &report);
    const int64_t threads = with_threads ? thread_count() : 1;
    parallel_for_pieces(call, int64_t(bytes_), SHARE, threads, [&](int64_t, int64_t at, int64_t end) {
        for (; at < end; at += SMALL_PAGE) static_cast<volatile char *>(memory_)[at] = 0;
    });
}

PinnedMemory::~PinnedMemory() {
    if (memory_ == nullptr) return;
    if (pages_) {
        (void)cudaHostUnregister(memory_);
    } else {
        (void)cudaFreeHost(memory_);
    }
}

void *PinnedMemory::device_pointer() const {
    void *address = nullptr;
    PK_CUDA(cudaHostGetDevicePointer(&address, memory_, 0));
    return address;
}

Stream make_stream() {
    cudaStream_t stream = nullptr;
    PK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream(stream);
}

void copy_and_wait(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    const Stream stream = make_stream();
    PK_CUDA(cudaMemcpyAsync(to, from, bytes, kind, stream.get()));
    PK_CUDA(cudaStreamSynchronize(stream.get()));
}

Event make_event() {
    cudaEvent_t event = nullptr;
    PK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return Event(event);
}

Event make_timing_event() {
    cudaEvent_t event = nullptr;
    PK_CUDA(cudaEventCreate(&event));
    return Event(event);
}

}  // namespace pk
