// Filters of images on the device: a block of threads computes a tile of results from the tile's elements and
// those around it, which it has in shared memory.
#pragma once

#include <cuda_runtime.h>

#include "common/image_filters.h"

namespace pk::image::filters::device {

constexpr int COLUMNS = 32, LINES = 8, THREADS = COLUMNS * LINES;  // of threads

// Rows of a tile: so many that the largest window's elements and sums fit in 48 KiB.
template <class Sum>
constexpr int ROWS = sizeof(Sum) == 4 ? 32 : 8;

struct Given {
    const char *in;
    char *out;
    const void *weights;  // the window's, or those down a column and then those along a row
    int type, result_type, kind, border;
    int height, width, above, left, rank;
    float outside;
    int64_t rows, columns, channels;  // of an image
    // A chunk is of whole images, or a band of `band_rows` rows of one, from `first_row` on. Of what that is
    // computed from, all of the image is there, or the band and the rows that the window reaches above and
    // below.
    int64_t first_row, band_rows;
    bool has_halo;
    int64_t row_tiles, column_tiles;
};

// A tile. What it does between two barriers is a function of the thread.
template <class Cell, class Sum>
struct Tile {
    PK_HD Tile(const Given &given, int64_t block, char *shared)
        : given(given),
          sums(reinterpret_cast<Sum *>(shared)),
          cells(reinterpret_cast<Cell *>(shared + reach_rows() * COLUMNS * int64_t(sizeof(Sum)))) {
        channel = block % given.channels;
        block /= given.channels;
        first_column = block % given.column_tiles * COLUMNS;
        block /= given.column_tiles;
        first_row = block % given.row_tiles * ROWS<Sum> + given.first_row;
        image = block / given.row_tiles;
        end_row = given.first_row + given.band_rows;
    }

    PK_HD int64_t reach_rows() const { return ROWS<Sum> + given.height - 1; }
    PK_HD int64_t reach_columns() const { return COLUMNS + given.width - 1; }

    // Where an element is in the chunk, or -1 if nowhere.
    PK_HD int64_t place(int64_t row, int64_t column) const {
        const int64_t x = inside(given.border, column, given.columns);
        int64_t y = inside(given.border, row, given.rows);
        if (x < 0 || y < 0) return -1;
        if (given.has_halo) {
            y = row - (given.first_row - given.above);
            if (y >= given.band_rows + given.height - 1) return -1;  // for rows that are no results
        }
        return ((image * given.rows + y) * given.columns + x) * given.channels + channel;
    }

    PK_HD float element(int64_t at) const {
        if (at < 0) return given.outside;
        if (given.type == PK_UINT8) return float(reinterpret_cast<const uint8_t *>(given.in)[at]);
        if (given.type == PK_UINT16) return float(reinterpret_cast<const uint16_t *>(given.in)[at]);
        return reinterpret_cast<const float *>(given.in)[at];
    }

    // Calls put(cell, element) for each that the tile's windows reach.
    template <class Put>
    PK_HD void load(int thread, Put put) const {
        for (int64_t y = thread / COLUMNS; y < reach_rows(); y += LINES) {
            for (int64_t x = thread % COLUMNS; x < reach_columns(); x += COLUMNS) {
                const int64_t row = first_row - given.above + y, column = first_column - given.left + x;
                put(cells[y * reach_columns() + x], element(place(row, column)));
            }
        }
    }

    PK_HD bool has(int64_t row, int64_t column) const { return row < end_row && column < given.columns; }

    PK_HD int64_t result_at(int64_t row, int64_t column) const {
        const int64_t y = image * given.rows + row - given.first_row;
        return (y * given.columns + column) * given.channels + channel;
    }

    const Given &given;
    Sum *const sums;  // a row of COLUMNS for each that is reached
    Cell *const cells;
    int64_t image, channel, first_row, first_column, end_row;
};

template <class Sum>
struct SumTile : Tile<float, Sum> {
    using Base = Tile<float, Sum>;
    using Base::given, Base::sums, Base::cells;
    static constexpr int EACH = ROWS<Sum> / LINES;  // results of a thread, LINES apart

    PK_HD SumTile(const Given &given, int64_t block, char *shared) : Base(given, block, shared) {}

    PK_HD const Sum *weights() const { return static_cast<const Sum *>(given.weights); }

    PK_HD void load(int thread) const {
        Base::load(thread, [](float &cell, float element) { cell = element; });
    }

    PK_HD void across(int thread) const {
        if (given.kind == PK_CORRELATE) return;
        const Sum *const weight = weights() + given.height;
        const int x = thread % COLUMNS;
        for (int64_t y = thread / COLUMNS; y < this->reach_rows(); y += LINES) {
            const float *const row = cells + y * this->reach_columns() + x;
            Sum sum = 0;
            for (int k = 0; k < given.width; ++k) sum = fma(weight[k], Sum(row[k]), sum);
            sums[y * COLUMNS + x] = sum;
        }
    }

