// Device code that the generated source of fused kernels (jit_kernel.cpp) calls. Only NVRTC compiles this.
#pragma once

#include "fast_path.cuh"
#include "jit_params.h"
#include "value.cuh"

namespace pk::device {

// One value for each of the elements that a thread computes at once.
template <class T, int count>
struct Values {
    T of[count];
};

// The elements that a thread computes at once, and their coordinates, from the last dimension to the first,
// if a strided operand needs them.
template <int count_, int dims>
struct Elements {
    static constexpr int count = count_;
    const JitParams &params;
    const int64_t first;
    uint32_t coordinates[count][dims == 0 ? 1 : dims];

    __device__ Elements(const JitParams &params, int64_t first) : params(params), first(first) {
#pragma unroll
        for (int e = 0; e < count; ++e) {
            auto left = uint32_t(params.start + (*this)[e]);
#pragma unroll
            for (int d = 0; d + 1 < dims; ++d) {
                const FastDivisor size(params.coordinates, d);
                const uint32_t outer = size.divide(left);
                coordinates[e][d] = left - outer * size.size;
                left = outer;
            }
            if (dims != 0) coordinates[e][dims - 1] = left;
        }
    }
    __device__ int64_t operator[](int e) const { return first + e * int64_t(JitParams::THREADS); }

