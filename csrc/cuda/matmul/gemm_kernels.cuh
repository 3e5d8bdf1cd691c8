// GEMM kernels: a tiled GEMM for any type and shape, and kernels that prepare cuBLAS's operands.
#pragma once

#include "common/matmul.h"

namespace pk::matmul::device {

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, EACH = TILE / SIDE, THREADS = SIDE * SIDE;

// Parameters of the tiled GEMM. Element (i, d) of matrix `pair` of a is at a + pair * a_pair + i * a_row +
// d * a_column; those of b likewise.
struct GemmParams {
    const void *a, *b;
    void *c;
    int64_t rows, columns, depth, pairs;
    int64_t a_pair, a_row, a_column, b_pair, b_row, b_column;
    bool adds;                 // c += a @ b instead of c = a @ b
    const unsigned *d_run_if;  // see should_run()
};

// Device-side predicate: returns true if there is none, or if an earlier kernel has set it. It lets work be
// enqueued that turns out to be needed only on the device.
__device__ inline bool should_run(const unsigned *d_run_if) { return d_run_if == nullptr || *d_run_if != 0; }

// Add a product to a sum. Sums are over one product after the other, as in the CPU's loops.
template <class Kind>
__device__ typename Kind::Total add(typename Kind::Total sum, typename Kind::Total a,
                                    typename Kind::Total b) {
    if constexpr (is_float_kind<Kind>)
        return pk::fma(a, b, sum);
    else
        return Kind::add(sum, a, b);
}

// Tiled GEMM: a thread block computes a TILE x TILE tile of c from slices of a and b in shared memory; each
// thread has 4 x 4 of its elements in registers, SIDE apart.
template <class Kind>
__global__ void multiply_tiles(GemmParams params) {
    if (!should_run(params.d_run_if)) return;
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;
    __shared__ Total a_tile[DEPTH][TILE + 1], b_tile[DEPTH][TILE + 1];
    const int64_t tiles_across = ceil_div(params.columns, TILE);
    const int64_t top = int64_t(blockIdx.x) / tiles_across * TILE;
    const int64_t left = int64_t(blockIdx.x) % tiles_across * TILE;
    const int64_t pair = blockIdx.z;
    const Element *const a = static_cast<const Element *>(params.a) + pair * params.a_pair;
    const Element *const b = static_cast<const Element *>(params.b) + pair * params.b_pair;
    Total *const c = static_cast<Total *>(params.c) + pair * params.rows * params.columns;
    const int x = int(threadIdx.x) % SIDE, y = int(threadIdx.x) / SIDE;

    Total sums[EACH][EACH];
    for (int i = 0; i < EACH; ++i) {
        for (int j = 0; j < EACH; ++j) {
            const int64_t row = top + y + i * SIDE, column = left + x + j * SIDE;
            const bool inside = row < params.rows && column < params.columns;
            sums[i][j] = params.adds && inside ? c[row * params.columns + column] : Total(0);
        }
    }
    for (int64_t start = 0; start < params.depth; start += DEPTH) {
        for (int n = int(threadIdx.x); n < TILE * DEPTH; n += THREADS) {
            // Adjacent threads read adjacent elements, so that loads are coalesced.
            const int a_d = params.a_column == 1 ? n % DEPTH : n / TILE;
            const int a_i = params.a_column == 1 ? n / DEPTH : n % TILE;
            const int64_t row = top + a_i, of_a = start + a_d;
            const bool in_a = row < params.rows && of_a < params.depth;
            a_tile[a_d][a_i] = in_a ? Kind::load(a[row * params.a_row + of_a * params.a_column]) : Total(0);
            const int b_d = params.b_column == 1 ? n / TILE : n % DEPTH;
            const int b_j = params.b_column == 1 ? n % TILE : n / DEPTH;
            const int64_t column = left + b_j, of_b = start + b_d;
            const bool in_b = column < params.columns && of_b < params.depth;
            b_tile[b_d][b_j] =
                in_b ? Kind::load(b[of_b * params.b_row + column * params.b_column]) : Total(0);
        }
        __syncthreads();
        const int depth = int(params.depth - start < DEPTH ? params.depth - start : DEPTH);
        for (int d = 0; d < depth; ++d) {
            Total from_a[EACH], from_b[EACH];
            for (int i = 0; i < EACH; ++i) from_a[i] = a_tile[d][y + i * SIDE];
            for (int j = 0; j < EACH; ++j) from_b[j] = b_tile[d][x + j * SIDE];
            for (int i = 0; i < EACH; ++i) {
                for (int j = 0; j < EACH; ++j) sums[i][j] = add<Kind>(sums[i][j], from_a[i], from_b[j]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i) {
        for (int j = 0; j < EACH; ++j) {
            const int64_t row = top + y + i * SIDE, column = left + x + j * SIDE;
            if (row < params.rows && column < params.columns) c[row * params.columns + column] = sums[i][j];
        }
    }
}

// Round to the nearest TF32 number; toward zero if that would overflow.
PK_HD float round_to_tf32(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    const uint32_t nearest = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
    const bool overflows = (nearest & 0x7f800000u) == 0x7f800000u;
    return bit_cast<float>(overflows ? bits & ~0x1fffu : nearest);
}

// Split a float32 into a large and a small TF32 number, `value` and `rest`; set `nonfinite` for infinity or
// NaN.
PK_HD void split_tf32(float &value, float &rest, unsigned &nonfinite) {
    const float x = value;
    if (fp_exceptions_of(x) != 0) {
        nonfinite = 1;
        return;
    }
    value = round_to_tf32(x);
    rest = round_to_tf32(x - value);
}
static __global__ void split_tf32_all(float *values, float *rests, int64_t count, unsigned *nonfinite) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned flag = 0;
    if (i < count) split_tf32(values[i], rests[i], flag);
    if (flag != 0) atomicOr(nonfinite, flag);
}

// Copy rows of `columns` elements with stride `pitch` to a dense matrix.
template <class Element>
__global__ void gather(const Element *from, int64_t pitch, Element *to, int64_t columns, int64_t count,
                       const unsigned *d_run_if) {
    if (!should_run(d_run_if)) return;
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i / columns * pitch + i % columns];
}

// Convert a dense matrix of sums to results whose rows have stride `pitch`.
template <class Kind>
__global__ void store(const typename Kind::Total *totals, typename Kind::Element *to, int64_t pitch,
                      int64_t columns, int64_t count, const unsigned *d_run_if) {
    if (!should_run(d_run_if)) return;
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i / columns * pitch + i % columns] = Kind::store(totals[i]);
}

// Convert float32 to float64.
static __global__ void widen(const float *from, double *to, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i] = double(from[i]);
}

// Collect the FP exception flags of the results, converted as they will be stored: infinite or NaN.
template <class Kind>
__global__ void flag_exceptions(const typename Kind::Total *totals, int64_t count, unsigned *flags) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned raised = 0;
    if (i < count) raised = unsigned(fp_exceptions_of(Kind::load(Kind::store(totals[i]))));
    if (raised != 0) atomicOr(flags, raised);
}

}  // namespace pk::matmul::device
