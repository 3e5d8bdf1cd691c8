// The partials of rows that lie side by side in the device's memory: a thread has several lanes of a block,
// and reads 16 bytes of them at once.
#pragma once

#include "block_partials.cuh"

namespace pk::reduction {

namespace device {

constexpr int DENSE_THREADS = 128, DENSE_LOADS_IN_FLIGHT = 8;

template <class T>
struct alignas(16) VectorLoad {
    static constexpr int COUNT = 16 / sizeof(T);
    T values[COUNT];
};

// What a conversion gives, of which a processor has four a cycle; for finite floats. Their bits as those of a
// float64 are the number divided by a power of two, subnormal ones, too.
__device__ inline double widen_finite(float value) {
    const unsigned bits = __float_as_uint(value);
    return __hiloint2double((int(bits) >> 3) & int(0x8fffffffu), int(bits << 29)) * 0x1p896;
}

// Joins the lanes of neighbouring threads in halves, as reduce() does, and then a thread's own.
template <class Op, int COUNT>
__device__ void combine_lanes(typename Op::Word (&lanes)[COUNT][Op::WORDS], int part) {
    using Word = typename Op::Word;
    constexpr int GROUP = LANES / COUNT;
#pragma unroll
    for (int apart = GROUP / 2; apart != 0; apart /= 2) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            Word other[Op::WORDS];
            for (int w = 0; w < Op::WORDS; ++w) other[w] = shuffled_down(lanes[i][w], apart, GROUP);
            if (part < apart) Op::join(lanes[i], other);
        }
    }
#pragma unroll
    for (int half = COUNT / 2; half != 0; half /= 2) {
#pragma unroll
        for (int i = 0; i < half; ++i) Op::join(lanes[i], lanes[i + half]);
    }
}

// Where blocks are to be joined, those of a block of threads are, in pairs of neighbours: of a slab that is
// alone. Its first partial is theirs then.
// Four on a processor leave registers enough for reads that are under way together: else they come one by
// one. (Measured on an H200, two of twice as many threads take 6 % longer.)
template <class Op, class T>
__global__ void __launch_bounds__(DENSE_THREADS, 4)
    reduce_dense(const __grid_constant__ ReduceParams params, bool joins) {
    using Word = typename Op::Word;
    constexpr int COUNT = VectorLoad<T>::COUNT, GROUP = LANES / COUNT, BLOCKS = DENSE_THREADS / GROUP;
    __shared__ Word joined[BLOCKS][Op::PARTIAL];
    const int part = int(threadIdx.x) % GROUP, place = int(threadIdx.x) / GROUP;
    const Column column(params, int64_t(blockIdx.x) * BLOCKS + place);
    const T *const values = reinterpret_cast<const T *>(params.values) + column.at;
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
    auto take = [&](auto at_once) {
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
                float nothing = 0;  // NaN where a value is not finite
#pragma unroll
                for (int k = 0; k < READS; ++k) {
#pragma unroll
                    for (int i = 0; i < COUNT; ++i) nothing = __fmaf_rn(read[k].values[i], 0.0f, nothing);
                }
                if (nothing == 0) {
                    add_all(widen_finite);
                    continue;
                }
            }
            add_all(word);
        }
    };
    take(std::integral_constant<int, DENSE_LOADS_IN_FLIGHT>());
    take(std::integral_constant<int, 1>());
    for (; row < rows; row += LANES) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (row + i < rows) Op::add(lanes[i], word(values[row + i]), Word(1), pivot);
    }
    combine_lanes<Op>(lanes, part);

    Word *const partials = reinterpret_cast<Word *>(params.partials);
    if (!joins) {
        if (part == 0 && rows > 0) Op::close(lanes[0], pivot, partials + column.partial * Op::PARTIAL);
        return;
    }
    const int64_t first = int64_t(blockIdx.x) * BLOCKS, left = params.units - first;
    if (part == 0 && rows > 0) Op::close(lanes[0], pivot, joined[place]);
    for (int step = 1; step < BLOCKS; step *= 2) {
        __syncthreads();
        const int to = 2 * step * int(threadIdx.x);
        if (to + step < BLOCKS && to + step < left) Op::merge(joined[to], joined[to + step]);
    }
    if (threadIdx.x == 0)
        for (int i = 0; i < Op::PARTIAL; ++i) partials[first * Op::PARTIAL + i] = joined[0][i];
}

}  // namespace device

// Whether threads find what they read at once at addresses that are multiples of that.
template <class T>
bool is_dense(const ReduceParams &params) {
    constexpr int COUNT = device::VectorLoad<T>::COUNT;
    const Slabs &slabs = params.slabs;
    return slabs.inner == 1 && slabs.length >= 4 * LANES && (slabs.count == 1 || slabs.length % COUNT == 0) &&
           reinterpret_cast<uintptr_t>(params.values) % sizeof(device::VectorLoad<T>) == 0;
}

// Returns how many blocks have become one partial, or 0 if the values are not dense.
template <class Op, class T>
int64_t launch_dense(const ReduceParams &params, cudaStream_t stream) {
    if (!is_dense<T>(params)) return 0;
    constexpr int BLOCKS = device::DENSE_THREADS * device::VectorLoad<T>::COUNT / LANES;
    const int64_t columns = params.units * params.slabs.slabs_per_unit();
    const bool joins = params.combines_blocks && params.slabs.count == 1 && params.slabs.blocks() > 1;
    const auto blocks = unsigned((columns + BLOCKS - 1) / BLOCKS);
    device::reduce_dense<Op, T><<<blocks, device::DENSE_THREADS, 0, stream>>>(params, joins);
    PK_CUDA(cudaGetLastError());
    return joins ? BLOCKS : 1;
}

// The same of an operation's own types, of those that are worth a kernel.
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
