// pk_filter on the CPU: sums, means, minima, maxima and medians over windows.
#include "common/image.h"

#include "common/call/parallel_for.h"
#include "image_filter_tiles.h"
#include "loops.h"

namespace pk::image::filters {

namespace {

constexpr int64_t WORTH_A_THREAD = 256 << 10;  // window elements

int index_of(int type) { return type == PK_UINT8 ? 0 : type == PK_UINT16 ? 1 : 2; }

const SumLoops<int16_t> &loops_of(int16_t) { return loops().filters.int16; }
const SumLoops<float> &loops_of(float) { return loops().filters.float32; }
const SumLoops<double> &loops_of(double) { return loops().filters.float64; }
const OrderLoops<uint8_t> &loops_of(uint8_t) { return loops().filters.order8; }
const OrderLoops<uint16_t> &loops_of(uint16_t) { return loops().filters.order16; }
const OrderLoops<uint32_t> &loops_of(uint32_t) { return loops().filters.order32; }

template <class T, class Sum>
class SumWorker : Worker<T> {
    using Worker<T>::filter_;
    using Worker<T>::halo_;

   public:
    static int64_t together(const Filter &filter) {
        return filter.in_two_passes() ? 1 : loops_of(Sum()).together;
    }
    static int64_t ring_row_bytes(const Filter &filter) {
        return (filter.height + together(filter) - 1) * int64_t(sizeof(Sum));
    }

    SumWorker(const Filter &filter, int64_t strip, Call &call)
        : Worker<T>(filter, strip),
          call_(call),
          loops_(loops_of(Sum())),
          ring_(filter.height + together(filter) - 1, strip + halo_),
          wide_(1, strip + halo_),
          results_(together(filter), strip),
          weights_(filter.weights.begin(), filter.weights.end()),
          down_(filter.down.begin(), filter.down.end()),
          across_(filter.across.begin(), filter.across.end()),
          rows_(size_t(filter.height + together(filter) - 1)),
          to_(size_t(together(filter))) {}

    void run(const Tile &tile) {
        const int64_t count = tile.last - tile.first;
        if (filter_.kind == PK_FILTER_BOX) count_columns(tile);
        this->walk(
            tile, together(filter_), call_, [&](int64_t row) { add(tile, row, count); },
            [&](int64_t row, int64_t rows) { emit(tile, row, rows, count); });
    }

   private:
    void add(const Tile &tile, int64_t row, int64_t count) {
        const int64_t step = filter_.channels;
        this->extend(tile, row, this->extended_.data());
        Sum *const wide = filter_.in_two_passes() ? wide_.at(0) : ring_.at(row);
        loops_.widen[index_of(filter_.type)](this->extended_.data(), count + halo_, wide);
        if (filter_.in_two_passes())
            loops_.across(wide, across_.data(), filter_.width, step, count, ring_.at(row));
    }

    void emit(const Tile &tile, int64_t row, int64_t rows, int64_t count) {
        for (size_t i = 0; i < rows_.size(); ++i) rows_[i] = ring_.at(row - filter_.above + int64_t(i));
        for (size_t i = 0; i < to_.size(); ++i) to_[i] = results_.at(int64_t(i));
        if (filter_.in_two_passes()) {
            loops_.down(rows_.data(), down_.data(), filter_.height, count, to_[0]);
        } else {
            loops_.correlate(rows_.data(), weights_.data(), filter_.height, filter_.width, filter_.channels,
                             count, to_.data());
        }
        if (filter_.kind == PK_FILTER_BOX) {
            const int64_t inner = filter_.border == PK_BORDER_SHRINK
                                      ? overlap(row - filter_.above, filter_.height, filter_.rows)
                                      : filter_.height;
            loops_.divide(to_[0], counts_.data(), Sum(inner), count);
        }
        for (int64_t r = 0; r < rows; ++r) {
            loops_.narrow[index_of(filter_.result_type)](to_[size_t(r)], count, this->result(tile, row + r));
        }
    }

    // Counts the columns inside the image for the window of each element of the tile's rows
    // (PK_BORDER_SHRINK).
    void count_columns(const Tile &tile) {
        counts_.assign(size_t(tile.last - tile.first), Sum(filter_.width));
        if (filter_.border != PK_BORDER_SHRINK) return;
        for (int64_t e = tile.first; e < tile.last; ++e) {
            const int64_t column = e / filter_.channels;
            counts_[size_t(e - tile.first)] =
                Sum(overlap(column - filter_.left, filter_.width, filter_.columns));
        }
    }

