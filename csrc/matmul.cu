// Matrix products on a GPU: chooses the algorithm (cuBLAS if it is open, else our own kernel) and runs the
// pipeline.
#include "common/matmul.h"

#include <cstring>

#include "cuda/matmul/cublas.h"
#include "cuda/matmul/gemm_pipeline.cuh"
#include "cuda/residency/execute.h"

namespace pk::matmul {

// Return the device of the operands, unless the product is empty.
static int device_of(const Product &product) {
    if (!product.is_on_device || product.elements() == 0) return -1;
    if (product.k == 0) return pk::device_of({product.c});
    return pk::device_of({product.a, product.b, product.c});
}

namespace {

// The least m, n and k for which splitting into TF32 products pays.
constexpr int64_t WORTH_SPLITTING = 1024;

// A product of operands that are all on the device.
template <class Kind>
class GemmAlgorithmOnDevice : public DeviceAlgorithm {
   public:
    GemmAlgorithmOnDevice(const Product &product, const Product &resident, Call &call,
                          const ExecutionContext &context, GemmAlgorithm algorithm)
        : product_(product),
          call_(call),
          is_synchronous_(context.is_synchronous),
          splits_(algorithm == GemmAlgorithm::split),
          gemm_(product, resident, context.device(), algorithm) {
        returns_state = is_synchronous_;
        counts_returned_bytes = false;  // they are flags
    }

    int64_t start(int64_t unit) const override { return unit * product_.elements(); }
    // The state begins with the status words of the product.
    int64_t state_bytes() const override { return gemm_.tiling.bytes(); }
    int64_t returned_bytes() const override { return 2 * int64_t(sizeof(unsigned)); }
    void begin(char *d_state, cudaStream_t stream) override {
        gemm_.set_memory(d_state);
        PK_CUDA(cudaMemsetAsync(d_state, 0, GemmTiling::STATUS_BYTES, stream));
    }
    void enqueue(const Chunk &chunk) override {
        gemm_.enqueue(is_synchronous_, chunk.stream);
        if (!splits_ || is_synchronous_) return;
        // An infinity cannot be split: a product that has any is computed again without splitting. Only the
        // device knows, and so the second product is enqueued under a predicate.
        gemm_.repeat_if_not_finite();
        gemm_.enqueue(false, chunk.stream);
    }
    void collect(const void *) override {}
    void take_state(const char *state) override {
        unsigned status[2];
        std::memcpy(status, state, sizeof(status));
        is_valid = !splits_ || status[1] == 0;
        if (is_valid) call_.report.exceptions |= status[0];
    }

    bool is_valid = true;  // all factors that were split are finite

   private:
    const Product &product_;
    Call &call_;
    const bool is_synchronous_, splits_;
    GemmOnDevice<Kind> gemm_;
};

// A product whose operands have been resolved: the device addresses of those on the device, null for others.
struct ResolvedProduct {
    const Product &product;
    Product resident;
    Operands &operands;
    Call &call;
    const ExecutionContext &context;

