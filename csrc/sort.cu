// Sorting on a GPU. As many rows, or as much of one, as there is room for go up and stay; then one bucket of
// them after the other is sorted while the last one comes down: some whole rows, or of a long row a range of
// keys. What is left of still longer rows follows in the same way, and the host merges.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>

#include "common/merge.h"
#include "sort_device.cuh"
#include "stream/pinned.h"
#include "stream/resident.h"
#include "stream/stream.h"
#include "stream/tuning.h"

namespace pk {

const int HOST_STAGE = PK_UNSTAGE;

namespace {

// One call at a time sorts: it takes most of the memory there is.
class Turn {
   public:
    explicit Turn(Call &call) {
        while (!mutex().try_lock_for(Call::PATIENCE)) call.look();
    }
    ~Turn() { mutex().unlock(); }
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;

   private:
    static std::timed_mutex &mutex() {
        static auto *const mutex = new std::timed_mutex;
        return *mutex;
    }
};

// What a call sorts with: slots, which threads have one each, and a block of the device's memory.
class Equipment {
   public:
    Equipment(Call &call, int64_t bytes)
        : call_(call),
          device_(devices_of(call).front()),
          turn_(call),
          current_(device_),
          lease_(Lease::usual(Lease::staged), {0, 0}, device_, slots_for(bytes), call),
          sorted_{event(), event()} {
        for (size_t i = 0; i < lease_.slots().size(); ++i) lanes_.push_back(std::make_unique<Lane>(call));
    }
    // What still works on the memory is waited for; that it failed, too, is nothing new.
    ~Equipment() {
        for (const auto &slot : lease_.slots()) slot->drain();
    }
    Equipment(const Equipment &) = delete;
    Equipment &operator=(const Equipment &) = delete;

    int64_t most_memory() const {
        int64_t slots = 0;
        for (const auto &slot : lease_.slots()) slots += slot->device_bytes;
        return streaming_memory().device_budget - slots;
    }

    // Takes memory, or as much less as there is. Other calls may have it, for a while.
    int64_t take_memory(int64_t bytes) {
        const auto latest = Clock::now() + std::chrono::seconds(10);
        while (Clock::now() < latest) {
            for (int64_t taken = bytes; taken >= bytes / 8; taken = taken * 3 / 4) {
                try {
                    block_ = std::make_unique<Block>(device_, taken, true);
                } catch (const Failure &failure) {
                    const bool may_shrink = taken * 3 / 4 >= bytes / 8;
                    if (failure.status() != PK_OUT_OF_MEMORY || !may_shrink) throw;
                    continue;
                }
                if (block_->memory() != nullptr) return taken;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            call_.look();
        }
        fail(PK_OUT_OF_MEMORY,
             "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left to sort with");
    }
    char *memory() const { return block_->memory(); }

    // Calls work(slot, lane) on several threads, each with a slot of its own.
    template <class Work>
    void on_slots(int64_t wanted, Work work) {
        const auto count = int64_t(lease_.slots().size());
        std::atomic<int64_t> arrived{0};
        run_on_threads(std::clamp<int64_t>(wanted, 1, count), call_, [&] {
            const int64_t index = arrived++;
            if (index >= count) return;
            const CurrentDevice current(device_);
            work(*lease_.slots()[size_t(index)], *lanes_[size_t(index)]);
        });
    }

    const Slot &slot() const { return *lease_.slots().front(); }
    cudaStream_t compute() const { return slot().queues.compute.get(); }
    const Event &sorted(size_t buffer) const { return sorted_[buffer]; }

   private:
    static int64_t slots_for(int64_t bytes) {
        const int64_t fit = streaming_memory().device_budget / 4 / Lease::usual(Lease::staged).device;
        const int64_t worth = std::min(tuned(Tune::threads), bytes / tuned(Tune::worth_a_thread) + 1);
        return std::clamp<int64_t>(std::min(fit, worth), 1, thread_count());
    }

    Call &call_;
    const int device_;
    const Turn turn_;
    const CurrentDevice current_;
    std::unique_ptr<Block> block_;
    const Lease lease_;
    const Event sorted_[2];
    std::vector<std::unique_ptr<Lane>> lanes_;
};

// Takes buckets through the device, and their results out of it.
template <class Order>
class Sorting {
   public:
    using Key = typename Order::Key;
    using Sorter = DeviceSorter<Order>;

