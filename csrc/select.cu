#include "common/select.h"

#include <memory>

#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/residency/operands.h"
#include "cuda/runtime/cuda.h"
#include "cuda/select/radix_select.cuh"

namespace pk {

namespace {

// A shorter row is for one block of threads, with so few ranks that it takes no more than some milliseconds.
constexpr int64_t SHORT_ROW = 1 << 16, FEW_RANKS = 64;
constexpr int BLOCK_THREADS = 256, MOST_BLOCKS = 4096;
// Where blocks have counters of their own: so many, and elements of a thread.
constexpr unsigned OWN_BLOCKS = 1024;
constexpr int64_t EACH = 16;
// Elements that the blocks of one launch look at, again and again: some 20 ms, between which a call can stop.
constexpr int64_t MOST_LOOKS = int64_t(1) << 34;
constexpr int64_t MOST_ROWS = 1 << 22;
// Bytes of a long row that are on the device at once, at least; less is not worth trying.
constexpr int64_t LEAST_PART = 64 << 10;
constexpr int64_t SPARE = 4096;  // for what is aligned

// What a call's parts share.
struct OnDevice {
    Call &call;
    const std::vector<int> device;
    Lane lane{call};
    Stream stream = pk::stream();
    // What blocks may take of the budget, together.
    const int64_t room = streaming_memory().device_budget / 2;

    void kernel_done(double begin, int64_t elements) {
        lane.add(PK_KERNEL, begin, call.seconds(), 0, elements);
        ++call.report.chunks;
    }
    void came_down(int64_t bytes) { call.report.bytes_down += bytes; }
};

[[noreturn]] void fail_for_room() {
    fail(PK_OUT_OF_MEMORY,
         "other calls have too much of PYCUDAKIT_DEVICE_MEMORY, and too little is left for order statistics");
}

unsigned blocks_for(int64_t threads) {
    return unsigned(std::clamp<int64_t>((threads + BLOCK_THREADS - 1) / BLOCK_THREADS, 1, MOST_BLOCKS));
}

// A row that the whole device works on. It stays there if it fits, or is at home there, and goes up again for
// each of the passes, in parts, if not.
template <class Key>
class LongRow {
   public:
    LongRow(OnDevice &on, const Selection &asked, const Key *in, const Key *home)
        : on_(on), encoding_(asked.encoding), in_(in), home_(home), columns_(asked.columns) {}

    // Returns how many are NaN.
    int64_t select(const int64_t *ranks, int64_t rank_count, Key *out) {
        if (rank_count == 0 && encoding_ != Encoding::floating) return 0;
        const Block counters(on_.device[0], MOST_COUNTERS * int64_t(sizeof(uint32_t)));
        if (counters.memory() == nullptr) fail_for_room();
        counters_ = reinterpret_cast<uint32_t *>(counters.memory());
        part_ = (on_.room - MOST_COUNTERS * int64_t(sizeof(uint32_t))) / int64_t(sizeof(Key));
        if (home_ != nullptr) part_ = columns_;
        part_ = std::min<int64_t>({columns_, part_, INT32_MAX});
        // To count what stays once more takes less than to count it where all blocks have the same counters.
        const bool stays = part_ == columns_;
        narrow<Key>(
            columns_, ranks, rank_count, out,
            [&](const Level<Key> &level, int digits, int64_t *found) { count(level, digits, found); },
            [](const Level<Key> &) { return false; }, stays ? device::OWN_COUNTERS : MOST_COUNTERS);
        return nans_;
    }