    PK_HD void finish(int thread) const {
        const int x = thread % COLUMNS, y = thread / COLUMNS;
        Sum found[EACH] = {};
        for (int k = 0; k < given.height; ++k) {
            if (given.kind == PK_CORRELATE) {
                const float *const row = cells + (y + k) * this->reach_columns() + x;
                Sum parts[EACH] = {};
                for (int j = 0; j < given.width; ++j) {
                    const Sum weight = weights()[k * given.width + j];
                    for (int i = 0; i < EACH; ++i) {
                        const Sum element = Sum(row[i * LINES * this->reach_columns() + j]);
                        parts[i] = fma(weight, element, parts[i]);
                    }
                }
                for (int i = 0; i < EACH; ++i) found[i] += parts[i];
            } else {
                const Sum weight = weights()[k];
                for (int i = 0; i < EACH; ++i) {
                    found[i] = fma(weight, sums[(y + i * LINES + k) * COLUMNS + x], found[i]);
                }
            }
        }
        for (int i = 0; i < EACH; ++i) {
            write(found[i], this->first_row + y + i * LINES, this->first_column + x);
        }
    }

    PK_HD void write(Sum sum, int64_t row, int64_t column) const {
        if (!this->has(row, column)) return;
        if (given.kind == PK_BOX) {
            const bool shrinks = given.border == PK_SHRINK;
            const int64_t high =
                shrinks ? overlap(row - given.above, given.height, given.rows) : given.height;
            const int64_t wide =
                shrinks ? overlap(column - given.left, given.width, given.columns) : given.width;
            sum = sum / Sum(high * wide);
        }
        const int64_t at = this->result_at(row, column);
        if (given.result_type == PK_UINT8) {
            reinterpret_cast<uint8_t *>(given.out)[at] = rounded<uint8_t>(sum);
        } else if (given.result_type == PK_UINT16) {
            reinterpret_cast<uint16_t *>(given.out)[at] = rounded<uint16_t>(sum);
        } else {
            reinterpret_cast<float *>(given.out)[at] = rounded<float>(sum);
        }
    }
};

struct OrderTile : Tile<uint32_t, uint32_t> {
    static constexpr int EACH = ROWS<uint32_t> / LINES;

    PK_HD OrderTile(const Given &given, int64_t block, char *shared) : Tile(given, block, shared) {}

    PK_HD void load(int thread) const {
        const Given &asked = given;
        Tile::load(thread, [&asked](uint32_t &cell, float element) {
            cell = asked.type != PK_FLOAT32   ? uint32_t(element)
                   : asked.kind == PK_MINIMUM ? key_of<true>(element)
                                              : key_of<false>(element);
        });
    }

    PK_HD uint32_t extreme(uint32_t a, uint32_t b) const {
        return (a < b) == (given.kind == PK_MINIMUM) ? a : b;
    }

    PK_HD void across(int thread) const {
        if (given.kind == PK_MEDIAN) return;
        const int x = thread % COLUMNS;
        for (int64_t y = thread / COLUMNS; y < reach_rows(); y += LINES) {
            const uint32_t *const row = cells + y * reach_columns() + x;
            uint32_t found = row[0];
            for (int k = 1; k < given.width; ++k) found = extreme(found, row[k]);
            sums[y * COLUMNS + x] = found;
        }
    }

    PK_HD void finish(int thread) const {
        const int x = thread % COLUMNS, y = thread / COLUMNS;
        uint32_t found[EACH] = {};
        if (given.kind == PK_MEDIAN) {
            find_medians(x, y, found);
        } else {
            for (int i = 0; i < EACH; ++i) {
                const uint32_t *const column = sums + (y + i * LINES) * COLUMNS + x;
                found[i] = column[0];
                for (int k = 1; k < given.height; ++k) found[i] = extreme(found[i], column[k * COLUMNS]);
            }
        }
        for (int i = 0; i < EACH; ++i) write(found[i], first_row + y + i * LINES, first_column + x);
    }

    // Bit after bit, from the highest: it is set if no more than `rank` elements are less than with it.
    PK_HD void find_medians(int x, int y, uint32_t *found) const {
        for (int bit = int(8 * size_of(given.type)) - 1; bit >= 0; --bit) {
            uint32_t limit[EACH];
            int less[EACH] = {};
            for (int i = 0; i < EACH; ++i) limit[i] = found[i] | uint32_t(1) << bit;
            for (int k = 0; k < given.height; ++k) {
                const uint32_t *const row = cells + (y + k) * reach_columns() + x;
                for (int j = 0; j < given.width; ++j) {
                    for (int i = 0; i < EACH; ++i) {
                        less[i] += row[i * LINES * reach_columns() + j] < limit[i];
                    }
                }
            }
            for (int i = 0; i < EACH; ++i) {
                if (less[i] <= given.rank) found[i] = limit[i];
            }
        }
    }

    PK_HD void write(uint32_t key, int64_t row, int64_t column) const {
        if (!has(row, column)) return;
        const int64_t at = result_at(row, column);
        if (given.type == PK_UINT8) {
            reinterpret_cast<uint8_t *>(given.out)[at] = uint8_t(key);
        } else if (given.type == PK_UINT16) {
            reinterpret_cast<uint16_t *>(given.out)[at] = uint16_t(key);
        } else {
            reinterpret_cast<float *>(given.out)[at] =
                given.kind == PK_MINIMUM ? element_of<true>(key) : element_of<false>(key);
        }
    }
};

template <class Tile>
__global__ void __launch_bounds__(THREADS) filter(__grid_constant__ const Given given) {
    extern __shared__ double shared[];  // as aligned as any sum
    const Tile tile(given, blockIdx.x, reinterpret_cast<char *>(shared));
    const int thread = int(threadIdx.x);
    tile.load(thread);
    __syncthreads();
    tile.across(thread);
    __syncthreads();
    tile.finish(thread);
}

}  // namespace pk::image::filters::device
