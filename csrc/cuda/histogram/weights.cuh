// Weights that lie on a device, added there in the order that pk_weighted_histogram has.
#pragma once

#include <type_traits>

#include "works.cuh"

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
    if constexpr (std::is_same<Sum, double>::value) return value_of<double>(given.weights, given.memory, i);
    return Sum(value_of<int64_t>(given.weights, given.memory, i));
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
            const int32_t place =
                place_of(given.axes, given.axis_count, given.total, given.memory, start + i, lost);
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

// Adds the weights of elements that are at home with them. Returns whether a device has room.
template <class Sum, class Total>
bool add_there(const Counting &counting, const plan::Homes &homes, Call &call, int device, Total *to,
               int64_t *outside) {
    static_assert(sizeof(Sum) == 8 && sizeof(Total) == 8, "one table has both");
    const int64_t total = counting.total, size = counting.layout.size, run = run_for(total);
    const int64_t runs = (size + run - 1) / run, word = 8;
    const CurrentDevice current(device);
    Resident kept;
    outside[0] = outside[1] = 0;
    const int64_t outside_at = kept.add(outside, 2 * word);
    int64_t edges_at[2] = {};
    for (int64_t i = 0; i < counting.axes; ++i) edges_at[i] = keep_edges(kept, counting.bins[i]);
    const Block block(device, (runs + 1) * total * word);
    if (block.memory() == nullptr || !kept.upload(call, {device})) return false;

    device::Weighing given{};
    given.memory = homes.of(0).at;
    auto offset = [&](int64_t operand) {
        const auto at = reinterpret_cast<uintptr_t>(homes.of(int(operand)).at);
        return int64_t(at - reinterpret_cast<uintptr_t>(given.memory));
    };
    for (int64_t i = 0; i < counting.axes; ++i) {
        given.axes[i] = axis_on(kept.on(0), counting.bins[i], edges_at[i], offset(i), counting.view(i).type);
    }
    const int type = counting.view(counting.axes).type;
    given.weights = axis_on(nullptr, pk_bins{}, -1, offset(counting.axes), type);
    given.axis_count = int32_t(counting.axes);
    given.total = int32_t(total);
    given.count = size;
    given.run = run;
    given.sums = block.memory();
    given.outside = reinterpret_cast<unsigned long long *>(kept.on(0) + outside_at);
    auto *const totals = reinterpret_cast<Total *>(block.memory() + runs * total * word);

    Lane lane(call);
    const Stream stream = pk::stream();
    const Queue queue(stream);
    const double begin = call.seconds();
    device::add_runs<Sum><<<unsigned(runs), device::WARPS * 32, 0, queue.get()>>>(given);
    PK_CUDA(cudaGetLastError());
    device::add_sums<<<blocks_for(total * 8), THREADS, 0, queue.get()>>>(
        static_cast<const Sum *>(given.sums), runs, given.total, type != PK_UINT64, totals);
    PK_CUDA(cudaGetLastError());
    PK_CUDA(cudaMemcpyAsync(to, totals, size_t(total * word), cudaMemcpyDeviceToHost, queue.get()));
    PK_CUDA(cudaMemcpyAsync(outside, given.outside, size_t(2 * word), cudaMemcpyDeviceToHost, queue.get()));
    PK_CUDA(cudaStreamSynchronize(queue.get()));
    lane.add(PK_KERNEL, begin, call.seconds(), 0, size);
    call.report.bytes_down += (total + 2) * word;
    call.report.chunks += runs;
    call.advance(size);
    return true;
}

}  // namespace pk::histogram
