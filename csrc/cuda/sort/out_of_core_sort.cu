// Out-of-core sort on a GPU. As many rows as fit, or as much of one row, are uploaded and stay resident. They
// are sorted bucket by bucket, by radix sort, while the results of the bucket before are downloaded. A bucket
// is some whole rows or, of a long row, a range of keys, which counting the keys' most significant digits
// finds. A row that does not fit is sorted in runs, which the host merges.
#include <condition_variable>
#include <cstring>
#include <utility>

#include "common/sort_unique.h"
#include "device_radix_sort.cuh"
#include "device_sort.h"
#include "host_merge.h"
#include "sort_workspace.cuh"

namespace pk {

const int HOST_STAGE = PK_STAGE_UNSTAGE;

namespace {

// One out-of-core sort, argsort or unique: uploads elements, sorts buckets, and drains their results.
template <class Order>
class OutOfCoreSort : private StagedTransfer {
   public:
    using Key = typename Order::Key;
    using Sorter = DeviceSorter<Order>;

    OutOfCoreSort(const Order &ordering, const Rows &rows, SortSpec spec, Call &call)
        : rows_(rows),
          wants_order_(spec.order),
          call_(call),
          spec_(spec),
          workspace_(call, spec_.count * int64_t(sizeof(Key))),
          sorter_(ordering, spec_,
                  workspace_.take_memory(Sorter::bytes_for(spec_, workspace_.most_memory()))) {
        sorter_.bind(workspace_.d_memory());
        const Slot &slot = workspace_.slot();
        for (int i = 0; i < Sorter::RESULTS; ++i) {
            const int64_t place = result_bytes() + i * int64_t(sizeof(uint32_t));
            sorter_.num_selected[i] = reinterpret_cast<uint32_t *>(slot.mapped() + place);
            num_selected_[i] = reinterpret_cast<const uint32_t *>(slot.host() + place);
        }
    }

    // Write the distinct elements of the one row to `out`, and return how many there are.
    int64_t run_distinct(Key *out) {
        const int64_t size = rows_.columns;
        if (size <= sorter_.resident) return sort(0, size, size, out, nullptr, size);
        std::vector<SortedRun> all = runs();
        const Scratch<Key> items(size), other(size);
        int64_t count = 0;
        for (SortedRun &run : all) {
            run.count = sort(run.start, run.count, size, items.get() + run.start, nullptr, run.count);
            count += run.count;
        }
        const HostStageTimer timed(call_, size);
        const Key *const merged = merge(call_, all, items.get(), other.get(), count, less());
        return ordering().of_floats
                   ? copy_distinct(call_, typename Order::OfFloats(), merged, count, spec_.splits_nan, out)
                   : copy_distinct(call_, typename Order::OfIntegers(), merged, count, spec_.splits_nan, out);
    }

    // Sort all rows into `out`, or write the first `kept` of each row's order to `order`.
    void run(Key *out, int64_t *order, int64_t kept) {
        const int64_t columns = rows_.columns;
        if (columns > sorter_.resident) {
            for (int64_t row = 0; row < rows_.count; ++row) {
                if (wants_order_) {
                    merge_order(row * columns, order + row * kept, kept);
                } else {
                    merge_keys(row * columns, out + row * columns);
                }
            }
            return;
        }
        const int64_t rows_at_once = columns > sorter_.bucket ? 1 : sorter_.resident / columns;
        for (int64_t row = 0; row < rows_.count; row += rows_at_once) {
            const int64_t count = std::min(rows_at_once, rows_.count - row);
            sort(row * columns, count * columns, columns, out + (wants_order_ ? 0 : row * columns),
                 order + (wants_order_ ? row * kept : 0), kept);
        }
    }

   private:
    // Sort elements from `start` on, which are whole rows or part of one. Return the number of results.
    int64_t sort(int64_t start, int64_t count, int64_t columns, Key *out, int64_t *order, int64_t kept) {
        const auto run_count = size_t(ceil_div(columns, sorter_.resident));
        call_.begin_passes(2 + merge_rounds(run_count));  // upload, download, and merging
        upload(start, count);
        sorter_.start_run();
        std::vector<Bucket<Key>> buckets;
        if (columns <= sorter_.bucket) {
            const int64_t rows = sorter_.bucket / columns;
            for (int64_t begin = 0; begin < count; begin += rows * columns) {
                const int64_t part = std::min(rows * columns, count - begin);
                buckets.push_back(
                    {begin, begin + part, 0, 0, false, part, begin / columns * kept, part / columns * kept});
            }
        } else {
            split(buckets, 0, Order::ALL, count, count);
            int64_t first = 0;
            for (Bucket<Key> &bucket : buckets) {
                bucket.first = first;
                bucket.results = std::clamp<int64_t>(kept - first, 0, bucket.count);
                first += bucket.count;
            }
            while (buckets.back().results == 0) buckets.pop_back();
        }
        const int64_t results = download(buckets, columns, out, order, kept);
        for (const Bucket<Key> &bucket : buckets) count -= bucket.count;
        call_.advance(count);  // those that no result depends on
        return results;
    }