    // Return an element's byte offset from the operand's first element; `strides` is the strides' place in
    // the params.
    __device__ int64_t byte_offset(int e, int strides) const {
        int64_t bytes = 0;
#pragma unroll
        for (int d = 0; d < dims; ++d) bytes += coordinates[e][d] * params.coordinates[strides + d];
        return bytes;
    }
};

// Access patterns of operands: find() returns the address of an element. `index` is the operand's index in
// the params.

// Contiguous elements.
struct Dense {
    int index;
    template <class T, class E>
    __device__ T *find(const E &elements, int e) const {
        return reinterpret_cast<T *>(elements.params.operands[index]) + elements[e];
    }
};
// From the first element on, at an offset that follows from the coordinates.
struct Strided {
    int index, strides;
    template <class T, class E>
    __device__ T *find(const E &elements, int e) const {
        return reinterpret_cast<T *>(elements.params.operands[index] + elements.byte_offset(e, strides));
    }
};
// Distinct elements that repeat, found by a BroadcastOperand's table.
struct Broadcast {
    int index;  // of the table's address; the next one is the distinct elements' address
    template <class T, class E>
    __device__ T *find(const E &elements, int e) const {
        const auto *const table = reinterpret_cast<const int64_t *>(elements.params.operands[index]);
        return reinterpret_cast<T *>(elements.params.operands[index + 1]) +
               broadcast_index(table, elements.params.start + elements[e]);
    }
};
// One value, which is in the params themselves.
struct Constant {
    int index;
    template <class T, class E>
    __device__ T *find(const E &elements, int) const {
        return reinterpret_cast<T *>(&elements.params.operands[index]);
    }
};

template <int type, class Access, class E>
__device__ auto load(Access access, const E &elements) {
    using T = stored_type<type>;
    Values<decltype(widen(T())), E::count> values;
#pragma unroll
    for (int e = 0; e < E::count; ++e) values.of[e] = widen(*access.template find<const T>(elements, e));
    return values;
}

template <int type, class Access, class E, class T>
__device__ void store(Access access, const E &elements, const Values<T, E::count> &values) {
    using To = stored_type<type>;
#pragma unroll
    for (int e = 0; e < E::count; ++e) *access.template find<To>(elements, e) = narrow<To>(values.of[e]);
}

template <int to, class T, int count>
__device__ auto cast(const Values<T, count> &values, unsigned &exceptions) {
    Values<decltype(widen(stored_type<to>())), count> results;
#pragma unroll
    for (int e = 0; e < count; ++e) results.of[e] = cast_to<stored_type<to>>(values.of[e], exceptions);
    return results;
}

// The results of the slow path, and the exceptions raised.
template <class T, int count>
struct OpResult {
    Values<T, count> results;
    unsigned exceptions;
};

// The slow path, for threads that have an element out of the fast path's range. Not inlined, as it is rare.
template <class Op, int type, class T, int count>
__device__ __noinline__ OpResult<T, count> operate_slow(Values<T, count> a, Values<T, count> b) {
    using Fast = FastPath<Op, T>;
    OpResult<T, count> slow{};
#pragma unroll
    for (int e = 0; e < count; ++e) {
        const T x = a.of[e], y = b.of[e];
        if (Fast::range_key(x, y) < Fast::LIMIT) {
            slow.results.of[e] = wrap(type, Fast::apply(x, y));
        } else if (Fast::is_zero_case(x, y)) {
            slow.results.of[e] = Fast::zero_result(x, y);
        } else {
            slow.results.of[e] = applied<Op>(type, x, y, slow.exceptions);
        }
    }
    return slow;
}

// Apply an operation, on the fast path if all elements are in its range.
template <class Op, int type, class T, int count>
__device__ auto operate(const Values<T, count> &a, const Values<T, count> &b, unsigned &exceptions) {
    Values<decltype(applied<Op>(type, a.of[0], b.of[0], exceptions)), count> results;
    // A float16 result of the fast path may overflow when it is rounded, which is an exception.
    if constexpr (FastPath<Op, T>::exists && count != 1 && type != PK_FLOAT16) {
        uint32_t largest = 0;
#pragma unroll
        for (int e = 0; e < count; ++e) largest = max(largest, FastPath<Op, T>::range_key(a.of[e], b.of[e]));
        if (__builtin_expect(largest < FastPath<Op, T>::LIMIT, 1)) {
#pragma unroll
            for (int e = 0; e < count; ++e)
                results.of[e] = wrap(type, FastPath<Op, T>::apply(a.of[e], b.of[e]));
        } else {
            const OpResult<T, count> slow = operate_slow<Op, type>(a, b);
            results = slow.results;
            exceptions |= slow.exceptions;
        }
    } else {
#pragma unroll
        for (int e = 0; e < count; ++e) results.of[e] = applied<Op>(type, a.of[e], b.of[e], exceptions);
    }
    return results;
}

template <class Op, class T, int count>
__device__ auto choose(const Values<uint32_t, count> &conditions, const Values<T, count> &yes,
                       const Values<T, count> &no) {
    Values<T, count> results;
#pragma unroll
    for (int e = 0; e < count; ++e)
        results.of[e] = T(Op::apply(uint8_t(conditions.of[e]), yes.of[e], no.of[e]));
    return results;
}

// Run a fused kernel over all elements of the chunk: in a grid-stride loop, ELEMENTS_PER_THREAD at once, or
// one element a thread if the grid has a thread for each.
template <class FusedKernel>
__device__ void grid_stride_loop(const JitParams &params) {
    unsigned exceptions[FusedKernel::INSTRUCTIONS] = {};
    constexpr int64_t TILE = JitParams::THREADS * FusedKernel::ELEMENTS_PER_THREAD;
    if (params.count <= int64_t(gridDim.x) * JitParams::THREADS) {  // a short pass: one element a thread
        const int64_t element = int64_t(blockIdx.x) * JitParams::THREADS + threadIdx.x;
        if (element < params.count)
            FusedKernel::run(Elements<1, FusedKernel::DIMS>(params, element), exceptions);
    } else {
        for (int64_t tile = blockIdx.x * TILE; tile < params.count; tile += gridDim.x * TILE) {
            const int64_t first = tile + threadIdx.x;
            if (tile + TILE <= params.count) {
                FusedKernel::run(Elements<FusedKernel::ELEMENTS_PER_THREAD, FusedKernel::DIMS>(params, first),
                                 exceptions);
            } else {
#pragma unroll 1
                for (int64_t element = first; element < params.count; element += JitParams::THREADS)
                    FusedKernel::run(Elements<1, FusedKernel::DIMS>(params, element), exceptions);
            }
        }
    }
    // In kernels that report no exceptions the compiler removes the code that finds them.
    if constexpr (FusedKernel::REPORTS_EXCEPTIONS) {
#pragma unroll
        for (int i = 0; i < FusedKernel::INSTRUCTIONS; ++i) {
            if (exceptions[i] != 0 &&
                (static_cast<volatile unsigned *>(params.status)[i] & exceptions[i]) != exceptions[i])
                atomicOr(params.status + i, exceptions[i]);
        }
    }
}

}  // namespace pk::device
