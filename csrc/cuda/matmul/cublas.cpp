// Loads cuBLAS at run time and calls cublasGemmStridedBatchedEx.
#include "cublas.h"

#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <utility>

#include "common/call/status.h"
#include "common/lru_cache.h"
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
    StreamHandle(const Functions &functions, int device, cudaStream_t stream)
        : functions_(functions), device_(device), stream_(stream) {}
    ~StreamHandle() {
        if (handle_ == nullptr) return;
        synchronize_device(device_);  // its workspace is freed next
        (void)functions_.destroy(handle_);
    }
    StreamHandle(const StreamHandle &) = delete;
    StreamHandle &operator=(const StreamHandle &) = delete;

    // Call body(handle), which enqueues work in the stream, after the handle's earlier work:
    // cudaStreamPerThread is another stream in each thread.
    template <class Body>
    void use(Body body) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!is_ready_) create();
        last_use_.wait(stream_);
        struct Record {
            ~Record() { last_use.record(stream); }  // also if a part was enqueued, and another fails
            FreeMarker &last_use;
            const cudaStream_t stream;
        } record{last_use_, stream_};
        body(handle_);
    }

   private:
    // The sizes that NVIDIA recommends.
    int64_t workspace_bytes() const {
        int major = 0;
        PK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_));
        return int64_t(major >= 9 ? 32 : 4) << 20;
    }
    void create() {
        const int64_t bytes = workspace_bytes();
        workspace_ = DeviceBuffer(device_, bytes, Account::program);
        if (handle_ == nullptr) check(functions_.create(&handle_), functions_, "cublasCreate");
        check(functions_.set_stream(handle_, stream_), functions_, "cublasSetStream");
        check(functions_.set_workspace(handle_, workspace_.d_memory(), size_t(bytes)), functions_,
              "cublasSetWorkspace");
        is_ready_ = true;
    }

    const Functions &functions_;
    const int device_;
    const cudaStream_t stream_;
    std::mutex mutex_;  // guards the members below
    DeviceBuffer workspace_;
    Handle handle_ = nullptr;
    bool is_ready_ = false;
    FreeMarker last_use_;
};

// The handles by device and stream. Dropping one waits for its device.
using Handles = LruCache<std::pair<uint64_t, uint64_t>, std::shared_ptr<StreamHandle>, 16>;

// The open library. Never closed: at the process's exit the driver may be gone before it.
struct Library {
    std::mutex mutex;
    Functions functions;
    bool is_open = false;
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
    ensure(is_open(), "cuBLAS is open");
    const Functions &functions = library().functions;  // constant once the library is open
    const auto stream_handle = Handles::get({uint64_t(device), reinterpret_cast<uintptr_t>(stream)}, [&] {
        return std::make_shared<StreamHandle>(functions, device, stream);
    });
    const float ones[] = {1.0f, products.adds ? 1.0f : 0.0f};
    const double wide_ones[] = {1.0, products.adds ? 1.0 : 0.0};
    const bool wide = products.compute == IN_FLOAT64;
    const void *const alpha = wide ? static_cast<const void *>(wide_ones) : ones;
    const void *const beta = wide ? static_cast<const void *>(wide_ones + 1) : ones + 1;
    // cuBLAS is column-major and so sees the transposes: for c = a b it computes c' = b' a'.
    stream_handle->use([&](Handle handle) {
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
    Handles::drop_if([](const auto &) { return true; });
}

}  // namespace pk::cublas
