// The reduction kernel for any layout and dtype: it reduces each block of rows to a partial.
#pragma once

#include "common/reduce.h"
#include "common/reduce_ops.h"
#include "common/types.h"
#include "common/visit_type.h"
#include "cuda/runtime/cuda.h"
#include "cuda/runtime/launch.h"

namespace pk::reduction {

// The values of an operand in device memory, with the strides of slabs, rows and columns, in elements.
struct StridedValues {
    const char *data;  // contiguous: the chunk's first element; else the region's
    bool are_contiguous;
    int64_t slab_stride, row_stride, column_stride;

    static StridedValues contiguous(const char *data, const Slabs &slabs) {
        return {data, true, slabs.length * slabs.inner, slabs.inner, 1};
    }
};

// The kernels' parameters: a chunk's values, as slabs, and where its partials go.
struct ReduceParams {
    StridedValues values, others;
    int type;
    Slabs slabs;
    int64_t first_unit, units, start;  // the chunk's work units, and its first element
    char *partials;
    bool combines_blocks;  // the kernel combines the partials of its blocks, if it can
};

namespace device {

// A block of threads reduces COLUMNS columns. A lane is one of common/reduce_ops.h, which has every LANES-th
// row of a column, and not a thread of a warp.
constexpr int COLUMNS = 16, THREADS = LANES * COLUMNS;

template <class Word>
__device__ Word shuffled_down(Word word, int threads, int width) {
    static_assert(sizeof(Word) == sizeof(unsigned long long), "words have 8 bytes");
    const auto bits = bit_cast<unsigned long long>(word);
    return bit_cast<Word>(__shfl_down_sync(0xffffffffu, bits, unsigned(threads), width));
}

// Loads that a thread issues before it uses the first, to hide the latency of memory or of the link.
constexpr int LOADS_IN_FLIGHT = 4;

// Read `count` elements, at most LOADS_IN_FLIGHT, `step` apart, as bits.
template <class Bits>
__device__ void read_bits(const char *values, int64_t first, int64_t step, int count, uint64_t *bits) {
#pragma unroll
    for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
        if (i < count) bits[i] = reinterpret_cast<const Bits *>(values)[first + i * step];
    }
}
__device__ void read(const char *values, int type, int64_t first, int64_t step, int count, uint64_t *bits) {
    visit_word(size_of(type),
               [&](auto word) { read_bits<decltype(word)>(values, first, step, count, bits); });
}

// Convert the bits of an element to the type that its dtype is reduced in.
template <class Word>
__device__ Word value_of(uint64_t bits, int type) {
    return visit_stored_type(type, [&](auto stored) {
        memcpy(&stored, &bits, sizeof(stored));
        return Word(element_value(stored));
    });
}

// One column of one slab in one work unit: its rows (0 beyond the last column), and where its partial goes.
struct Column {
    int64_t rows, slab, first_row, column, partial;
    __device__ Column(const ReduceParams &params, int64_t index) {
        const int64_t width = params.slabs.inner, of_unit = params.slabs.slabs_per_unit() * width;
        const int64_t slab_of_unit = index % of_unit / width;
        const Slabs::WorkUnit unit = params.slabs.unit(params.first_unit + index / of_unit);
        rows = index < params.units * of_unit && slab_of_unit < unit.slabs ? unit.rows : 0;
        slab = unit.slab + slab_of_unit;
        first_row = unit.block * Slabs::BLOCK;
        column = index % width;
        partial = index;
    }
    // The offset of the column's first value in an operand.
    __device__ int64_t offset(const ReduceParams &params, const StridedValues &values) const {
        return slab * values.slab_stride + first_row * values.row_stride + column * values.column_stride -
               (values.are_contiguous ? params.start : 0);
    }
};

// Return how many of its lane's rows a thread reads at once, from this row on.
__device__ int rows_at_once(const Column &column, int64_t row) {
    return int(min(int64_t(LOADS_IN_FLIGHT), ceil_div(column.rows - row, LANES)));
}

// A reduction as one thread computes it: it accumulates one lane of a column; lanes are combined in shared
// memory.
template <class Op, bool has_others>
struct LaneAccumulator {
    using Word = typename Op::Word;
    static constexpr int WORDS = Op::WORDS, PARTIAL = Op::PARTIAL;
    Word lane[WORDS], pivot = Word();