    void upload(int64_t start, int64_t count) {
        constexpr auto item = int64_t(sizeof(Key));
        char *const from = static_cast<char *>(const_cast<void *>(rows_.in)) + start * item;
        StagedCopy copy(call_, workspace_.slot().device, StagedCopy::up, item);
        copy.add(from, reinterpret_cast<char *>(sorter_.elements), count * item);
        copy.run(workspace_.lease());
    }

    // Download the counts.
    std::vector<uint32_t> download_counts() {
        std::vector<uint32_t> counts(Sorter::COUNTS);
        const Slot &slot = workspace_.slot();
        const size_t bytes = counts.size() * sizeof(uint32_t);
        PK_CUDA(cudaMemcpyAsync(slot.host(), sorter_.counts, bytes, cudaMemcpyDeviceToHost,
                                workspace_.compute()));
        PK_CUDA(cudaEventRecord(slot.computed.get(), workspace_.compute()));
        PK_CUDA(cudaEventSynchronize(slot.computed.get()));
        std::memcpy(counts.data(), slot.host(), bytes);
        call_.check_interrupt();
        return counts;
    }

    // Append buckets of the elements with keys from low to high. Where these do not fit into one bucket,
    // count them by their most significant digit that differs, and split each range again if need be.
    void split(std::vector<Bucket<Key>> &buckets, Key low, Key high, int64_t matching, int64_t count) {
        if (matching == 0) return;
        if (matching <= sorter_.bucket) {
            buckets.push_back({0, count, low, high, true, matching, 0, 0});
        } else if (low == high) {
            split_equal(buckets, low, count);
        } else {
            const auto range = uint64_t(Key(high - low));
            const int shift = std::max(0, Sorter::bits_of(range) - device::DIGIT);
            sorter_.count_keys(count, low, high, shift, workspace_.compute());
            const std::vector<uint32_t> counts = download_counts();
            const auto last = int64_t(range >> shift);
            auto low_of = [&](int64_t bin) { return Key(low + Key(uint64_t(bin) << shift)); };
            auto high_of = [&](int64_t bin) { return bin == last ? high : Key(low_of(bin + 1) - 1); };
            int64_t first = 0, sum = 0;  // of the bins that will share a bucket
            for (int64_t bin = 0; bin <= last; ++bin) {
                const auto bin_count = int64_t(counts[size_t(bin)]);
                if (sum + bin_count > sorter_.bucket) {
                    split(buckets, low_of(first), high_of(bin - 1), sum, count);
                    sum = 0;
                }
                if (bin_count > sorter_.bucket) {
                    split(buckets, low_of(bin), high_of(bin), bin_count, count);
                } else {
                    if (sum == 0) first = bin;
                    sum += bin_count;
                }
            }
            split(buckets, low_of(first), high, sum, count);
        }
    }

    // Append buckets of the elements with one key: ranges of the row, so that their order is stable.
    void split_equal(std::vector<Bucket<Key>> &buckets, Key key, int64_t count) {
        const int64_t chunk = sorter_.bucket / device::THREADS * device::THREADS;
        if (count / chunk >= Sorter::COUNTS) fail_device_budget("a sort of so many equal elements");
        sorter_.count_equal(count, key, chunk, workspace_.compute());
        const std::vector<uint32_t> counts = download_counts();
        for (int64_t begin = 0; begin < count; begin += chunk) {
            const auto equal_count = int64_t(counts[size_t(begin / chunk)]);
            if (equal_count == 0) continue;
            const int64_t end = std::min(count, begin + chunk);
            Bucket<Key> *const before = buckets.empty() ? nullptr : &buckets.back();
            const bool extends = before != nullptr && before->low == key && before->high == key &&
                                 before->count + equal_count <= sorter_.bucket;
            if (extends) {
                before->end = end;
                before->count += equal_count;
            } else {
                buckets.push_back({begin, end, key, key, true, equal_count, 0, 0});
            }
        }
    }

