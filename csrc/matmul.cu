// Products of matrices on a GPU: by cuBLAS where it is open, and else by the kit's own kernel.
#include "common/matmul.h"

#include "cuda/matmul/cublas.h"
#include "cuda/matmul/multiplier.cuh"

namespace pk::matmul {

namespace {

// Products of as many numbers as that are worth splitting them.
constexpr int64_t WORTH_SPLITTING = 1024;

template <class Kind>
bool run(const Product &given, Call &call, int device, Way way, int64_t method) {
    *given.method = method;
    return Multiplier<Kind>(given, call, device, way).run();
}

// Whether three products of numbers of TF32 take less time than one of float32.
bool is_worth_splitting(const Product &given, int device) {
    if (std::min({given.m, given.n, given.k}) < WORTH_SPLITTING) return false;
    int major = 0;
    PK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major >= 8;
}

template <class Kind>
void launch(const Product &given, Call &call) {
    if (clear_if_empty<Kind>(given)) return;
    const int device = devices_of(call).front();
    const CurrentDevice current(device);
    const bool has_cublas = is_float_kind<Kind> && cublas::is_open();
    const int64_t method = has_cublas ? PK_BY_CUBLAS : PK_BY_KERNEL;
    if constexpr (std::is_same<Kind, Float32>::value) {
        if (given.precision == PK_EXACT) {
            run<Exact>(given, call, device, has_cublas ? Way::exact_cublas : Way::exact_kernel, method);
            return;
        }
        const bool splits = has_cublas && given.precision == PK_HIGHEST && is_worth_splitting(given, device);
        if (splits && run<Kind>(given, call, device, Way::split, PK_BY_CUBLAS_SPLIT)) return;
        // An infinity has no parts: what has any is multiplied once more, as it is.
    }
    run<Kind>(given, call, device, has_cublas ? Way::cublas : Way::kernel, method);
}

}  // namespace

}  // namespace pk::matmul

#define PK_ENTRY(t, T, Kind)                                                                                 \
    extern "C" int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,          \
                                     const int64_t *places, int64_t batch, int64_t flags, int64_t precision, \
                                     int64_t *method, const pk_options *options, pk_report *report) {        \
        const auto check = [&] {                                                                             \
            return pk::matmul::Product(a, b, c, m, n, k, places, batch, flags, precision, method,            \
                                       sizeof(T));                                                           \
        };                                                                                                   \
        return pk::called(options, report, check, pk::matmul::launch<pk::matmul::Kind>);                     \
    }
PK_MATMUL_TYPES(PK_ENTRY)
#undef PK_ENTRY

extern "C" int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found) {
    return pk::guarded([&] {
        const std::string name = pk::matmul::checked_path(path, length, found);
        *found = pk::cublas::open(name);
    });
}
