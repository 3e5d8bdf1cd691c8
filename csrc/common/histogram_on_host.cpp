// Histograms, bin indices (digitize) and extents, computed by host threads. For a histogram, each thread
// counts in tables of its own, and adds them to the result while it holds Call::mutex.
//
// `counts` has an element for each bin, then the number of elements in no bin, then 1 if NumPy's index of any
// element is beyond the bins.
#include <algorithm>
#include <limits>
#include <mutex>

#include "common/call/parallel_for.h"
#include "histogram.h"
#include "histogram_indexer.h"

namespace pk::histogram {

static constexpr int64_t WORTH_A_THREAD = 64 << 10;  // elements
static constexpr int64_t WORTH_A_SEARCHING_THREAD = 8 << 10;
static constexpr int64_t MAX_GRAIN = 256 << 10;  // elements that a thread takes at once

namespace {

int64_t threads_for(int64_t size) { return pk::threads_for(size, WORTH_A_THREAD); }

// Visits all elements. Each thread calls make(), which returns its worker; then worker.block(start, count)
// for each block; and at last worker.end(), while it holds call.mutex, so that end() may write shared
// results.
template <class Make>
void visit_blocks(int64_t size, int64_t threads, Call &call, Make make) {
    const int64_t per_thread = ceil_div(size, threads);
    const int64_t grain = std::min(MAX_GRAIN, align_up(per_thread, BinIndexer::BLOCK));
    parallel_for(
        call, size, grain, threads, make,
        [&](auto &worker, int64_t start, int64_t count) {
            for (int64_t done = 0; done < count; done += BinIndexer::BLOCK) {
                worker.block(start + done, std::min(BinIndexer::BLOCK, count - done));
            }
            call.advance(count);
            return count;
        },
        [](auto &worker) { worker.end(); });
}

// Counts of one thread. Neighbouring elements are often in one bin, and an increment waits for the one before
// at the same address; so consecutive elements use separate tables.
class Tables {
   public:
    Tables(int64_t size, int64_t table_count)
        : table_count_(table_count), size_(size), counts_(size_t(table_count * size), 0) {}

    // Counts `count` indices, each less than the size of a table. The template's table_count is the
    // constructor's.
    template <int64_t table_count, class Index>
    void add(const Index *indices, int64_t count) {
        uint32_t *const counts = counts_.data();
        int64_t i = 0;
        for (; i + table_count <= count; i += table_count) {
            for (int64_t t = 0; t < table_count; ++t) ++counts[t * size_ + indices[i + t]];
        }
        for (; i < count; ++i) ++counts[indices[i]];
        since_flush_ += count;
    }

    // Whether a counter could overflow if so many indices were added without a flush.
    bool could_overflow(int64_t count) const {
        return since_flush_ + count > std::numeric_limits<int32_t>::max();
    }

    // Adds the counts to `to`, which threads share, and clears them. The caller holds call.mutex.
    void flush(int64_t *to) {
        for (int64_t table = 0; table < table_count_; ++table) {
            for (int64_t i = 0; i < size_; ++i) to[i] += counts_[size_t(table * size_ + i)];
        }
        std::fill(counts_.begin(), counts_.end(), 0);
        since_flush_ = 0;
    }

   private:
    const int64_t table_count_, size_;
    std::vector<uint32_t> counts_;
    int64_t since_flush_ = 0;  // indices added
};

// Counts the bin index of each element.
class IndexCounter {
   public:
    // Up to SMALL bins, a thread uses 4 tables. Large tables get few threads, so that all tables together
    // take at most MAX_BYTES. A single thread counts more than LARGE bins directly in the result.
    static constexpr int64_t SMALL = 4096, LARGE = 1 << 20, MAX_BYTES = 256 << 20;
    static int64_t threads(int64_t total, int64_t size) {
        const int64_t tables_in_memory = MAX_BYTES / int64_t(sizeof(uint32_t)) / (total + 1);
        const int64_t tables_worth_adding = size / (total + 1);
        return std::min(threads_for(size),
                        std::max<int64_t>(1, std::min(tables_in_memory, tables_worth_adding)));
    }

