// Matrix products on a GPU: chooses the algorithm (cuBLAS if it is open, else our own kernel) and runs the
// pipeline.
#include "common/matmul.h"

#include "cuda/matmul/cublas.h"
#include "cuda/matmul/gemm_pipeline.cuh"
#include "cuda/residency/operands.h"

namespace pk::matmul {

namespace {

// The least m, n and k for which splitting into TF32 products pays.
constexpr int64_t WORTH_SPLITTING = 1024;

template <class Kind>
bool run(const Product &product, const ResidentProduct &resident, Call &call, int device,
         GemmAlgorithm algorithm, int64_t method) {
    *product.method = method;
    return GemmPipeline<Kind>(product, resident, call, device, algorithm).run();
}

// Return the host range of a factor, from its first matrix that is used to its last.
plan::HostRange host_range_of(const Product &product, const void *factor, int64_t index, int64_t matrix,
                              int64_t item) {
    int64_t low = INT64_MAX, high = 0;
    for (int64_t pair = 0; pair < product.batch; ++pair) {
        low = std::min(low, product.index_pairs[2 * pair + index]);
        high = std::max(high, product.index_pairs[2 * pair + index]);
    }
    return {static_cast<const char *>(factor) + low * matrix * item, (high + 1 - low) * matrix * item, item,
            false};
}

template <class Kind>
std::vector<plan::HostRange> host_ranges_of(const Product &product) {
    constexpr auto item = int64_t(sizeof(typename Kind::Element));
    return {host_range_of(product, product.a, 0, product.m * product.k, item),
            host_range_of(product, product.b, 1, product.k * product.n, item),
            {product.c, product.elements() * item, item, true}};
}

// Return the product with the device addresses of its resident operands.
ResidentProduct find_resident(const Product &product, const std::vector<plan::HostRange> &host_ranges,
                              const plan::Operands &operands) {
    ResidentProduct resident{product, operands.of(2).copy_back};
    auto find = [&](int operand, const void *on_host) -> char * {
        char *const at = operands.of(operand).d_data;
        return at == nullptr ? nullptr
                             : at + (static_cast<const char *>(on_host) - host_ranges[size_t(operand)].low);
    };
    resident.operands.a = find(0, product.a);
    resident.operands.b = find(1, product.b);
    resident.operands.c = find(2, product.c);
    return resident;
}

// Return true if three TF32 products take less time than one of float32.
bool is_worth_splitting(const Product &product, int device) {
    if (std::min({product.m, product.n, product.k}) < WORTH_SPLITTING) return false;
    int major = 0;
    PK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major >= 8;
}

template <class Kind>
void multiply(const Product &product, const ResidentProduct &resident, Call &call, int device) {
    const CurrentDevice current(device);
    const bool has_cublas = is_float_kind<Kind> && cublas::is_open();
    const int64_t method = has_cublas ? PK_MATMUL_BY_CUBLAS : PK_MATMUL_BY_KERNEL;
    if constexpr (std::is_same<Kind, Float32>::value) {
        if (product.precision == PK_PRECISION_EXACT) {
            run<Float64Accumulation>(
                product, resident, call, device,
                has_cublas ? GemmAlgorithm::float64_cublas : GemmAlgorithm::float64_kernel, method);
            return;
        }
        const bool splits =
            has_cublas && product.precision == PK_PRECISION_HIGHEST && is_worth_splitting(product, device);
        if (splits &&
            run<Kind>(product, resident, call, device, GemmAlgorithm::split, PK_MATMUL_BY_CUBLAS_SPLIT))
            return;
        // An infinity cannot be split: a product that has any is computed again without splitting.
    }
    run<Kind>(product, resident, call, device, has_cublas ? GemmAlgorithm::cublas : GemmAlgorithm::kernel,
              method);
}

template <class Kind>
void launch(const Product &product, Call &call) {
    if (product.elements() == 0) {
        clear_if_empty<Kind>(product);
        return;
    }
    std::vector<plan::HostRange> host_ranges = host_ranges_of<Kind>(product);
    if (product.k == 0) {
        host_ranges[2].may_be_resident = false;
        plan::Operands results(host_ranges, call, {0});
        clear_if_empty<Kind>(product);
        return results.commit();
    }
    const int device = devices_of(call).front();
    plan::Operands operands(host_ranges, call, {device}, true);
    multiply<Kind>(product, find_resident(product, host_ranges, operands), call, device);
    operands.commit();
}

}  // namespace

}  // namespace pk::matmul

#define PK_ENTRY(t, T, Kind)                                                                           \
    extern "C" int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,    \
                                     const int64_t *index_pairs, int64_t batch, int64_t flags,         \
                                     int64_t precision, int64_t *method, const pk_options *options,    \
                                     pk_report *report) {                                              \
        const auto check = [&] {                                                                       \
            return pk::matmul::Product(a, b, c, m, n, k, index_pairs, batch, flags, precision, method, \
                                       sizeof(T));                                                     \
        };                                                                                             \
        return pk::run_entry(options, report, check, pk::matmul::launch<pk::matmul::Kind>);            \
    }
PK_MATMUL_TYPES(PK_ENTRY)
#undef PK_ENTRY

extern "C" int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found) {
    return pk::guarded([&] {
        const std::string name = pk::matmul::checked_path(path, length, found);
        *found = pk::cublas::open(name);
    });
}
