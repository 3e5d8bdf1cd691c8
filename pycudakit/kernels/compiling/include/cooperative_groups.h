// Cooperative groups on the CPU engine: thread blocks, tiles of a warp, and coalesced groups of lanes.
#pragma once

#include "pycudakit_cuda.h"

extern "C++" {
namespace cooperative_groups {

class thread_block {
   public:
    static void sync(PK_HERE) { __syncthreads(line); }
    static unsigned int thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static unsigned int size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned int num_threads() { return size(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

// Lanes of a warp, numbered from 0.
class coalesced_group {
   public:
    explicit coalesced_group(unsigned int lanes) : lanes_(lanes) {}
    unsigned int size() const { return (unsigned int)__popc(lanes_); }
    unsigned int num_threads() const { return size(); }
    unsigned int thread_rank() const { return (unsigned int)__popc(lanes_ & ((1u << pk_lane()) - 1)); }
    void sync(PK_HERE) const { __syncwarp(lanes_, line); }
    int any(int predicate, PK_HERE) const { return __any_sync(lanes_, predicate, line); }
    int all(int predicate, PK_HERE) const { return __all_sync(lanes_, predicate, line); }
    unsigned int ballot(int predicate, PK_HERE) const {
        return packed(__ballot_sync(lanes_, predicate, line));
    }
    template <class T>
    T shfl(T value, unsigned int rank, PK_HERE) const {
        return __shfl_sync(lanes_, value, lane_of(rank % size()), PK_WARP, line);
    }
    template <class T>
    T shfl_up(T value, unsigned int by, PK_HERE) const {
        const unsigned int rank = thread_rank();
        return __shfl_sync(lanes_, value, lane_of(by > rank ? rank : rank - by), PK_WARP, line);
    }
    template <class T>
    T shfl_down(T value, unsigned int by, PK_HERE) const {
        const unsigned int rank = thread_rank();
        return __shfl_sync(lanes_, value, lane_of(rank + by >= size() ? rank : rank + by), PK_WARP, line);
    }

   protected:
    int lane_of(unsigned int rank) const {
        unsigned int left = lanes_;
        while (rank-- != 0) left &= left - 1;
        return __ffs((int)left) - 1;
    }
    unsigned int packed(unsigned int bits) const {
        unsigned int made = 0;
        for (unsigned int rank = 0; rank < size(); ++rank) made |= (bits >> lane_of(rank) & 1) << rank;
        return made;
    }
    unsigned int lanes_;
};
inline coalesced_group coalesced_threads(PK_HERE) { return coalesced_group(__activemask(line)); }

template <unsigned int N, class Parent = void>
class thread_block_tile : public coalesced_group {
    static_assert(N != 0 && N <= PK_WARP && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

   public:
    thread_block_tile() : coalesced_group((N == 32 ? ~0u : (1u << N % 32) - 1) << (pk_lane() & -int(N))) {}
    static constexpr unsigned int size() { return N; }
    static constexpr unsigned int num_threads() { return N; }
    unsigned int thread_rank() const { return (unsigned int)pk_lane() % N; }
    unsigned int meta_group_rank() const { return thread_block::thread_rank() / N; }
    unsigned int meta_group_size() const { return (thread_block::size() + N - 1) / N; }
    template <class T>
    T shfl(T value, int rank, PK_HERE) const {
        return __shfl_sync(lanes_, value, rank, N, line);
    }
    template <class T>
    T shfl_up(T value, unsigned int by, PK_HERE) const {
        return __shfl_up_sync(lanes_, value, by, N, line);
    }
    template <class T>
    T shfl_down(T value, unsigned int by, PK_HERE) const {
        return __shfl_down_sync(lanes_, value, by, N, line);
    }
    template <class T>
    T shfl_xor(T value, unsigned int by, PK_HERE) const {
        return __shfl_xor_sync(lanes_, value, (int)by, N, line);
    }
    template <class T>
    unsigned int match_any(T value, PK_HERE) const {
        return packed(__match_any_sync(lanes_, value, line));
    }
};

template <unsigned int N, class Parent>
thread_block_tile<N, Parent> tiled_partition(const Parent &) {
    return {};
}
template <class Group>
void sync(const Group &group, PK_HERE) {
    group.sync(line);
}
template <class Group>
unsigned int thread_rank(const Group &group) {
    return group.thread_rank();
}
}  // namespace cooperative_groups
}
