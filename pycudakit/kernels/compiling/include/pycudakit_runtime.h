// CUDA's runtime API for host code that runs on the CPU: device memory is host memory whose allocations are
// known, streams run at once, and launches go to the engine.
#pragma once

// Neither <map> nor <string>: C++'s headers take longer to compile than most sources.
#include <sched.h>

#include <new>

enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidPitchValue = 12,
    cudaErrorInvalidSymbol = 13,
    cudaErrorInvalidDevicePointer = 17,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorAssert = 710,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotSupported = 801,
    cudaErrorUnknown = 999
};
typedef enum cudaError cudaError_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

struct CUstream_st {
    int device;
};
typedef struct CUstream_st *cudaStream_t;
struct CUevent_st {
    double seconds;
    bool recorded;
};
typedef struct CUevent_st *cudaEvent_t;

enum {
    cudaStreamDefault = 0,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocDefault = 0,
    cudaHostAllocPortable = 1,
    cudaHostAllocMapped = 2,
    cudaHostRegisterDefault = 0,
    cudaMemAttachGlobal = 1
};
#define CUDART_CB

// ---- State ----

struct pk_allocation {
    uintptr_t begin;
    size_t bytes;
    bool on_device, on_host, is_pooled;
};

// The engine's allocator of large memory, which reuses freed blocks: NumPy's PyDataMem_Handler.
struct pk_allocator {
    char name[127];
    uint8_t version;
    void *context;
    void *(*allocate)(void *context, size_t bytes);
    void *(*allocate_zeros)(void *context, size_t count, size_t bytes);
    void *(*resize)(void *context, void *memory, size_t bytes);
    void (*release)(void *context, void *memory, size_t bytes);
};

class pk_runtime {
   public:
    pk_image_launcher launcher = nullptr;
    const pk_allocator *allocator = nullptr;

    // Whether [address, address + bytes) is host memory: 0; device memory: 1; both: 2; or exceeds its
    // allocation: -1.
    int location(const void *address, size_t bytes) {
        const Lock lock(*this);
        const size_t next = after((uintptr_t)address);
        if (next == 0) return 0;
        const pk_allocation &allocation = allocations_[next - 1];
        const uintptr_t offset = (uintptr_t)address - allocation.begin;
        if (offset >= allocation.bytes) return 0;
        if (bytes > allocation.bytes - offset) return -1;
        return !allocation.on_device ? 0 : allocation.on_host ? 2 : 1;
    }

    bool add(const pk_allocation &allocation) {
        const Lock lock(*this);
        if (count_ == capacity_) {
            const size_t capacity = 2 * capacity_ + 64;
            void *const memory = realloc((void *)allocations_, capacity * sizeof(pk_allocation));
            if (memory == nullptr) return false;
            allocations_ = (pk_allocation *)memory;
            capacity_ = capacity;
        }
        const size_t at = after(allocation.begin);
        memmove((void *)(allocations_ + at + 1), allocations_ + at, (count_ - at) * sizeof(pk_allocation));
        allocations_[at] = allocation;
        ++count_;
        return true;
    }

    // Returns false if no allocation of the kind begins at the address.
    bool remove(const void *address, bool on_host, pk_allocation &allocation) {
        const Lock lock(*this);
        const size_t next = after((uintptr_t)address);
        if (next == 0) return false;
        allocation = allocations_[next - 1];
        if (allocation.begin != (uintptr_t)address) return false;
        if (on_host ? !allocation.on_host : !allocation.on_device) return false;
        --count_;
        memmove((void *)(allocations_ + next - 1), allocations_ + next,
                (count_ - next + 1) * sizeof(pk_allocation));
        return true;
    }

   private:
    struct Lock {
        explicit Lock(pk_runtime &state) : state(state) {
            while (__atomic_test_and_set(&state.locked_, __ATOMIC_ACQUIRE)) sched_yield();
        }
        ~Lock() { __atomic_clear(&state.locked_, __ATOMIC_RELEASE); }
        Lock(const Lock &) = delete;
        Lock &operator=(const Lock &) = delete;
        pk_runtime &state;
    };