    Sorting(const Order &ordering, const Rows &rows, bool wants_order, Call &call)
        : rows_(rows),
          wants_order_(wants_order),
          call_(call),
          needs_{rows.count * rows.columns, wants_order, rows.count > 1},
          equipment_(call, needs_.count * int64_t(sizeof(Key))),
          sorter_(ordering, needs_,
                  equipment_.take_memory(Sorter::bytes_for(needs_, equipment_.most_memory()))) {
        sorter_.place(equipment_.memory());
    }

    // Into `out`, or into `order` what is wanted of it.
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
        const int64_t at_once = columns > sorter_.bucket ? 1 : sorter_.resident / columns;
        for (int64_t row = 0; row < rows_.count; row += at_once) {
            const int64_t count = std::min(at_once, rows_.count - row);
            sort(row * columns, count * columns, columns, out + (wants_order_ ? 0 : row * columns),
                 order + (wants_order_ ? row * kept : 0), kept);
        }
    }

   private:
    // Elements from `start` on, which are whole rows, or a part of one.
    void sort(int64_t start, int64_t count, int64_t columns, Key *out, int64_t *order, int64_t kept) {
        upload(start, count);
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
        download(buckets, columns, out, order, kept);
        call_.advance(count);
    }

    void upload(int64_t start, int64_t count) {
        const auto *const from = static_cast<const char *>(rows_.in) + start * int64_t(sizeof(Key));
        const int64_t bytes = count * int64_t(sizeof(Key));
        const bool direct = bytes >= WORTH_ASKING && is_pinned(from, bytes);
        const int64_t piece = direct ? DIRECT_PIECE : equipment_.slot().host_bytes / 64 * 64;
        std::atomic<int64_t> next{0};
        equipment_.on_slots(direct ? 1 : bytes / piece + 1, [&](const Slot &slot, Lane &lane) {
            for (int64_t at = next.fetch_add(piece); at < bytes; at = next.fetch_add(piece)) {
                const int64_t part = std::min(piece, bytes - at), elements = part / int64_t(sizeof(Key));
                const double begin = call_.seconds();
                if (!direct) std::memcpy(slot.host(), from + at, size_t(part));
                const double staged = call_.seconds();
                PK_CUDA(cudaMemcpyAsync(reinterpret_cast<char *>(sorter_.elements) + at,
                                        direct ? from + at : slot.host(), size_t(part),
                                        cudaMemcpyHostToDevice, slot.queues.up.get()));
                PK_CUDA(cudaEventRecord(slot.uploaded.get(), slot.queues.up.get()));
                PK_CUDA(cudaEventSynchronize(slot.uploaded.get()));
                if (!direct) lane.add(PK_STAGE, begin, staged, part, elements);
                lane.add(PK_UPLOAD, staged, call_.seconds(), part, elements, slot.device, slot.number);
                report(part, 0);
            }
        });
    }

    void report(int64_t up, int64_t down) {
        {
            const std::lock_guard<std::mutex> lock(call_.mutex);
            call_.report.bytes_up += up;
            call_.report.bytes_down += down;
            call_.report.chunks += 1;
        }
        call_.look();
    }

    // What was counted on the device.
    std::vector<uint32_t> counted() {
        std::vector<uint32_t> counts(Sorter::COUNTS);
        const Slot &slot = equipment_.slot();
        const size_t bytes = counts.size() * sizeof(uint32_t);
        PK_CUDA(cudaMemcpyAsync(slot.host(), sorter_.counts, bytes, cudaMemcpyDeviceToHost,
                                equipment_.compute()));
        PK_CUDA(cudaEventRecord(slot.computed.get(), equipment_.compute()));
        PK_CUDA(cudaEventSynchronize(slot.computed.get()));
        std::memcpy(counts.data(), slot.host(), bytes);
        call_.look();
        return counts;
    }

