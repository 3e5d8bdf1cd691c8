// Iteration of image filters on the CPU: images are cut into tiles, and the rows of a tile pass through a
// ring buffer with as many rows as the window.
#pragma once

#include <algorithm>
#include <vector>

#include "common/call/call.h"
#include "common/image_filters.h"
#include "common/rounding.h"
#include "image_filter_loops.h"

namespace pk::image::filters {

constexpr int64_t RING_BYTES = 256 << 10;  // fits in the L2 cache
constexpr int64_t MIN_STRIP = 256;         // elements
constexpr int64_t CHECK_INTERRUPT_AFTER =
    1 << 20;  // elements: far less than the time in which a call must stop

struct Tile {
    int64_t image, top, bottom, first, last;  // its rows, and its range of elements in each
};

// Divides images into tiles: bands of rows, cut into strips.
class Tiling {
   public:
    Tiling(const Filter &filter, int64_t ring_row_bytes, int64_t threads) : filter_(filter) {
        const int64_t most = std::max(MIN_STRIP, RING_BYTES / ring_row_bytes);
        strip_ = align_up(ceil_div(filter.row(), ceil_div(filter.row(), most)), 64);
        strips_ = ceil_div(filter.row(), strip_);
        const int64_t shared = filter.batch * filter.rows * strips_ / (8 * threads);
        band_ = std::clamp(shared, std::min(filter.rows, 4 * filter.height + 16), filter.rows);
        bands_ = ceil_div(filter.rows, band_);
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

// A ring buffer of the last rows that a window reaches. Row i is at i modulo the number of slots, aligned for
// vectors.
template <class Cell>
class Ring {
   public:
    Ring(int64_t depth, int64_t width)
        : depth_(depth),
          stride_(align_up(width + FILTER_PADDING, ALIGNED)),
          cells_(size_t(depth_ * stride_ + ALIGNED)) {
        const auto cell = int64_t(reinterpret_cast<uintptr_t>(cells_.data()) / sizeof(Cell));
        first_ = cells_.data() + (ALIGNED - cell % ALIGNED);
    }
    Cell *at(int64_t row) { return first_ + (row + MAX_SIZE) % depth_ * stride_; }

   private:
    static constexpr int64_t ALIGNED = 64 / sizeof(Cell);

    int64_t depth_, stride_;
    std::vector<Cell> cells_;
    Cell *first_;
};

// Base of the filters' workers: iterates over the rows of a tile, with the elements around it.
template <class T>
class Worker {
   public:
    Worker(const Filter &filter, int64_t strip)
        : filter_(filter),
          halo_((filter.width - 1) * filter.channels),
          extended_(size_t(strip + halo_ + FILTER_PADDING)),
          border_value_(T(filter.border_value)) {}

   protected:
    // Copies the elements of a tile's row, extended on both sides by as many as the window reaches.
    void extend(const Tile &tile, int64_t row, T *to) const {
        const int64_t from = inside(filter_.border, row, filter_.rows);
        const int64_t begin = tile.first - filter_.left * filter_.channels;
        const int64_t end = tile.last + filter_.right() * filter_.channels;
        if (from < 0) {
            std::fill(to, to + (end - begin), border_value_);
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

    // Calls add(row) once for each row that the window reaches, and emit(row, count) for each group of result
    // rows.
    template <class Add, class Emit>
    void walk(const Tile &tile, int64_t together, Call &call, Add add, Emit emit) const {
        int64_t next = tile.top - filter_.above, done = 0;
        for (int64_t row = tile.top; row < tile.bottom; row += together) {
            const int64_t count = std::min(together, tile.bottom - row);
            for (; next < row + count + filter_.below(); ++next) add(next);
            emit(row, count);
            done += count * (tile.last - tile.first);
            if (done * filter_.window() < CHECK_INTERRUPT_AFTER) continue;
            call.advance(done);
            done = 0;
        }
        call.advance(done);
    }

    const Filter &filter_;
    const int64_t halo_;       // elements
    std::vector<T> extended_;  // one row
    const T border_value_;

   private:
    T beyond(const T *elements, int64_t e) const {
        const int64_t channels = filter_.channels;
        const int64_t column = e < 0 ? -((channels - 1 - e) / channels) : e / channels;
        const int64_t from = inside(filter_.border, column, filter_.columns);
        return from < 0 ? border_value_ : elements[from * channels + (e - column * channels)];
    }
};

}  // namespace pk::image::filters
