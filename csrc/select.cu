// pk_select_* on the CUDA engine: order statistics by radix select (common/select.h), of many short rows at
// once or of one long row after the other.
#include "common/select.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"
#include "cuda/select/radix_select.cuh"

namespace pk {

namespace {

// One block of threads selects from a row up to this length, for up to this number of ranks, in a few
// milliseconds at most.
constexpr int64_t SHORT_ROW = 1 << 16, FEW_RANKS = 64;
constexpr int BLOCK_THREADS = 256, MAX_BLOCKS = 4096;
// The blocks of kernels with counters in shared memory, and the elements of each thread.
constexpr int64_t OWN_BLOCKS = 1024;
constexpr int64_t ELEMENTS_PER_THREAD = 16;
// The fewest bytes of a long row to have on the device at once; less is not worth trying.
constexpr int64_t MIN_PART = 64 << 10;

bool is_of_short_rows(const SelectRequest &selection) {
    return selection.columns <= SHORT_ROW && selection.rank_count <= FEW_RANKS;
}

// Counts the digits of a part of a row that is on the device, for the host, which chooses the next level.
template <class Key>
class CountDigitsAlgorithm : public DeviceAlgorithm {
   public:
    CountDigitsAlgorithm(Encoding encoding, const Key *d_in, int64_t size, const DigitPrefixes<Key> &prefixes,
                         int64_t counter_count, int64_t *counts)
        : encoding_(encoding),
          d_in_(d_in),
          size_(size),
          prefixes_(prefixes),
          counter_count_(counter_count),
          counts_(counts) {
        returns_state = true;
    }

    int64_t start(int64_t unit) const override { return unit * size_; }
    int64_t state_bytes() const override { return counter_count_ * int64_t(sizeof(uint32_t)); }
    void begin(char *d_state, cudaStream_t stream) override {
        PK_CUDA(cudaMemsetAsync(d_state, 0, size_t(state_bytes()), stream));
    }
    void enqueue(const Chunk &chunk) override {
        auto *const counters = reinterpret_cast<uint32_t *>(chunk.d_state);
        if (counter_count_ <= device::OWN_COUNTERS) {
            const unsigned blocks = grid_for(size_, BLOCK_THREADS * ELEMENTS_PER_THREAD, OWN_BLOCKS);
            device::count_few_digits<<<blocks, BLOCK_THREADS, 0, chunk.stream>>>(encoding_, d_in_, size_,
                                                                                 prefixes_, counters);
        } else {
            device::
                count_digits<<<grid_for(size_, BLOCK_THREADS, MAX_BLOCKS), BLOCK_THREADS, 0, chunk.stream>>>(
                    encoding_, d_in_, size_, prefixes_, counters);
        }
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}
    void take_state(const char *state) override {
        const auto *const counters = reinterpret_cast<const uint32_t *>(state);
        for (int64_t i = 0; i < counter_count_; ++i) counts_[i] += counters[i];
    }

   private:
    const Encoding encoding_;
    const Key *const d_in_;
    const int64_t size_;
    const DigitPrefixes<Key> prefixes_;
    const int64_t counter_count_;
    int64_t *const counts_;
};

// Radix select of one long row by the whole device. The row stays on the device if it fits or is resident
// there; else it is uploaded again, in parts, for each level.
template <class Key>
class LongRow {
   public:
    LongRow(const SelectRequest &selection, const Key *in, const Key *d_in, Operands &operands, Call &call,
            const ExecutionContext &context)
        : encoding_(selection.encoding),
          in_(in),
          d_in_(d_in),
          columns_(selection.columns),
          operands_(operands),
          call_(call),
          context_(context) {}

    // Find the keys of the ranks, and return how many elements are NaN.
    int64_t select(const int64_t *ranks, int64_t rank_count, Key *out) {
        if (rank_count == 0 && encoding_ != Encoding::floating) return 0;
        part_ = d_in_ != nullptr ? columns_ : DevicePool::staging_budget() / 2 / int64_t(sizeof(Key));
        part_ = std::min<int64_t>({columns_, part_, INT32_MAX});
        // One more level over resident elements takes less time than counting in global memory.
        const bool stays = part_ == columns_;
        radix_select<Key>(
            columns_, ranks, rank_count, out,
            [&](const RadixLevel<Key> &level, int digits, int64_t *counts) { count(level, digits, counts); },
            [](const RadixLevel<Key> &) { return false; }, stays ? device::OWN_COUNTERS : MAX_COUNTERS);
        return nans_;
    }