    // A piece of a bucket's results, as many as a slot's pinned memory takes.
    struct Piece {
        size_t bucket;
        int64_t begin, count;
    };

    // The download of all results: where they go, and the state that the downloading threads share.
    struct OutputDrain {
        const std::vector<Bucket<Key>> &buckets;
        const int64_t columns, kept;
        Key *const out;
        int64_t *const order;

        std::vector<Piece> pieces{};
        std::mutex mutex{};  // guards the members below
        std::condition_variable changed{};
        std::vector<int64_t> left{};  // pieces of each bucket to download
        size_t launched = 0;
        bool failed = false;
        std::vector<double> launch_times{};  // of each bucket
        double sorted = 0;                   // the time when the last sort had ended
        std::vector<int64_t> first{};        // first result of each sorted bucket, and of the next one
    };

    // Thrown where another thread has failed.
    struct Aborted {};

    // Sort the buckets and download their results. Return the number of results.
    int64_t download(const std::vector<Bucket<Key>> &buckets, int64_t columns, Key *out, int64_t *order,
                     int64_t kept) {
        OutputDrain drain{buckets, columns, kept, out, order};
        drain_ = &drain;
        make_pieces();
        launch_ready();
        std::atomic<size_t> next{0};
        workspace_.on_slots(int64_t(drain.pieces.size()), [&](const Slot &slot) {
            try {
                StagingThread thread(*this, call_, {{&slot, slot.host(), slot.downloaded.get()}});
                for (size_t i = next++; i < drain.pieces.size(); i = next++) thread.take(i);
                thread.finish();
            } catch (const Aborted &) {
            } catch (...) {
                {
                    const std::lock_guard<std::mutex> lock(drain.mutex);
                    drain.failed = true;
                }
                drain.changed.notify_all();
                throw;
            }
        });
        return spec_.distinct ? drain.first.back() : buckets.back().first + buckets.back().results;
    }

    // Cut the results into pieces.
    void make_pieces() {
        const int64_t most = result_bytes() / sorter_.result_item();
        drain_->launch_times.resize(drain_->buckets.size());
        drain_->first.push_back(0);
        for (size_t bucket = 0; bucket < drain_->buckets.size(); ++bucket) {
            const int64_t results = drain_->buckets[bucket].results;
            int64_t count = 0;
            for (int64_t begin = 0; begin < results; begin += most, ++count) {
                drain_->pieces.push_back({bucket, begin, std::min(most, results - begin)});
            }
            drain_->left.push_back(count);
        }
    }

    // Launch the sorts of the next buckets whose buffer of results is free; buffers are used in turn. The
    // mutex is held, or no other thread has started.
    void launch_ready() {
        for (size_t &next = drain_->launched; next < drain_->buckets.size(); ++next) {
            if (next >= Sorter::RESULTS && drain_->left[next - Sorter::RESULTS] != 0) return;
            drain_->launch_times[next] = call_.seconds();
            const size_t buffer = next % Sorter::RESULTS;
            sorter_.sort(drain_->buckets[next], drain_->columns, drain_->kept, int(buffer),
                         workspace_.compute());
            PK_CUDA(cudaEventRecord(workspace_.sorted(buffer).get(), workspace_.compute()));
        }
    }

    // Wait until a bucket is sorted.
    void wait_for(size_t bucket) {
        std::unique_lock<std::mutex> lock(drain_->mutex);
        while (drain_->launched <= bucket) {
            if (drain_->failed) throw Aborted();
            drain_->changed.wait_for(lock, Call::POLL_INTERVAL);
            lock.unlock();
            call_.check_interrupt();
            lock.lock();
        }
        lock.unlock();
        PK_CUDA(cudaEventSynchronize(workspace_.sorted(bucket % Sorter::RESULTS).get()));
    }

    StagedPiece piece(size_t index) override {
        const Piece &piece = drain_->pieces[index];
        wait_for(piece.bucket);
        if (piece.begin == 0) trace_sort(piece.bucket);
        StagedPiece staged;
        staged.d_data = sorter_.results[piece.bucket % Sorter::RESULTS] + piece.begin * sorter_.result_item();
        staged.elements = results_of(piece).second;
        staged.bytes = staged.elements * sorter_.result_item();
        staged.host_bytes = staged.elements * int64_t(wants_order_ ? sizeof(int64_t) : sizeof(Key));
        return staged;
    }

