// Filters of images on the CPU: tile after tile, whose rows go through a ring of as many as a window has.
#include "../common/filters.h"

#include <algorithm>
#include <atomic>

#include "../common/call.h"
#include "../common/thread_pool.h"
#include "loops.h"

namespace pk::filters {

namespace {

constexpr int64_t RING_BYTES = 256 << 10;      // that stay in the second-level cache
constexpr int64_t LEAST_STRIP = 256;           // elements
constexpr int64_t WORTH_A_THREAD = 256 << 10;  // elements of windows
constexpr int64_t LOOK_AFTER = 1 << 20;        // of these: much less than the time in which a call must stop

struct Tile {
    int64_t image, top, bottom, first, last;  // its rows, and its elements of each
};

// How images are cut into tiles: bands of strips.
class Cut {
   public:
    Cut(const Filter &filter, int64_t ring_row_bytes, int64_t threads) : filter_(filter) {
        auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
        const int64_t most = std::max(LEAST_STRIP, RING_BYTES / ring_row_bytes);
        strip_ = parts(parts(filter.row(), parts(filter.row(), most)), 64) * 64;
        strips_ = parts(filter.row(), strip_);
        const int64_t shared = filter.batch * filter.rows * strips_ / (8 * threads);
        band_ = std::clamp(shared, std::min(filter.rows, 4 * filter.height + 16), filter.rows);
        bands_ = parts(filter.rows, band_);
    }

    int64_t tiles() const { return filter_.batch * bands_ * strips_; }
    int64_t strip() const { return strip_; }
    Tile tile(int64_t index) const {
        const int64_t first = index % strips_ * strip_, top = index / strips_ % bands_ * band_;
        return {index / strips_ / bands_, top, std::min(top + band_, filter_.rows), first,
                std::min(first + strip_, filter_.row())};
    }

   private:
    const Filter &filter_;
    int64_t strip_, strips_, band_, bands_;
};

// The last rows that a window reaches, each at its number modulo their count, where vectors begin.
template <class Cell>
class Ring {
   public:
    Ring(int64_t depth, int64_t width)
        : depth_(depth),
          stride_((width + FILTER_PADDING + ALIGNED - 1) / ALIGNED * ALIGNED),
          cells_(size_t(depth_ * stride_ + ALIGNED)) {
        const auto address = reinterpret_cast<uintptr_t>(cells_.data());
        first_ = cells_.data() + (ALIGNED * sizeof(Cell) - address % (ALIGNED * sizeof(Cell))) / sizeof(Cell);
    }
    Cell *at(int64_t row) { return first_ + (row + MOST_SIZE) % depth_ * stride_; }

   private:
    static constexpr int64_t ALIGNED = 64 / sizeof(Cell);

    int64_t depth_, stride_;
    std::vector<Cell> cells_;
    Cell *first_;
};

// What workers have in common: the rows of a tile with what lies beside them.
template <class T>
class Worker {
   public:
    Worker(const Filter &filter, int64_t strip)
        : filter_(filter),
          beside_((filter.width - 1) * filter.channels),
          extended_(size_t(strip + beside_ + FILTER_PADDING)),
          outside_(T(filter.outside)) {}

   protected:
    // Elements of the tile's row, and as many to the left and the right of it as the window reaches.
    void extend(const Tile &tile, int64_t row, T *to) const {
        const int64_t from = inside(filter_.border, row, filter_.rows);
        const int64_t begin = tile.first - filter_.left * filter_.channels;
        const int64_t end = tile.last + filter_.right() * filter_.channels;
        if (from < 0) {
            std::fill(to, to + (end - begin), outside_);
            return;
        }
        const T *const image = reinterpret_cast<const T *>(filter_.in) + tile.image * filter_.image();
        const T *const elements = image + from * filter_.row();
        for (int64_t e = begin; e < std::min<int64_t>(end, 0); ++e) to[e - begin] = beyond(elements, e);
        const int64_t low = std::max<int64_t>(begin, 0), high = std::min(end, filter_.row());
        if (low < high) std::copy(elements + low, elements + high, to + (low - begin));
        for (int64_t e = std::max(begin, filter_.row()); e < end; ++e) to[e - begin] = beyond(elements, e);
    }

    void *result(const Tile &tile, int64_t row) const {
        const int64_t at = tile.image * filter_.image() + row * filter_.row() + tile.first;
        return filter_.out + at * size_of(filter_.result_type);
    }

    // Calls add(row) for each row that the window reaches, once, and emit(row, count) for those of results.
    template <class Add, class Emit>
    void walk(const Tile &tile, int64_t together, Call &call, Add add, Emit emit) const {
        int64_t next = tile.top - filter_.above, done = 0;
        for (int64_t row = tile.top; row < tile.bottom; row += together) {
            const int64_t count = std::min(together, tile.bottom - row);
            for (; next < row + count + filter_.below(); ++next) add(next);
            emit(row, count);
            done += count * (tile.last - tile.first);
            if (done * filter_.window() < LOOK_AFTER) continue;
            call.advance(done);
            done = 0;
        }
        call.advance(done);
    }

