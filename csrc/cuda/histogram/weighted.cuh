// Weighted histograms of device-resident operands. The order of additions is that of pk_weighted_histogram:
// elements are cut into segments, each bin's weights are added in order within a segment, and segments' sums
// in order.
#pragma once

#include <type_traits>

#include "algorithms.cuh"

namespace pk::histogram {

namespace device {

constexpr int32_t WARPS = 8, TILE = 1024;  // elements

// The parameters of accumulate_segments().
struct WeightedParams {
    Axis axes[2], weights;
    int32_t axis_count, total;
    const char *memory;
    int64_t count, segment;
    void *sums;                        // one table for each segment
    unsigned long long *out_of_range;  // the count of elements out of range, and a flag: beyond the bins
};

// A tile of a segment: each element's bin and weight, and the elements that each warp adds, in their order.
template <class Sum>
struct Tile {
    int32_t places[TILE];
    Sum weights[TILE];
    uint16_t own[WARPS][TILE];
};

template <class Sum>
__device__ __forceinline__ Sum weight_of(const WeightedParams &params, int64_t i) {
    const uint64_t bits = bits_of(params.weights, params.memory, i);
    if constexpr (std::is_same<Sum, double>::value) return value_of<double>(params.weights, bits);
    return Sum(value_of<int64_t>(params.weights, bits));
}

// List the elements whose bins belong to a warp, in order, and return how many these are. Each bin belongs to
// one warp, so that its weights are added in order.
template <class Sum>
__device__ __forceinline__ int32_t select_own_bins(Tile<Sum> &tile, int32_t count, int32_t total,
                                                   int32_t warp, int32_t lane) {
    int32_t own_count = 0;
    for (int32_t first = 0; first < count; first += 32) {
        const int32_t i = first + lane, place = i < count ? tile.places[i] : total;
        const bool is_own = place != total && place % WARPS == warp;
        const uint32_t own = __ballot_sync(~0u, is_own);
        if (is_own) tile.own[warp][own_count + __popc(own & ((1u << lane) - 1))] = uint16_t(i);
        own_count += __popc(own);
    }
    __syncwarp();
    return own_count;
}

// Add a warp's elements to the sums, 32 at a time. The thread of a bin's first element among these adds all
// weights of the bin, in order.
template <class Sum>
__device__ __forceinline__ void add_own_bins(const Tile<Sum> &tile, int32_t own_count, int32_t warp,
                                             int32_t lane, Sum *sums) {
    for (int32_t first = 0; first < own_count; first += 32) {
        const bool is_active = first + lane < own_count;
        const uint16_t *const own = tile.own[warp] + first;
        const int32_t place = is_active ? tile.places[own[lane]] : -1;
        const uint32_t alike = __match_any_sync(~0u, place);
        if (is_active && __ffs(int(alike)) - 1 == lane) {
            Sum sum = sums[place];
            for (uint32_t left = alike; left != 0; left &= left - 1) {
                sum += tile.weights[own[__ffs(int(left)) - 1]];
            }
            sums[place] = sum;
        }
        __syncwarp();  // the next 32 find this sum
    }
}

// Adds up the weights of one segment in each block of threads.
template <class Sum>
__global__ void __launch_bounds__(WARPS * 32)
    accumulate_segments(const __grid_constant__ WeightedParams params) {
    __shared__ Tile<Sum> tile;
    const int32_t thread = int32_t(threadIdx.x), warp = thread / 32, lane = thread % 32;
    Sum *const sums = static_cast<Sum *>(params.sums) + int64_t(blockIdx.x) * params.total;
    for (int32_t i = thread; i < params.total; i += WARPS * 32) sums[i] = 0;
    const int64_t begin = int64_t(blockIdx.x) * params.segment,
                  end = min(begin + params.segment, params.count);
    unsigned long long out_of_range = 0;
    uint32_t is_beyond_bins = 0;
    for (int64_t start = begin; start < end; start += TILE) {
        const int32_t count = int32_t(min(end - start, int64_t(TILE)));
        __syncthreads();
        for (int32_t i = thread; i < count; i += WARPS * 32) {
            const uint64_t bits = bits_of(params.axes[0], params.memory, start + i);
            const uint64_t other =
                params.axis_count == 1 ? 0 : bits_of(params.axes[1], params.memory, start + i);
            const int32_t place =
                place_of(params.axes, params.axis_count, params.total, bits, other, is_beyond_bins);
            tile.places[i] = place;
            tile.weights[i] = weight_of<Sum>(params, start + i);
            out_of_range += place == params.total;
        }
        __syncthreads();
        const int32_t own_count = select_own_bins(tile, count, params.total, warp, lane);
        add_own_bins(tile, own_count, warp, lane, sums);
    }
    if (out_of_range != 0) atomicAdd(&params.out_of_range[0], out_of_range);
    if (is_beyond_bins != 0) atomicOr(&params.out_of_range[1], 1ull);
}

// Adds up the sums of all segments for each bin, in order.
template <class Sum, class Total>
__global__ void combine_segments(const Sum *sums, int64_t segments, int32_t total, bool is_signed,
                                 Total *to) {
    const int32_t step = int32_t(gridDim.x * blockDim.x);
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
        Total all = 0;
        for (int64_t segment = 0; segment < segments; ++segment) {
            const Sum sum = sums[segment * total + i];
            if constexpr (std::is_same<Sum, Total>::value) {
                all += sum;
            } else {
                all += bins::whole(sum, is_signed);
            }
        }
        to[i] = all;
    }
}

}  // namespace device