    void trace_sort(size_t bucket) {
        const double now = call_.seconds();
        const std::lock_guard<std::mutex> lock(drain_->mutex);
        const double begin = std::max(drain_->launch_times[bucket], std::exchange(drain_->sorted, now));
        TraceLane(call_).add(PK_STAGE_KERNEL, begin, now, 0, drain_->buckets[bucket].count,
                             workspace_.slot().device, KERNELS_LANE);
    }

    void copied(size_t index) override {
        const Piece &piece = drain_->pieces[index];
        const Bucket<Key> &bucket = drain_->buckets[piece.bucket];
        {
            const std::lock_guard<std::mutex> lock(drain_->mutex);
            if (--drain_->left[piece.bucket] == 0) launch_ready();
        }
        drain_->changed.notify_all();
        const bool is_last = piece.begin + piece.count == bucket.results;
        call_.advance(is_last ? bucket.count - piece.begin : piece.count);
    }

    void stage(size_t, char *) override {}
    void deliver(size_t index, const char *staged) override {
        const auto [at, count] = results_of(drain_->pieces[index]);
        if (wants_order_) {
            const auto *const places = reinterpret_cast<const uint32_t *>(staged);
            for (int64_t i = 0; i < count; ++i) drain_->order[at + i] = base_ + int64_t(places[i]);
        } else {
            std::memcpy(drain_->out + at, staged, size_t(count) * sizeof(Key));
        }
    }

    // Return the index of the first result of a piece whose bucket is sorted, and their number.
    std::pair<int64_t, int64_t> results_of(const Piece &piece) {
        const Bucket<Key> &bucket = drain_->buckets[piece.bucket];
        if (!spec_.distinct) return {bucket.first + piece.begin, piece.count};
        const std::lock_guard<std::mutex> lock(drain_->mutex);
        // A bucket's count is read here before its buffer, and num_selected, are used again.
        std::vector<int64_t> &first = drain_->first;
        while (first.size() <= piece.bucket + 1) {
            first.push_back(first.back() + int64_t(*num_selected_[(first.size() - 1) % Sorter::RESULTS]));
        }
        const int64_t at = first[piece.bucket] + piece.begin;
        return {at, std::clamp<int64_t>(first[piece.bucket + 1] - at, 0, piece.count)};
    }

    // Return the runs of a row, each as long as fits.
    std::vector<SortedRun> runs() const {
        std::vector<SortedRun> runs;
        for (int64_t start = 0; start < rows_.columns; start += sorter_.resident) {
            runs.push_back({start, std::min(sorter_.resident, rows_.columns - start)});
        }
        return runs;
    }

    // Sort a row that does not fit: sort its runs, and merge them on the host.
    void merge_keys(int64_t row, Key *out) {
        const std::vector<SortedRun> all = runs();
        const Scratch<Key> scratch(rows_.columns);
        const bool is_even = merge_rounds(all.size()) % 2 == 0;
        Key *const items = is_even ? out : scratch.get(), *const other = is_even ? scratch.get() : out;
        for (const SortedRun &run : all) {
            sort(row + run.start, run.count, rows_.columns, items + run.start, nullptr, run.count);
        }
        const HostStageTimer timed(call_, rows_.columns);
        merge(call_, all, items, other, rows_.columns, less());
    }

    // Argsort a row that does not fit.
    void merge_order(int64_t row, int64_t *order, int64_t kept) {
        std::vector<SortedRun> all = runs();
        const Scratch<int64_t> items(rows_.columns), other(rows_.columns);
        for (SortedRun &run : all) {
            const int64_t run_kept = std::min(kept, run.count);
            base_ = run.start;
            sort(row + run.start, run.count, rows_.columns, nullptr, items.get() + run.start, run_kept);
            run.count = run_kept;
        }
        base_ = 0;
        const HostStageTimer timed(call_, rows_.columns);
        const auto *const in = static_cast<const Key *>(rows_.in) + row;
        auto less = [&](int64_t a, int64_t b) { return ordering().key(in[a]) < ordering().key(in[b]); };
        const int64_t *const merged = merge(call_, all, items.get(), other.get(), kept, less);
        parallel_for_pieces(call_, kept, 1 << 20, [&](int64_t, int64_t begin, int64_t end) {
            std::copy(merged + begin, merged + end, order + begin);
        });
    }

    const Order &ordering() const { return sorter_.ordering(); }
    auto less() const {
        return [this](Key a, Key b) { return ordering().key(a) < ordering().key(b); };
    }
    // Return the bytes of a slot's pinned memory for results. The counts of distinct elements follow them.
    int64_t result_bytes() const { return workspace_.slot().host_bytes / 4096 * 4096 - 4096; }

