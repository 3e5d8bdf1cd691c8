// The GEMM of one panel on a device, by one of five algorithms: cuBLAS, our own kernel, the same two in
// float64, or float32 products split into TF32 products (3xTF32).
#pragma once

#include "cublas.h"
#include "cuda/runtime/cuda.h"
#include "gemm_kernels.cuh"
#include "gemm_tiling.h"

namespace pk::matmul {

// float32 matrices, multiplied and summed in float64.
struct Float64Accumulation : Plain<float, double> {};

// `kernel` is our own; `split` is 3xTF32 by cuBLAS.
enum class GemmAlgorithm { kernel, cublas, split, float64_kernel, float64_cublas };

// Enqueues the GEMM of a panel: tile += (a panel of a) @ (a panel of b).
template <class Kind>
struct PanelGemm {
    using Element = typename Kind::Element;

    const Product &product;
    GemmAlgorithm algorithm;
    int device;
    char *scratch;             // for widened or split factors
    unsigned *d_nonfinite;     // set if a factor that is split is infinite or NaN
    const unsigned *d_run_if;  // predicate of the kernel, see should_run()

    // Add the products of a panel, whose factors are at `a` and `b`, to the sums at `c`. Factors that are
    // split must be adjacent in memory.
    void enqueue(cudaStream_t stream, const OutputTile &tile, const Panel &panel, char *a, char *b,
                 char *c) const {
        const int64_t of_a = tile.pairs * tile.rows * panel.depth;
        const int64_t of_b = tile.pairs * panel.depth * tile.columns;
        const cublas::Products products = products_of(tile, panel, a, b, c);
        switch (algorithm) {
            case GemmAlgorithm::cublas: return multiply_by_cublas(products, stream);
            case GemmAlgorithm::float64_cublas: return multiply_widened(products, of_a, of_b, stream);
            case GemmAlgorithm::split: return multiply_split(products, of_a, of_b, stream);
            default: return multiply_by_kernel(products, stream);
        }
    }

   private:
    cublas::Products products_of(const OutputTile &tile, const Panel &panel, const char *a, const char *b,
                                 char *c) const {
        cublas::Products products{};
        products.m = tile.rows;
        products.n = tile.columns;
        products.k = panel.depth;
        products.batch = tile.pairs;
        products.a = a;
        products.b = b;
        products.c = c;
        products.a_pitch = product.transposed_a ? tile.rows : panel.depth;
        products.b_pitch = product.transposed_b ? panel.depth : tile.columns;
        products.c_pitch = tile.columns;
        products.a_stride = tile.rows * panel.depth;
        products.b_stride = panel.depth * tile.columns;
        products.c_stride = tile.rows * tile.columns;
        products.transposed_a = product.transposed_a;
        products.transposed_b = product.transposed_b;
        products.factor = products.total = cublas::FLOAT32;
        products.compute = cublas::IN_FLOAT32;
        products.adds = panel.start != 0;
        return products;
    }

    void multiply_by_kernel(const cublas::Products &products, cudaStream_t stream) const {
        device::GemmParams params{};
        params.a = products.a;
        params.b = products.b;
        params.c = products.c;
        params.rows = products.m;
        params.columns = products.n;
        params.depth = products.k;
        params.pairs = products.batch;
        params.a_pair = products.a_stride;
        params.a_row = products.transposed_a ? 1 : products.a_pitch;
        params.a_column = products.transposed_a ? products.a_pitch : 1;
        params.b_pair = products.b_stride;
        params.b_row = products.transposed_b ? 1 : products.b_pitch;
        params.b_column = products.transposed_b ? products.b_pitch : 1;
        params.adds = products.adds;
        params.d_run_if = d_run_if;
        // Blocks of both dimensions are in x, since y is limited to 65,535.
        const int64_t blocks = ceil_div(products.m, device::TILE) * ceil_div(products.n, device::TILE);
        const dim3 grid(unsigned(blocks), 1, unsigned(products.batch));
        device::multiply_tiles<Kind><<<grid, device::THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void multiply_by_cublas(cublas::Products products, cudaStream_t stream) const {
        if (std::is_same<Kind, Float64>::value) {
            products.factor = products.total = cublas::FLOAT64;
            products.compute = cublas::IN_FLOAT64;
        } else if (std::is_same<Kind, Float16>::value) {
            products.factor = cublas::FLOAT16;
        } else if (product.precision == PK_PRECISION_TF32) {
            products.compute = cublas::IN_TF32;
        } else if (product.precision == PK_PRECISION_BF16) {
            products.compute = cublas::IN_BFLOAT16;
        }
        cublas::multiply(products, device, stream);
    }

    // Convert the factors to float64, and multiply these.
    void multiply_widened(cublas::Products products, int64_t of_a, int64_t of_b, cudaStream_t stream) const {
        auto *const wide = reinterpret_cast<double *>(scratch);
        device::widen<<<grid_for(of_a, device::THREADS), device::THREADS, 0, stream>>>(
            static_cast<const float *>(products.a), wide, of_a);
        PK_CUDA(cudaGetLastError());
        device::widen<<<grid_for(of_b, device::THREADS), device::THREADS, 0, stream>>>(
            static_cast<const float *>(products.b), wide + of_a, of_b);
        PK_CUDA(cudaGetLastError());
        products.a = wide;
        products.b = wide + of_a;
        products.factor = products.total = cublas::FLOAT64;
        products.compute = cublas::IN_FLOAT64;
        cublas::multiply(products, device, stream);
    }

    // 3xTF32, as in CUTLASS: each float32 is the sum of a large and a small TF32 number, and the product is
    // small * large + large * small + large * large. The omitted small * small is below float32's rounding
    // error. All three are added to the sums in float32, MIN_DEPTH products at a time.
    void multiply_split(cublas::Products products, int64_t of_a, int64_t of_b, cudaStream_t stream) const {
        auto *const large = static_cast<float *>(const_cast<void *>(products.a));
        auto *const small = reinterpret_cast<float *>(scratch);
        device::split_tf32_all<<<grid_for(of_a + of_b, device::THREADS), device::THREADS, 0, stream>>>(
            large, small, of_a + of_b, d_nonfinite);
        PK_CUDA(cudaGetLastError());
        products.compute = cublas::IN_TF32;
        const int64_t depth = products.k;
        for (int64_t start = 0; start < depth; start += GemmTiling::MIN_DEPTH) {
            const int64_t at_a = start * (product.transposed_a ? products.a_pitch : 1);
            const int64_t at_b = start * (product.transposed_b ? 1 : products.b_pitch);
            products.k = std::min(GemmTiling::MIN_DEPTH, depth - start);
            const float *const terms[3][2] = {{small, large}, {large, small}, {large, large}};
            for (const auto &term : terms) {
                products.a = term[0] + at_a;
                products.b = term[1] + of_a + at_b;
                cublas::multiply(products, device, stream);
                products.adds = true;
            }
        }
    }
};

}  // namespace pk::matmul