// The weighted histogram of elements and weights that are on the device.
template <class Sum, class Total>
class WeightedHistogramAlgorithm : public DeviceAlgorithm {
   public:
    // Elements and weights are the first operands; `edges` are those of the axes' edges. The sums are written
    // to `d_totals`, and the count of elements out of range, and whether any is beyond the bins, to
    // `d_out_of_range`.
    WeightedHistogramAlgorithm(const BinnedElements &binned, const int *edges, const Operands &operands,
                               Call &call, const ExecutionContext &context, char *d_totals,
                               char *d_out_of_range)
        : binned_(binned),
          operands_(operands),
          segment_(elements_per_segment(binned.total)),
          type_(binned.view(binned.axes).type),
          d_totals_(reinterpret_cast<Total *>(d_totals)),
          d_out_of_range_(reinterpret_cast<unsigned long long *>(d_out_of_range)) {
        for (int64_t i = 0; i < binned.axes; ++i)
            edges_.emplace_back(binned.bins[i], operands.of(edges[i]).d_data, broadcasts_);
        has_memory = broadcasts_.upload(call, context);
    }

    int64_t start(int64_t unit) const override { return unit * binned_.layout.size; }
    // A table of sums for each segment.
    int64_t temporary_bytes(int64_t) const override {
        return segments() * binned_.total * int64_t(sizeof(Sum));
    }

    void enqueue(const Chunk &chunk) override {
        PK_CUDA(cudaMemsetAsync(d_out_of_range_, 0, 2 * sizeof(*d_out_of_range_), chunk.stream));
        device::WeightedParams params{};
        params.memory = operands_.of(0).d_data;
        auto offset = [&](int64_t operand) {
            return distance(params.memory, operands_.of(int(operand)).d_data);
        };
        const int64_t axes = binned_.axes;
        for (int64_t i = 0; i < axes; ++i) {
            params.axes[i] = axis_on(broadcasts_.d_data(chunk.device_index), binned_.bins[i],
                                     edges_[size_t(i)], offset(i), binned_.view(i).type);
        }
        params.weights = axis_on(nullptr, pk_bins{}, Edges(), offset(axes), type_);
        params.axis_count = int32_t(axes);
        params.total = int32_t(binned_.total);
        params.count = binned_.layout.size;
        params.segment = segment_;
        params.sums = chunk.d_memory + chunk.scratch;
        params.out_of_range = d_out_of_range_;
        device::accumulate_segments<Sum>
            <<<unsigned(segments()), device::WARPS * 32, 0, chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
        device::combine_segments<<<table_grid(binned_.total * 8), THREADS, 0, chunk.stream>>>(
            static_cast<const Sum *>(params.sums), segments(), params.total, type_ != PK_UINT64, d_totals_);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

    bool has_memory = false;

   private:
    int64_t segments() const { return ceil_div(binned_.layout.size, segment_); }

    const BinnedElements &binned_;
    const Operands &operands_;
    const int64_t segment_;
    const int type_;
    Total *const d_totals_;
    unsigned long long *const d_out_of_range_;
    BroadcastBuffers broadcasts_;
    std::vector<Edges> edges_;
};

}  // namespace pk::histogram
