// Memory of CUDA's runtime API: allocations, copies, rows with a pitch, and device variables.
#pragma once

enum : size_t { PK_POOLED_BYTES = (size_t)1 << 20 };  // smaller memory is reused by malloc

static inline void pk_release(void *memory, size_t bytes, bool is_pooled) {
    const pk_allocator *const pool = pk_runtime_state().allocator;
    if (is_pooled) {
        pool->release(pool->context, memory, bytes);
    } else {
        ::operator delete(memory, std::align_val_t(256));
    }
}
static inline cudaError_t pk_allocate(void **address, size_t bytes, bool on_device, bool on_host) {
    if (address == nullptr) return pk_returned(cudaErrorInvalidValue);
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > (size_t)1 << 47) return pk_returned(cudaErrorMemoryAllocation);
    const pk_allocator *const pool = pk_runtime_state().allocator;
    const bool is_pooled = pool != nullptr && bytes >= PK_POOLED_BYTES;
    void *const memory = is_pooled ? pool->allocate(pool->context, bytes)
                                   : ::operator new(bytes, std::align_val_t(256), std::nothrow);
    if (memory == nullptr) return pk_returned(cudaErrorMemoryAllocation);
    if (!pk_runtime_state().add({(uintptr_t)memory, bytes, on_device, on_host, is_pooled})) {
        pk_release(memory, bytes, is_pooled);
        return pk_returned(cudaErrorMemoryAllocation);
    }
    *address = memory;
    return cudaSuccess;
}
static inline cudaError_t pk_deallocate(void *address, bool on_host) {
    if (address == nullptr) return cudaSuccess;
    pk_allocation allocation;
    if (!pk_runtime_state().remove(address, on_host, allocation)) return pk_returned(cudaErrorInvalidValue);
    pk_release(address, allocation.bytes, allocation.is_pooled);
    return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMalloc(T **address, size_t bytes) {
    return pk_allocate((void **)address, bytes, true, false);
}
template <class T>
static inline cudaError_t cudaMallocAsync(T **address, size_t bytes, cudaStream_t) {
    return pk_allocate((void **)address, bytes, true, false);
}
template <class T>
static inline cudaError_t cudaMallocHost(T **address, size_t bytes, unsigned int = 0) {
    return pk_allocate((void **)address, bytes, false, true);
}
template <class T>
static inline cudaError_t cudaHostAlloc(T **address, size_t bytes, unsigned int) {
    return pk_allocate((void **)address, bytes, false, true);
}
template <class T>
static inline cudaError_t cudaMallocManaged(T **address, size_t bytes, unsigned int = cudaMemAttachGlobal) {
    return pk_allocate((void **)address, bytes, true, true);
}
static inline cudaError_t cudaFree(void *address) { return pk_deallocate(address, false); }
static inline cudaError_t cudaFreeAsync(void *address, cudaStream_t) { return pk_deallocate(address, false); }
static inline cudaError_t cudaFreeHost(void *address) { return pk_deallocate(address, true); }
static inline cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    *free = *total = (size_t)8 << 30;
    return cudaSuccess;
}

