// Loads cuBLAS at run time and calls cublasGemmStridedBatchedEx.
#include "cublas.h"

#include <dlfcn.h>

#include <list>
#include <memory>
#include <mutex>

#include "common/call/status.h"
#include "cuda/runtime/cuda.h"
#include "cuda/runtime/device_pool.h"

namespace pk::cublas {

namespace {

using Handle = void *;
enum { SUCCESS = 0, ALLOC_FAILED = 3 };  // values of cublasStatus_t
enum { NOT_TRANSPOSED = 0, TRANSPOSED = 1 };
constexpr int ANY_ALGORITHM = -1;

// The functions of cuBLAS that are used.
struct Functions {
    int (*create)(Handle *) = nullptr;
    int (*destroy)(Handle) = nullptr;
    int (*set_stream)(Handle, cudaStream_t) = nullptr;
    int (*set_workspace)(Handle, void *, size_t) = nullptr;
    int (*multiply)(Handle, int, int, int, int, int, const void *, const void *, int, int, long long,
                    const void *, int, int, long long, const void *, void *, int, int, long long, int, int,
                    int) = nullptr;
    const char *(*name_of)(int) = nullptr;
};

void check(int status, const Functions &functions, const char *call) {
    if (status == SUCCESS) return;
    fail(status == ALLOC_FAILED ? PK_OUT_OF_MEMORY : PK_DEVICE_ERROR,
         std::string(functions.name_of(status)) + " of " + call);
}

// A handle with a workspace of its own, since cuBLAS's results have the same bits from run to run only if
// each stream has a handle and a workspace.
class StreamHandle {
   public:
    StreamHandle(const Functions &functions, int device) : device(device), functions_(functions) {}
    ~StreamHandle() {
        if (handle_ == nullptr) return;
        synchronize_device(device);  // its workspace is freed next
        (void)functions_.destroy(handle_);
    }
    StreamHandle(const StreamHandle &) = delete;
    StreamHandle &operator=(const StreamHandle &) = delete;

    // Call body(handle), which enqueues work in the stream, after the handle's earlier work.
    template <class Body>
    void use(cudaStream_t stream, Body body) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (handle_ == nullptr) create();
        last_use_.wait(stream);
        if (!is_bound_ || bound_ != stream) bind(stream);
        struct Record {
            ~Record() { last_use.record(stream); }  // also if a part was enqueued, and another fails
            FreeMarker &last_use;
            const cudaStream_t stream;
        } record{last_use_, stream};
        body(handle_);
    }

    const int device;

   private:
    // The sizes that NVIDIA recommends.
    int64_t workspace_bytes() const {
        int major = 0;
        PK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
        return int64_t(major >= 9 ? 32 : 4) << 20;
    }
    void create() {
        workspace_bytes_ = workspace_bytes();
        workspace_ = DeviceBuffer(device, workspace_bytes_, Account::program);
        check(functions_.create(&handle_), functions_, "cublasCreate");
    }
    void bind(cudaStream_t stream) {
        is_bound_ = false;
        check(functions_.set_stream(handle_, stream), functions_, "cublasSetStream");
        check(functions_.set_workspace(handle_, workspace_.d_memory(), size_t(workspace_bytes_)), functions_,
              "cublasSetWorkspace");
        bound_ = stream;
        is_bound_ = true;
    }

    const Functions &functions_;
    std::mutex mutex_;  // guards the members below
    int64_t workspace_bytes_ = 0;
    DeviceBuffer workspace_;
    Handle handle_ = nullptr;
    cudaStream_t bound_ = nullptr;
    bool is_bound_ = false;
    FreeMarker last_use_;
};

// A handle in the cache, and the stream that it is for.
struct CachedHandle {
    cudaStream_t stream;
    std::shared_ptr<StreamHandle> handle;
};

// The most handles of a device.
constexpr int MAX_HANDLES = 8;

// The open library. Never closed: at the process's exit the driver may be gone before it.
struct Library {
    std::mutex mutex;
    Functions functions;
    bool is_open = false;
    std::list<CachedHandle> handles;  // the most recently used in front

