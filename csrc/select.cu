// pk_select_* on the CUDA engine: order statistics by radix select (common/select.h), of many short rows at
// once or of one long row after the other.
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

// One block of threads selects from a row up to this length, for up to this number of ranks, in a few
// milliseconds at most.
constexpr int64_t SHORT_ROW = 1 << 16, FEW_RANKS = 64;
constexpr int BLOCK_THREADS = 256, MAX_BLOCKS = 4096;
// The blocks of kernels with counters in shared memory, and the elements of each thread.
constexpr unsigned OWN_BLOCKS = 1024;
constexpr int64_t ELEMENTS_PER_THREAD = 16;
// The most reads of keys in one launch: some 20 ms, after which a call can be interrupted.
constexpr int64_t MAX_KEY_READS = int64_t(1) << 34;
constexpr int64_t MAX_ROWS = 1 << 22;
// The fewest bytes of a long row to have on the device at once; less is not worth trying.
constexpr int64_t MIN_PART = 64 << 10;
constexpr int64_t SPARE = 4096;  // for alignment

// The device, the stream and the memory budget of a call.
struct DeviceContext {
    Call &call;
    const std::vector<int> device;
    TraceLane lane{call};
    Stream stream = make_stream();
    // The most memory that the call's device buffers take together.
    const int64_t budget = streaming_memory().device_budget / 2;

    void kernel_done(double begin, int64_t elements) {
        lane.add(PK_STAGE_KERNEL, begin, call.seconds(), 0, elements);
        ++call.report.chunks;
    }
    void count_downloaded(int64_t bytes) { call.report.bytes_down += bytes; }
};

// Radix select of one long row by the whole device. The row stays on the device if it fits or is resident
// there; else it is uploaded again, in parts, for each level.
template <class Key>
class LongRow {
   public:
    LongRow(DeviceContext &context, const SelectRequest &selection, const Key *in, const Key *d_in)
        : context_(context),
          encoding_(selection.encoding),
          in_(in),
          d_in_(d_in),
          columns_(selection.columns) {}

    // Find the keys of the ranks, and return how many elements are NaN.
    int64_t select(const int64_t *ranks, int64_t rank_count, Key *out) {
        if (rank_count == 0 && encoding_ != Encoding::floating) return 0;
        const DeviceBuffer counters(context_.device[0], MAX_COUNTERS * int64_t(sizeof(uint32_t)));
        if (counters.d_memory() == nullptr) fail_device_budget("order statistics");
        counters_ = reinterpret_cast<uint32_t *>(counters.d_memory());
        part_ = (context_.budget - MAX_COUNTERS * int64_t(sizeof(uint32_t))) / int64_t(sizeof(Key));
        if (d_in_ != nullptr) part_ = columns_;
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
        std::vector<uint32_t> counters(level.groups.size() << digits);
        const size_t bytes = counters.size() * sizeof(uint32_t);
        for (int64_t start = 0, size = 0; start < columns_; start += size) {
            size = upload_part(start);
            const SyncOnExit stream(context_.stream);
            const double begin = context_.call.seconds();
            PK_CUDA(cudaMemsetAsync(counters_, 0, bytes, stream.get()));
            const Key *const in =
                d_in_ != nullptr ? d_in_ + start : reinterpret_cast<const Key *>(broadcasts_->d_data(0));
            if (int64_t(counters.size()) <= device::OWN_COUNTERS) {
                const unsigned blocks = grid_for(size, BLOCK_THREADS * ELEMENTS_PER_THREAD, OWN_BLOCKS);
                device::count_few_digits<<<blocks, BLOCK_THREADS, 0, stream.get()>>>(encoding_, in, size,
                                                                                     prefixes, counters_);
            } else {
                device::count_digits<<<grid_for(size, BLOCK_THREADS, MAX_BLOCKS), BLOCK_THREADS, 0,
                                       stream.get()>>>(encoding_, in, size, prefixes, counters_);
            }
            PK_CUDA(cudaGetLastError());
            PK_CUDA(cudaMemcpyAsync(counters.data(), counters_, bytes, cudaMemcpyDeviceToHost, stream.get()));
            PK_CUDA(cudaStreamSynchronize(stream.get()));
            for (size_t i = 0; i < counters.size(); ++i) counts[i] += counters[i];
            context_.kernel_done(begin, size);
            context_.count_downloaded(int64_t(bytes));
            context_.call.advance(level.prefix_bits == 0 ? size : 0);
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
            if (broadcasts_->upload(context_.call, context_.device)) {
                uploaded_start_ = start;
                return size;
            }
            if (part_ * int64_t(sizeof(Key)) < MIN_PART) break;
        }
        broadcasts_.reset();
        fail_device_budget("order statistics");
    }

    DeviceContext &context_;
    const Encoding encoding_;
    const Key *in_, *d_in_;
    const int64_t columns_;
    int64_t part_ = 0;  // elements
    uint32_t *counters_ = nullptr;
    std::unique_ptr<BroadcastBuffers> broadcasts_;
    int64_t uploaded_start_ = 0;
    int64_t nans_ = 0;
};

// Select from long rows, one after the other.
template <class Key>
void select_long(DeviceContext &context, const SelectRequest &selection, const Key *in, const Key *d_in,
                 Key *out) {
    std::vector<Key> keys(size_t(selection.rank_count));
    for (int64_t row = 0; row < selection.rows; ++row) {
        const int64_t start = row * selection.columns;
        LongRow<Key> work(context, selection, in + start, d_in == nullptr ? nullptr : d_in + start);
        selection.nans[row] = work.select(selection.ranks_of(row), selection.rank_count, keys.data());
        for (size_t i = 0; i < keys.size(); ++i) {
            out[row * selection.rank_count + int64_t(i)] = bits_of_key(selection.encoding, keys[i]);
        }
    }
}