    __device__ void accumulate(const ReduceParams &params, const Column &column, int row_lane) {
        Op::start(lane);
        const int64_t values_at = column.offset(params, params.values);
        const int64_t others_at = has_others ? column.offset(params, params.others) : 0;
        uint64_t values[LOADS_IN_FLIGHT], others[LOADS_IN_FLIGHT];
        auto read_rows = [&](int64_t row, int count) {
            read(params.values.data, params.type, values_at + row * params.values.row_stride,
                 LANES * params.values.row_stride, count, values);
            if (has_others)
                read(params.others.data, other_type(params), others_at + row * params.others.row_stride,
                     LANES * params.others.row_stride, count, others);
        };
        auto value = [&](int i) { return value_of<Word>(values[i], params.type); };
        auto other = [&](int i) {
            return has_others ? value_of<Word>(others[i], other_type(params)) : Word(1);
        };
        if (Op::has_pivot && column.rows > 0) {
            read_rows(0, 1);
            if (other(0) != 0) pivot = value(0);
        }
        for (int64_t row = row_lane; row < column.rows; row += LANES * LOADS_IN_FLIGHT) {
            const int count = rows_at_once(column, row);
            read_rows(row, count);
#pragma unroll
            for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
                if (i < count) Op::add(lane, value(i), other(i), pivot);
            }
        }
    }
    __device__ void join(const Word *other) { Op::join(lane, other); }
    __device__ void close(Word *partial) const { Op::close(lane, pivot, partial); }

   private:
    // Return the dtype of the second operand: a mask's is bool, a dot product's factor has the values' dtype.
    __device__ static int other_type(const ReduceParams &params) {
        return std::is_base_of<SumInteger, Op>::value || is_dot ? params.type : int(PK_BOOL);
    }
    static constexpr bool is_dot =
        std::is_base_of<Dot<true>, Op>::value || std::is_base_of<Dot<false>, Op>::value;
};

// argmin or argmax, with the interface of LaneAccumulator.
template <bool largest, class T>
struct ArgReduction {
    using Word = int64_t;
    static constexpr int WORDS = 2, PARTIAL = 2;
    Word lane[WORDS];

    __device__ void accumulate(const ReduceParams &params, const Column &column, int row_lane) {
        ValueAndIndex<T> best{T(), -1};
        const int64_t at = column.offset(params, params.values), stride = params.values.row_stride;
        uint64_t values[LOADS_IN_FLIGHT];
        for (int64_t row = row_lane; row < column.rows; row += LANES * LOADS_IN_FLIGHT) {
            const int count = rows_at_once(column, row);
            read(params.values.data, params.type, at + row * stride, LANES * stride, count, values);
#pragma unroll
            for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
                const int64_t place = column.first_row + row + i * LANES;
                if (i < count)
                    update_best<largest>(best, ValueAndIndex<T>{value_of<T>(values[i], params.type), place});
            }
        }
        put(best);
    }
    __device__ void join(const Word *other) {
        ValueAndIndex<T> best = placed(lane);
        update_best<largest>(best, placed(other));
        put(best);
    }
    __device__ void close(Word *partial) const {
        partial[0] = lane[0];
        partial[1] = lane[1];
    }

   private:
    __device__ static ValueAndIndex<T> placed(const Word *words) { return {bit_cast<T>(words[0]), words[1]}; }
    __device__ void put(ValueAndIndex<T> best) {
        lane[0] = bit_cast<int64_t>(best.value);
        lane[1] = best.row;
    }
};

// Reduces COLUMNS columns in a block of threads: LANES threads accumulate the lanes of a column, which are
// then combined in halves.
template <class Kind>
__global__ void __launch_bounds__(THREADS)
    reduce(const __grid_constant__ ReduceParams params, bool lanes_first) {
    using Word = typename Kind::Word;
    __shared__ Word lanes[LANES][COLUMNS][Kind::WORDS];
    const int thread = int(threadIdx.x);
    // Neighbouring threads read neighbouring elements, of a column or of a row, so that loads are coalesced.
    const int lane = lanes_first ? thread % LANES : thread / COLUMNS;
    const int place = lanes_first ? thread / LANES : thread % COLUMNS;
    const Column column(params, int64_t(blockIdx.x) * COLUMNS + place);
    Kind kind;
    kind.accumulate(params, column, lane);
    for (int w = 0; w < Kind::WORDS; ++w) lanes[lane][place][w] = kind.lane[w];
    for (int half = LANES / 2; half != 0; half /= 2) {
        __syncthreads();
        if (lane < half) {
            kind.join(lanes[lane + half][place]);
            for (int w = 0; w < Kind::WORDS; ++w) lanes[lane][place][w] = kind.lane[w];
        }
    }
    if (lane == 0 && column.rows > 0)
        kind.close(reinterpret_cast<Word *>(params.partials) + column.partial * Kind::PARTIAL);
}

}  // namespace device

}  // namespace pk::reduction