    // The index of the first allocation that begins after an address.
    size_t after(uintptr_t address) const {
        size_t low = 0, high = count_;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (allocations_[middle].begin <= address) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    bool locked_ = false;
    pk_allocation *allocations_ = nullptr;  // in the order of their addresses
    size_t count_ = 0, capacity_ = 0;
};

static inline pk_runtime &pk_runtime_state() {
    static pk_runtime *state = new pk_runtime;  // never destroyed: static objects may free memory at exit
    return *state;
}

// The last error, that of a kernel that has failed, and why it has.
static thread_local cudaError_t pk_last_cuda_error = cudaSuccess, pk_kernel_error = cudaSuccess;
static thread_local char pk_error_text[512];

static inline cudaError_t pk_returned(cudaError_t error) {
    if (error != cudaSuccess) pk_last_cuda_error = error;
    return error;
}

static inline const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess: return "no error";
        case cudaErrorInvalidValue: return "invalid argument";
        case cudaErrorMemoryAllocation: return "out of memory";
        case cudaErrorInitializationError: return "initialization error";
        case cudaErrorInvalidConfiguration: return "invalid configuration argument";
        case cudaErrorInvalidPitchValue: return "invalid pitch argument";
        case cudaErrorInvalidSymbol: return "invalid device symbol";
        case cudaErrorInvalidDevicePointer: return "invalid device pointer";
        case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
        case cudaErrorInsufficientDriver:
            return "CUDA driver version is insufficient for CUDA runtime version";
        case cudaErrorNoDevice: return "no CUDA-capable device is detected";
        case cudaErrorInvalidDevice: return "invalid device ordinal";
        case cudaErrorInvalidResourceHandle: return "invalid resource handle";
        case cudaErrorNotReady: return "device not ready";
        case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
        case cudaErrorAssert: return "device-side assert triggered";
        case cudaErrorLaunchFailure: return "unspecified launch failure";
        case cudaErrorNotSupported: return "operation not supported";
        default: return "unknown error";
    }
}
static inline const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define PK_NAME(name) \
    case name: return #name;
        PK_NAME(cudaSuccess)
        PK_NAME(cudaErrorInvalidValue)
        PK_NAME(cudaErrorMemoryAllocation)
        PK_NAME(cudaErrorInitializationError)
        PK_NAME(cudaErrorInvalidConfiguration)
        PK_NAME(cudaErrorInvalidPitchValue)
        PK_NAME(cudaErrorInvalidSymbol)
        PK_NAME(cudaErrorInvalidDevicePointer)
        PK_NAME(cudaErrorInvalidMemcpyDirection)
        PK_NAME(cudaErrorInsufficientDriver)
        PK_NAME(cudaErrorNoDevice)
        PK_NAME(cudaErrorInvalidDevice)
        PK_NAME(cudaErrorInvalidResourceHandle)
        PK_NAME(cudaErrorNotReady)
        PK_NAME(cudaErrorIllegalAddress)
        PK_NAME(cudaErrorAssert)
        PK_NAME(cudaErrorLaunchFailure)
        PK_NAME(cudaErrorNotSupported)
#undef PK_NAME
        default: return "cudaErrorUnknown";
    }
}
static inline cudaError_t cudaPeekAtLastError() { return pk_last_cuda_error; }
static inline cudaError_t cudaGetLastError() {
    const cudaError_t error = pk_last_cuda_error;
    pk_last_cuda_error = cudaSuccess;
    return error;
}
static inline cudaError_t pk_synchronized() {
    const cudaError_t error = pk_kernel_error;
    pk_kernel_error = cudaSuccess;
    return pk_returned(error);
}
static inline cudaError_t cudaDeviceSynchronize() { return pk_synchronized(); }
static inline cudaError_t cudaThreadSynchronize() { return pk_synchronized(); }
static inline cudaError_t cudaDeviceReset() { return pk_synchronized(); }

#include "pycudakit_runtime_memory.h"