    const Filter &filter_;
    const int64_t beside_;     // elements
    std::vector<T> extended_;  // a row
    const T outside_;

   private:
    T beyond(const T *elements, int64_t e) const {
        const int64_t channels = filter_.channels;
        const int64_t column = e < 0 ? -((channels - 1 - e) / channels) : e / channels;
        const int64_t from = inside(filter_.border, column, filter_.columns);
        return from < 0 ? outside_ : elements[from * channels + (e - column * channels)];
    }
};

int index_of(int type) { return type == PK_UINT8 ? 0 : type == PK_UINT16 ? 1 : 2; }

const SumLoops<int16_t> &loops_of(int16_t) { return loops().filters.int16; }
const SumLoops<float> &loops_of(float) { return loops().filters.float32; }
const SumLoops<double> &loops_of(double) { return loops().filters.float64; }
const OrderLoops<uint8_t> &loops_of(uint8_t) { return loops().filters.order8; }
const OrderLoops<uint16_t> &loops_of(uint16_t) { return loops().filters.order16; }
const OrderLoops<uint32_t> &loops_of(uint32_t) { return loops().filters.order32; }

template <class T, class Sum>
class Summer : Worker<T> {
    using Worker<T>::filter_;
    using Worker<T>::beside_;

   public:
    static int64_t together(const Filter &filter) {
        return filter.in_two_passes() ? 1 : loops_of(Sum()).together;
    }
    static int64_t ring_row_bytes(const Filter &filter) {
        return (filter.height + together(filter) - 1) * int64_t(sizeof(Sum));
    }

    Summer(const Filter &filter, int64_t strip, Call &call)
        : Worker<T>(filter, strip),
          call_(call),
          loops_(loops_of(Sum())),
          ring_(filter.height + together(filter) - 1, strip + beside_),
          wide_(1, strip + beside_),
          results_(together(filter), strip),
          weights_(filter.weights.begin(), filter.weights.end()),
          down_(filter.down.begin(), filter.down.end()),
          across_(filter.across.begin(), filter.across.end()),
          rows_(size_t(filter.height + together(filter) - 1)),
          to_(size_t(together(filter))) {}

    void run(const Tile &tile) {
        const int64_t count = tile.last - tile.first;
        if (filter_.kind == PK_BOX) count_columns(tile);
        this->walk(
            tile, together(filter_), call_, [&](int64_t row) { add(tile, row, count); },
            [&](int64_t row, int64_t rows) { emit(tile, row, rows, count); });
    }

   private:
    void add(const Tile &tile, int64_t row, int64_t count) {
        const int64_t step = filter_.channels;
        this->extend(tile, row, this->extended_.data());
        Sum *const wide = filter_.in_two_passes() ? wide_.at(0) : ring_.at(row);
        loops_.widen[index_of(filter_.type)](this->extended_.data(), count + beside_, wide);
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
        if (filter_.kind == PK_BOX) {
            const int64_t inner = filter_.border == PK_SHRINK
                                      ? overlap(row - filter_.above, filter_.height, filter_.rows)
                                      : filter_.height;
            loops_.divide(to_[0], counts_.data(), Sum(inner), count);
        }
        for (int64_t r = 0; r < rows; ++r) {
            loops_.narrow[index_of(filter_.result_type)](to_[size_t(r)], count, this->result(tile, row + r));
        }
    }

