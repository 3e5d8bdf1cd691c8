// Chooses and launches the kernel that computes the partials of a reduction.
#pragma once

#include <cstdlib>

#include "block_partials_vectorized.cuh"

namespace pk::reduction {

// Return true if rows are nearer to each other in memory than columns, or slabs of few columns.
inline bool are_rows_adjacent(const ReduceParams &params) {
    const StridedValues &values = params.values;
    const bool has_few = params.slabs.inner < device::COLUMNS;
    if (values.are_contiguous) return has_few;
    return std::abs(values.row_stride) <= std::abs(has_few ? values.slab_stride : values.column_stride);
}

// Launch the kernel for any layout. Return 1: each block has its partial.
template <class Kind>
int64_t launch_strided(const ReduceParams &params, cudaStream_t stream) {
    const int64_t columns = params.units * params.slabs.slabs_per_unit() * params.slabs.inner;
    const unsigned blocks = grid_for(columns, device::COLUMNS);
    device::reduce<Kind><<<blocks, device::THREADS, 0, stream>>>(params, are_rows_adjacent(params));
    PK_CUDA(cudaGetLastError());
    return 1;
}

template <class Op, bool has_others = false>
int64_t launch_op(const ReduceParams &params, cudaStream_t stream) {
    if constexpr (!has_others) {
        if (const int64_t combined = launch_dense<Op>(params, stream)) return combined;
    }
    return launch_strided<device::LaneAccumulator<Op, has_others>>(params, stream);
}

template <class T>
int64_t launch_min_max(int kind, const ReduceParams &params, cudaStream_t stream) {
    switch (kind) {
        case PK_REDUCE_MIN: return launch_op<MinOrMax<false, T>>(params, stream);
        case PK_REDUCE_MAX: return launch_op<MinOrMax<true, T>>(params, stream);
        case PK_REDUCE_ARGMIN: return launch_strided<device::ArgReduction<false, T>>(params, stream);
        case PK_REDUCE_ARGMAX: return launch_strided<device::ArgReduction<true, T>>(params, stream);
        default: return launch_op<MinAndMax<T>>(params, stream);
    }
}

// Launch the kernel of a reduction. Return how many blocks of a slab share a partial, which is that of the
// first.
inline int64_t launch_reduction(const Reduction &reduction, const ReduceParams &params, cudaStream_t stream) {
    const bool is_float = is_float_type(params.type), compensated = params.type == PK_FLOAT64,
               masked = reduction.masked;
    switch (reduction.spec.kind) {
        case PK_REDUCE_SUM:
            if (!is_float) return launch_op<SumInteger>(params, stream);
            if (masked)
                return compensated ? launch_op<Sum<true, true>, true>(params, stream)
                                   : launch_op<Sum<false, true>, true>(params, stream);
            return compensated ? launch_op<Sum<true, false>>(params, stream)
                               : launch_op<Sum<false, false>>(params, stream);
        case PK_REDUCE_PROD:
            return is_float ? launch_op<Product>(params, stream) : launch_op<ProductInteger>(params, stream);
        case PK_REDUCE_DOT:
            if (!is_float) return launch_op<DotInteger, true>(params, stream);
            return compensated ? launch_op<Dot<true>, true>(params, stream)
                               : launch_op<Dot<false>, true>(params, stream);
        case PK_REDUCE_SUM_SQUARED_DEVIATIONS:
            if (masked) return launch_op<Moments<true, true>, true>(params, stream);
            return compensated ? launch_op<Moments<true, false>>(params, stream)
                               : launch_op<Moments<false, false>>(params, stream);
        default: break;
    }
    if (is_float) return launch_min_max<double>(reduction.spec.kind, params, stream);
    if (params.type >= PK_INT8 && params.type <= PK_INT64)
        return launch_min_max<int64_t>(reduction.spec.kind, params, stream);
    return launch_min_max<uint64_t>(reduction.spec.kind, params, stream);
}

}  // namespace pk::reduction