   private:
    void count(const RadixLevel<Key> &level, int digits, int64_t *counts) {
        DigitPrefixes<Key> prefixes{int64_t(level.groups.size()), level.prefix_bits, digits, {}};
        for (size_t i = 0; i < level.groups.size(); ++i) prefixes.at[i] = level.groups[i].prefix;
        const auto counter_count = int64_t(level.groups.size() << digits);
        for (int64_t start = 0, size = 0; start < columns_; start += size) {
            size = upload_part(start);
            const Key *const in =
                d_in_ != nullptr ? d_in_ + start : reinterpret_cast<const Key *>(broadcasts_->d_data(0));
            CountDigitsAlgorithm<Key> algorithm(encoding_, in, size, prefixes, counter_count, counts);
            algorithm.counts_progress = level.prefix_bits == 0;
            execute(algorithm, operands_, call_, context_);
        }
        if (level.prefix_bits == 0 && encoding_ == Encoding::floating)
            nans_ = counts[(int64_t(1) << digits) - 1];
    }

    // Upload the elements from `start` on, unless they are on the device, and return how many these are.
    int64_t upload_part(int64_t start) {
        const bool is_on_device = d_in_ != nullptr || (broadcasts_ != nullptr && uploaded_start_ == start);
        if (is_on_device) return std::min(part_, columns_ - start);
        for (; part_ > 0; part_ /= 2) {
            broadcasts_.reset();
            broadcasts_ = std::make_unique<BroadcastBuffers>();
            const int64_t size = std::min(part_, columns_ - start);
            broadcasts_->add(in_ + start, size * int64_t(sizeof(Key)));
            if (broadcasts_->upload(call_, context_)) {
                uploaded_start_ = start;
                return size;
            }
            if (part_ * int64_t(sizeof(Key)) < MIN_PART) break;
        }
        broadcasts_.reset();
        fail_device_budget("order statistics");
    }

    const Encoding encoding_;
    const Key *const in_, *const d_in_;
    const int64_t columns_;
    Operands &operands_;
    Call &call_;
    const ExecutionContext &context_;
    int64_t part_ = 0;  // elements
    std::unique_ptr<BroadcastBuffers> broadcasts_;
    int64_t uploaded_start_ = 0;
    int64_t nans_ = 0;
};

// Radix select of many short rows at once, one block of threads for each. A unit is a row, and its result the
// number of its NaN, then the selected elements.
template <class Key>
class SelectRowsAlgorithm : public DeviceAlgorithm {
   public:
    SelectRowsAlgorithm(const Layout &layout, const SelectRequest &selection, const Operands &operands,
                        Call &call, const ExecutionContext &context)
        : DeviceAlgorithm(layout, operands.loads({0}), {}, 0, 0), selection_(selection), operands_(operands) {
        unit_elements = selection.columns;
        operations = std::max<int64_t>(1, selection.rank_count * int64_t(sizeof(Key)));
        result_bytes = int64_t(sizeof(int64_t)) + selection.rank_count * int64_t(sizeof(Key));
        allow_zero_copy = false;  // each element is read many times
        const int64_t ranks = selection.rank_count * (selection.rank_rows == 1 ? 1 : selection.rows);
        ranks_ = broadcasts_.add(selection.ranks_of(0), ranks * int64_t(sizeof(int64_t)));
        if (!broadcasts_.upload(call, context)) fail_device_budget("order statistics");
    }

    int64_t units() const override { return selection_.rows; }
    int64_t start(int64_t unit) const override { return unit * unit_elements; }

