// Products of matrices on a GPU: by cuBLAS where it is open, and else by the kit's own kernel.
#include "common/matmul.h"

#include "cuda/matmul/cublas.h"
#include "cuda/matmul/gemm_pipeline.cuh"
#include "cuda/residency/operands.h"

namespace pk::matmul {

namespace {

// Products of as many numbers as that are worth splitting them.
constexpr int64_t WORTH_SPLITTING = 1024;

template <class Kind>
bool run(const Product &given, const AtHome &home, Call &call, int device, Way way, int64_t method) {
    *given.method = method;
    return Multiplier<Kind>(given, home, call, device, way).run();
}

// Of a factor, from the first of its matrices that are multiplied to the last.
plan::Span span_of(const Product &given, const void *factor, int64_t index, int64_t matrix, int64_t item) {
    int64_t low = INT64_MAX, high = 0;
    for (int64_t pair = 0; pair < given.batch; ++pair) {
        low = std::min(low, given.places[2 * pair + index]);
        high = std::max(high, given.places[2 * pair + index]);
    }
    return {static_cast<const char *>(factor) + low * matrix * item, (high + 1 - low) * matrix * item, item,
            false};
}

template <class Kind>
std::vector<plan::Span> spans_of(const Product &given) {
    constexpr auto item = int64_t(sizeof(typename Kind::Element));
    return {span_of(given, given.a, 0, given.m * given.k, item),
            span_of(given, given.b, 1, given.k * given.n, item),
            {given.c, given.elements() * item, item, true}};
}

AtHome at_home(const Product &given, const std::vector<plan::Span> &spans, const plan::Homes &homes) {
    AtHome home{given, homes.of(2).leaves};
    auto find = [&](int operand, const void *on_host) -> char * {
        char *const at = homes.of(operand).at;
        return at == nullptr ? nullptr
                             : at + (static_cast<const char *>(on_host) - spans[size_t(operand)].low);
    };
    home.operands.a = find(0, given.a);
    home.operands.b = find(1, given.b);
    home.operands.c = find(2, given.c);
    return home;
}

// Whether three products of numbers of TF32 take less time than one of float32.
bool is_worth_splitting(const Product &given, int device) {
    if (std::min({given.m, given.n, given.k}) < WORTH_SPLITTING) return false;
    int major = 0;
    PK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major >= 8;
}

template <class Kind>
void multiply(const Product &given, const AtHome &home, Call &call, int device) {
    const CurrentDevice current(device);
    const bool has_cublas = is_float_kind<Kind> && cublas::is_open();
    const int64_t method = has_cublas ? PK_BY_CUBLAS : PK_BY_KERNEL;
    if constexpr (std::is_same<Kind, Float32>::value) {
        if (given.precision == PK_EXACT) {
            run<Exact>(given, home, call, device, has_cublas ? Way::exact_cublas : Way::exact_kernel, method);
            return;
        }
        const bool splits = has_cublas && given.precision == PK_HIGHEST && is_worth_splitting(given, device);
        if (splits && run<Kind>(given, home, call, device, Way::split, PK_BY_CUBLAS_SPLIT)) return;
        // An infinity has no parts: what has any is multiplied once more, as it is.
    }
    run<Kind>(given, home, call, device, has_cublas ? Way::cublas : Way::kernel, method);
}

template <class Kind>
void launch(const Product &given, Call &call) {
    if (given.elements() == 0) {
        clear_if_empty<Kind>(given);
        return;
    }
    std::vector<plan::Span> spans = spans_of<Kind>(given);
    if (given.k == 0) {
        spans[2].may_be_home = false;
        plan::Homes results(spans, call, {0});
        clear_if_empty<Kind>(given);
        return results.settle();
    }
    const int device = devices_of(call).front();
    plan::Homes homes(spans, call, {device}, true);
    multiply<Kind>(given, at_home(given, spans, homes), call, device);
    homes.settle();
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