    // Adds buckets of what has keys from low to high.
    void split(std::vector<Bucket<Key>> &buckets, Key low, Key high, int64_t matching, int64_t count) {
        if (matching == 0) return;
        if (matching <= sorter_.bucket) {
            buckets.push_back({0, count, low, high, true, matching, 0, 0});
        } else if (low == high) {
            split_equal(buckets, low, count);
        } else {
            const auto range = uint64_t(Key(high - low));
            const int shift = std::max(0, Sorter::bits_of(range) - device::DIGIT);
            sorter_.count_keys(count, low, high, shift, equipment_.compute());
            const std::vector<uint32_t> counts = counted();
            const auto last = int64_t(range >> shift);
            auto low_of = [&](int64_t bin) { return Key(low + Key(uint64_t(bin) << shift)); };
            int64_t first = 0, sum = 0;  // of the bins that will be a bucket
            for (int64_t bin = 0; bin <= last; ++bin) {
                const auto own = int64_t(counts[size_t(bin)]);
                if (sum + own > sorter_.bucket && sum != 0) {
                    split(buckets, low_of(first), Key(low_of(bin) - 1), sum, count);
                    first = bin;
                    sum = 0;
                }
                sum += own;
                if (sum <= sorter_.bucket && bin != last) continue;
                split(buckets, low_of(first), bin == last ? high : Key(low_of(bin + 1) - 1), sum, count);
                first = bin + 1;
                sum = 0;
            }
        }
    }

    // Of those with one key, which come in the order in which they are.
    void split_equal(std::vector<Bucket<Key>> &buckets, Key key, int64_t count) {
        const int64_t chunk = sorter_.bucket / device::THREADS * device::THREADS;
        require(count / chunk < Sorter::COUNTS, "there is too little memory for so many equal elements");
        sorter_.count_equal(count, key, chunk, equipment_.compute());
        const std::vector<uint32_t> counts = counted();
        for (int64_t begin = 0; begin < count; begin += chunk) {
            const auto own = int64_t(counts[size_t(begin / chunk)]);
            if (own == 0) continue;
            const int64_t end = std::min(count, begin + chunk);
            Bucket<Key> *const before = buckets.empty() ? nullptr : &buckets.back();
            const bool joins = before != nullptr && before->low == key && before->high == key &&
                               before->count + own <= sorter_.bucket;
            if (joins) {
                before->end = end;
                before->count += own;
            } else {
                buckets.push_back({begin, end, key, key, true, own, 0, 0});
            }
        }
    }

    // Which buckets are under way, for the threads that take their results.
    struct Progress {
        std::mutex mutex;
        std::condition_variable changed;
        std::vector<int64_t> left;  // of each bucket's pieces
        size_t launched = 0;
        bool failed = false;
        std::vector<double> when;  // each was launched
    };
    struct Piece {
        size_t bucket;
        int64_t begin, count;  // of its results
    };

    void download(const std::vector<Bucket<Key>> &buckets, int64_t columns, Key *out, int64_t *order,
                  int64_t kept) {
        const int64_t item = sorter_.result_item();
        const int64_t most = equipment_.slot().host_bytes / item;
        std::vector<Piece> pieces;
        Progress progress;
        progress.when.resize(buckets.size());
        for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
            int64_t count = 0;
            for (int64_t begin = 0; begin < buckets[bucket].results; begin += most, ++count) {
                pieces.push_back({bucket, begin, std::min(most, buckets[bucket].results - begin)});
            }
            progress.left.push_back(count);
        }
        // The buffers of results take turns; the caller holds the mutex.
        auto launch = [&](size_t bucket) {
            progress.when[bucket] = call_.seconds();
            const size_t buffer = bucket % Sorter::RESULTS;
            sorter_.sort(buckets[bucket], columns, kept, int(buffer), equipment_.compute());
            PK_CUDA(cudaEventRecord(equipment_.sorted(buffer).get(), equipment_.compute()));
            progress.launched = bucket + 1;
        };
        for (size_t bucket = 0; bucket < std::min<size_t>(Sorter::RESULTS, buckets.size()); ++bucket) {
            launch(bucket);
        }
        std::atomic<size_t> next{0};
        auto take = [&](const Piece &piece, const Slot &slot, Lane &lane, double &since) {
            {
                std::unique_lock<std::mutex> lock(progress.mutex);
                while (progress.launched <= piece.bucket) {
                    if (progress.failed) return;
                    progress.changed.wait_for(lock, Call::PATIENCE);
                    lock.unlock();
                    call_.look();
                    lock.lock();
                }
            }
            const size_t buffer = piece.bucket % Sorter::RESULTS;
            PK_CUDA(cudaEventSynchronize(equipment_.sorted(buffer).get()));
            const double sorted = call_.seconds();
            if (piece.begin == 0) {
                lane.add(PK_KERNEL, std::max(since, progress.when[piece.bucket]), sorted, 0,
                         buckets[piece.bucket].count, slot.device, slot.number);
            }
            const int64_t bytes = piece.count * item;
            PK_CUDA(cudaMemcpyAsync(slot.host(), sorter_.results[buffer] + piece.begin * item, size_t(bytes),
                                    cudaMemcpyDeviceToHost, slot.queues.down.get()));
            PK_CUDA(cudaEventRecord(slot.downloaded.get(), slot.queues.down.get()));
            PK_CUDA(cudaEventSynchronize(slot.downloaded.get()));
            const double downloaded = since = call_.seconds();
            lane.add(PK_DOWNLOAD, sorted, downloaded, bytes, piece.count, slot.device, slot.number);
            {
                const std::lock_guard<std::mutex> lock(progress.mutex);
                const size_t following = piece.bucket + Sorter::RESULTS;
                if (--progress.left[piece.bucket] == 0 && following < buckets.size()) launch(following);
            }
            progress.changed.notify_all();
            const int64_t at = buckets[piece.bucket].first + piece.begin;
            if (wants_order_) {
                const auto *const places = reinterpret_cast<const uint32_t *>(slot.host());
                for (int64_t i = 0; i < piece.count; ++i) order[at + i] = base_ + int64_t(places[i]);
            } else {
                std::memcpy(out + at, slot.host(), size_t(bytes));
            }
            lane.add(PK_UNSTAGE, downloaded, call_.seconds(), bytes, piece.count);
            report(0, bytes);
        };
        equipment_.on_slots(int64_t(pieces.size()), [&](const Slot &slot, Lane &lane) {
            double since = call_.seconds();  // the slot did nothing
            try {
                for (size_t i = next++; i < pieces.size(); i = next++) take(pieces[i], slot, lane, since);
            } catch (...) {
                {
                    const std::lock_guard<std::mutex> lock(progress.mutex);
                    progress.failed = true;
                }
                progress.changed.notify_all();
                throw;
            }
        });
    }

