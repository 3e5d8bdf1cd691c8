// Loads cuBLAS at run time and calls cublasGemmStridedBatchedEx.
#include "cublas.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "common/call/status.h"
#include "cuda/runtime/cuda.h"

namespace pk::cublas {

namespace {

using Handle = void *;
enum { SUCCESS = 0, ALLOC_FAILED = 3 };  // values of cublasStatus_t
enum { NOT_TRANSPOSED = 0, TRANSPOSED = 1 };
constexpr int ANY_ALGORITHM = -1;

// The functions of cuBLAS that are used.
struct Functions {
    int (*create)(Handle *) = nullptr;
    int (*set_stream)(Handle, cudaStream_t) = nullptr;
    int (*multiply)(Handle, int, int, int, int, int, const void *, const void *, int, int, long long,
                    const void *, int, int, long long, const void *, void *, int, int, long long, int, int,
                    int) = nullptr;
    const char *(*name_of)(int) = nullptr;
};

// The open library. Never closed: at the process's exit the driver may be gone before it.
struct Library {
    std::mutex mutex;
    Functions functions;
    bool is_open = false;
    std::map<int, Handle> handles;  // by device
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
                         find(handle, "cublasSetStream_v2", functions.set_stream) &&
                         find(handle, "cublasGemmStridedBatchedEx", functions.multiply) &&
                         find(handle, "cublasGetStatusName", functions.name_of);
    if (!has_all) (void)dlclose(handle);
    return has_all;
}

void check(int status, const Functions &functions, const char *call) {
    if (status == SUCCESS) return;
    fail(status == ALLOC_FAILED ? PK_OUT_OF_MEMORY : PK_DEVICE_ERROR,
         std::string(functions.name_of(status)) + " of " + call);
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
    Library &library = cublas::library();
    const std::lock_guard<std::mutex> lock(library.mutex);
    const Functions &functions = library.functions;
    require(library.is_open, "cuBLAS is not open");
    Handle &handle = library.handles[device];
    if (handle == nullptr) check(functions.create(&handle), functions, "cublasCreate");
    check(functions.set_stream(handle, stream), functions, "cublasSetStream");
    const float ones[] = {1.0f, products.adds ? 1.0f : 0.0f};
    const double wide_ones[] = {1.0, products.adds ? 1.0 : 0.0};
    const bool wide = products.compute == IN_FLOAT64;
    const void *const alpha = wide ? static_cast<const void *>(wide_ones) : ones;
    const void *const beta = wide ? static_cast<const void *>(wide_ones + 1) : ones + 1;
    // cuBLAS is column-major and so sees the transposes: for c = a b it computes c' = b' a'.
    check(functions.multiply(handle, products.transposed_b ? TRANSPOSED : NOT_TRANSPOSED,
                             products.transposed_a ? TRANSPOSED : NOT_TRANSPOSED, int(products.n),
                             int(products.m), int(products.k), alpha, products.b, products.factor,
                             int(products.b_pitch), products.b_stride, products.a, products.factor,
                             int(products.a_pitch), products.a_stride, beta, products.c, products.total,
                             int(products.c_pitch), products.c_stride, int(products.batch), products.compute,
                             ANY_ALGORITHM),
          functions, "cublasGemmStridedBatchedEx");
}

}  // namespace pk::cublas