    void enqueue(const Chunk &chunk) override {
        char *const results = chunk.d_memory + chunk.results;
        const auto *const ranks =
            reinterpret_cast<const int64_t *>(broadcasts_.d_data(chunk.device_index) + ranks_);
        const int64_t rank_stride = selection_.rank_rows == 1 ? 0 : selection_.rank_count;
        const device::SelectRowsParams<Key> params{
            selection_.encoding,
            reinterpret_cast<const Key *>(operands_.d_data(*this, chunk, 0)),
            chunk.units.count,
            selection_.columns,
            ranks + chunk.units.start * rank_stride,
            rank_stride,
            selection_.rank_count,
            reinterpret_cast<Key *>(results + chunk.units.count * int64_t(sizeof(int64_t))),
            reinterpret_cast<int64_t *>(results)};
        device::select_rows<<<unsigned(chunk.units.count), BLOCK_THREADS, 0, chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void deliver(const Chunk &chunk, const char *results) override {
        const auto nans = size_t(chunk.units.count) * sizeof(int64_t);
        std::memcpy(selection_.nans + chunk.units.start, results, nans);
        const int64_t row = selection_.rank_count * int64_t(sizeof(Key));
        if (row == 0) return;
        std::memcpy(static_cast<char *>(selection_.out) + chunk.units.start * row, results + nans,
                    size_t(chunk.units.count * row));
    }
    void collect(const void *) override {}

   private:
    const SelectRequest &selection_;
    const Operands &operands_;
    BroadcastBuffers broadcasts_;
    int64_t ranks_ = 0;  // offset in broadcasts_
};

// Return the call's memory ranges: the values may be device-resident; results are written on the host.
std::vector<MemoryRange> memory_ranges_of(const SelectRequest &selection, int64_t item) {
    const int64_t word = sizeof(int64_t);
    std::vector<MemoryRange> memory_ranges{
        {selection.in, selection.elements() * item, item, false},
        {selection.out, selection.rows * selection.rank_count * item, item, true, false},
        {selection.nans, selection.rows * word, word, true, false}};
    // Chunks of short rows are selected from while others are uploaded.
    memory_ranges[0].may_upload_by_chunk = is_of_short_rows(selection);
    return memory_ranges;
}

// Select from short rows, chunk by chunk.
template <class Key>
void select_short(const SelectRequest &selection, Operands &operands, Call &call,
                  const ExecutionContext &context) {
    const Layout layout = Layout::contiguous({{selection.in, word_type(sizeof(Key))}}, selection.elements());
    SelectRowsAlgorithm<Key> algorithm(layout, selection, operands, call, context);
    execute(algorithm, operands, call, context);
}

// Select from long rows, one after the other.
template <class Key>
void select_long(const SelectRequest &selection, Operands &operands, Call &call,
                 const ExecutionContext &context) {
    const auto *const in = static_cast<const Key *>(selection.in);
    const auto *const d_in = reinterpret_cast<const Key *>(operands.of(0).d_data);
    auto *const out = static_cast<Key *>(selection.out);
    std::vector<Key> keys(size_t(selection.rank_count));
    for (int64_t row = 0; row < selection.rows; ++row) {
        const int64_t start = row * selection.columns;
        LongRow<Key> work(selection, in + start, d_in == nullptr ? nullptr : d_in + start, operands, call,
                          context);
        selection.nans[row] = work.select(selection.ranks_of(row), selection.rank_count, keys.data());
        for (size_t i = 0; i < keys.size(); ++i) {
            out[row * selection.rank_count + int64_t(i)] = bits_of_key(selection.encoding, keys[i]);
        }
    }
}

template <class Key>
void launch(const SelectRequest &selection, Call &call) {
    const ExecutionContext context = ExecutionContext::on_first_device(call);
    StreamScope::refuse_capture();  // the host reads the device's counts
    Operands operands(memory_ranges_of(selection, sizeof(Key)), call, context);
    std::fill(selection.nans, selection.nans + selection.rows, 0);
    if (selection.elements() != 0 && (selection.rank_count != 0 || selection.may_have_nan())) {
        if (is_of_short_rows(selection))
            select_short<Key>(selection, operands, call, context);
        else
            select_long<Key>(selection, operands, call, context);
    }
    operands.commit();
}

}  // namespace

}  // namespace pk

#define PK_ENTRY(t, T, encoding)                                                                       \
    extern "C" int32_t pk_select_##t(const T *in, int64_t rows, int64_t columns, const int64_t *ranks, \
                                     int64_t rank_rows, int64_t rank_count, T *out, int64_t *nans,     \
                                     const pk_options *options, pk_report *report) {                   \
        const auto check = [&] {                                                                       \
            return pk::SelectRequest(pk::Encoding::encoding, in, rows, columns, ranks, rank_rows,      \
                                     rank_count, out, nans, sizeof(T));                                \
        };                                                                                             \
        return pk::run_entry(options, report, check, pk::launch<pk::KeyOf<T>>);                        \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY
