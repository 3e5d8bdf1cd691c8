// What of sorting happens on the device: elements are resident there, and parts of them are sorted, one after
// the other, in memory that they share.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "common/sort.h"
#include "cuda/stream/slots.h"

namespace pk {
namespace device {

constexpr int THREADS = 256;
constexpr int BINS = 2048, DIGIT = 11;

__device__ inline int64_t thread_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

template <class Order, class Key>
__global__ void load(Order order, const Key *elements, int64_t begin, int64_t count, Key *keys,
                     uint32_t *indices) {
    const int64_t i = thread_index();
    if (i >= count) return;
    keys[i] = order.key(elements[begin + i]);
    indices[i] = uint32_t(begin + i);
}

template <class Order, class Key>
__global__ void gather(Order order, const Key *elements, const uint32_t *indices, int64_t count, Key *keys) {
    const int64_t i = thread_index();
    if (i < count) keys[i] = order.key(elements[indices[i]]);
}

// Which elements have a key from low to high.
template <class Order, class Key>
struct Within {
    Order order;
    const Key *elements;
    Key low, high;
    __device__ bool operator()(uint32_t index) const {
        const Key key = order.key(elements[index]);
        return low <= key && key <= high;
    }
};

// How many elements there are in each range of 1 << shift keys from low on.
template <class Order, class Key>
__global__ void count_keys(Order order, const Key *elements, int64_t count, Key low, Key high, int shift,
                           uint32_t *counts) {
    __shared__ uint32_t own[BINS];
    for (int bin = int(threadIdx.x); bin < BINS; bin += int(blockDim.x)) own[bin] = 0;
    __syncthreads();
    for (int64_t i = thread_index(); i < count; i += int64_t(gridDim.x) * blockDim.x) {
        const Key key = order.key(elements[i]);
        if (low <= key && key <= high) atomicAdd(&own[uint64_t(Key(key - low)) >> shift], 1u);
    }
    __syncthreads();
    for (int bin = int(threadIdx.x); bin < BINS; bin += int(blockDim.x)) {
        if (own[bin] != 0) atomicAdd(&counts[bin], own[bin]);
    }
}

// How many elements have one key, of each `chunk` of them, which is a multiple of THREADS.
template <class Order, class Key>
__global__ void count_equal(Order order, const Key *elements, int64_t count, Key key, int64_t chunk,
                            uint32_t *counts) {
    const int64_t i = thread_index();
    const bool is_equal = i < count && order.key(elements[i]) == key;
    const int equal = __syncthreads_count(is_equal);
    if (threadIdx.x == 0 && equal != 0) atomicAdd(&counts[i / chunk], uint32_t(equal));
}

static __global__ void find_rows(const uint32_t *indices, int64_t count, int64_t begin, int64_t columns,
                                 uint32_t *rows) {
    const int64_t i = thread_index();
    if (i < count) rows[i] = uint32_t((indices[i] - begin) / columns);
}

template <class Order, class Key>
__global__ void put_keys(Order order, const Key *keys, int64_t count, Key *results) {
    const int64_t i = thread_index();
    if (i < count) results[i] = order.bits(keys[i]);
}

// Of the bits of floats, either zero.
struct IsZero {
    template <class Key>
    __device__ bool operator()(Key bits) const {
        return Key(bits << 1) == 0;
    }
};

constexpr int ZEROS_BLOCKS = 256;

// Puts the zeros, as many as were found, where they belong among the sorted elements.
template <class Order, class Key>
__global__ void put_zeros(Order order, const Key *zeros, const uint32_t *found, Key *sorted, int64_t count) {
    const int64_t own = *found;
    if (own == 0) return;
    const int64_t first =
        place_of([&](int64_t i) { return order.key(sorted[i]); }, count, order.key(Order::TOP), false);
    for (int64_t i = thread_index(); i < own; i += int64_t(gridDim.x) * blockDim.x)
        sorted[first + i] = zeros[i];
}

static __global__ void widen_places(const uint32_t *places, int64_t count, int64_t *wide) {
    const int64_t i = thread_index();
    if (i < count) wide[i] = int64_t(places[i]);
}

// Of sorted keys: the elements, and whether each is the first of its kind; `before`, if not null, is the key
// that comes before them all.
template <class Order, class Key>
struct Element {
    Order order;
    const Key *keys;
    __device__ Key operator()(uint32_t i) const { return order.bits(keys[i]); }
};
template <class Order, class Key>
struct IsFirst {
    Order order, same;  // by which they are sorted, and by which they are equal
    bool splits_nan;
    const Key *keys, *before;
    __device__ bool operator()(uint32_t i) const {
        const Key key = keys[i];
        if (splits_nan && key == order.key(Order::NAN_BITS)) return true;
        const Key *const previous = i == 0 ? before : keys + i - 1;
        return previous == nullptr || same.key(order.bits(key)) != same.key(order.bits(*previous));
    }
};

// Keeps the last key for those that follow, and tells the host how many were selected.
template <class Key>
__global__ void conclude(const Key *keys, int64_t count, const uint32_t *selected, Key *last,
                         uint32_t *found) {
    *last = keys[count - 1];
    *found = *selected;
}

template <class Key>
__global__ void put_elements(const Key *elements, const uint32_t *indices, int64_t count, Key *results) {
    const int64_t i = thread_index();
    if (i < count) results[i] = elements[indices[i]];
}

// The place in its row of each row's first `kept`; `indices` are of elements from `begin`, where a row
// begins.
static __global__ void put_places(const uint32_t *indices, int64_t count, int64_t begin, int64_t columns,
                                  int64_t kept, uint32_t *results) {
    const int64_t i = thread_index();
    if (i >= count) return;
    const int64_t row = i / columns, place = i % columns;
    if (place < kept) results[row * kept + place] = uint32_t(indices[i] - begin - row * columns);
}

}  // namespace device

// Some of the resident elements, which are sorted together: whole rows, or those of one row from `begin` to
// `end` whose keys are from `low` to `high`.
template <class Key>
struct Bucket {
    int64_t begin, end;
    Key low, high;
    bool is_selected;  // rather than all from begin to end
    int64_t count;     // of elements
    int64_t first;     // place of its first result
    int64_t results;   // how many of those are wanted
};

// What is to be sorted.
struct Needs {
    int64_t count;
    bool order;                                 // is wanted, rather than the elements
    bool rows;                                  // there are several
    bool distinct = false, splits_nan = false;  // of one row: only those, of which each NaN may be one
};

// Memory of a device for elements and for what is sorted of them.
template <class Order>
class DeviceSorter {
   public:
    using Key = typename Order::Key;
    static constexpr int RESULTS = 2;  // buffers: one is filled while the other is downloaded
    // For how many resident elements there are indices.
    static constexpr int64_t MOST = int64_t(1) << 30;

