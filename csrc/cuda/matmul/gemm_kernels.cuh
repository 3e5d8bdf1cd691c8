// Kernels around products of matrices: a tiled one for any type and shape, and what prepares cuBLAS's.
#pragma once

#include "common/matmul.h"

namespace pk::matmul::device {

constexpr int TILE = 64, DEPTH = 16, SIDE = 16, EACH = TILE / SIDE, THREADS = SIDE * SIDE;

// Element (i, d) of a matrix of a is at a + pair * a_pair + i * a_row + d * a_column, and so on.
struct GemmParams {
    const void *a, *b;
    void *c;
    int64_t rows, columns, depth, pairs;
    int64_t a_pair, a_row, a_column, b_pair, b_row, b_column;
    bool adds;                 // to what is in c
    const unsigned *d_run_if;  // as should_run() takes it
};

// Whether a kernel is to work that was queued before anybody knew: if nothing tells, or that is set.
__device__ inline bool should_run(const unsigned *d_run_if) { return d_run_if == nullptr || *d_run_if != 0; }

// Each sum is of one product after the other, which the CPU's loops do alike.
template <class Kind>
__device__ typename Kind::Total add(typename Kind::Total sum, typename Kind::Total a,
                                    typename Kind::Total b) {
    if constexpr (is_float_kind<Kind>)
        return pk::fma(a, b, sum);
    else
        return Kind::add(sum, a, b);
}

// A block of threads makes a tile of the result; a thread 4 x 4 of its elements, SIDE apart.
template <class Kind>
__global__ void multiply_tiles(GemmParams params) {
    if (!should_run(params.d_run_if)) return;
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;
    __shared__ Total a_tile[DEPTH][TILE + 1], b_tile[DEPTH][TILE + 1];
    const int64_t top = int64_t(blockIdx.y) * TILE, left = int64_t(blockIdx.x) * TILE;
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
            // Neighbours read what lies side by side.
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

// The nearest number that TF32 has; the one below where that is infinite.
PK_HD float round_to_tf32(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    const uint32_t nearest = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
    const bool overflows = (nearest & 0x7f800000u) == 0x7f800000u;
    return bit_cast<float>(overflows ? bits & ~0x1fffu : nearest);
}

// Replaces values by what TF32 has of them, and gives the rest, in TF32, too; notes any infinity or NaN.
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
    unsigned mine = 0;
    if (i < count) split_tf32(values[i], rests[i], mine);
    if (mine != 0) atomicOr(nonfinite, mine);
}

// Copies rows of `columns` elements that are `pitch` apart to where they lie side by side.
template <class Element>
__global__ void gather(const Element *from, int64_t pitch, Element *to, int64_t columns, int64_t count,
                       const unsigned *d_run_if) {
    if (!should_run(d_run_if)) return;
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i / columns * pitch + i % columns];
}

// Stores sums, row by row side by side, as results whose rows are `pitch` apart.
template <class Kind>
__global__ void store(const typename Kind::Total *totals, typename Kind::Element *to, int64_t pitch,
                      int64_t columns, int64_t count, const unsigned *d_run_if) {
    if (!should_run(d_run_if)) return;
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i / columns * pitch + i % columns] = Kind::store(totals[i]);
}

static __global__ void widen(const float *from, double *to, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i] = double(from[i]);
}

// Notes what is infinite or NaN once it is stored.
template <class Kind>
__global__ void flag_exceptions(const typename Kind::Total *totals, int64_t count, unsigned *met) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    unsigned mine = 0;
    if (i < count) mine = unsigned(fp_exceptions_of(Kind::load(Kind::store(totals[i]))));
    if (mine != 0) atomicOr(met, mine);
}

}  // namespace pk::matmul::device