    // Of each element of the tile's rows, how many columns its window has.
    void count_columns(const Tile &tile) {
        counts_.assign(size_t(tile.last - tile.first), Sum(filter_.width));
        if (filter_.border != PK_SHRINK) return;
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

// Means of bytes, of an odd number of them so small that their sum fits in 16 bits: sums of columns slide
// down.
class Averager : Worker<uint8_t> {
   public:
    static bool takes(const Filter &filter) {
        const int64_t window = filter.height * filter.width;
        return filter.kind == PK_BOX && filter.type == PK_UINT8 && filter.result_type == PK_UINT8 &&
               filter.border != PK_SHRINK && window % 2 == 1 && window > 1 && window <= 128;
    }
    static int64_t ring_row_bytes(const Filter &filter) { return filter.height + 3; }

    Averager(const Filter &filter, int64_t strip, Call &call)
        : Worker(filter, strip),
          call_(call),
          ring_(filter.height + 1, strip + beside_),
          sums_(size_t(strip + beside_ + FILTER_PADDING)),
          zeros_(size_t(strip + beside_)) {
        // Of x below 256 n, x / n is x * multiplier / 2^(16 + shift), rounded down.
        const int64_t n = filter.height * filter.width;
        while ((int64_t(2) << shift_) < n) ++shift_;
        multiplier_ = uint16_t(((int64_t(1) << (16 + shift_)) + n - 1) / n);
        half_ = uint16_t(n / 2);
    }

    void run(const Tile &tile) {
        const int64_t count = tile.last - tile.first;
        const FilterLoops &table = loops().filters;
        std::fill(sums_.begin(), sums_.end(), uint16_t(0));
        int64_t sum_of = 0;  // rows
        walk(
            tile, 1, call_,
            [&](int64_t row) {
                extend(tile, row, ring_.at(row));
                const bool full = sum_of == filter_.height;
                const uint8_t *const leaves = full ? ring_.at(row - filter_.height) : zeros_.data();
                table.slide(sums_.data(), ring_.at(row), leaves, count + beside_);
                if (!full) ++sum_of;
            },
            [&](int64_t row, int64_t) {
                table.means(sums_.data(), filter_.width, filter_.channels, count, half_, multiplier_, shift_,
                            static_cast<uint8_t *>(result(tile, row)));
            });
    }

   private:
    Call &call_;
    Ring<uint8_t> ring_;
    std::vector<uint16_t> sums_;
    const std::vector<uint8_t> zeros_;
    uint16_t multiplier_, half_;
    int shift_ = 0;
};

template <class T, class Key>
class Orderer : Worker<T> {
    using Worker<T>::filter_;
    using Worker<T>::beside_;

   public:
    static int64_t ring_row_bytes(const Filter &filter) { return filter.height * int64_t(sizeof(Key)); }

    Orderer(const Filter &filter, int64_t strip, Call &call)
        : Worker<T>(filter, strip),
          call_(call),
          loops_(loops_of(Key())),
          which_(filter.kind == PK_MINIMUM ? 0 : 1),
          is_median_(filter.kind == PK_MEDIAN),
          ring_(filter.height, strip + beside_),
          keys_(1, strip + beside_),
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
        const int64_t all = count + beside_;
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

    // Has keys that are elements written where results go. Tells whether they are.
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
    const int which_;  // of the loops for extremes, and of the order of NaN
    const bool is_median_;
    Ring<Key> ring_, keys_, results_;
    std::vector<const Key *> rows_;
};

template <class Work>
void filter_with(const Filter &filter, Call &call) {
    const int64_t worth = filter.size() / std::max<int64_t>(1, WORTH_A_THREAD / filter.window());
    const int64_t threads = std::clamp<int64_t>(worth, 1, thread_count());
    const Cut cut(filter, Work::ring_row_bytes(filter), threads);
    std::atomic<int64_t> next{0};
    run_on_threads(std::min(threads, cut.tiles()), call, [&] {
        int64_t index = next++;
        if (index >= cut.tiles()) return;
        const DefaultFloatingPoint environment;
        Lane lane(call);
        Work work(filter, cut.strip(), call);
        for (; index < cut.tiles(); index = next++) {
            const double begin = call.seconds();
            const Tile tile = cut.tile(index);
            work.run(tile);
            lane.add(PK_COMPUTE, begin, call.seconds(), 0,
                     (tile.bottom - tile.top) * (tile.last - tile.first));
        }
    });
    call.report.chunks += cut.tiles();
}

template <class T>
void sum(const Filter &filter, Call &call) {
    switch (filter.arithmetic) {
        case Sums::int16: return filter_with<Summer<T, int16_t>>(filter, call);
        case Sums::float32: return filter_with<Summer<T, float>>(filter, call);
        case Sums::float64: return filter_with<Summer<T, double>>(filter, call);
    }
}

void compute(const Filter &filter, Call &call) {
    if (filter.size() == 0) return;
    const bool many =
        filter.kind == PK_MEDIAN && filter.height * filter.width > UINT8_MAX;  // to count in bytes
    if (Averager::takes(filter)) return filter_with<Averager>(filter, call);
    if (filter.sums()) {
        if (filter.type == PK_UINT8) return sum<uint8_t>(filter, call);
        if (filter.type == PK_UINT16) return sum<uint16_t>(filter, call);
        return sum<float>(filter, call);
    }
    if (filter.type == PK_FLOAT32) return filter_with<Orderer<float, uint32_t>>(filter, call);
    if (filter.type == PK_UINT16) return filter_with<Orderer<uint16_t, uint16_t>>(filter, call);
    if (many) return filter_with<Orderer<uint8_t, uint16_t>>(filter, call);
    filter_with<Orderer<uint8_t, uint8_t>>(filter, call);
}

}  // namespace
}  // namespace pk::filters

int32_t pk_filter(const pk_window *window, const double *weights, int64_t weight_count,
                  const pk_operand *operands, const int64_t *shape, const pk_options *options,
                  pk_report *report) {
    return pk::filters::filtered(window, weights, weight_count, operands, shape, options, report,
                                 pk::filters::compute);
}