// Whether memory at a location (see pk_runtime::location) may be an operand on the device, or on the host.
static inline bool pk_fits(int location, bool on_device) {
    return location == 2 || location == (on_device ? 1 : 0);
}
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    if (const cudaError_t error = pk_synchronized()) return error;
    if (bytes == 0) return cudaSuccess;
    if (to == nullptr || from == nullptr) return pk_returned(cudaErrorInvalidValue);
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return pk_returned(cudaErrorInvalidMemcpyDirection);
    const int target = pk_runtime_state().location(to, bytes);
    const int source = pk_runtime_state().location(from, bytes);
    const bool fits =
        kind == cudaMemcpyDefault
            ? target >= 0 && source >= 0
            : pk_fits(target, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
                  pk_fits(source, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
    if (!fits) return pk_returned(cudaErrorInvalidValue);
    memmove(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t = nullptr) {
    return cudaMemcpy(to, from, bytes, kind);
}
static inline cudaError_t cudaMemset(void *to, int byte, size_t bytes) {
    if (const cudaError_t error = pk_synchronized()) return error;
    if (bytes == 0) return cudaSuccess;
    if (!pk_fits(pk_runtime_state().location(to, bytes), true)) return pk_returned(cudaErrorInvalidValue);
    memset(to, byte, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t = nullptr) {
    return cudaMemset(to, byte, bytes);
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbol(T &symbol, const void *from, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind = cudaMemcpyHostToDevice) {
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return pk_returned(cudaErrorInvalidValue);
    memcpy((char *)&symbol + offset, from, bytes);
    return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0,
                                               cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    if (offset > sizeof(T) || bytes > sizeof(T) - offset) return pk_returned(cudaErrorInvalidValue);
    memcpy(to, (const char *)&symbol + offset, bytes);
    return cudaSuccess;
}
template <class T>
static inline cudaError_t cudaMemcpyToSymbolAsync(T &symbol, const void *from, size_t bytes, size_t offset,
                                                  cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset,
                                                    cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
template <class T>
static inline cudaError_t cudaGetSymbolSize(size_t *bytes, const T &) {
    *bytes = sizeof(T);
    return cudaSuccess;
}
// The variable becomes an allocation, so that copies know it.
template <class T, class Symbol>
static inline cudaError_t cudaGetSymbolAddress(T **address, const Symbol &symbol) {
    *address = (T *)&symbol;
    if (pk_runtime_state().location(&symbol, sizeof(symbol)) == 1) return cudaSuccess;
    const pk_allocation allocation = {(uintptr_t)&symbol, sizeof(symbol), true, false, false};
    return pk_runtime_state().add(allocation) ? cudaSuccess : pk_returned(cudaErrorMemoryAllocation);
}

// ---- Rows with a pitch ----

template <class T>
static inline cudaError_t cudaMallocPitch(T **address, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return cudaMalloc(address, *pitch * height);
}
static inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                       size_t width, size_t height, cudaMemcpyKind kind) {
    if (width > to_pitch || width > from_pitch) return pk_returned(cudaErrorInvalidValue);
    for (size_t row = 0; row < height; ++row) {
        const cudaError_t error =
            cudaMemcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, kind);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                                            size_t width, size_t height, cudaMemcpyKind kind,
                                            cudaStream_t = nullptr) {
    return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
static inline cudaError_t cudaMemset2D(void *to, size_t pitch, int byte, size_t width, size_t height) {
    if (width > pitch) return pk_returned(cudaErrorInvalidValue);
    for (size_t row = 0; row < height; ++row) {
        const cudaError_t error = cudaMemset((char *)to + row * pitch, byte, width);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}
static inline cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int byte, size_t width, size_t height,
                                            cudaStream_t = nullptr) {
    return cudaMemset2D(to, pitch, byte, width, height);
}

// ---- Host memory and managed memory ----

static inline cudaError_t cudaHostRegister(void *, size_t, unsigned int) { return cudaSuccess; }
static inline cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
template <class T>
static inline cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int) {
    *device = (T *)host;
    return cudaSuccess;
}
// Hints, with the arguments of any release of CUDA.
template <class... Where>
static inline cudaError_t cudaMemPrefetchAsync(const void *, size_t, Where...) {
    return cudaSuccess;
}
template <class... How>
static inline cudaError_t cudaMemAdvise(const void *, size_t, How...) {
    return cudaSuccess;
}

enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2,
    cudaMemoryTypeManaged = 3
};
struct cudaPointerAttributes {
    cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};
static inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *address) {
    const int location = pk_runtime_state().location(address, 1);
    attributes->type = location == 2   ? cudaMemoryTypeManaged
                       : location == 1 ? cudaMemoryTypeDevice
                                       : cudaMemoryTypeUnregistered;
    attributes->device = 0;
    attributes->devicePointer = location > 0 ? (void *)address : nullptr;
    attributes->hostPointer = location == 1 ? nullptr : (void *)address;
    return cudaSuccess;
}
