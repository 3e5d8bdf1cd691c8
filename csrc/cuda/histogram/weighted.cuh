// Weights that lie on a device, added there in the order that pk_weighted_histogram has.
#pragma once

#include <type_traits>

#include "algorithms.cuh"

namespace pk::histogram {

namespace device {

constexpr int32_t WARPS = 8, TILE = 1024;  // elements

struct Weighing {
    Axis axes[2], weights;
    int32_t axis_count, total;
    const char *memory;
    int64_t count, run;
    void *sums;                   // a run's, and then the next one's
    unsigned long long *outside;  // 2
};

// A part of a run: where each element's weight goes, and the elements that each warp adds, in their order.
template <class Sum>
struct Tile {
    int32_t places[TILE];
    Sum weights[TILE];
    uint16_t own[WARPS][TILE];
};

template <class Sum>
__device__ __forceinline__ Sum weight_of(const Weighing &given, int64_t i) {
    const uint64_t bits = bits_of(given.weights, given.memory, i);
    if constexpr (std::is_same<Sum, double>::value) return value_of<double>(given.weights, bits);
    return Sum(value_of<int64_t>(given.weights, bits));
}

// Each bin is one warp's, so that its weights are added in order. Returns how many elements are the warp's.
template <class Sum>
__device__ __forceinline__ int32_t find_own(Tile<Sum> &tile, int32_t count, int32_t total, int32_t warp,
                                            int32_t lane) {
    int32_t found = 0;
    for (int32_t first = 0; first < count; first += 32) {
        const int32_t i = first + lane, place = i < count ? tile.places[i] : total;
        const bool is_own = place != total && place % WARPS == warp;
        const uint32_t own = __ballot_sync(~0u, is_own);
        if (is_own) tile.own[warp][found + __popc(own & ((1u << lane) - 1))] = uint16_t(i);
        found += __popc(own);
    }
    __syncwarp();
    return found;
}

// Of those of one bin among 32, the first one's thread adds all.
template <class Sum>
__device__ __forceinline__ void add_own(const Tile<Sum> &tile, int32_t found, int32_t warp, int32_t lane,
                                        Sum *sums) {
    for (int32_t first = 0; first < found; first += 32) {
        const bool is_there = first + lane < found;
        const uint16_t *const own = tile.own[warp] + first;
        const int32_t place = is_there ? tile.places[own[lane]] : -1;
        const uint32_t alike = __match_any_sync(~0u, place);
        if (is_there && __ffs(int(alike)) - 1 == lane) {
            Sum sum = sums[place];
            for (uint32_t left = alike; left != 0; left &= left - 1) {
                sum += tile.weights[own[__ffs(int(left)) - 1]];
            }
            sums[place] = sum;
        }
        __syncwarp();  // the next 32 find this sum
    }
}

// A block adds a run.
template <class Sum>
__global__ void __launch_bounds__(WARPS * 32) add_runs(const __grid_constant__ Weighing given) {
    __shared__ Tile<Sum> tile;
    const int32_t thread = int32_t(threadIdx.x), warp = thread / 32, lane = thread % 32;
    Sum *const sums = static_cast<Sum *>(given.sums) + int64_t(blockIdx.x) * given.total;
    for (int32_t i = thread; i < given.total; i += WARPS * 32) sums[i] = 0;
    const int64_t begin = int64_t(blockIdx.x) * given.run, end = min(begin + given.run, given.count);
    unsigned long long nowhere = 0;
    uint32_t lost = 0;
    for (int64_t start = begin; start < end; start += TILE) {
        const int32_t count = int32_t(min(end - start, int64_t(TILE)));
        __syncthreads();
        for (int32_t i = thread; i < count; i += WARPS * 32) {
            const uint64_t bits = bits_of(given.axes[0], given.memory, start + i);
            const uint64_t other =
                given.axis_count == 1 ? 0 : bits_of(given.axes[1], given.memory, start + i);
            const int32_t place = place_of(given.axes, given.axis_count, given.total, bits, other, lost);
            tile.places[i] = place;
            tile.weights[i] = weight_of<Sum>(given, start + i);
            nowhere += place == given.total;
        }
        __syncthreads();
        const int32_t found = find_own(tile, count, given.total, warp, lane);
        add_own(tile, found, warp, lane, sums);
    }
    if (nowhere != 0) atomicAdd(&given.outside[0], nowhere);
    if (lost != 0) atomicOr(&given.outside[1], 1ull);
}

// One run's sum after the other.
template <class Sum, class Total>
__global__ void add_sums(const Sum *sums, int64_t runs, int32_t total, bool is_signed, Total *to) {
    const int32_t step = int32_t(gridDim.x * blockDim.x);
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
        Total all = 0;
        for (int64_t run = 0; run < runs; ++run) {
            const Sum sum = sums[run * total + i];
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

// Queues what adds the weights of elements that are at home with them.
template <class Sum>
class Weigher {
   public:
    static_assert(sizeof(Sum) == 8, "one table has both");
    static constexpr int64_t WORD = 8;

    explicit Weigher(const Counting &counting)
        : counting_(counting), run_(run_for(counting.total)), type_(counting.view(counting.axes).type) {}

    int64_t runs() const { return (counting_.layout.size + run_ - 1) / run_; }
    int64_t sums_bytes() const { return runs() * counting_.total * WORD; }

    // `outside` is zero.
    template <class Total>
    void queue(const plan::Homes &homes, const std::vector<Edges> &edges, const char *resident, char *sums,
               Total *totals, char *outside, cudaStream_t queue) const {
        device::Weighing given{};
        given.memory = homes.of(0).at;
        auto offset = [&](int64_t operand) {
            const auto at = reinterpret_cast<uintptr_t>(homes.of(int(operand)).at);
            return int64_t(at - reinterpret_cast<uintptr_t>(given.memory));
        };
        const int64_t axes = counting_.axes;
        for (int64_t i = 0; i < axes; ++i) {
            given.axes[i] =
                axis_on(resident, counting_.bins[i], edges[size_t(i)], offset(i), counting_.view(i).type);
        }
        given.weights = axis_on(nullptr, pk_bins{}, Edges(), offset(axes), type_);
        given.axis_count = int32_t(axes);
        given.total = int32_t(counting_.total);
        given.count = counting_.layout.size;
        given.run = run_;
        given.sums = sums;
        given.outside = reinterpret_cast<unsigned long long *>(outside);
        device::add_runs<Sum><<<unsigned(runs()), device::WARPS * 32, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
        device::add_sums<<<blocks_for(given.total * 8), THREADS, 0, queue>>>(
            static_cast<const Sum *>(given.sums), runs(), given.total, type_ != PK_UINT64, totals);
        PK_CUDA(cudaGetLastError());
    }

   private:
    const Counting &counting_;
    const int64_t run_;
    const int type_;
};

// Adds them, and brings the sums down. Returns whether a device has room.
template <class Sum, class Total>
bool add_there(const Counting &counting, const plan::Homes &homes, Call &call, int device, Total *to,
               int64_t *outside) {
    const Weigher<Sum> weigher(counting);
    const int64_t total = counting.total, word = weigher.WORD;
    const CurrentDevice current(device);
    Resident kept;
    outside[0] = outside[1] = 0;
    const int64_t outside_at = kept.add(outside, 2 * word);
    std::vector<Edges> edges;
    for (int64_t i = 0; i < counting.axes; ++i) edges.emplace_back(counting.bins[i], nullptr, kept);
    const Block block(device, weigher.sums_bytes() + total * word);
    if (block.memory() == nullptr || !kept.upload(call, {device})) return false;
    char *const outside_there = kept.on(0) + outside_at;
    auto *const totals = reinterpret_cast<Total *>(block.memory() + weigher.sums_bytes());

    Lane lane(call);
    const Stream stream = pk::stream();
    const Queue queue(stream);
    const double begin = call.seconds();
    weigher.queue(homes, edges, kept.on(0), block.memory(), totals, outside_there, queue.get());
    PK_CUDA(cudaMemcpyAsync(to, totals, size_t(total * word), cudaMemcpyDeviceToHost, queue.get()));
    PK_CUDA(cudaMemcpyAsync(outside, outside_there, size_t(2 * word), cudaMemcpyDeviceToHost, queue.get()));
    PK_CUDA(cudaStreamSynchronize(queue.get()));
    const int64_t size = counting.layout.size;
    lane.add(PK_KERNEL, begin, call.seconds(), 0, size);
    call.report.bytes_down += (total + 2) * word;
    call.report.chunks += weigher.runs();
    call.advance(size);
    return true;
}

// Queues it in the thread's line, where the results are at home, too. Returns whether a device has room.
template <class Sum, class Total>
bool add_in_line(const Counting &counting, const Spans &spans, int results, int outside, int64_t outside_at,
                 Call &call, const Line &line) {
    const Weigher<Sum> weigher(counting);
    const CurrentDevice current(line.device);
    const Block sums(line.device, weigher.sums_bytes(), false, true);
    if (sums.memory() == nullptr) return false;
    plan::Homes homes(spans.all, call, {line.device}, true);
    Resident none;
    std::vector<Edges> edges;
    for (int64_t i = 0; i < counting.axes; ++i) {
        edges.emplace_back(counting.bins[i], homes.of(spans.edges[i]).at, none);
    }
    auto *const totals = reinterpret_cast<Total *>(homes.of(results).at);
    char *const outside_there = homes.of(outside).at + outside_at;
    PK_CUDA(cudaMemsetAsync(outside_there, 0, size_t(2 * weigher.WORD), line.stream));
    weigher.queue(homes, edges, nullptr, sums.memory(), totals, outside_there, line.stream);
    call.advance(counting.layout.size);
    homes.settle();
    return true;
}

}  // namespace pk::histogram
