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

// Enqueues a weighted histogram of device-resident elements and weights.
template <class Sum>
class WeightedHistogram {
   public:
    static_assert(sizeof(Sum) == 8, "one table has both");
    static constexpr int64_t WORD = 8;

    explicit WeightedHistogram(const BinnedElements &counting)
        : counting_(counting), segment_(run_for(counting.total)), type_(counting.view(counting.axes).type) {}

    int64_t segments() const { return (counting_.layout.size + segment_ - 1) / segment_; }
    int64_t sums_bytes() const { return segments() * counting_.total * WORD; }

    // Enqueue both kernels. `out_of_range` must be zero.
    template <class Total>
    void enqueue(const plan::Operands &operands, const std::vector<Edges> &edges, const char *broadcasts,
                 char *sums, Total *totals, char *out_of_range, cudaStream_t stream) const {
        device::WeightedParams params{};
        params.memory = operands.of(0).d_data;
        auto offset = [&](int64_t operand) {
            const auto at = reinterpret_cast<uintptr_t>(operands.of(int(operand)).d_data);
            return int64_t(at - reinterpret_cast<uintptr_t>(params.memory));
        };
        const int64_t axes = counting_.axes;
        for (int64_t i = 0; i < axes; ++i) {
            params.axes[i] =
                axis_on(broadcasts, counting_.bins[i], edges[size_t(i)], offset(i), counting_.view(i).type);
        }
        params.weights = axis_on(nullptr, pk_bins{}, Edges(), offset(axes), type_);
        params.axis_count = int32_t(axes);
        params.total = int32_t(counting_.total);
        params.count = counting_.layout.size;
        params.segment = segment_;
        params.sums = sums;
        params.out_of_range = reinterpret_cast<unsigned long long *>(out_of_range);
        device::accumulate_segments<Sum><<<unsigned(segments()), device::WARPS * 32, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
        device::combine_segments<<<blocks_for(counting_.total * 8), THREADS, 0, stream>>>(
            static_cast<const Sum *>(params.sums), segments(), params.total, type_ != PK_UINT64, totals);
        PK_CUDA(cudaGetLastError());
    }

   private:
    const BinnedElements &counting_;
    const int64_t segment_;
    const int type_;
};

// Compute the sums on the device and download them. Return false if there is no device memory.
template <class Sum, class Total>
bool add_on_device(const BinnedElements &counting, const plan::Operands &operands, Call &call, int device,
                   Total *to, int64_t *out_of_range) {
    const WeightedHistogram<Sum> weighted(counting);
    const int64_t total = counting.total, word = weighted.WORD;
    const CurrentDevice current(device);
    BroadcastBuffers broadcasts;
    out_of_range[0] = out_of_range[1] = 0;
    const int64_t out_of_range_at = broadcasts.add(out_of_range, 2 * word);
    std::vector<Edges> edges;
    for (int64_t i = 0; i < counting.axes; ++i) edges.emplace_back(counting.bins[i], nullptr, broadcasts);
    const DeviceBuffer buffer(device, weighted.sums_bytes() + total * word);
    if (buffer.d_memory() == nullptr || !broadcasts.upload(call, {device})) return false;
    char *const d_out_of_range = broadcasts.d_data(0) + out_of_range_at;
    auto *const totals = reinterpret_cast<Total *>(buffer.d_memory() + weighted.sums_bytes());

    TraceLane lane(call);
    const Stream own_stream = make_stream();
    const SyncOnExit stream(own_stream);
    const double begin = call.seconds();
    weighted.enqueue(operands, edges, broadcasts.d_data(0), buffer.d_memory(), totals, d_out_of_range,
                     stream.get());
    PK_CUDA(cudaMemcpyAsync(to, totals, size_t(total * word), cudaMemcpyDeviceToHost, stream.get()));
    PK_CUDA(cudaMemcpyAsync(out_of_range, d_out_of_range, size_t(2 * word), cudaMemcpyDeviceToHost,
                            stream.get()));
    PK_CUDA(cudaStreamSynchronize(stream.get()));
    const int64_t size = counting.layout.size;
    lane.add(PK_STAGE_KERNEL, begin, call.seconds(), 0, size);
    call.report.bytes_down += (total + 2) * word;
    call.report.chunks += weighted.segments();
    call.advance(size);
    return true;
}

// Enqueue the sums on the thread's stream; results are device-resident, too. Return false if there is no
// device memory.
template <class Sum, class Total>
bool add_weights_async(const BinnedElements &counting, const HostRanges &host_ranges, int results,
                       int out_of_range, int64_t out_of_range_at, Call &call,
                       const StreamScope &stream_scope) {
    const WeightedHistogram<Sum> weighted(counting);
    const CurrentDevice current(stream_scope.device);
    const DeviceBuffer sums(stream_scope.device, weighted.sums_bytes(), false, true);
    if (sums.d_memory() == nullptr) return false;
    plan::Operands operands(host_ranges.all, call, {stream_scope.device}, true);
    BroadcastBuffers none;
    std::vector<Edges> edges;
    for (int64_t i = 0; i < counting.axes; ++i) {
        edges.emplace_back(counting.bins[i], operands.of(host_ranges.edges[i]).d_data, none);
    }
    auto *const totals = reinterpret_cast<Total *>(operands.of(results).d_data);
    char *const d_out_of_range = operands.of(out_of_range).d_data + out_of_range_at;
    call.count_launch();
    PK_CUDA(cudaMemsetAsync(d_out_of_range, 0, size_t(2 * weighted.WORD), stream_scope.stream));
    weighted.enqueue(operands, edges, nullptr, sums.d_memory(), totals, d_out_of_range, stream_scope.stream);
    call.advance(counting.layout.size);
    operands.commit();
    return true;
}

}  // namespace pk::histogram