    IndexCounter(const BinnedElements &binned, const BinLoops &loops, Call &call, bool alone, int64_t *counts)
        : binned_(binned),
          call_(call),
          counts_(counts),
          indexer_(binned.layout, loops),
          small_(binned.total <= SMALL),
          directly_(alone && binned.total > LARGE),
          tables_(directly_ ? 0 : binned.total + 1, small_ ? 4 : 1) {}

    void block(int64_t start, int64_t count) {
        is_beyond_bins_ |= indexer_.indices(binned_, start, count, indices_);
        if (directly_) {
            for (int64_t i = 0; i < count; ++i) ++counts_[indices_[i]];
            return;
        }
        if (tables_.could_overflow(count)) {
            const std::lock_guard<std::mutex> lock(call_.mutex);
            tables_.flush(counts_);
        }
        small_ ? tables_.add<4>(indices_, count) : tables_.add<1>(indices_, count);
    }
    void end() {
        tables_.flush(counts_);
        counts_[binned_.total + 1] |= is_beyond_bins_;
    }

   private:
    const BinnedElements &binned_;
    Call &call_;
    int64_t *const counts_;
    BinIndexer indexer_;
    const bool small_, directly_;
    Tables tables_;
    bool is_beyond_bins_ = false;
    int32_t indices_[BinIndexer::BLOCK];
};

// For elements of one byte: counts each byte value, and looks up its bin once.
class ByteCounter {
   public:
    ByteCounter(const BinnedElements &binned, const BinLoops &loops, Call &call, int64_t *byte_counts)
        : call_(call), byte_counts_(byte_counts), indexer_(binned.layout, loops) {}

    void block(int64_t start, int64_t count) {
        if (tables_.could_overflow(count)) {
            const std::lock_guard<std::mutex> lock(call_.mutex);
            tables_.flush(byte_counts_);
        }
        tables_.add<8>(static_cast<const uint8_t *>(indexer_.elements(0, start, count, buffer_)), count);
    }
    void end() { tables_.flush(byte_counts_); }

   private:
    Call &call_;
    int64_t *const byte_counts_;
    const BinIndexer indexer_;
    Tables tables_{256, 8};
    uint8_t buffer_[BinIndexer::BLOCK];
};

// Finds the least and the greatest element, as order-preserving keys (bins::key_of).
class Extent {
   public:
    Extent(const Layout &layout, const BinLoops &loops, int64_t *least, int64_t *greatest)
        : indexer_(layout, loops),
          widen_(loops.extent[layout.views[0].type]),
          least_(least),
          greatest_(greatest) {}

    void block(int64_t start, int64_t count) {
        widen_(indexer_.elements(0, start, count, buffer_), count, &own_least_, &own_greatest_);
    }
    void end() {
        *least_ = std::min(*least_, own_least_);
        *greatest_ = std::max(*greatest_, own_greatest_);
    }

   private:
    const BinIndexer indexer_;
    void (*const widen_)(const void *, int64_t, int64_t *, int64_t *);
    int64_t *const least_, *const greatest_;
    int64_t own_least_ = INT64_MAX, own_greatest_ = INT64_MIN;
    uint64_t buffer_[BinIndexer::BLOCK];
};

// Stores the bin index of each element, as numpy.digitize.
class Digitizer {
   public:
    Digitizer(const DigitizeRequest &request, const BinLoops &loops)
        : layout_(request.layout),
          bins_(*request.bins),
          right_(request.right),
          decreasing_(request.decreasing),
          indexer_(request.layout, loops) {}

    void block(int64_t start, int64_t count) {
        const View &out = layout_.views[1];
        const bool directly = out.access == Access::contiguous;
        auto *to = directly ? reinterpret_cast<int64_t *>(out.base) + start : buffer_;
        indexer_.count_passed_edges(bins_, !right_, start, count, passed_);
        const int64_t edge_count = bins_.count + 1;
        for (int64_t i = 0; i < count; ++i) to[i] = decreasing_ ? edge_count - passed_[i] : passed_[i];
        if (!directly) layout_.scatter(out, start, count, to);
    }
    void end() {}

