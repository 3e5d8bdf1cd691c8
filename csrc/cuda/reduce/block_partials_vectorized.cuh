// The reduction kernel for contiguous rows: a thread accumulates several lanes of a block, and loads 16 bytes
// of them at once.
#pragma once

#include "block_partials.cuh"

namespace pk::reduction {

namespace device {

constexpr int DENSE_THREADS = 128, DENSE_LOADS_IN_FLIGHT = 8;

// A 16-byte load.
template <class T>
struct alignas(16) VectorLoad {
    static constexpr int COUNT = 16 / sizeof(T);
    T values[COUNT];
};

// Convert a finite float to double by integer operations and a multiplication: a multiprocessor has only four
// conversions a cycle. The float's bits, shifted to a double's fields, are the double divided by 2^896; this
// holds for subnormal floats, too.
__device__ inline double widen_finite(float value) {
    const unsigned bits = __float_as_uint(value);
    return __hiloint2double((int(bits) >> 3) & int(0x8fffffffu), int(bits << 29)) * 0x1p896;
}

// Combine the lanes of neighbouring threads in halves, as reduce() does, and then a thread's own.
template <class Op, int COUNT>
__device__ void combine_lanes(typename Op::Word (&lanes)[COUNT][Op::WORDS], int part) {
    using Word = typename Op::Word;
    constexpr int GROUP = LANES / COUNT;
#pragma unroll
    for (int distance = GROUP / 2; distance != 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            Word other[Op::WORDS];
            for (int w = 0; w < Op::WORDS; ++w) other[w] = shuffled_down(lanes[i][w], distance, GROUP);
            if (part < distance) Op::join(lanes[i], other);
        }
    }
#pragma unroll
    for (int half = COUNT / 2; half != 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) Op::join(lanes[i], lanes[i + half]);
    }
}

// Reduces contiguous rows. With `combines`, which takes a single slab, a block of threads also combines the
// partials of its blocks, in pairs of neighbours, into the partial of the first. Four blocks of threads a
// multiprocessor leave enough registers to keep several loads in flight. (Measured on an H200: two blocks of
// twice as many threads take 6 % longer.)
template <class Op, class T>
__global__ void __launch_bounds__(DENSE_THREADS, 4)
    reduce_dense(const __grid_constant__ ReduceParams params, bool combines) {
    using Word = typename Op::Word;
    constexpr int COUNT = VectorLoad<T>::COUNT, GROUP = LANES / COUNT, BLOCKS = DENSE_THREADS / GROUP;
    __shared__ Word combined[BLOCKS][Op::PARTIAL];
    const int part = int(threadIdx.x) % GROUP, block = int(threadIdx.x) / GROUP;
    const Column column(params, int64_t(blockIdx.x) * BLOCKS + block);
    const T *const values =
        reinterpret_cast<const T *>(params.values.data) + column.offset(params, params.values);
    const int rows = int(column.rows);
    auto word = [](T value) {
        if constexpr (std::is_signed<T>::value && !std::is_floating_point<T>::value) {
            return Word(int64_t(value));
        } else {
            return Word(value);
        }
    };

    Word lanes[COUNT][Op::WORDS], pivot = Word();
    for (int i = 0; i < COUNT; ++i) Op::start(lanes[i]);
    if (Op::has_pivot && rows > 0) pivot = word(values[0]);
    int row = part * COUNT;
    auto accumulate = [&](auto at_once) {
        constexpr int READS = decltype(at_once)::value;
        for (; row + (READS - 1) * LANES + COUNT <= rows; row += READS * LANES) {
            VectorLoad<T> read[READS];
#pragma unroll
            for (int k = 0; k < READS; ++k)
                read[k] = *reinterpret_cast<const VectorLoad<T> *>(values + row + k * LANES);
            auto add_all = [&](auto as_word) {
#pragma unroll
                for (int k = 0; k < READS; ++k) {
#pragma unroll
                    for (int i = 0; i < COUNT; ++i)
                        Op::add(lanes[i], as_word(read[k].values[i]), Word(1), pivot);
                }
            };
            if constexpr (READS > 1 && std::is_same<T, float>::value && std::is_same<Word, double>::value) {
                float probe = 0;  // becomes NaN if a value is not finite
#pragma unroll
                for (int k = 0; k < READS; ++k) {
#pragma unroll
                    for (int i = 0; i < COUNT; ++i) probe = __fmaf_rn(read[k].values[i], 0.0f, probe);
                }
                if (probe == 0) {
                    add_all(widen_finite);
                    continue;
                }
            }
            add_all(word);
        }
    };
    accumulate(std::integral_constant<int, DENSE_LOADS_IN_FLIGHT>());
    accumulate(std::integral_constant<int, 1>());
    for (; row < rows; row += LANES) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (row + i < rows) Op::add(lanes[i], word(values[row + i]), Word(1), pivot);
    }
    combine_lanes<Op>(lanes, part);

    Word *const partials = reinterpret_cast<Word *>(params.partials);
    if (!combines) {
        if (part == 0 && rows > 0) Op::close(lanes[0], pivot, partials + column.partial * Op::PARTIAL);
        return;
    }
    const int64_t first = int64_t(blockIdx.x) * BLOCKS, left = params.units - first;
    if (part == 0 && rows > 0) Op::close(lanes[0], pivot, combined[block]);
    for (int step = 1; step < BLOCKS; step *= 2) {
        __syncthreads();
        const int to = 2 * step * int(threadIdx.x);
        if (to + step < BLOCKS && to + step < left) Op::merge(combined[to], combined[to + step]);
    }
    if (threadIdx.x == 0)
        for (int i = 0; i < Op::PARTIAL; ++i) partials[first * Op::PARTIAL + i] = combined[0][i];
}

}  // namespace device