    // A row in runs, as long as there is room for.
    std::vector<Run> runs() const {
        std::vector<Run> runs;
        for (int64_t start = 0; start < rows_.columns; start += sorter_.resident) {
            runs.push_back({start, std::min(sorter_.resident, rows_.columns - start)});
        }
        return runs;
    }

    void merge_keys(int64_t row, Key *out) {
        const std::vector<Run> all = runs();
        const Scratch<Key> scratch(rows_.columns);
        const bool is_even = merge_rounds(all.size()) % 2 == 0;
        Key *const items = is_even ? out : scratch.get(), *const other = is_even ? scratch.get() : out;
        for (const Run &run : all) {
            sort(row + run.start, run.count, rows_.columns, items + run.start, nullptr, run.count);
        }
        const HostWork timed(call_, rows_.columns);
        auto less = [&](Key a, Key b) { return ordering().key(a) < ordering().key(b); };
        merge(call_, all, items, other, rows_.columns, less);
    }

    void merge_order(int64_t row, int64_t *order, int64_t kept) {
        std::vector<Run> all = runs();
        const Scratch<int64_t> items(rows_.columns), other(rows_.columns);
        for (Run &run : all) {
            const int64_t own = std::min(kept, run.count);
            base_ = run.start;
            sort(row + run.start, run.count, rows_.columns, nullptr, items.get() + run.start, own);
            run.count = own;
        }
        base_ = 0;
        const HostWork timed(call_, rows_.columns);
        const auto *const in = static_cast<const Key *>(rows_.in) + row;
        auto less = [&](int64_t a, int64_t b) { return ordering().key(in[a]) < ordering().key(in[b]); };
        const int64_t *const merged = merge(call_, all, items.get(), other.get(), kept, less);
        in_pieces(call_, kept, 1 << 20, [&](int64_t, int64_t begin, int64_t end) {
            std::copy(merged + begin, merged + end, order + begin);
        });
    }

    const Order &ordering() const { return sorter_.ordering(); }

    static constexpr int64_t WORTH_ASKING = 256 << 10, DIRECT_PIECE = 16 << 20;

