#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../common/status.h"
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

void check_cuda(cudaError_t error, const char *call, const char *file, int line) {
    if (error == cudaSuccess) return;
    (void)cudaGetLastError();  // the failure is reported here, not by some later call
    const std::string path = file;
    const size_t name = path.rfind("csrc/");
    fail(status_of(error),
         std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ") from " + call + " at " +
             (name == std::string::npos ? path : path.substr(name)) + ":" + std::to_string(line));
}

static std::atomic<int64_t> calls_to_fault{0};

void arm_faults() {
    const char *text = std::getenv("PYCUDAKIT_FAIL_CUDA_CALL");
    calls_to_fault = text == nullptr ? 0 : std::atoll(text);
}

bool fault_due() { return calls_to_fault > 0 && --calls_to_fault == 0; }

cudaError_t fault_of(const char *call) {
    const bool allocates = std::strstr(call, "Malloc") != nullptr || std::strstr(call, "Alloc(") != nullptr;
    return allocates ? cudaErrorMemoryAllocation : cudaErrorUnknown;
}

static std::string release_name(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void require_cuda() {
    static std::atomic<pid_t> user{0};  // the process that used CUDA first
    if (user != 0 && user != getpid()) {
        fail(PK_NO_DEVICE,
             "this process was forked from one that used CUDA, which does not survive a fork: start "
             "processes with "
             "the 'spawn' or 'forkserver' method, or use the engine 'cpu'");
    }
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) {
        user = getpid();
        return;
    }
    (void)cudaGetLastError();
    if (error == cudaErrorNoDevice || error == cudaSuccess) {
        fail(PK_NO_DEVICE, "no device: the driver is there and sees no GPU");
    }
    int driver = 0, runtime = 0;
    PK_CUDA(cudaDriverGetVersion(&driver));
    PK_CUDA(cudaRuntimeGetVersion(&runtime));
    if (driver == 0) fail(PK_NO_DEVICE, "no driver: no NVIDIA driver is installed here");
    if (error == cudaErrorInsufficientDriver) {
        fail(PK_NO_DEVICE, "driver too old for this build: the driver supports CUDA " + release_name(driver) +
                               " and this build needs CUDA " + release_name(runtime));
    }
    PK_CUDA(error);
}

CurrentDevice::CurrentDevice(int device) {
    PK_CUDA(cudaGetDevice(&previous_));
    if (device != previous_) PK_CUDA(cudaSetDevice(device));
}

CurrentDevice::~CurrentDevice() { (void)cudaSetDevice(previous_); }

DeviceMemory device_memory(int64_t bytes) {
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

PinnedMemory pinned_memory(int64_t bytes) {
    void *memory = nullptr;
    PK_CUDA(cudaHostAlloc(&memory, size_t(bytes), cudaHostAllocPortable));
    return PinnedMemory(memory);
}

Stream stream() {
    cudaStream_t stream = nullptr;
    PK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream(stream);
}

Event event() {
    cudaEvent_t event = nullptr;
    PK_CUDA(cudaEventCreate(&event));
    return Event(event);
}

}  // namespace pk