    bool is_on_device() const {
        return resident.a != nullptr && resident.b != nullptr && resident.c != nullptr &&
               !operands.of(2).copy_back;
    }
};

// Return false if factors that were split are not all finite: the result is invalid then.
template <class Kind>
bool run(const ResolvedProduct &resolved, GemmAlgorithm algorithm, int64_t method) {
    const Product &product = resolved.product;
    *product.method = method;
    if (resolved.is_on_device()) {
        GemmAlgorithmOnDevice<Kind> gemm(product, resolved.resident, resolved.call, resolved.context,
                                         algorithm);
        if (resolved.context.is_on_device) {
            execute(gemm, resolved.operands, resolved.call, resolved.context);
            return gemm.is_valid;
        }
        if (try_execute(gemm, resolved.operands, resolved.call, resolved.context)) return gemm.is_valid;
    }
    const bool downloads_result = resolved.resident.c == nullptr || resolved.operands.of(2).copy_back;
    return GemmPipeline<Kind>(product, resolved.resident, downloads_result, resolved.call,
                              resolved.context.device(), algorithm)
        .run();
}

// Return the memory range of a factor, from its first matrix that is used to its last.
MemoryRange memory_range_of(const Product &product, const void *factor, int64_t index, int64_t matrix,
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
std::vector<MemoryRange> memory_ranges_of(const Product &product) {
    constexpr auto item = int64_t(sizeof(typename Kind::Element));
    std::vector<MemoryRange> memory_ranges{
        memory_range_of(product, product.a, 0, product.m * product.k, item),
        memory_range_of(product, product.b, 1, product.k * product.n, item),
        {product.c, product.elements() * item, item, true}};
    for (MemoryRange &range : memory_ranges) range.is_on_device = product.is_on_device;
    return memory_ranges;
}

// Return the product with the device addresses of its resident operands.
Product find_resident(const Product &product, const std::vector<MemoryRange> &memory_ranges,
                      const Operands &operands) {
    Product resident = product;
    auto find = [&](int operand, const void *on_host) -> char * {
        char *const at = operands.of(operand).d_data;
        return at == nullptr ? nullptr
                             : at + (static_cast<const char *>(on_host) - memory_ranges[size_t(operand)].low);
    };
    resident.a = find(0, product.a);
    resident.b = find(1, product.b);
    resident.c = find(2, product.c);
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
void multiply(const ResolvedProduct &resolved) {
    const Product &product = resolved.product;
    const bool has_cublas = is_float_kind<Kind> && cublas::is_open();
    const int64_t method = has_cublas ? PK_MATMUL_BY_CUBLAS : PK_MATMUL_BY_KERNEL;
    if constexpr (std::is_same<Kind, Float32>::value) {
        if (product.precision == PK_PRECISION_EXACT) {
            run<Float64Accumulation>(
                resolved, has_cublas ? GemmAlgorithm::float64_cublas : GemmAlgorithm::float64_kernel, method);
            return;
        }
        const bool splits = has_cublas && product.precision == PK_PRECISION_HIGHEST &&
                            is_worth_splitting(product, resolved.context.device());
        if (splits && run<Kind>(resolved, GemmAlgorithm::split, PK_MATMUL_BY_CUBLAS_SPLIT)) return;
        // An infinity cannot be split: a product that has any is computed again without splitting.
    }
    run<Kind>(resolved, has_cublas ? GemmAlgorithm::cublas : GemmAlgorithm::kernel, method);
}

// A result on the device of a sum of nothing.
class ClearAlgorithm : public DeviceAlgorithm {
   public:
    ClearAlgorithm(char *d_result, int64_t bytes) : d_result_(d_result), bytes_(bytes) {}
    void enqueue(const Chunk &chunk) override {
        PK_CUDA(cudaMemsetAsync(d_result_, 0, size_t(bytes_), chunk.stream));
    }
    void collect(const void *) override {}

   private:
    char *const d_result_;
    const int64_t bytes_;
};

template <class Kind>
void run(const Product &product, const ExecutionContext &context, Call &call) {
    const std::vector<MemoryRange> memory_ranges = memory_ranges_of<Kind>(product);
    if (product.k == 0 && !context.is_on_device) {
        Operands results(on_host(memory_ranges), call, context);
        clear_if_empty<Kind>(product);
        return results.commit();
    }
    const CurrentDevice current(context.device());
    Operands operands(memory_ranges, call, context);
    if (product.k == 0) {
        *product.method = PK_MATMUL_BY_KERNEL;
        ClearAlgorithm clear(operands.of(2).d_data, memory_ranges[2].high - memory_ranges[2].low);
        return execute(clear, operands, call, context);
    }
    multiply<Kind>({product, find_resident(product, memory_ranges, operands), operands, call, context});
    operands.commit();
}

template <class Kind>
void launch(const Product &product, Call &call) {
    if (product.elements() == 0) {
        clear_if_empty<Kind>(product);
        return;
    }
    run<Kind>(product, ExecutionContext::on_first_device(call), call);
}

void launch_operands(const Located<Product> &product, Call &call) {
    visit_arithmetic(product.type, [&](auto kind) {
        using Kind = decltype(kind);
        if (product.device < 0) return launch<Kind>(product, call);
        run<Kind>(product, ExecutionContext(call, product.device), call);
    });
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

extern "C" int32_t pk_matmul(const pk_operand *operands, int64_t m, int64_t n, int64_t k,
                             const int64_t *index_pairs, int64_t batch, int64_t flags, int64_t precision,
                             int64_t *method, const pk_options *options, pk_report *report) {
    const auto check = [&] {
        return pk::Located<pk::matmul::Product>(pk::matmul::product_of(
            operands, m, n, k, index_pairs, batch, flags, precision, method, PK_ON_DEVICE));
    };
    return pk::run_entry(options, report, check, pk::matmul::launch_operands);
}

extern "C" int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found) {
    return pk::guarded([&] {
        const std::string name = pk::matmul::checked_path(path, length, found);
        *found = pk::cublas::open(name);
    });
}