   private:
    const Layout &layout_;
    const pk_bins &bins_;
    const bool right_, decreasing_;
    BinIndexer indexer_;
    int32_t passed_[BinIndexer::BLOCK];
    int64_t buffer_[BinIndexer::BLOCK];
};

// Returns the bits of the element with an order-preserving key: the inverse of bins::key_of.
uint64_t element_bits_of_key(int type, int64_t key) {
    if (type == PK_UINT64) return uint64_t(key) ^ uint64_t(1) << 63;
    if (!is_float_type(type)) return uint64_t(key);
    const int64_t width = 8 * size_of(type);
    const uint64_t magnitude = ~uint64_t(0) >> (65 - width);
    return key < 0 ? uint64_t(key) ^ magnitude : uint64_t(key);
}

int64_t key_of_infinity(int type) {
    switch (type) {
        case PK_FLOAT16: return 0x7c00;
        case PK_FLOAT32: return 0x7f800000;
        default: return 0x7ff0000000000000;
    }
}

}  // namespace

// Adds the number of occurrences of each byte value to the count of its bin.
void count_values(const pk_bins &bins, int type, const BinLoops &loops, const int64_t *byte_counts,
                  int64_t *counts) {
    uint8_t present[256];
    int64_t count = 0;
    for (int byte = 0; byte < 256; ++byte) {
        if (byte_counts[byte] != 0) present[count++] = uint8_t(byte);
    }
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(present);
    operand.type = type;
    operand.strides[0] = 1;
    const BinnedElements binned(&operand, 1, &count, 1, &bins, 1, false);
    if (count == 0) return;
    int32_t indices[256];
    const bool is_beyond_bins = BinIndexer(binned.layout, loops).indices(binned, 0, count, indices);
    for (int64_t i = 0; i < count; ++i) counts[indices[i]] += byte_counts[present[i]];
    counts[binned.total + 1] |= is_beyond_bins;
}

void count_on_host(const BinnedElements &request, const BinLoops &loops, Call &call, int64_t *counts) {
    const BinnedElements binned = request.for_host();
    const int64_t size = binned.layout.size;
    std::fill_n(counts, binned.total + 2, int64_t(0));
    if (size == 0) return;
    if (binned.axes == 1 && binned.view(0).item == 1) {
        int64_t byte_counts[256] = {};
        visit_blocks(size, threads_for(size), call,
                     [&] { return ByteCounter(binned, loops, call, byte_counts); });
        return count_values(binned.bins[0], binned.view(0).type, loops, byte_counts, counts);
    }
    const int64_t threads = IndexCounter::threads(binned.total, size);
    visit_blocks(size, threads, call,
                 [&] { return IndexCounter(binned, loops, call, threads == 1, counts); });
}

void extent_of_keys(int type, int64_t least, int64_t greatest, uint64_t *extent) {
    const bool has_nan =
        is_float_type(type) && (greatest > key_of_infinity(type) || least < -key_of_infinity(type) - 1);
    if (has_nan) least = greatest = key_of_infinity(type) + 1;
    extent[0] = element_bits_of_key(type, least);
    extent[1] = element_bits_of_key(type, greatest);
}

void extent_on_host(const Layout &layout, const BinLoops &loops, Call &call, uint64_t *extent) {
    const int type = layout.views[0].type;
    int64_t least = INT64_MAX, greatest = INT64_MIN;
    visit_blocks(layout.size, threads_for(layout.size), call,
                 [&] { return Extent(layout, loops, &least, &greatest); });
    extent_of_keys(type, least, greatest, extent);
}

void digitize_on_host(const DigitizeRequest &request, const BinLoops &loops, Call &call) {
    if (request.layout.size == 0) return;
    const int64_t size = request.layout.size;
    visit_blocks(size, pk::threads_for(size, WORTH_A_SEARCHING_THREAD), call,
                 [&] { return Digitizer(request, loops); });
}

}  // namespace pk::histogram
