// Radix sort on the device. Elements are device-resident; buckets of them are encoded as unsigned keys in the
// elements' order, sorted by CUB one after the other in the same temporary storage, and decoded.
#pragma once

#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "common/sort.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/launch.h"
#include "radix_sort_kernels.cuh"

namespace pk {

// CUB's algorithms, instantiated once each: they are inlined whole at every call. Without scratch, a function
// returns the bytes that it needs.
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
// Select the numbers from `begin` on for which `chosen` holds.
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

// Resident elements that are sorted together: whole rows, or the elements of one row from `begin` to `end`
// whose keys are from `low` to `high`.
template <class Key>
struct Bucket {
    int64_t begin, end;
    Key low, high;
    bool is_selected;  // by key, rather than all from begin to end
    int64_t count;     // of elements
    int64_t first;     // place of its first result
    int64_t results;   // number of its results that the call returns
};

// A sort: how many elements, and which results.
struct SortSpec {
    int64_t count;
    bool order;                                 // argsort: indices rather than elements
    bool rows;                                  // several rows
    bool distinct = false, splits_nan = false;  // unique, of one row; every NaN is distinct
};

// Sorts buckets of device-resident elements, in temporary storage that the caller binds. `Order`, a
// RuntimeKeyEncoding, encodes the keys.
template <class Order>
class DeviceSorter {
   public:
    using Key = typename Order::Key;
    // Keys that are sorted together with indices. Narrow ones are widened: kernels for each width would be
    // much code for little use.
    using Paired = std::conditional_t<sizeof(Key) < sizeof(uint32_t), uint32_t, Key>;
    static constexpr int RESULTS = 2;  // buffers: one is filled while the other is downloaded
    // The most elements that 32-bit indices are used for.
    static constexpr int64_t MAX_ELEMENTS = int64_t(1) << 30;

    // Divides memory of `bytes` between resident elements and a bucket: for all elements, or as many as fit.
    DeviceSorter(const Order &order, SortSpec spec, int64_t bytes) : order_(order), spec_(spec) {
        spec_.count = std::min(spec.count, MAX_ELEMENTS);
        // With smaller buckets, all elements may fit.
        const int64_t preferred = std::min(spec_.count, std::max(bytes / 3 / bucket_item(), MIN_ELEMENTS));
        for (int64_t size = preferred; size >= preferred / 4 && resident < spec_.count;
             size = size * 7 / 8 - 1) {
            fit(size, bytes);
        }
        if (resident < spec_.count) fit(preferred, bytes);
        if (std::min(resident, bucket) < std::min(spec_.count, MIN_ELEMENTS) || bucket > resident) {
            fail_device_budget("a sort");
        }
    }

    // Return the bytes that it can make use of, at most `most`.
    static int64_t bytes_for(SortSpec spec, int64_t most) {
        const int64_t count = std::min(spec.count, MAX_ELEMENTS), item = bucket_item(spec);
        const int64_t bytes = count * int64_t(sizeof(Key)) + std::min(count, most / 3 / item) * item;
        return std::min(most, bytes + bytes / 8 + 2 * OVERHEAD);
    }

    // In-core sort of elements that are on the device already: all elements are one bucket.
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

    // Bind the memory of an in-core sort, and return the bytes that it takes. With null memory, only compute
    // them.
    int64_t bind_in_core(char *memory, const Key *in, Key *out) {
        Arena arena{memory};
        elements = const_cast<Key *>(in);  // only read
        for (int i = 0; i < 2; ++i) bind_bucket(arena, i, spec_.order || spec_.rows);
        results[0] =
            spec_.order ? arena.template take<char>(bucket * result_item()) : reinterpret_cast<char *>(out);
        bind_rest(arena);
        return arena.used;
    }

    int64_t result_item() const { return result_item(spec_); }
    const Order &ordering() const { return order_; }

    // Enqueue the counting of elements by ranges of their keys, into `counts`.
    void count_keys(int64_t count, Key low, Key high, int shift, cudaStream_t stream) const {
        PK_CUDA(cudaMemsetAsync(counts, 0, COUNTS * sizeof(uint32_t), stream));
        const unsigned blocks = grid_for(count, device::THREADS, MAX_BLOCKS);
        device::count_keys<<<blocks, device::THREADS, 0, stream>>>(order_, elements, count, low, high, shift,
                                                                   counts);
        PK_CUDA(cudaGetLastError());
    }

    // Enqueue the counting of elements with one key, by chunks of the elements, into `counts`.
    void count_equal(int64_t count, Key key, int64_t chunk, cudaStream_t stream) const {
        PK_CUDA(cudaMemsetAsync(counts, 0, COUNTS * sizeof(uint32_t), stream));
        device::count_equal<<<grid_for(count, device::THREADS), device::THREADS, 0, stream>>>(
            order_, elements, count, key, chunk, counts);
        PK_CUDA(cudaGetLastError());
    }