    Call &call_;
    const SumLoops<Sum> &loops_;
    Ring<Sum> ring_, wide_, results_;
    const std::vector<Sum> weights_, down_, across_;
    std::vector<const Sum *> rows_;
    std::vector<Sum *> to_;
    std::vector<Sum> counts_;
};

const MeanLoops<uint8_t> &mean_loops(uint8_t) { return loops().filters.means8; }
const MeanLoops<uint16_t> &mean_loops(uint16_t) { return loops().filters.means16; }

// Means of integers by running sums: the sum of each column of the window slides down row by row. If the
// window has an odd number of bytes, few enough for their sum to fit in 16 bits, a multiplication replaces
// the division.
template <class T, class Sum>
class MeanWorker : Worker<T> {
    using Worker<T>::filter_;
    using Worker<T>::halo_;
    static constexpr bool IS_SHORT = sizeof(Sum) == 2;

   public:
    static int64_t ring_row_bytes(const Filter &filter) {
        return (filter.height + 1) * int64_t(sizeof(T)) + 3 * int64_t(sizeof(Sum));
    }

    MeanWorker(const Filter &filter, int64_t strip, Call &call)
        : Worker<T>(filter, strip),
          call_(call),
          ring_(filter.height + 1, strip + halo_),
          sums_(1, strip + halo_),
          used_(1, IS_SHORT ? 0 : strip + halo_),
          across_(1, IS_SHORT ? 0 : strip),
          zeros_(size_t(strip + halo_)) {
        // For x below 256 n, x / n is x * multiplier / 2^(16 + shift), rounded down (division by an
        // invariant, Granlund and Montgomery 1994).
        const int64_t n = filter.height * filter.width;
        if (!IS_SHORT) return;
        while ((int64_t(2) << shift_) < n) ++shift_;
        multiplier_ = uint16_t(ceil_div(int64_t(1) << (16 + shift_), n));
        half_ = uint16_t(n / 2);
    }

    void run(const Tile &tile) {
        const int64_t count = tile.last - tile.first;
        std::fill(sums_.at(0), sums_.at(0) + count + halo_, Sum(0));
        rows_summed_ = 0;
        this->walk(
            tile, 1, call_, [&](int64_t row) { add(tile, row, count + halo_); },
            [&](int64_t row, int64_t) { emit(static_cast<T *>(this->result(tile, row)), count); });
    }

   private:
    void add(const Tile &tile, int64_t row, int64_t count) {
        const bool full = rows_summed_ == filter_.height;
        const T *const leaves = full ? ring_.at(row - filter_.height) : zeros_.data();
        T *const enters = ring_.at(row);
        this->extend(tile, row, enters);
        if constexpr (IS_SHORT) {
            loops().filters.slide_short(sums_.at(0), enters, leaves, count);
        } else {
            mean_loops(T()).slide(sums_.at(0), enters, leaves, count);
        }
        if (!full) ++rows_summed_;
    }

    void emit(T *to, int64_t count) {
        const int64_t taps = filter_.width, step = filter_.channels, n = filter_.height * taps;
        if constexpr (IS_SHORT) {
            loops().filters.means_short(sums_.at(0), taps, step, count, half_, multiplier_, shift_, to);
        } else {
            std::copy(sums_.at(0), sums_.at(0) + count + halo_, used_.at(0));
            loops().filters.add_across(used_.at(0), taps, step, count, across_.at(0));
            mean_loops(T()).divide(across_.at(0), n, filter_.arithmetic == Arithmetic::float64, count, to);
        }
    }

    Call &call_;
    Ring<T> ring_;
    Ring<Sum> sums_, used_, across_;  // of columns; a copy of these; of windows
    const std::vector<T> zeros_;
    int64_t rows_summed_ = 0;
    uint16_t multiplier_ = 0, half_ = 0;
    int shift_ = 0;
};

template <class T, class Key>
class OrderWorker : Worker<T> {
    using Worker<T>::filter_;
    using Worker<T>::halo_;

   public:
    static int64_t ring_row_bytes(const Filter &filter) { return filter.height * int64_t(sizeof(Key)); }

    OrderWorker(const Filter &filter, int64_t strip, Call &call)
        : Worker<T>(filter, strip),
          call_(call),
          loops_(loops_of(Key())),
          which_(filter.kind == PK_FILTER_MINIMUM ? 0 : 1),
          is_median_(filter.kind == PK_FILTER_MEDIAN),
          ring_(filter.height, strip + halo_),
          keys_(1, strip + halo_),
          results_(1, strip),
          rows_(size_t(filter.height)) {}

    void run(const Tile &tile) {
        const int64_t count = tile.last - tile.first;
        this->walk(
            tile, 1, call_, [&](int64_t row) { add(tile, row, count); },
            [&](int64_t row, int64_t) { emit(tile, row, count); });
    }