   private:
    void count(const Level<Key> &level, int digits, int64_t *found) {
        Prefixes<Key> prefixes{int64_t(level.groups.size()), level.known, digits, {}};
        for (size_t i = 0; i < level.groups.size(); ++i) prefixes.at[i] = level.groups[i].prefix;
        std::vector<uint32_t> counters(level.groups.size() << digits);
        const size_t bytes = counters.size() * sizeof(uint32_t);
        for (int64_t start = 0, size = 0; start < columns_; start += size) {
            size = bring(start);
            const Queue queue(on_.stream);
            const double begin = on_.call.seconds();
            PK_CUDA(cudaMemsetAsync(counters_, 0, bytes, queue.get()));
            const Key *const in =
                home_ != nullptr ? home_ + start : reinterpret_cast<const Key *>(resident_->on(0));
            if (int64_t(counters.size()) <= device::OWN_COUNTERS) {
                const unsigned blocks = std::min(blocks_for(size / EACH), OWN_BLOCKS);
                device::count_few_digits<<<blocks, BLOCK_THREADS, 0, queue.get()>>>(encoding_, in, size,
                                                                                    prefixes, counters_);
            } else {
                device::count_digits<<<blocks_for(size), BLOCK_THREADS, 0, queue.get()>>>(
                    encoding_, in, size, prefixes, counters_);
            }
            PK_CUDA(cudaGetLastError());
            PK_CUDA(cudaMemcpyAsync(counters.data(), counters_, bytes, cudaMemcpyDeviceToHost, queue.get()));
            PK_CUDA(cudaStreamSynchronize(queue.get()));
            for (size_t i = 0; i < counters.size(); ++i) found[i] += counters[i];
            on_.kernel_done(begin, size);
            on_.came_down(int64_t(bytes));
            on_.call.advance(level.known == 0 ? size : 0);
        }
        if (level.known == 0 && encoding_ == Encoding::floating) nans_ = found[(int64_t(1) << digits) - 1];
    }

    // Has the elements from `start` on the device, and returns how many.
    int64_t bring(int64_t start) {
        const bool is_there = home_ != nullptr || (resident_ != nullptr && resident_start_ == start);
        if (is_there) return std::min(part_, columns_ - start);
        for (; part_ > 0; part_ /= 2) {
            resident_.reset();
            resident_ = std::make_unique<Resident>();
            const int64_t size = std::min(part_, columns_ - start);
            resident_->add(in_ + start, size * int64_t(sizeof(Key)));
            if (resident_->upload(on_.call, on_.device)) {
                resident_start_ = start;
                return size;
            }
            if (part_ * int64_t(sizeof(Key)) < LEAST_PART) break;
        }
        resident_.reset();
        fail_for_room();
    }

    OnDevice &on_;
    const Encoding encoding_;
    const Key *in_, *home_;
    const int64_t columns_;
    int64_t part_ = 0;  // elements
    uint32_t *counters_ = nullptr;
    std::unique_ptr<Resident> resident_;
    int64_t resident_start_ = 0;
    int64_t nans_ = 0;
};

template <class Key>
void select_long(OnDevice &on, const Selection &asked, const Key *in, const Key *home, Key *out) {
    std::vector<Key> found(size_t(asked.rank_count));
    for (int64_t row = 0; row < asked.rows; ++row) {
        const int64_t start = row * asked.columns;
        LongRow<Key> work(on, asked, in + start, home == nullptr ? nullptr : home + start);
        asked.nans[row] = work.select(asked.ranks_of(row), asked.rank_count, found.data());
        for (size_t i = 0; i < found.size(); ++i) {
            out[row * asked.rank_count + int64_t(i)] = bits_of_key(asked.encoding, found[i]);
        }
    }
}

// Many rows at once, a block of threads each. Returns false, at some row, if there is no room for one.
template <class Key>
class ShortRows {
   public:
    ShortRows(OnDevice &on, const Selection &asked, const Key *in, const Key *home, Key *out)
        : on_(on), asked_(asked), in_(in), home_(home), out_(out) {
        const int64_t own_ranks = asked.rank_rows == 1 ? 0 : asked.rank_count * int64_t(sizeof(int64_t));
        const int64_t common = SPARE + asked.rank_count * int64_t(sizeof(int64_t));
        const int64_t looks = asked.columns * std::max<int64_t>(1, asked.rank_count * int64_t(sizeof(Key)));
        const int64_t key = int64_t(sizeof(Key));
        per_row_ = (home == nullptr ? asked.columns * key : 0) + own_ranks + asked.rank_count * key +
                   int64_t(sizeof(int64_t));
        most_ = std::min({(on.room - common) / per_row_, MOST_LOOKS / looks, MOST_ROWS, asked.rows});
    }

    bool fits() const { return most_ > 0; }

    void select() {
        for (int64_t start = 0; start < asked_.rows;) {
            const int64_t rows = std::min(most_, asked_.rows - start);
            if (select(start, rows)) {
                start += rows;
            } else {
                most_ /= 2;
                if (most_ == 0) fail_for_room();
            }
        }
    }

