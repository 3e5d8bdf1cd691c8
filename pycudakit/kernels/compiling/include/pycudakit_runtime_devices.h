// The device of CUDA's runtime API: its properties, attributes and limits, and the occupancy of kernels.
#pragma once

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, totalConstMem, sharedMemPerBlockOptin, memPitch;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor;
    int multiProcessorCount, maxThreadsPerMultiProcessor, concurrentKernels, unifiedAddressing, managedMemory;
    int memoryClockRate, memoryBusWidth, l2CacheSize, integrated, canMapHostMemory, asyncEngineCount;
};

static inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : pk_returned(cudaErrorInvalidDevice);
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
    if (device != 0) return pk_returned(cudaErrorInvalidDevice);
    *properties = {};
    strcpy(properties->name, "CPU engine of pycudakit");
    properties->totalGlobalMem = (size_t)8 << 30;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->totalConstMem = 64 << 10;
    properties->regsPerBlock = 65536;
    properties->warpSize = PK_WARP;
    properties->maxThreadsPerBlock = properties->maxThreadsPerMultiProcessor = 1024;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 2147483647;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->major = __CUDA_ARCH__ / 100;
    properties->minor = __CUDA_ARCH__ / 10 % 10;
    properties->multiProcessorCount = 1;
    properties->unifiedAddressing = properties->managedMemory = properties->concurrentKernels = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaSetDeviceFlags(unsigned int) { return cudaSuccess; }
static inline cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *version) { return cudaRuntimeGetVersion(version); }

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxBlockDimY = 3,
    cudaDevAttrMaxBlockDimZ = 4,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxGridDimY = 6,
    cudaDevAttrMaxGridDimZ = 7,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrTotalConstantMemory = 9,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrConcurrentKernels = 31,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrManagedMemory = 83,
    cudaDevAttrConcurrentManagedAccess = 89,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
static inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp of;
    if (const cudaError_t error = cudaGetDeviceProperties(&of, device)) return error;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = of.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = of.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = of.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = of.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = of.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = of.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = of.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = int(of.sharedMemPerBlock); break;
        case cudaDevAttrTotalConstantMemory: *value = int(of.totalConstMem); break;
        case cudaDevAttrWarpSize: *value = of.warpSize; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = of.regsPerBlock; break;
        case cudaDevAttrMultiProcessorCount: *value = of.multiProcessorCount; break;
        case cudaDevAttrConcurrentKernels: *value = of.concurrentKernels; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = of.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrUnifiedAddressing: *value = of.unifiedAddressing; break;
        case cudaDevAttrComputeCapabilityMajor: *value = of.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = of.minor; break;
        case cudaDevAttrManagedMemory:
        case cudaDevAttrConcurrentManagedAccess: *value = of.managedMemory; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = int(of.sharedMemPerBlockOptin); break;
        default: return pk_returned(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

// ---- Settings of kernels, which have no effect on results ----

enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaFuncCache {
    cudaFuncCachePreferNone = 0,
    cudaFuncCachePreferShared = 1,
    cudaFuncCachePreferL1 = 2,
    cudaFuncCachePreferEqual = 3
};
enum cudaLimit { cudaLimitStackSize = 0, cudaLimitPrintfFifoSize = 1, cudaLimitMallocHeapSize = 2 };

template <class Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    return cudaSuccess;
}
template <class Kernel>
static inline cudaError_t cudaFuncSetCacheConfig(Kernel, cudaFuncCache) {
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }

template <class Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int threads,
                                                                        size_t) {
    if (threads < 1) return pk_returned(cudaErrorInvalidValue);
    *blocks = 1024 / threads;
    return cudaSuccess;
}
template <class Kernel>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *blocks, int *threads, Kernel, size_t = 0,
                                                             int most = 0) {
    *threads = most > 0 && most < 1024 ? most : 1024;
    *blocks = 1024 / *threads;
    return cudaSuccess;
}
