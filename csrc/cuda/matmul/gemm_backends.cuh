// How the products of a panel are computed on a device: by cuBLAS, or by the kernel.
#pragma once

#include "cublas.h"
#include "cuda/runtime/cuda.h"
#include "gemm_kernels.cuh"
#include "gemm_tiling.h"

namespace pk::matmul {

// float32 in float64.
struct Exact : Plain<float, double> {};

enum class Way { kernel, cublas, split, exact_kernel, exact_cublas };

inline unsigned blocks_for(int64_t count) {
    return unsigned((count + device::THREADS - 1) / device::THREADS);
}

template <class Kind>
struct PanelProduct {
    using Element = typename Kind::Element;

    const Product &given;
    Way way;
    int device;
    char *scratch;           // room beside the factors
    unsigned *seen;          // set where a factor that was to be split is infinite or NaN
    const unsigned *wanted;  // of the kernel

    // Adds the products of a panel, whose factors are at `a` and `b`, to the sums at `c`. To be split, they
    // lie side by side.
    void queue_on(cudaStream_t queue, const Part &part, const Panel &panel, char *a, char *b, char *c) const {
        const int64_t of_a = part.pairs * part.rows * panel.depth;
        const int64_t of_b = part.pairs * panel.depth * part.columns;
        cublas::Products products{part.rows,
                                  part.columns,
                                  panel.depth,
                                  part.pairs,
                                  a,
                                  b,
                                  c,
                                  given.transposed_a ? part.rows : panel.depth,
                                  given.transposed_b ? panel.depth : part.columns,
                                  part.columns,
                                  part.rows * panel.depth,
                                  panel.depth * part.columns,
                                  part.rows * part.columns,
                                  given.transposed_a,
                                  given.transposed_b,
                                  cublas::FLOAT32,
                                  cublas::FLOAT32,
                                  cublas::IN_FLOAT32,
                                  panel.start != 0};
        switch (way) {
            case Way::cublas: return multiply_by_cublas(products, queue);
            case Way::exact_cublas: return multiply_widened(products, of_a, of_b, queue);
            case Way::split: return multiply_split(products, of_a, of_b, queue);
            default: break;
        }
        const device::Given tiles{a,
                                  b,
                                  c,
                                  part.rows,
                                  part.columns,
                                  panel.depth,
                                  part.pairs,
                                  products.a_stride,
                                  given.transposed_a ? 1 : panel.depth,
                                  given.transposed_a ? part.rows : 1,
                                  products.b_stride,
                                  given.transposed_b ? 1 : part.columns,
                                  given.transposed_b ? panel.depth : 1,
                                  products.adds,
                                  wanted};
        const dim3 blocks(unsigned((part.columns + device::TILE - 1) / device::TILE),
                          unsigned((part.rows + device::TILE - 1) / device::TILE), unsigned(part.pairs));
        device::multiply_tiles<Kind><<<blocks, device::THREADS, 0, queue>>>(tiles);
        PK_CUDA(cudaGetLastError());
    }

   private:
    void multiply_by_cublas(cublas::Products products, cudaStream_t queue) const {
        if (std::is_same<Kind, Float64>::value) {
            products.factor = products.total = cublas::FLOAT64;
            products.compute = cublas::IN_FLOAT64;
        } else if (std::is_same<Kind, Float16>::value) {
            products.factor = cublas::FLOAT16;
        } else if (given.precision == PK_TF32) {
            products.compute = cublas::IN_TF32;
        } else if (given.precision == PK_BF16) {
            products.compute = cublas::IN_BFLOAT16;
        }
        cublas::multiply(products, device, queue);
    }

    void multiply_widened(cublas::Products products, int64_t of_a, int64_t of_b, cudaStream_t queue) const {
        auto *const wide = reinterpret_cast<double *>(scratch);
        device::widen<<<blocks_for(of_a), device::THREADS, 0, queue>>>(static_cast<const float *>(products.a),
                                                                       wide, of_a);
        PK_CUDA(cudaGetLastError());
        device::widen<<<blocks_for(of_b), device::THREADS, 0, queue>>>(static_cast<const float *>(products.b),
                                                                       wide + of_a, of_b);
        PK_CUDA(cudaGetLastError());
        products.a = wide;
        products.b = wide + of_a;
        products.factor = products.total = cublas::FLOAT64;
        products.compute = cublas::IN_FLOAT64;
        cublas::multiply(products, device, queue);
    }

    // The two small terms, then the large one, added up in float32 each LEAST_DEPTH products; what is left
    // out is smaller than float32's own error.
    void multiply_split(cublas::Products products, int64_t of_a, int64_t of_b, cudaStream_t queue) const {
        auto *const large = static_cast<float *>(const_cast<void *>(products.a));
        auto *const small = reinterpret_cast<float *>(scratch);
        device::split<<<blocks_for(of_a + of_b), device::THREADS, 0, queue>>>(large, small, of_a + of_b,
                                                                              seen);
        PK_CUDA(cudaGetLastError());
        products.compute = cublas::IN_TF32;
        const int64_t depth = products.k;
        for (int64_t start = 0; start < depth; start += Cut::LEAST_DEPTH) {
            const int64_t at_a = start * (given.transposed_a ? products.a_pitch : 1);
            const int64_t at_b = start * (given.transposed_b ? 1 : products.b_pitch);
            products.k = std::min(Cut::LEAST_DEPTH, depth - start);
            const float *const terms[3][2] = {{small, large}, {large, small}, {large, large}};
            for (const auto &term : terms) {
                products.a = term[0] + at_a;
                products.b = term[1] + of_a + at_b;
                cublas::multiply(products, device, queue);
                products.adds = true;
            }
        }
    }
};

}  // namespace pk::matmul