   private:
    bool select(int64_t start, int64_t rows) {
        Resident resident;
        const int64_t elements = rows * asked_.columns, results = rows * asked_.rank_count;
        int64_t at = 0;
        if (home_ == nullptr)
            at = resident.add(in_ + start * asked_.columns, elements * int64_t(sizeof(Key)));
        const int64_t ranks_at =
            resident.add(asked_.ranks_of(start),
                         (asked_.rank_rows == 1 ? asked_.rank_count : results) * int64_t(sizeof(int64_t)));
        if (!resident.upload(on_.call, on_.device)) return false;
        const size_t nans_bytes = size_t(rows) * sizeof(int64_t), out_bytes = size_t(results) * sizeof(Key);
        const Block found(on_.device[0], int64_t(nans_bytes + out_bytes));
        if (found.memory() == nullptr) return false;
        const Queue queue(on_.stream);
        const double begin = on_.call.seconds();
        auto *nans = reinterpret_cast<int64_t *>(found.memory());
        auto *out = reinterpret_cast<Key *>(found.memory() + nans_bytes);
        const device::Rows<Key> given{asked_.encoding,
                                      home_ != nullptr ? home_ + start * asked_.columns
                                                       : reinterpret_cast<const Key *>(resident.on(0) + at),
                                      rows,
                                      asked_.columns,
                                      reinterpret_cast<const int64_t *>(resident.on(0) + ranks_at),
                                      asked_.rank_rows == 1 ? 0 : asked_.rank_count,
                                      asked_.rank_count,
                                      out,
                                      nans};
        device::select_rows<<<unsigned(rows), BLOCK_THREADS, 0, queue.get()>>>(given);
        PK_CUDA(cudaGetLastError());
        PK_CUDA(cudaMemcpyAsync(asked_.nans + start, nans, nans_bytes, cudaMemcpyDeviceToHost, queue.get()));
        if (out_bytes != 0) {
            PK_CUDA(cudaMemcpyAsync(out_ + start * asked_.rank_count, out, out_bytes, cudaMemcpyDeviceToHost,
                                    queue.get()));
        }
        PK_CUDA(cudaStreamSynchronize(queue.get()));
        on_.kernel_done(begin, elements);
        on_.came_down(int64_t(nans_bytes + out_bytes));
        on_.call.advance(elements);
        return true;
    }

    OnDevice &on_;
    const Selection &asked_;
    const Key *in_, *home_;
    Key *out_;
    int64_t per_row_ = 0, most_ = 0;
};

// What is looked at is found at home; results are written on the host.
std::vector<plan::Span> spans_of(const Selection &asked, int64_t item) {
    const int64_t word = sizeof(int64_t);
    return {{asked.in, asked.elements() * item, item, false},
            {asked.out, asked.rows * asked.rank_count * item, item, true, false},
            {asked.nans, asked.rows * word, word, true, false}};
}

template <class Key>
void select(const Selection &asked, const Key *home, Call &call, int device) {
    const auto *const in = static_cast<const Key *>(asked.in);
    auto *const out = static_cast<Key *>(asked.out);
    const CurrentDevice current(device);
    OnDevice on{call, {device}};
    if (asked.columns <= SHORT_ROW && asked.rank_count <= FEW_RANKS) {
        ShortRows<Key> rows(on, asked, in, home, out);
        if (rows.fits()) return rows.select();
    }
    select_long(on, asked, in, home, out);
}

template <class Key>
void launch(const Selection &asked, Call &call) {
    const int device = devices_of(call)[0];
    plan::Homes homes(spans_of(asked, sizeof(Key)), call, {device});
    std::fill(asked.nans, asked.nans + asked.rows, 0);
    if (asked.elements() != 0 && (asked.rank_count != 0 || asked.may_have_nan())) {
        select<Key>(asked, reinterpret_cast<const Key *>(homes.of(0).at), call, device);
    }
    homes.settle();
}

}  // namespace

}  // namespace pk

#define PK_ENTRY(t, T, encoding)                                                                          \
    extern "C" int32_t pk_select_##t(const T *in, int64_t rows, int64_t columns, const int64_t *ranks,    \
                                     int64_t rank_rows, int64_t rank_count, T *out, int64_t *nans,        \
                                     const pk_options *options, pk_report *report) {                      \
        const auto check = [&] {                                                                          \
            return pk::Selection(pk::Encoding::encoding, in, rows, columns, ranks, rank_rows, rank_count, \
                                 out, nans, sizeof(T));                                                   \
        };                                                                                                \
        return pk::called(options, report, check, pk::launch<pk::KeyOf<T>>);                              \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY
