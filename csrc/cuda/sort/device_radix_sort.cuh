// What of sorting happens on the device: elements are resident there, and parts of them are sorted, one after
// the other, in memory that they share.
#pragma once

#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "common/sort.h"
#include "cuda/pipeline/staging_slots.h"

namespace pk {
namespace device {

constexpr int THREADS = 256;
constexpr int BINS = 2048, DIGIT = 11;

__device__ inline int64_t thread_index() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// A Sorted is a key, or wider.
template <class Order, class Key, class Sorted>
__global__ void load(Order order, const Key *elements, int64_t begin, int64_t count, Sorted *keys,
                     uint32_t *indices) {
    const int64_t i = thread_index();
    if (i >= count) return;
    keys[i] = order.key(elements[begin + i]);
    if (indices != nullptr) indices[i] = uint32_t(begin + i);
}

template <class Order, class Key, class Sorted>
__global__ void gather(Order order, const Key *elements, const uint32_t *indices, int64_t count,
                       Sorted *keys) {
    const int64_t i = thread_index();
    if (i < count) keys[i] = order.key(elements[indices[i]]);
}

// A LateOrdering whose width, too, is known at run time alone: CUB's kernels that select by it are the same
// for all types. What depends on the width is called, not inlined: they would have it many times.
struct RuntimeOrdering {
    int bytes;
    bool of_floats, one_zero;
    uint64_t flip, invert;