    // Cuts memory of `bytes` into room for as many as there are, or as fit.
    DeviceSorter(const Order &order, Needs needs, int64_t bytes) : order_(order), needs_(needs) {
        needs_.count = std::min(needs.count, MOST);
        // Smaller buckets may be what lets everything be resident.
        const int64_t usual = std::min(needs_.count, std::max(bytes / 3 / bucket_item(), LEAST));
        for (int64_t size = usual; size >= usual / 4 && resident < needs_.count; size = size * 7 / 8 - 1) {
            fit(size, bytes);
        }
        if (resident < needs_.count) fit(usual, bytes);
        if (std::min(resident, bucket) < std::min(needs_.count, LEAST) || bucket > resident) {
            fail(PK_OUT_OF_MEMORY, "PYCUDAKIT_DEVICE_MEMORY leaves too little to sort with");
        }
    }

    // What it would have use for, of so much at most.
    static int64_t bytes_for(Needs needs, int64_t most) {
        const int64_t count = std::min(needs.count, MOST), item = bucket_item(needs);
        const int64_t bytes = count * int64_t(sizeof(Key)) + std::min(count, most / 3 / item) * item;
        return std::min(most, bytes + bytes / 8 + 2 * OVERHEAD);
    }

    // All at once, of elements that lie on the device already.
    struct There {};
    DeviceSorter(There, const Order &order, Needs needs) : order_(order), needs_(needs) {
        resident = bucket = needs.count;
        scratch_bytes_ = std::max(scratch_for(bucket), zeros_scratch());
    }