// Return true if the rows are contiguous, and long and aligned enough for vector loads.
template <class T>
bool is_dense(const ReduceParams &params) {
    constexpr int COUNT = device::VectorLoad<T>::COUNT;
    const Slabs &slabs = params.slabs;
    return params.values.are_contiguous && slabs.inner == 1 && slabs.length >= 4 * LANES &&
           (slabs.count == 1 || slabs.length % COUNT == 0) &&
           reinterpret_cast<uintptr_t>(params.values.data) % sizeof(device::VectorLoad<T>) == 0;
}

// Launch reduce_dense(). Return how many blocks share a partial, or 0 if the values are not dense.
template <class Op, class T>
int64_t launch_dense(const ReduceParams &params, cudaStream_t stream) {
    if (!is_dense<T>(params)) return 0;
    constexpr int BLOCKS = device::DENSE_THREADS * device::VectorLoad<T>::COUNT / LANES;
    const int64_t columns = params.units * params.slabs.slabs_per_unit();
    const bool combines = params.combines_blocks && params.slabs.count == 1 && params.slabs.blocks() > 1;
    const unsigned blocks = grid_for(columns, BLOCKS);
    device::reduce_dense<Op, T><<<blocks, device::DENSE_THREADS, 0, stream>>>(params, combines);
    PK_CUDA(cudaGetLastError());
    return combines ? BLOCKS : 1;
}

// Launch it for the dtypes of an operation that are worth a kernel of their own.
template <class Op>
int64_t launch_dense(const ReduceParams &params, cudaStream_t stream) {
    using Word = typename Op::Word;
    if constexpr (std::is_same<Word, double>::value) {
        if (params.type == PK_FLOAT32) return launch_dense<Op, float>(params, stream);
        if (params.type == PK_FLOAT64) return launch_dense<Op, double>(params, stream);
    } else {
        if (params.type == PK_INT32) return launch_dense<Op, int32_t>(params, stream);
        if (params.type == PK_INT64) return launch_dense<Op, int64_t>(params, stream);
    }
    return 0;
}

}  // namespace pk::reduction