// ---- Streams and events ----

static inline cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    *stream = new CUstream_st{0};
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int) {
    return cudaStreamCreate(stream);
}
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int, int) {
    return cudaStreamCreate(stream);
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream == nullptr) return pk_returned(cudaErrorInvalidResourceHandle);
    delete stream;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return pk_synchronized(); }
static inline cudaError_t cudaStreamQuery(cudaStream_t) { return pk_synchronized(); }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int = 0) {
    return cudaSuccess;
}
template <class Function>
static inline cudaError_t cudaLaunchHostFunc(cudaStream_t, Function function, void *data) {
    function(data);
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t *event) {
    *event = new CUevent_st{0, false};
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int) {
    return cudaEventCreate(event);
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
    if (event == nullptr) return pk_returned(cudaErrorInvalidResourceHandle);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *event = {double(now.tv_sec) + 1e-9 * double(now.tv_nsec), true};
    return cudaSuccess;
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return pk_synchronized(); }
static inline cudaError_t cudaEventQuery(cudaEvent_t) { return pk_synchronized(); }
static inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (start == nullptr || end == nullptr || !start->recorded || !end->recorded)
        return pk_returned(cudaErrorInvalidResourceHandle);
    *milliseconds = float(1e3 * (end->seconds - start->seconds));
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (event == nullptr) return pk_returned(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

#include "pycudakit_runtime_devices.h"

// ---- Launches ----

PK_OWN static void pk_run_launch(const pk_image_kernel &kernel, void **arguments,
                                 const pk_configuration &given) {
    if (pk_kernel_error != cudaSuccess) return;  // a launch after a kernel that failed
    const pk_image_launch launch = {&kernel,
                                    arguments,
                                    {given.grid.x, given.grid.y, given.grid.z},
                                    {given.block.x, given.block.y, given.block.z},
                                    (int64_t)given.shared};
    const char *message = "";
    const int32_t status = pk_runtime_state().launcher(&launch, &message);
    pk_now = nullptr;
#if defined(PK_VOLATILE)
    pk_wrote = PK_NOTHING;
#endif
    if (status == 0) return;
    snprintf(pk_error_text, sizeof(pk_error_text), "%s", message);
    const bool is_assert = strstr(message, "failed assert(") != nullptr;
    if (status == 1) {
        pk_last_cuda_error = cudaErrorInvalidConfiguration;
    } else if (status == 2) {
        pk_last_cuda_error = cudaErrorMemoryAllocation;
    } else {
        pk_kernel_error = is_assert ? cudaErrorAssert : cudaErrorLaunchFailure;
    }
}

template <bool waits, auto kernel>
static inline auto pk_launch(const char *name, dim3 grid, dim3 block, size_t shared = 0,
                             cudaStream_t = nullptr) {
    return typename pk_entry<kernel>::template Launch<waits>{{grid, block, shared}, name};
}

// A launch of a template whose arguments are deduced. The callable is the first argument of the entry.
template <class Callable, class... P>
static inline void pk_call(const Callable *callable, P... values) {
    (*callable)(values...);
}
template <bool waits, class Callable>
struct pk_deduced_launch {
    Callable callable;
    pk_configuration configuration;
    const char *name;
    template <class... P>
    void operator()(P... values) const {
        using Entry = pk_entry<(&pk_call<Callable, P...>)>;
        typename Entry::template Launch<waits>{configuration, name}(&callable, values...);
    }
};
template <bool waits, class Callable>
static inline auto pk_launch_deduced(Callable callable, const char *name, dim3 grid, dim3 block,
                                     size_t shared = 0, cudaStream_t = nullptr) {
    return pk_deduced_launch<waits, Callable>{callable, {grid, block, shared}, name};
}

// Called by the loader, with the engine's functions.
extern "C" __attribute__((visibility("default"), used)) void pk_set_engine(pk_image_launcher launcher,
                                                                           const pk_allocator *allocator) {
    pk_runtime_state().launcher = launcher;
    pk_runtime_state().allocator = allocator;
}