    void place(char *memory) {
        Room room{memory};
        elements = room.template take<Key>(resident);
        for (int i = 0; i < 2; ++i) {
            place_bucket(room, i);
            results[i] = room.template take<char>(bucket * result_item());
        }
        place_rest(room);
    }

    // The same for what lies there. Returns the bytes that it takes; of no memory, to learn how many.
    int64_t place_there(char *memory, const Key *in, Key *out) {
        Room room{memory};
        elements = const_cast<Key *>(in);  // which are only read
        for (int i = 0; i < 2; ++i) place_bucket(room, i);
        results[0] =
            needs_.order ? room.template take<char>(bucket * result_item()) : reinterpret_cast<char *>(out);
        place_rest(room);
        return room.used;
    }

    int64_t result_item() const { return result_item(needs_); }
    const Order &ordering() const { return order_; }

    // Queues the counting of elements by ranges of their keys, into counts.
    void count_keys(int64_t count, Key low, Key high, int shift, cudaStream_t queue) const {
        PK_CUDA(cudaMemsetAsync(counts, 0, COUNTS * sizeof(uint32_t), queue));
        const auto blocks = unsigned(std::min<int64_t>(blocks_for(count), 2048));
        device::count_keys<<<blocks, device::THREADS, 0, queue>>>(order_, elements, count, low, high, shift,
                                                                  counts);
        PK_CUDA(cudaGetLastError());
    }

    // Queues the counting of those with one key, by chunks of the elements.
    void count_equal(int64_t count, Key key, int64_t chunk, cudaStream_t queue) const {
        PK_CUDA(cudaMemsetAsync(counts, 0, COUNTS * sizeof(uint32_t), queue));
        device::count_equal<<<blocks_for(count), device::THREADS, 0, queue>>>(order_, elements, count, key,
                                                                              chunk, counts);
        PK_CUDA(cudaGetLastError());
    }

    // Queues the sorting of a bucket of rows of `columns`, into a buffer of results; of an order, the first
    // `kept` of each row; of the distinct ones, as many as found[buffer] then says.
    void sort(const Bucket<Key> &given, int64_t columns, int64_t kept, int buffer, cudaStream_t queue) {
        const int64_t count = given.count;
        const unsigned blocks = blocks_for(count);
        cub::DoubleBuffer<Key> keys(keys_[0], keys_[1]);
        cub::DoubleBuffer<uint32_t> indices(indices_[0], indices_[1]);
        if (given.is_selected) {
            select(given, queue);
            device::gather<<<blocks, device::THREADS, 0, queue>>>(order_, elements, indices_[0], count,
                                                                  keys_[0]);
        } else {
            device::load<<<blocks, device::THREADS, 0, queue>>>(order_, elements, given.begin, count,
                                                                keys_[0], indices_[0]);
        }
        PK_CUDA(cudaGetLastError());
        const bool many_rows = !given.is_selected && count > columns;
        const int bits = given.is_selected ? bits_of(uint64_t(given.low ^ given.high)) : int(8 * sizeof(Key));
        size_t bytes = size_t(scratch_bytes_);
        if (bits != 0 && !needs_.order && !many_rows) {
            PK_CUDA(cub::DeviceRadixSort::SortKeys(scratch_, bytes, keys, uint32_t(count), 0, bits, queue));
        } else if (bits != 0) {
            PK_CUDA(cub::DeviceRadixSort::SortPairs(scratch_, bytes, keys, indices, uint32_t(count), 0, bits,
                                                    queue));
        }
        if (many_rows) {
            device::find_rows<<<blocks, device::THREADS, 0, queue>>>(indices.Current(), count, given.begin,
                                                                     columns, rows_[0]);
            PK_CUDA(cudaGetLastError());
            cub::DoubleBuffer<uint32_t> rows(rows_[0], rows_[1]);
            bytes = size_t(scratch_bytes_);
            PK_CUDA(cub::DeviceRadixSort::SortPairs(scratch_, bytes, rows, indices, uint32_t(count), 0,
                                                    bits_of(uint64_t(count / columns - 1)), queue));
        }
        if (needs_.order) {
            // What was selected is all of one row, which begins where the elements do.
            device::put_places<<<blocks, device::THREADS, 0, queue>>>(
                indices.Current(), count, given.is_selected ? 0 : given.begin,
                given.is_selected ? count : columns, given.is_selected ? count : kept,
                reinterpret_cast<uint32_t *>(results[buffer]));
        } else if (many_rows) {
            device::put_elements<<<blocks, device::THREADS, 0, queue>>>(
                elements, indices.Current(), count, reinterpret_cast<Key *>(results[buffer]));
        } else if (needs_.distinct) {
            put_distinct(keys.Current(), count, buffer, queue);
        } else {
            device::put_keys<<<blocks, device::THREADS, 0, queue>>>(order_, keys.Current(), count,
                                                                    reinterpret_cast<Key *>(results[buffer]));
        }
        PK_CUDA(cudaGetLastError());
    }