    // Enqueue the sort of a bucket, in rows of `columns`, into a buffer of results. An argsort writes the
    // first `kept` of each row; a unique writes num_selected[buffer] elements.
    void sort(const Bucket<Key> &bucket_spec, int64_t columns, int64_t kept, int buffer,
              cudaStream_t stream) {
        const int64_t count = bucket_spec.count;
        const unsigned blocks = grid_for(count, device::THREADS);
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
            // A selected bucket is part of one row, which begins where the elements do.
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

    // Enqueue the sort of all elements, in core. Zeros stay in their original order, whatever their signs.
    void sort_all(int64_t columns, int64_t kept, cudaStream_t stream) {
        sort({0, bucket, 0, 0, false, bucket, 0, bucket}, columns, kept, 0, stream);
        if (!order_.of_floats || spec_.order || spec_.rows) return;
        // Several rows are sorted with one key for both zeros. Here -0.0 was sorted before 0.0: restore their
        // order.
        Key *const zeros = key_buffers<Key>().Current();
        size_t bytes = size_t(scratch_bytes_);
        cub_instances::select_zeros(scratch_, bytes, elements, zeros, counts, bucket, stream);
        device::write_zeros<<<device::ZEROS_BLOCKS, device::THREADS, 0, stream>>>(
            order_, zeros, counts, reinterpret_cast<Key *>(results[0]), bucket);
        PK_CUDA(cudaGetLastError());
    }

    // Start a new run: the next bucket's first key is distinct.
    void start_run() { before_ = nullptr; }

    // Return the number of bits that a number takes.
    static int bits_of(uint64_t number) {
        int bits = 0;
        for (; number != 0; number >>= 1) ++bits;
        return bits;
    }

    static constexpr int64_t COUNTS = device::BINS;

    int64_t resident = 0, bucket = 0;  // capacities, in elements
    Key *elements = nullptr;
    char *results[RESULTS] = {};
    uint32_t *counts = nullptr;
    uint32_t *num_selected[RESULTS] = {};  // in mapped pinned memory of the host

   private:
    static constexpr int64_t MIN_ELEMENTS = 1024, MAX_BLOCKS = 2048;
    static constexpr int64_t OVERHEAD = 32 << 10;  // counts and alignment

    // A bump allocator.
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
    // Return the bytes for each element of a bucket. Everything is double-buffered.
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

    void select(const Bucket<Key> &bucket_spec, cudaStream_t stream) {
        size_t bytes = size_t(scratch_bytes_);
        cub_instances::select(
            scratch_, bytes, uint32_t(bucket_spec.begin), indices_[0], counts,
            bucket_spec.end - bucket_spec.begin,
            device::KeyInRange{untyped_encoding(), elements, bucket_spec.low, bucket_spec.high}, stream);
    }

    device::UntypedKeyEncoding untyped_encoding() const { return device::UntypedKeyEncoding(order_); }

    void write_distinct(const Key *keys, int64_t count, int buffer, cudaStream_t stream) {
        const bool splits = order_.of_floats && spec_.splits_nan;
        size_t bytes = size_t(scratch_bytes_);
        cub_instances::select(scratch_, bytes, 0, indices_[0], counts, count,
                              device::IsFirst{untyped_encoding(), splits, keys, before_}, stream);
        device::write_selected<<<grid_for(count, device::THREADS, MAX_BLOCKS), device::THREADS, 0, stream>>>(
            order_, keys, indices_[0], counts, reinterpret_cast<Key *>(results[buffer]));
        PK_CUDA(cudaGetLastError());
        device::conclude<<<1, 1, 0, stream>>>(keys, count, counts, last_[buffer], num_selected[buffer]);
        PK_CUDA(cudaGetLastError());
        before_ = last_[buffer];
    }

    // Return the scratch that CUB needs to sort the largest bucket and to select from `most` elements.
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
                              device::KeyInRange{untyped_encoding(), elements, 0, 0}, nullptr);
        if (spec_.distinct) {
            cub_instances::select(nullptr, of_distinct, 0, indices_[0], counts, bucket,
                                  device::IsFirst{untyped_encoding(), false, nullptr, nullptr}, nullptr);
        }
        return int64_t(std::max({of_keys, of_pairs, of_rows, of_selecting, of_distinct})) + 256;
    }

    const Order order_;
    SortSpec spec_;
    char *keys_[2] = {};
    uint32_t *indices_[2] = {}, *rows_[2] = {};
    Key *last_[RESULTS] = {};      // last key of each buffer's bucket, for unique
    const Key *before_ = nullptr;  // last key before the next bucket
    char *scratch_ = nullptr;
    int64_t scratch_bytes_ = 0;
};

}  // namespace pk