    const Rows &rows_;
    const bool wants_order_;
    Call &call_;
    const Needs needs_;
    Equipment equipment_;
    Sorter sorter_;
    int64_t base_ = 0;  // the place in its row of the first resident element
};

void begin() {
    arm_faults();
    require_cuda();
}

// ---- Searching ----

template <class Order, class Key>
__global__ void find_places(Order order, const Key *sorted, int64_t size, const Key *values, int64_t count,
                            bool right, const int64_t *before, int64_t *places) {
    const int64_t i = device::thread_index();
    if (i >= count) return;
    auto key_at = [=](int64_t at) { return order.key(sorted[at]); };
    const int64_t place = place_of(key_at, size, order.key(values[i]), right);
    places[i] = place + (before == nullptr ? 0 : before[i]);
}

// Looks for values in a part of what is sorted, which goes up once: the parts' places add up.
template <class Order>
class Searcher : public Work {
   public:
    Searcher(const Order &ordering, const Layout &layout, bool is_first, const void *sorted, int64_t size,
             bool right, Call &call, const std::vector<int> &devices)
        : Work(layout, is_first ? std::vector<Carried>{{0, 0}} : std::vector<Carried>{{0, 0}, {1, 0}},
               {{1, 0}}, 0, 0),
          ordering_(ordering),
          size_(size),
          right_(right) {
        if (size != 0) offset_ = resident_.add(sorted, size * int64_t(sizeof(Key)));
        has_room = resident_.upload(call, devices);
    }

    void launch(const Chunk &chunk) const override {
        const auto blocks = unsigned((chunk.count + device::THREADS - 1) / device::THREADS);
        auto at = [&](const Carried &carried) { return chunk.operand(carried); };
        find_places<<<blocks, device::THREADS, 0, chunk.queue>>>(
            ordering_, reinterpret_cast<const Key *>(resident_.on(chunk.device) + offset_), size_,
            reinterpret_cast<const Key *>(at(loads[0])), chunk.count, right_,
            loads.size() == 1 ? nullptr : reinterpret_cast<const int64_t *>(at(loads[1])),
            reinterpret_cast<int64_t *>(at(stores[0])));
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}

    bool has_room = false;

   private:
    using Key = typename Order::Key;
    const Order ordering_;
    const int64_t size_;
    const bool right_;
    Resident resident_;
    int64_t offset_ = 0;
};

}  // namespace

void sort_rows(const Rows &rows, void *out, Call &call) {
    begin();
    with_ordering(rows.type, false, false, [&](auto ordering) {
        using Order = decltype(ordering);
        Sorting<Order> sorting(ordering, rows, false, call);
        sorting.run(static_cast<typename Order::Key *>(out), nullptr, rows.columns);
    });
}

void argsort_rows(const Rows &rows, int64_t *order, int64_t kept, bool descending, Call &call) {
    begin();
    with_ordering(rows.type, descending, true, [&](auto ordering) {
        Sorting<decltype(ordering)> sorting(ordering, rows, true, call);
        sorting.run(nullptr, order, kept);
    });
}

void search(const Search &given, Call &call) {
    begin();
    const std::vector<int> devices = devices_of(call);
    const int types[] = {PK_UINT8, PK_UINT16, PK_UINT32, PK_UINT64};
    pk_operand operands[2] = {};
    operands[0].address = reinterpret_cast<uint64_t>(given.values);
    operands[0].type = types[DeviceSorter<Ordering<uint8_t, false>>::bits_of(uint64_t(given.type.bytes)) - 1];
    operands[0].strides[0] = given.type.bytes;
    operands[1].address = reinterpret_cast<uint64_t>(given.places);
    operands[1].type = PK_INT64;
    operands[1].strides[0] = sizeof(int64_t);
    const Layout layout(operands, 2, &given.count, 1, {false, true});
    with_ordering(given.type, false, true, [&](auto ordering) {
        using Order = decltype(ordering);
        constexpr int64_t LEAST = 1 << 10;
        const auto *const sorted = static_cast<const typename Order::Key *>(given.sorted);
        int64_t most = std::max<int64_t>(given.size, 1);
        for (int64_t start = 0; start == 0 || start < given.size;) {
            const int64_t size = std::min(most, given.size - start);
            Searcher<Order> searcher(ordering, layout, start == 0, sorted + start, size, given.right, call,
                                     devices);
            if (searcher.has_room) {
                stream(searcher, call, devices, {{0, given.count}});
                start += std::max<int64_t>(size, 1);
            } else if (most < LEAST) {
                fail(PK_OUT_OF_MEMORY,
                     "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left to search in");
            } else {
                most /= 2;
            }
        }
    });
}

}  // namespace pk