    // Queues what sort() does for all elements, with zeros in the order in which they came.
    void sort_all(int64_t columns, int64_t kept, cudaStream_t queue) {
        sort({0, bucket, 0, 0, false, bucket, 0, bucket}, columns, kept, 0, queue);
        if (!Order::of_floats || needs_.order || needs_.rows) return;
        // In several rows one key has stood for both.
        Key *const zeros = keys_[0];
        size_t bytes = size_t(scratch_bytes_);
        PK_CUDA(
            cub::DeviceSelect::If(scratch_, bytes, elements, zeros, counts, bucket, device::IsZero(), queue));
        device::put_zeros<<<device::ZEROS_BLOCKS, device::THREADS, 0, queue>>>(
            order_, zeros, counts, reinterpret_cast<Key *>(results[0]), bucket);
        PK_CUDA(cudaGetLastError());
    }

    // What comes next follows nothing.
    void forget_last() { before_ = nullptr; }

    static int bits_of(uint64_t number) {
        int bits = 0;
        for (; number != 0; number >>= 1) ++bits;
        return bits;
    }

    static constexpr int64_t COUNTS = device::BINS;

    int64_t resident = 0, bucket = 0;  // for how many elements there is room
    Key *elements = nullptr;
    char *results[RESULTS] = {};
    uint32_t *counts = nullptr;
    uint32_t *found[RESULTS] = {};  // where the device finds memory of the host

   private:
    static constexpr int64_t LEAST = 1024;
    static constexpr int64_t OVERHEAD = 32 << 10;  // counts, and what alignment takes

    // Memory that is handed out from its begin on.
    struct Room {
        char *memory;
        int64_t used = 0;
        template <class T>
        T *take(int64_t count) {
            char *const taken = memory == nullptr ? nullptr : memory + used;
            used += (count * int64_t(sizeof(T)) + 255) / 256 * 256;
            return reinterpret_cast<T *>(taken);
        }
    };

    void place_bucket(Room &room, int i) {
        keys_[i] = room.template take<Key>(bucket);
        indices_[i] = room.template take<uint32_t>(bucket);
        if (needs_.rows) rows_[i] = room.template take<uint32_t>(bucket);
    }
    void place_rest(Room &room) {
        for (Key *&last : last_) last = room.template take<Key>(1);
        counts = room.template take<uint32_t>(COUNTS);
        scratch_ = room.template take<char>(scratch_bytes_);
    }

    int64_t zeros_scratch() const {
        if (!Order::of_floats) return 0;
        size_t bytes = 0;
        PK_CUDA(cub::DeviceSelect::If(nullptr, bytes, elements, keys_[0], counts, bucket, device::IsZero()));
        return int64_t(bytes);
    }