   private:
    void add(const Tile &tile, int64_t row, int64_t count) {
        const int64_t all = count + halo_;
        Key *const keys = is_median_ ? ring_.at(row) : keys_.at(0);
        if constexpr (std::is_same_v<T, Key>) {
            this->extend(tile, row, keys);
        } else {
            this->extend(tile, row, this->extended_.data());
            if constexpr (std::is_same_v<T, float>) {
                loops().filters.to_keys[which_](this->extended_.data(), all, keys);
            } else {
                std::copy(this->extended_.data(), this->extended_.data() + all, keys);
            }
        }
        if (!is_median_) loops_.across[which_](keys, filter_.width, filter_.channels, count, ring_.at(row));
    }

    void emit(const Tile &tile, int64_t row, int64_t count) {
        for (size_t i = 0; i < rows_.size(); ++i) rows_[i] = ring_.at(row - filter_.above + int64_t(i));
        T *const to = static_cast<T *>(this->result(tile, row));
        Key *const keys = results_.at(0);
        const int64_t step = filter_.channels;
        bool in_place = false;
        if (!is_median_) {
            in_place = write_direct(to, keys, [&](Key *direct) {
                loops_.down[which_](rows_.data(), filter_.height, count, direct);
            });
        } else if (filter_.height == 3 && filter_.width == 3) {
            in_place = write_direct(
                to, keys, [&](Key *direct) { loops_.median_of_nine(rows_.data(), step, count, direct); });
        } else {
            loops_.median(rows_.data(), filter_.height, filter_.width, step, count, filter_.rank(),
                          int(8 * sizeof(T)), keys);
        }
        if (in_place) return;
        if constexpr (std::is_same_v<T, float>) {
            loops().filters.of_keys[which_](keys, count, to);
        } else {
            std::copy(keys, keys + count, to);
        }
    }

    // Calls write(keys). If keys are elements, it writes directly to the results, and returns true.
    template <class Write>
    static bool write_direct(T *to, Key *keys, Write write) {
        if constexpr (std::is_same_v<T, Key>) {
            write(to);
            return true;
        } else {
            write(keys);
            return false;
        }
    }

    Call &call_;
    const OrderLoops<Key> &loops_;
    const int which_;  // the index into the loops of minima and maxima, and the order of NaN
    const bool is_median_;
    Ring<Key> ring_, keys_, results_;
    std::vector<const Key *> rows_;
};

template <class Work>
void filter_with(const Filter &filter, Call &call) {
    const int64_t worth = filter.elements() / std::max<int64_t>(1, WORTH_A_THREAD / filter.window());
    const int64_t threads = std::clamp<int64_t>(worth, 1, thread_count());
    const Tiling cut(filter, Work::ring_row_bytes(filter), threads);
    parallel_for(
        call, cut.tiles(), 1, std::min(threads, cut.tiles()), [&] { return Work(filter, cut.strip(), call); },
        [&](Work &work, int64_t index, int64_t) {
            const Tile tile = cut.tile(index);
            work.run(tile);
            return (tile.bottom - tile.top) * (tile.last - tile.first);
        });
}

template <class T>
void sum(const Filter &filter, Call &call) {
    switch (filter.arithmetic) {
        case Arithmetic::int16: return filter_with<SumWorker<T, int16_t>>(filter, call);
        case Arithmetic::float32: return filter_with<SumWorker<T, float>>(filter, call);
        case Arithmetic::float64: return filter_with<SumWorker<T, double>>(filter, call);
    }
}

}  // namespace

}  // namespace pk::image::filters

void pk::image::filter(const filters::Filter &filter, Call &call) {
    using namespace filters;
    if (filter.elements() == 0) return;
    const bool many = filter.kind == PK_FILTER_MEDIAN &&
                      filter.height * filter.width > UINT8_MAX;  // counters of bytes would overflow
    if (filter.kind == PK_FILTER_BOX && filter.type == filter.result_type &&
        filter.border != PK_BORDER_SHRINK) {
        const int64_t window = filter.height * filter.width;
        const bool is_short = window % 2 == 1 && window > 1 && window <= 128;
        if (filter.type == PK_UINT16) return filter_with<MeanWorker<uint16_t, uint32_t>>(filter, call);
        if (filter.type == PK_UINT8 && is_short)
            return filter_with<MeanWorker<uint8_t, uint16_t>>(filter, call);
        if (filter.type == PK_UINT8) return filter_with<MeanWorker<uint8_t, uint32_t>>(filter, call);
    }
    if (filter.computes_sums()) {
        if (filter.type == PK_UINT8) return sum<uint8_t>(filter, call);
        if (filter.type == PK_UINT16) return sum<uint16_t>(filter, call);
        return sum<float>(filter, call);
    }
    if (filter.type == PK_FLOAT32) return filter_with<OrderWorker<float, uint32_t>>(filter, call);
    if (filter.type == PK_UINT16) return filter_with<OrderWorker<uint16_t, uint16_t>>(filter, call);
    if (many) return filter_with<OrderWorker<uint8_t, uint16_t>>(filter, call);
    filter_with<OrderWorker<uint8_t, uint8_t>>(filter, call);
}