    template <class Key>
    explicit RuntimeOrdering(const RuntimeKeyEncoding<Key> &order)
        : bytes(int(sizeof(Key))),
          of_floats(order.of_floats),
          one_zero(order.one_zero),
          flip(order.sign_mask),
          invert(order.descending_mask) {}
};

// Calls visit(zero of the key's type).
template <class Visit>
__device__ auto visit_key(int bytes, Visit visit) {
    switch (bytes) {
        case 1: return visit(uint8_t(0));
        case 2: return visit(uint16_t(0));
        case 4: return visit(uint32_t(0));
        default: return visit(uint64_t(0));
    }
}

static __device__ __noinline__ uint64_t key_at(const void *elements, uint32_t index, int bytes,
                                               bool of_floats, bool one_zero, uint64_t flip,
                                               uint64_t invert) {
    return visit_key(bytes, [&](auto zero) {
        using Key = decltype(zero);
        const RuntimeKeyEncoding<Key> order{of_floats, Key(flip), Key(invert), one_zero};
        return uint64_t(order.key(static_cast<const Key *>(elements)[index]));
    });
}

// Which elements have a key from low to high.
struct KeyInRange {
    RuntimeOrdering order;
    const void *elements;
    uint64_t low, high;
    __device__ bool operator()(uint32_t index) const {
        const uint64_t key =
            key_at(elements, index, order.bytes, order.of_floats, order.one_zero, order.flip, order.invert);
        return low <= key && key <= high;
    }
};

// How many elements there are in each range of 1 << shift keys from low on.
template <class Order, class Key>
__global__ void count_keys(Order order, const Key *elements, int64_t count, Key low, Key high, int shift,
                           uint32_t *counts) {
    __shared__ uint32_t mine[BINS];
    for (int bin = int(threadIdx.x); bin < BINS; bin += int(blockDim.x)) mine[bin] = 0;
    __syncthreads();
    for (int64_t i = thread_index(); i < count; i += int64_t(gridDim.x) * blockDim.x) {
        const Key key = order.key(elements[i]);
        if (low <= key && key <= high) atomicAdd(&mine[uint64_t(Key(key - low)) >> shift], 1u);
    }
    __syncthreads();
    for (int bin = int(threadIdx.x); bin < BINS; bin += int(blockDim.x)) {
        if (mine[bin] != 0) atomicAdd(&counts[bin], mine[bin]);
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
__global__ void write_keys(Order order, const Key *keys, int64_t count, Key *results) {
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
__global__ void write_zeros(Order order, const Key *zeros, const uint32_t *num_selected, Key *sorted,
                            int64_t count) {
    const int64_t mine = *num_selected;
    if (mine == 0) return;
    const int64_t first =
        place_of([&](int64_t i) { return order.key(sorted[i]); }, count, order.key(Order::TOP), false);
    for (int64_t i = thread_index(); i < mine; i += int64_t(gridDim.x) * blockDim.x)
        sorted[first + i] = zeros[i];
}

static __global__ void widen_indices(const uint32_t *places, int64_t count, int64_t *wide) {
    const int64_t i = thread_index();
    if (i < count) wide[i] = int64_t(places[i]);
}

static __device__ __noinline__ bool is_first_at(const void *keys, uint32_t index, const void *before,
                                                int bytes, bool of_floats, bool splits_nan, uint64_t flip) {
    return visit_key(bytes, [&](auto zero) {
        using Key = decltype(zero);
        const RuntimeKeyEncoding<Key> order{of_floats, Key(flip), 0, false},
            same{of_floats, Key(flip), 0, true};
        const Key *const mine = static_cast<const Key *>(keys) + index;
        if (splits_nan && *mine == order.key(order.NAN_BITS)) return true;
        const Key *const previous = index == 0 ? static_cast<const Key *>(before) : mine - 1;
        return previous == nullptr || same.key(order.bits(*mine)) != same.key(order.bits(*previous));
    });
}

// Which of ascending keys are the first of their kind, of both zeros one; `before`, if not null, is the key
// that comes before them all.
struct IsFirst {
    RuntimeOrdering order;
    bool splits_nan;
    const void *keys, *before;
    __device__ bool operator()(uint32_t index) const {
        return is_first_at(keys, index, before, order.bytes, order.of_floats, splits_nan, order.flip);
    }
};

// The elements of those keys that were selected.
template <class Order, class Key>
__global__ void write_selected(Order order, const Key *keys, const uint32_t *indices,
                               const uint32_t *selected, Key *results) {
    const int64_t count = *selected;
    for (int64_t i = thread_index(); i < count; i += int64_t(gridDim.x) * blockDim.x)
        results[i] = order.bits(keys[indices[i]]);
}

// Keeps the last key for those that follow, and tells the host how many were selected.
template <class Key>
__global__ void conclude(const Key *keys, int64_t count, const uint32_t *selected, Key *last,
                         uint32_t *num_selected) {
    *last = keys[count - 1];
    *num_selected = *selected;
}

template <class Key>
__global__ void write_elements(const Key *elements, const uint32_t *indices, int64_t count, Key *results) {
    const int64_t i = thread_index();
    if (i < count) results[i] = elements[indices[i]];
}

// The place in its row of each row's first `kept`; `indices` are of elements from `begin`, where a row
// begins.
static __global__ void write_indices(const uint32_t *indices, int64_t count, int64_t begin, int64_t columns,
                                     int64_t kept, uint32_t *results) {
    const int64_t i = thread_index();
    if (i >= count) return;
    const int64_t row = i / columns, place = i % columns;
    if (place < kept) results[row * kept + place] = uint32_t(indices[i] - begin - row * columns);
}

}  // namespace device

// CUB's functions, which are inlined whole wherever they are called: so at one place each, for the bytes that
// they need, too.
namespace cub_instances {

template <class Key>
[[gnu::noinline]] void sort_keys(void *scratch, size_t &bytes, cub::DoubleBuffer<Key> &keys, uint32_t count,
                                 int bits, cudaStream_t stream) {
    PK_CUDA(cub::DeviceRadixSort::SortKeys(scratch, bytes, keys, count, 0, bits, stream));
}
template <class Key>
[[gnu::noinline]] void sort_pairs(void *scratch, size_t &bytes, cub::DoubleBuffer<Key> &keys,
                                  cub::DoubleBuffer<uint32_t> &values, uint32_t count, int bits,
                                  cudaStream_t stream) {
    PK_CUDA(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, values, count, 0, bits, stream));
}
// Of the numbers from `begin` on those that are chosen.
template <class Chosen>
[[gnu::noinline]] void select(void *scratch, size_t &bytes, uint32_t begin, uint32_t *out,
                              uint32_t *num_selected, int64_t count, Chosen chosen, cudaStream_t stream) {
    const thrust::counting_iterator<uint32_t> numbers(begin);
    PK_CUDA(cub::DeviceSelect::If(scratch, bytes, numbers, out, num_selected, count, chosen, stream));
}
template <class Key>
[[gnu::noinline]] void select_zeros(void *scratch, size_t &bytes, const Key *elements, Key *zeros,
                                    uint32_t *num_selected, int64_t count, cudaStream_t stream) {
    PK_CUDA(cub::DeviceSelect::If(scratch, bytes, elements, zeros, num_selected, count, device::IsZero(),
                                  stream));
}

}  // namespace cub_instances

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
struct SortSpec {
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
    // Keys that are sorted together with indices: narrow ones are widened, as kernels for each width would be
    // much that is seldom used.
    using Paired = std::conditional_t<sizeof(Key) < sizeof(uint32_t), uint32_t, Key>;
    static constexpr int RESULTS = 2;  // buffers: one is filled while the other is downloaded
    // For how many resident elements there are indices.
    static constexpr int64_t MAX_ELEMENTS = int64_t(1) << 30;

    // Cuts memory of `bytes` into room for as many as there are, or as fit.
    DeviceSorter(const Order &order, SortSpec spec, int64_t bytes) : order_(order), spec_(spec) {
        spec_.count = std::min(spec.count, MAX_ELEMENTS);
        // Smaller buckets may be what lets everything be resident.
        const int64_t usual = std::min(spec_.count, std::max(bytes / 3 / bucket_item(), MIN_ELEMENTS));
        for (int64_t size = usual; size >= usual / 4 && resident < spec_.count; size = size * 7 / 8 - 1) {
            fit(size, bytes);
        }
        if (resident < spec_.count) fit(usual, bytes);
        if (std::min(resident, bucket) < std::min(spec_.count, MIN_ELEMENTS) || bucket > resident) {
            fail(PK_OUT_OF_MEMORY, "PYCUDAKIT_DEVICE_MEMORY leaves too little to sort with");
        }
    }

    // What it would have use for, of so much at most.
    static int64_t bytes_for(SortSpec spec, int64_t most) {
        const int64_t count = std::min(spec.count, MAX_ELEMENTS), item = bucket_item(spec);
        const int64_t bytes = count * int64_t(sizeof(Key)) + std::min(count, most / 3 / item) * item;
        return std::min(most, bytes + bytes / 8 + 2 * OVERHEAD);
    }

    // All at once, of elements that lie on the device already.
    struct InCore {};
    DeviceSorter(InCore, const Order &order, SortSpec spec) : order_(order), spec_(spec) {
        resident = bucket = spec.count;
        scratch_bytes_ = std::max(scratch_for(bucket), zeros_scratch());
    }

    void bind(char *memory) {
        Arena arena{memory};
        elements = arena.template take<Key>(resident);
        for (int i = 0; i < 2; ++i) {
            bind_bucket(arena, i, true);
            results[i] = arena.template take<char>(bucket * result_item());
        }
        bind_rest(arena);
    }

    // The same for what lies there. Returns the bytes that it takes; of no memory, to learn how many.
    int64_t bind_in_core(char *memory, const Key *in, Key *out) {
        Arena arena{memory};
        elements = const_cast<Key *>(in);  // which are only read
        for (int i = 0; i < 2; ++i) bind_bucket(arena, i, spec_.order || spec_.rows);
        results[0] =
            spec_.order ? arena.template take<char>(bucket * result_item()) : reinterpret_cast<char *>(out);
        bind_rest(arena);
        return arena.used;
    }

    int64_t result_item() const { return result_item(spec_); }
    const Order &ordering() const { return order_; }

    // Queues the counting of elements by ranges of their keys, into counts.
    void count_keys(int64_t count, Key low, Key high, int shift, cudaStream_t stream) const {
        PK_CUDA(cudaMemsetAsync(counts, 0, COUNTS * sizeof(uint32_t), stream));
        const auto blocks = unsigned(std::min<int64_t>(blocks_for(count), MAX_BLOCKS));
        device::count_keys<<<blocks, device::THREADS, 0, stream>>>(order_, elements, count, low, high, shift,
                                                                   counts);
        PK_CUDA(cudaGetLastError());
    }

    // Queues the counting of those with one key, by chunks of the elements.
    void count_equal(int64_t count, Key key, int64_t chunk, cudaStream_t stream) const {
        PK_CUDA(cudaMemsetAsync(counts, 0, COUNTS * sizeof(uint32_t), stream));
        device::count_equal<<<blocks_for(count), device::THREADS, 0, stream>>>(order_, elements, count, key,
                                                                               chunk, counts);
        PK_CUDA(cudaGetLastError());
    }

    // Queues the sorting of a bucket of rows of `columns`, into a buffer of results; of an order, the first
    // `kept` of each row; of the distinct ones, as many as found[buffer] then says.
    void sort(const Bucket<Key> &bucket_spec, int64_t columns, int64_t kept, int buffer,
              cudaStream_t stream) {
        const int64_t count = bucket_spec.count;
        const unsigned blocks = blocks_for(count);
        cub::DoubleBuffer<Key> keys = key_buffers<Key>();
        cub::DoubleBuffer<Paired> paired = key_buffers<Paired>();
        cub::DoubleBuffer<uint32_t> indices(indices_[0], indices_[1]);
        const bool many_rows = !bucket_spec.is_selected && count > columns;
        const bool by_pairs = spec_.order || many_rows;
        if (bucket_spec.is_selected) select(bucket_spec, stream);
        auto begin_with = [&](auto *sorted) {
            if (bucket_spec.is_selected) {
                device::gather<<<blocks, device::THREADS, 0, stream>>>(order_, elements, indices_[0], count,
                                                                       sorted);
            } else {
                device::load<<<blocks, device::THREADS, 0, stream>>>(order_, elements, bucket_spec.begin,
                                                                     count, sorted, indices_[0]);
            }
            PK_CUDA(cudaGetLastError());
        };
        const int bits = bucket_spec.is_selected ? bits_of(uint64_t(bucket_spec.low ^ bucket_spec.high))
                                                 : int(8 * sizeof(Key));
        size_t bytes = size_t(scratch_bytes_);
        if (by_pairs) {
            begin_with(paired.Current());
            if (bits != 0)
                cub_instances::sort_pairs(scratch_, bytes, paired, indices, uint32_t(count), bits, stream);
        } else {
            begin_with(keys.Current());
            if (bits != 0) cub_instances::sort_keys(scratch_, bytes, keys, uint32_t(count), bits, stream);
        }
        if (many_rows) {
            device::find_rows<<<blocks, device::THREADS, 0, stream>>>(indices.Current(), count,
                                                                      bucket_spec.begin, columns, rows_[0]);
            PK_CUDA(cudaGetLastError());
            cub::DoubleBuffer<uint32_t> rows(rows_[0], rows_[1]);
            bytes = size_t(scratch_bytes_);
            cub_instances::sort_pairs(scratch_, bytes, rows, indices, uint32_t(count),
                                      bits_of(uint64_t(count / columns - 1)), stream);
        }
        if (spec_.order) {
            // What was selected is all of one row, which begins where the elements do.
            device::write_indices<<<blocks, device::THREADS, 0, stream>>>(
                indices.Current(), count, bucket_spec.is_selected ? 0 : bucket_spec.begin,
                bucket_spec.is_selected ? count : columns, bucket_spec.is_selected ? count : kept,
                reinterpret_cast<uint32_t *>(results[buffer]));
        } else if (many_rows) {
            device::write_elements<<<blocks, device::THREADS, 0, stream>>>(
                elements, indices.Current(), count, reinterpret_cast<Key *>(results[buffer]));
        } else if (spec_.distinct) {
            write_distinct(keys.Current(), count, buffer, stream);
        } else {
            device::write_keys<<<blocks, device::THREADS, 0, stream>>>(
                order_, keys.Current(), count, reinterpret_cast<Key *>(results[buffer]));
        }
        PK_CUDA(cudaGetLastError());
    }

    // Queues what sort() does for all elements, with zeros in the order in which they came.
    void sort_all(int64_t columns, int64_t kept, cudaStream_t stream) {
        sort({0, bucket, 0, 0, false, bucket, 0, bucket}, columns, kept, 0, stream);
        if (!order_.of_floats || spec_.order || spec_.rows) return;
        // In several rows one key has stood for both.
        Key *const zeros = key_buffers<Key>().Current();
        size_t bytes = size_t(scratch_bytes_);
        cub_instances::select_zeros(scratch_, bytes, elements, zeros, counts, bucket, stream);
        device::write_zeros<<<device::ZEROS_BLOCKS, device::THREADS, 0, stream>>>(
            order_, zeros, counts, reinterpret_cast<Key *>(results[0]), bucket);
        PK_CUDA(cudaGetLastError());
    }

    // What comes next follows nothing.
    void start_run() { before_ = nullptr; }

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
    uint32_t *num_selected[RESULTS] = {};  // where the device finds memory of the host

   private:
    static constexpr int64_t MIN_ELEMENTS = 1024, MAX_BLOCKS = 2048;
    static constexpr int64_t OVERHEAD = 32 << 10;  // counts, and what alignment takes

    // Memory that is handed out from its begin on.
    struct Arena {
        char *memory;
        int64_t used = 0;
        template <class T>
        T *take(int64_t count) {
            char *const taken = memory == nullptr ? nullptr : memory + used;
            used += (count * int64_t(sizeof(T)) + 255) / 256 * 256;
            return reinterpret_cast<T *>(taken);
        }
    };

    void bind_bucket(Arena &arena, int i, bool with_indices) {
        keys_[i] = arena.template take<char>(bucket * key_item(spec_));
        if (with_indices) indices_[i] = arena.template take<uint32_t>(bucket);
        if (spec_.rows) rows_[i] = arena.template take<uint32_t>(bucket);
    }
    void bind_rest(Arena &arena) {
        for (Key *&last : last_) last = arena.template take<Key>(1);
        counts = arena.template take<uint32_t>(COUNTS);
        scratch_ = arena.template take<char>(scratch_bytes_);
    }

    int64_t zeros_scratch() const {
        if (!order_.of_floats) return 0;
        size_t bytes = 0;
        cub_instances::select_zeros<Key>(nullptr, bytes, elements, nullptr, counts, bucket, nullptr);
        return int64_t(bytes);
    }

    template <class K>
    cub::DoubleBuffer<K> key_buffers() const {
        return {reinterpret_cast<K *>(keys_[0]), reinterpret_cast<K *>(keys_[1])};
    }
    static int64_t key_item(SortSpec spec) {
        return spec.order || spec.rows ? int64_t(sizeof(Paired)) : int64_t(sizeof(Key));
    }
    static int64_t result_item(SortSpec spec) {
        return spec.order ? int64_t(sizeof(uint32_t)) : int64_t(sizeof(Key));
    }
    // Bytes for each element of a bucket, everything twice.
    static int64_t bucket_item(SortSpec spec) {
        return 2 * (key_item(spec) + (spec.rows ? 2 : 1) * int64_t(sizeof(uint32_t)) + result_item(spec));
    }
    int64_t bucket_item() const { return bucket_item(spec_); }

    void fit(int64_t size, int64_t bytes) {
        bucket = std::max<int64_t>(size, 1);
        scratch_bytes_ = scratch_for(std::min(spec_.count, bytes / int64_t(sizeof(Key))));
        const int64_t rest = bytes - bucket * bucket_item() - scratch_bytes_ - OVERHEAD;
        resident = std::min(spec_.count, rest / int64_t(sizeof(Key)));
    }

    static unsigned blocks_for(int64_t count) {
        return unsigned((count + device::THREADS - 1) / device::THREADS);
    }

    void select(const Bucket<Key> &bucket_spec, cudaStream_t stream) {
        size_t bytes = size_t(scratch_bytes_);
        cub_instances::select(
            scratch_, bytes, uint32_t(bucket_spec.begin), indices_[0], counts,
            bucket_spec.end - bucket_spec.begin,
            device::KeyInRange{runtime_ordering(), elements, bucket_spec.low, bucket_spec.high}, stream);
    }

    device::RuntimeOrdering runtime_ordering() const { return device::RuntimeOrdering(order_); }

    void write_distinct(const Key *keys, int64_t count, int buffer, cudaStream_t stream) {
        const bool splits = order_.of_floats && spec_.splits_nan;
        size_t bytes = size_t(scratch_bytes_);
        cub_instances::select(scratch_, bytes, 0, indices_[0], counts, count,
                              device::IsFirst{runtime_ordering(), splits, keys, before_}, stream);
        device::write_selected<<<unsigned(std::min<int64_t>(blocks_for(count), MAX_BLOCKS)), device::THREADS,
                                 0, stream>>>(order_, keys, indices_[0], counts,
                                              reinterpret_cast<Key *>(results[buffer]));
        PK_CUDA(cudaGetLastError());
        device::conclude<<<1, 1, 0, stream>>>(keys, count, counts, last_[buffer], num_selected[buffer]);
        PK_CUDA(cudaGetLastError());
        before_ = last_[buffer];
    }

    // What CUB needs for the largest bucket, and for selecting from so many.
    int64_t scratch_for(int64_t most) const {
        cub::DoubleBuffer<Key> keys = key_buffers<Key>();
        cub::DoubleBuffer<Paired> paired = key_buffers<Paired>();
        cub::DoubleBuffer<uint32_t> indices(indices_[0], indices_[1]), rows(rows_[0], rows_[1]);
        size_t of_keys = 0, of_pairs = 0, of_rows = 0, of_selecting = 0, of_distinct = 0;
        const auto count = uint32_t(bucket);
        const int bits = int(8 * sizeof(Key));
        cub_instances::sort_keys(nullptr, of_keys, keys, count, bits, nullptr);
        cub_instances::sort_pairs(nullptr, of_pairs, paired, indices, count, bits, nullptr);
        cub_instances::sort_pairs(nullptr, of_rows, rows, indices, count, 32, nullptr);
        cub_instances::select(nullptr, of_selecting, 0, indices_[0], counts, most,
                              device::KeyInRange{runtime_ordering(), elements, 0, 0}, nullptr);
        if (spec_.distinct) {
            cub_instances::select(nullptr, of_distinct, 0, indices_[0], counts, bucket,
                                  device::IsFirst{runtime_ordering(), false, nullptr, nullptr}, nullptr);
        }
        return int64_t(std::max({of_keys, of_pairs, of_rows, of_selecting, of_distinct})) + 256;
    }

    const Order order_;
    SortSpec spec_;
    char *keys_[2] = {};
    uint32_t *indices_[2] = {}, *rows_[2] = {};
    Key *last_[RESULTS] = {};      // of each buffer's keys, when those are distinct
    const Key *before_ = nullptr;  // of the keys that come next
    char *scratch_ = nullptr;
    int64_t scratch_bytes_ = 0;
};

}  // namespace pk