    static int64_t result_item(Needs needs) {
        return needs.order ? int64_t(sizeof(uint32_t)) : int64_t(sizeof(Key));
    }
    // Bytes for each element of a bucket, everything twice.
    static int64_t bucket_item(Needs needs) {
        return 2 *
               (int64_t(sizeof(Key)) + (needs.rows ? 2 : 1) * int64_t(sizeof(uint32_t)) + result_item(needs));
    }
    int64_t bucket_item() const { return bucket_item(needs_); }

    void fit(int64_t size, int64_t bytes) {
        bucket = std::max<int64_t>(size, 1);
        scratch_bytes_ = scratch_for(std::min(needs_.count, bytes / int64_t(sizeof(Key))));
        const int64_t rest = bytes - bucket * bucket_item() - scratch_bytes_ - OVERHEAD;
        resident = std::min(needs_.count, rest / int64_t(sizeof(Key)));
    }

    static unsigned blocks_for(int64_t count) {
        return unsigned((count + device::THREADS - 1) / device::THREADS);
    }

    void select(const Bucket<Key> &given, cudaStream_t queue) {
        const device::Within<Order, Key> within{order_, elements, given.low, given.high};
        size_t bytes = size_t(scratch_bytes_);
        PK_CUDA(cub::DeviceSelect::If(scratch_, bytes,
                                      thrust::counting_iterator<uint32_t>(uint32_t(given.begin)), indices_[0],
                                      counts, given.end - given.begin, within, queue));
    }

    using Places = thrust::counting_iterator<uint32_t>;
    auto elements_of(const Key *keys) const {
        return thrust::make_transform_iterator(Places(0), device::Element<Order, Key>{order_, keys});
    }
    auto firsts_of(const Key *keys) const {
        Order same = order_;
        same.one_zero = true;
        const bool splits = Order::of_floats && needs_.splits_nan;
        return thrust::make_transform_iterator(
            Places(0), device::IsFirst<Order, Key>{order_, same, splits, keys, before_});
    }

    void put_distinct(const Key *keys, int64_t count, int buffer, cudaStream_t queue) {
        size_t bytes = size_t(scratch_bytes_);
        PK_CUDA(cub::DeviceSelect::Flagged(scratch_, bytes, elements_of(keys), firsts_of(keys),
                                           reinterpret_cast<Key *>(results[buffer]), counts, count, queue));
        device::conclude<<<1, 1, 0, queue>>>(keys, count, counts, last_[buffer], found[buffer]);
        PK_CUDA(cudaGetLastError());
        before_ = last_[buffer];
    }

    // What CUB needs for the largest bucket, and for selecting from so many.
    int64_t scratch_for(int64_t most) const {
        cub::DoubleBuffer<Key> keys(keys_[0], keys_[1]);
        cub::DoubleBuffer<uint32_t> indices(indices_[0], indices_[1]), rows(rows_[0], rows_[1]);
        const device::Within<Order, Key> within{order_, elements, 0, 0};
        size_t of_keys = 0, of_pairs = 0, of_rows = 0, of_selecting = 0, of_distinct = 0;
        const auto count = uint32_t(bucket);
        PK_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, of_keys, keys, count));
        PK_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, of_pairs, keys, indices, count));
        PK_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, of_rows, rows, indices, count));
        PK_CUDA(cub::DeviceSelect::If(nullptr, of_selecting, thrust::counting_iterator<uint32_t>(0),
                                      indices_[0], counts, most, within));
        if (needs_.distinct) {
            PK_CUDA(cub::DeviceSelect::Flagged(nullptr, of_distinct, elements_of(nullptr), firsts_of(nullptr),
                                               elements, counts, bucket));
        }
        return int64_t(std::max({of_keys, of_pairs, of_rows, of_selecting, of_distinct})) + 256;
    }

    const Order order_;
    Needs needs_;
    Key *keys_[2] = {};
    uint32_t *indices_[2] = {}, *rows_[2] = {};
    Key *last_[RESULTS] = {};      // of each buffer's keys, when those are distinct
    const Key *before_ = nullptr;  // of the keys that come next
    char *scratch_ = nullptr;
    int64_t scratch_bytes_ = 0;
};

}  // namespace pk