    const Rows &rows_;
    const bool wants_order_;
    Call &call_;
    const SortSpec spec_;
    SortWorkspace workspace_;
    Sorter sorter_;
    const uint32_t *num_selected_[Sorter::RESULTS];
    OutputDrain *drain_ = nullptr;
    int64_t base_ = 0;  // the place in its row of the first resident element
};

// Return an in-core sorter for rows on a device.
template <class Order>
auto in_core_sorter(const Order &ordering, const Rows &rows, bool wants_order) {
    using Sorter = DeviceSorter<Order>;
    static_assert(Sorter::MAX_ELEMENTS == MAX_DEVICE_ELEMENTS);
    check_device_elements(rows.elements());
    return Sorter(typename Sorter::InCore(), ordering, {rows.elements(), wants_order, rows.count > 1});
}

// Return true if the rows are one row of float32, which is not sorted by encoded keys.
bool is_float32_row(const Rows &rows) {
    return rows.type.is_float && rows.type.bytes == int(sizeof(float)) && rows.count == 1;
}

}  // namespace

int64_t temporary_bytes(const SortRequest &request) {
    if (is_float32_row(request)) return temporary_bytes_float32(request.columns);
    int64_t bytes = 0;
    with_runtime_key_encoding(request.type, false, request.count > 1, [&](auto ordering) {
        bytes = in_core_sorter(ordering, request, false).bind_in_core(nullptr, nullptr, nullptr);
    });
    return bytes;
}

int64_t temporary_bytes(const ArgsortRequest &request) {
    int64_t bytes = 0;
    with_runtime_key_encoding(request.type, request.descending, true, [&](auto ordering) {
        bytes = in_core_sorter(ordering, request, true).bind_in_core(nullptr, nullptr, nullptr);
    });
    return bytes;
}

void sort_on_device(const SortRequest &request, char *memory, cudaStream_t stream) {
    if (is_float32_row(request)) {
        sort_float32_on_device(static_cast<const float *>(request.in), static_cast<float *>(request.out),
                               request.columns, memory, stream);
        return;
    }
    with_runtime_key_encoding(request.type, false, request.count > 1, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        auto sorter = in_core_sorter(ordering, request, false);
        sorter.bind_in_core(memory, static_cast<const Key *>(request.in), static_cast<Key *>(request.out));
        sorter.sort_all(request.columns, request.columns, stream);
    });
}

void sort_on_device(const ArgsortRequest &request, char *memory, cudaStream_t stream) {
    with_runtime_key_encoding(request.type, request.descending, true, [&](auto ordering) {
        using Key = typename decltype(ordering)::Key;
        auto sorter = in_core_sorter(ordering, request, true);
        sorter.bind_in_core(memory, static_cast<const Key *>(request.in), nullptr);
        sorter.sort_all(request.columns, request.kept, stream);
        const int64_t results = request.count * request.kept;
        device::widen_indices<<<grid_for(results, device::THREADS), device::THREADS, 0, stream>>>(
            reinterpret_cast<const uint32_t *>(sorter.results[0]), results, request.order);
        PK_CUDA(cudaGetLastError());
    });
}

void sort_rows(const Rows &rows, void *out, Call &call) {
    with_runtime_key_encoding(rows.type, false, false, [&](auto ordering) {
        using Order = decltype(ordering);
        OutOfCoreSort<Order> sort(ordering, rows, {rows.count * rows.columns, false, rows.count > 1}, call);
        sort.run(static_cast<typename Order::Key *>(out), nullptr, rows.columns);
    });
}

int64_t unique_row(const Rows &row, bool splits_nan, void *values, Call &call) {
    int64_t count = 0;
    with_runtime_key_encoding(row.type, false, false, [&](auto ordering) {
        using Order = decltype(ordering);
        OutOfCoreSort<Order> sort(ordering, row, {row.columns, false, false, true, splits_nan}, call);
        count = sort.run_distinct(static_cast<typename Order::Key *>(values));
    });
    return count;
}

void argsort_rows(const Rows &rows, int64_t *order, int64_t kept, bool descending, Call &call) {
    with_runtime_key_encoding(rows.type, descending, true, [&](auto ordering) {
        using Order = decltype(ordering);
        OutOfCoreSort<Order> sort(ordering, rows, {rows.count * rows.columns, true, rows.count > 1}, call);
        sort.run(nullptr, order, kept);
    });
}

}  // namespace pk