    // Return the handle for a stream. If the device has too many, the least recently used one changes its
    // stream.
    std::shared_ptr<StreamHandle> handle_for(int device, cudaStream_t stream) {
        const std::lock_guard<std::mutex> lock(mutex);
        ensure(is_open, "cuBLAS is open");
        int of_device = 0;
        auto last = handles.end(), found = handles.end();
        for (auto each = handles.begin(); each != handles.end() && found == handles.end(); ++each) {
            if (each->handle->device != device) continue;
            ++of_device;
            last = each;
            if (each->stream == stream) found = each;
        }
        if (found == handles.end() && of_device >= MAX_HANDLES) found = last;
        if (found == handles.end()) {
            handles.push_front({stream, std::make_shared<StreamHandle>(functions, device)});
        } else {
            handles.splice(handles.begin(), handles, found);
            handles.front().stream = stream;
        }
        return handles.front().handle;
    }
};

Library &library() {
    static Library *const library = new Library;
    return *library;
}

template <class Function>
bool find(void *handle, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
}

bool open_file(const char *path, Functions &functions) {
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    const bool has_all = find(handle, "cublasCreate_v2", functions.create) &&
                         find(handle, "cublasDestroy_v2", functions.destroy) &&
                         find(handle, "cublasSetStream_v2", functions.set_stream) &&
                         find(handle, "cublasSetWorkspace_v2", functions.set_workspace) &&
                         find(handle, "cublasGemmStridedBatchedEx", functions.multiply) &&
                         find(handle, "cublasGetStatusName", functions.name_of);
    if (!has_all) (void)dlclose(handle);
    return has_all;
}

}  // namespace

bool open(const std::string &path) {
    Library &library = cublas::library();
    const std::lock_guard<std::mutex> lock(library.mutex);
    if (library.is_open) return true;
    for (const char *name : {path.c_str(), "libcublas.so.13", "libcublas.so.12"}) {
        if (*name == '\0' || !open_file(name, library.functions)) continue;
        library.is_open = true;
        return true;
    }
    return false;
}

bool is_open() {
    Library &library = cublas::library();
    const std::lock_guard<std::mutex> lock(library.mutex);
    return library.is_open;
}

void multiply(const Products &products, int device, cudaStream_t stream) {
    const std::shared_ptr<StreamHandle> stream_handle = library().handle_for(device, stream);
    const Functions &functions = library().functions;  // constant once the library is open
    const float ones[] = {1.0f, products.adds ? 1.0f : 0.0f};
    const double wide_ones[] = {1.0, products.adds ? 1.0 : 0.0};
    const bool wide = products.compute == IN_FLOAT64;
    const void *const alpha = wide ? static_cast<const void *>(wide_ones) : ones;
    const void *const beta = wide ? static_cast<const void *>(wide_ones + 1) : ones + 1;
    // cuBLAS is column-major and so sees the transposes: for c = a b it computes c' = b' a'.
    stream_handle->use(stream, [&](Handle handle) {
        check(functions.multiply(handle, products.transposed_b ? TRANSPOSED : NOT_TRANSPOSED,
                                 products.transposed_a ? TRANSPOSED : NOT_TRANSPOSED, int(products.n),
                                 int(products.m), int(products.k), alpha, products.b, products.factor,
                                 int(products.b_pitch), products.b_stride, products.a, products.factor,
                                 int(products.a_pitch), products.a_stride, beta, products.c, products.total,
                                 int(products.c_pitch), products.c_stride, int(products.batch),
                                 products.compute, ANY_ALGORITHM),
              functions, "cublasGemmStridedBatchedEx");
    });
}

void release() {
    std::list<CachedHandle> released;  // destroyed after the mutex is unlocked, since that waits for the GPU
    const std::lock_guard<std::mutex> lock(library().mutex);
    released.swap(library().handles);
}

}  // namespace pk::cublas