// Radix select of many short rows at once, one block of threads for each.
template <class Key>
class ShortRows {
   public:
    ShortRows(DeviceContext &context, const SelectRequest &selection, const Key *in, const Key *d_in,
              Key *out)
        : context_(context), selection_(selection), in_(in), d_in_(d_in), out_(out) {
        const int64_t own_ranks =
            selection.rank_rows == 1 ? 0 : selection.rank_count * int64_t(sizeof(int64_t));
        const int64_t common = SPARE + selection.rank_count * int64_t(sizeof(int64_t));
        const int64_t key_reads =
            selection.columns * std::max<int64_t>(1, selection.rank_count * int64_t(sizeof(Key)));
        const int64_t key = int64_t(sizeof(Key));
        per_row_ = (d_in == nullptr ? selection.columns * key : 0) + own_ranks + selection.rank_count * key +
                   int64_t(sizeof(int64_t));
        most_ = std::min(
            {(context.budget - common) / per_row_, MAX_KEY_READS / key_reads, MAX_ROWS, selection.rows});
    }

    bool fits() const { return most_ > 0; }

    void select() {
        for (int64_t start = 0; start < selection_.rows;) {
            const int64_t rows = std::min(most_, selection_.rows - start);
            if (select(start, rows)) {
                start += rows;
            } else {
                most_ /= 2;
                if (most_ == 0) fail_device_budget("order statistics");
            }
        }
    }

   private:
    // Select from some rows. Return false if there is no memory for that many.
    bool select(int64_t start, int64_t rows) {
        BroadcastBuffers broadcasts;
        const int64_t elements = rows * selection_.columns, results = rows * selection_.rank_count;
        int64_t at = 0;
        if (d_in_ == nullptr)
            at = broadcasts.add(in_ + start * selection_.columns, elements * int64_t(sizeof(Key)));
        const int64_t ranks_at = broadcasts.add(
            selection_.ranks_of(start),
            (selection_.rank_rows == 1 ? selection_.rank_count : results) * int64_t(sizeof(int64_t)));
        if (!broadcasts.upload(context_.call, context_.device)) return false;
        const size_t nans_bytes = size_t(rows) * sizeof(int64_t), out_bytes = size_t(results) * sizeof(Key);
        const DeviceBuffer buffer(context_.device[0], int64_t(nans_bytes + out_bytes));
        if (buffer.d_memory() == nullptr) return false;
        const SyncOnExit stream(context_.stream);
        const double begin = context_.call.seconds();
        auto *nans = reinterpret_cast<int64_t *>(buffer.d_memory());
        auto *out = reinterpret_cast<Key *>(buffer.d_memory() + nans_bytes);
        const device::SelectRowsParams<Key> params{
            selection_.encoding,
            d_in_ != nullptr ? d_in_ + start * selection_.columns
                             : reinterpret_cast<const Key *>(broadcasts.d_data(0) + at),
            rows,
            selection_.columns,
            reinterpret_cast<const int64_t *>(broadcasts.d_data(0) + ranks_at),
            selection_.rank_rows == 1 ? 0 : selection_.rank_count,
            selection_.rank_count,
            out,
            nans};
        device::select_rows<<<unsigned(rows), BLOCK_THREADS, 0, stream.get()>>>(params);
        PK_CUDA(cudaGetLastError());
        PK_CUDA(
            cudaMemcpyAsync(selection_.nans + start, nans, nans_bytes, cudaMemcpyDeviceToHost, stream.get()));
        if (out_bytes != 0) {
            PK_CUDA(cudaMemcpyAsync(out_ + start * selection_.rank_count, out, out_bytes,
                                    cudaMemcpyDeviceToHost, stream.get()));
        }
        PK_CUDA(cudaStreamSynchronize(stream.get()));
        context_.kernel_done(begin, elements);
        context_.count_downloaded(int64_t(nans_bytes + out_bytes));
        context_.call.advance(elements);
        return true;
    }

    DeviceContext &context_;
    const SelectRequest &selection_;
    const Key *in_, *d_in_;
    Key *out_;
    int64_t per_row_ = 0, most_ = 0;
};

// Return the call's host ranges: the values may be device-resident; results are written on the host.
std::vector<plan::HostRange> host_ranges_of(const SelectRequest &selection, int64_t item) {
    const int64_t word = sizeof(int64_t);
    return {{selection.in, selection.elements() * item, item, false},
            {selection.out, selection.rows * selection.rank_count * item, item, true, false},
            {selection.nans, selection.rows * word, word, true, false}};
}

template <class Key>
void select(const SelectRequest &selection, const Key *d_in, Call &call, int device) {
    const auto *const in = static_cast<const Key *>(selection.in);
    auto *const out = static_cast<Key *>(selection.out);
    const CurrentDevice current(device);
    DeviceContext context{call, {device}};
    if (selection.columns <= SHORT_ROW && selection.rank_count <= FEW_RANKS) {
        ShortRows<Key> rows(context, selection, in, d_in, out);
        if (rows.fits()) return rows.select();
    }
    select_long(context, selection, in, d_in, out);
}

template <class Key>
void launch(const SelectRequest &selection, Call &call) {
    const int device = devices_of(call)[0];
    plan::Operands operands(host_ranges_of(selection, sizeof(Key)), call, {device});
    std::fill(selection.nans, selection.nans + selection.rows, 0);
    if (selection.elements() != 0 && (selection.rank_count != 0 || selection.may_have_nan())) {
        select<Key>(selection, reinterpret_cast<const Key *>(operands.of(0).d_data), call, device);
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
