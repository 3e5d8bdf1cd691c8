// Which kernel makes the partials of a reduction.
#pragma once

#include "block_partials_vectorized.cuh"

namespace pk::reduction {

template <class Kind>
int64_t launch_kind(const Given &given, cudaStream_t queue) {
    const int64_t columns = given.units * given.slabs.slabs_a_unit() * given.slabs.inner;
    const auto blocks = unsigned((columns + device::COLUMNS - 1) / device::COLUMNS);
    const bool lanes_first = given.slabs.inner < device::COLUMNS;
    device::reduce<Kind><<<blocks, device::THREADS, 0, queue>>>(given, lanes_first);
    PK_CUDA(cudaGetLastError());
    return 1;
}

template <class Op, bool has_others = false>
int64_t launch_op(const Given &given, cudaStream_t queue) {
    if constexpr (!has_others) {
        if (const int64_t joined = launch_dense<Op>(given, queue)) return joined;
    }
    return launch_kind<device::Gathering<Op, has_others>>(given, queue);
}

template <class T>
int64_t launch_compared(int kind, const Given &given, cudaStream_t queue) {
    switch (kind) {
        case PK_LEAST: return launch_op<Extreme<false, T>>(given, queue);
        case PK_LARGEST: return launch_op<Extreme<true, T>>(given, queue);
        case PK_WHERE_LEAST: return launch_kind<device::Placing<false, T>>(given, queue);
        case PK_WHERE_LARGEST: return launch_kind<device::Placing<true, T>>(given, queue);
        default: return launch_op<Extremes<T>>(given, queue);
    }
}

// Returns how many of a slab's blocks have become one partial, that of the first of them.
inline int64_t launch_reduction(const Reduction &asked, const Given &given, cudaStream_t queue) {
    const bool is_float = is_float_type(given.type), exact = given.type == PK_FLOAT64, masked = asked.masked;
    switch (asked.asked.kind) {
        case PK_SUM:
            if (!is_float) return launch_op<SumInteger>(given, queue);
            if (masked)
                return exact ? launch_op<Sum<true, true>, true>(given, queue)
                             : launch_op<Sum<false, true>, true>(given, queue);
            return exact ? launch_op<Sum<true, false>>(given, queue)
                         : launch_op<Sum<false, false>>(given, queue);
        case PK_PRODUCT:
            return is_float ? launch_op<Product>(given, queue) : launch_op<ProductInteger>(given, queue);
        case PK_DOT:
            if (!is_float) return launch_op<DotInteger, true>(given, queue);
            return exact ? launch_op<Dot<true>, true>(given, queue)
                         : launch_op<Dot<false>, true>(given, queue);
        case PK_SQUARES:
            if (masked) return launch_op<Moments<true, true>, true>(given, queue);
            return exact ? launch_op<Moments<true, false>>(given, queue)
                         : launch_op<Moments<false, false>>(given, queue);
        default: break;
    }
    if (is_float) return launch_compared<double>(asked.asked.kind, given, queue);
    if (given.type >= PK_INT8 && given.type <= PK_INT64)
        return launch_compared<int64_t>(asked.asked.kind, given, queue);
    return launch_compared<uint64_t>(asked.asked.kind, given, queue);
}

}  // namespace pk::reduction
