// Kernels of image filters: a thread block computes a tile of results from the tile's elements and their
// halo, which it loads into shared memory. Separable filters go over the rows first, then down the columns.
#pragma once

#include <cuda_runtime.h>

#include "common/image_filters.h"

namespace pk::image::filters::device {

constexpr int COLUMNS = 32, THREAD_ROWS = 8, THREADS = COLUMNS * THREAD_ROWS;  // of a block

// Rows of a tile: as many as let the largest window's elements and sums fit in 48 KiB.
template <class Sum>
constexpr int ROWS = sizeof(Sum) == 4 ? 32 : 8;

// Kernel parameters of a filter.
struct FilterParams {
    const char *in;
    char *out;
    const void *weights;  // of the window, or, if separable, those down a column and then those along a row
    int type, result_type, kind, border;
    int height, width, above, left, rank;
    float border_value;
    int64_t rows, columns, channels;  // of an image
    // A chunk is whole images, or a band of one: `band_rows` rows from `first_row` on. The input has the
    // whole image, or, with `has_halo`, the band and the rows above and below it that the window reaches.
    int64_t first_row, band_rows;
    bool has_halo;
    int64_t row_tiles, column_tiles;
};

// A tile in shared memory. Each step between two barriers is a member function that takes the thread's index.
template <class Cell, class Sum>
struct Tile {
    PK_HD Tile(const FilterParams &params, int64_t block, char *shared)
        : params(params),
          sums(reinterpret_cast<Sum *>(shared)),
          cells(reinterpret_cast<Cell *>(shared + reach_rows() * COLUMNS * int64_t(sizeof(Sum)))) {
        channel = block % params.channels;
        block /= params.channels;
        first_column = block % params.column_tiles * COLUMNS;
        block /= params.column_tiles;
        first_row = block % params.row_tiles * ROWS<Sum> + params.first_row;
        image = block / params.row_tiles;
        end_row = params.first_row + params.band_rows;
    }

    PK_HD int64_t reach_rows() const { return ROWS<Sum> + params.height - 1; }
    PK_HD int64_t reach_columns() const { return COLUMNS + params.width - 1; }

    // Return the index of an element in the chunk, or -1 if it is outside of the image.
    PK_HD int64_t place(int64_t row, int64_t column) const {
        const int64_t x = inside(params.border, column, params.columns);
        int64_t y = inside(params.border, row, params.rows);
        if (x < 0 || y < 0) return -1;
        if (params.has_halo) {
            y = row - (params.first_row - params.above);
            if (y >= params.band_rows + params.height - 1) return -1;  // rows beyond the band's results
        }
        return ((image * params.rows + y) * params.columns + x) * params.channels + channel;
    }

    PK_HD float element(int64_t at) const {
        if (at < 0) return params.border_value;
        if (params.type == PK_UINT8) return float(reinterpret_cast<const uint8_t *>(params.in)[at]);
        if (params.type == PK_UINT16) return float(reinterpret_cast<const uint16_t *>(params.in)[at]);
        return reinterpret_cast<const float *>(params.in)[at];
    }

    // Call put(cell, element) for each element that the tile's windows reach.
    template <class Put>
    PK_HD void load(int thread, Put put) const {
        for (int64_t y = thread / COLUMNS; y < reach_rows(); y += THREAD_ROWS) {
            for (int64_t x = thread % COLUMNS; x < reach_columns(); x += COLUMNS) {
                const int64_t row = first_row - params.above + y, column = first_column - params.left + x;
                put(cells[y * reach_columns() + x], element(place(row, column)));
            }
        }
    }

    PK_HD bool has(int64_t row, int64_t column) const { return row < end_row && column < params.columns; }

    PK_HD int64_t result_at(int64_t row, int64_t column) const {
        const int64_t y = image * params.rows + row - params.first_row;
        return (y * params.columns + column) * params.channels + channel;
    }

    const FilterParams &params;
    Sum *const sums;  // a row of COLUMNS for each row that is reached
    Cell *const cells;
    int64_t image, channel, first_row, first_column, end_row;
};

// Weighted sums and means: correlate, separable and box filters.
template <class Sum>
struct SumTile : Tile<float, Sum> {
    using Base = Tile<float, Sum>;
    using Base::params, Base::sums, Base::cells;
    static constexpr int EACH = ROWS<Sum> / THREAD_ROWS;  // results of a thread, THREAD_ROWS apart

    PK_HD SumTile(const FilterParams &params, int64_t block, char *shared) : Base(params, block, shared) {}

    PK_HD const Sum *weights() const { return static_cast<const Sum *>(params.weights); }

    PK_HD void load(int thread) const {
        Base::load(thread, [](float &cell, float element) { cell = element; });
    }

    PK_HD void across(int thread) const {
        if (params.kind == PK_FILTER_CORRELATE) return;
        const Sum *const weight = weights() + params.height;
        const int x = thread % COLUMNS;
        for (int64_t y = thread / COLUMNS; y < this->reach_rows(); y += THREAD_ROWS) {
            const float *const row = cells + y * this->reach_columns() + x;
            Sum sum = 0;
            for (int k = 0; k < params.width; ++k) sum = fma(weight[k], Sum(row[k]), sum);
            sums[y * COLUMNS + x] = sum;
        }
    }

    PK_HD void finish(int thread) const {
        const int x = thread % COLUMNS, y = thread / COLUMNS;
        Sum results[EACH] = {};
        for (int k = 0; k < params.height; ++k) {
            if (params.kind == PK_FILTER_CORRELATE) {
                const float *const row = cells + (y + k) * this->reach_columns() + x;
                Sum parts[EACH] = {};
                for (int j = 0; j < params.width; ++j) {
                    const Sum weight = weights()[k * params.width + j];
                    for (int i = 0; i < EACH; ++i) {
                        const Sum element = Sum(row[i * THREAD_ROWS * this->reach_columns() + j]);
                        parts[i] = fma(weight, element, parts[i]);
                    }
                }
                for (int i = 0; i < EACH; ++i) results[i] += parts[i];
            } else {
                const Sum weight = weights()[k];
                for (int i = 0; i < EACH; ++i) {
                    results[i] = fma(weight, sums[(y + i * THREAD_ROWS + k) * COLUMNS + x], results[i]);
                }
            }
        }
        for (int i = 0; i < EACH; ++i) {
            write(results[i], this->first_row + y + i * THREAD_ROWS, this->first_column + x);
        }
    }

    PK_HD void write(Sum sum, int64_t row, int64_t column) const {
        if (!this->has(row, column)) return;
        if (params.kind == PK_FILTER_BOX) {
            const bool shrinks = params.border == PK_BORDER_SHRINK;
            const int64_t high =
                shrinks ? overlap(row - params.above, params.height, params.rows) : params.height;
            const int64_t wide =
                shrinks ? overlap(column - params.left, params.width, params.columns) : params.width;
            sum = sum / Sum(high * wide);
        }
        const int64_t at = this->result_at(row, column);
        if (params.result_type == PK_UINT8) {
            reinterpret_cast<uint8_t *>(params.out)[at] = rounded<uint8_t>(sum);
        } else if (params.result_type == PK_UINT16) {
            reinterpret_cast<uint16_t *>(params.out)[at] = rounded<uint16_t>(sum);
        } else {
            reinterpret_cast<float *>(params.out)[at] = rounded<float>(sum);
        }
    }
};

// Order statistics: minimum, maximum and median filters, on order-preserving unsigned keys.
struct OrderTile : Tile<uint32_t, uint32_t> {
    static constexpr int EACH = ROWS<uint32_t> / THREAD_ROWS;

    PK_HD OrderTile(const FilterParams &params, int64_t block, char *shared) : Tile(params, block, shared) {}

    PK_HD void load(int thread) const {
        const FilterParams &p = params;
        Tile::load(thread, [&p](uint32_t &cell, float element) {
            cell = p.type != PK_FLOAT32          ? uint32_t(element)
                   : p.kind == PK_FILTER_MINIMUM ? key_of<true>(element)
                                                 : key_of<false>(element);
        });
    }

    PK_HD uint32_t extreme(uint32_t a, uint32_t b) const {
        return (a < b) == (params.kind == PK_FILTER_MINIMUM) ? a : b;
    }

    PK_HD void across(int thread) const {
        if (params.kind == PK_FILTER_MEDIAN) return;
        const int x = thread % COLUMNS;
        for (int64_t y = thread / COLUMNS; y < reach_rows(); y += THREAD_ROWS) {
            const uint32_t *const row = cells + y * reach_columns() + x;
            uint32_t result = row[0];
            for (int k = 1; k < params.width; ++k) result = extreme(result, row[k]);
            sums[y * COLUMNS + x] = result;
        }
    }

    PK_HD void finish(int thread) const {
        const int x = thread % COLUMNS, y = thread / COLUMNS;
        uint32_t results[EACH] = {};
        if (params.kind == PK_FILTER_MEDIAN) {
            find_medians(x, y, results);
        } else {
            for (int i = 0; i < EACH; ++i) {
                const uint32_t *const column = sums + (y + i * THREAD_ROWS) * COLUMNS + x;
                results[i] = column[0];
                for (int k = 1; k < params.height; ++k) results[i] = extreme(results[i], column[k * COLUMNS]);
            }
        }
        for (int i = 0; i < EACH; ++i) write(results[i], first_row + y + i * THREAD_ROWS, first_column + x);
    }

    // Radix select with digits of one bit, from the highest: a bit of the result is set if at most `rank`
    // elements are less than the result with that bit.
    PK_HD void find_medians(int x, int y, uint32_t *medians) const {
        for (int bit = int(8 * size_of(params.type)) - 1; bit >= 0; --bit) {
            uint32_t limit[EACH];
            int less[EACH] = {};
            for (int i = 0; i < EACH; ++i) limit[i] = medians[i] | uint32_t(1) << bit;
            for (int k = 0; k < params.height; ++k) {
                const uint32_t *const row = cells + (y + k) * reach_columns() + x;
                for (int j = 0; j < params.width; ++j) {
                    for (int i = 0; i < EACH; ++i) {
                        less[i] += row[i * THREAD_ROWS * reach_columns() + j] < limit[i];
                    }
                }
            }
            for (int i = 0; i < EACH; ++i) {
                if (less[i] <= params.rank) medians[i] = limit[i];
            }
        }
    }

    PK_HD void write(uint32_t key, int64_t row, int64_t column) const {
        if (!has(row, column)) return;
        const int64_t at = result_at(row, column);
        if (params.type == PK_UINT8) {
            reinterpret_cast<uint8_t *>(params.out)[at] = uint8_t(key);
        } else if (params.type == PK_UINT16) {
            reinterpret_cast<uint16_t *>(params.out)[at] = uint16_t(key);
        } else {
            reinterpret_cast<float *>(params.out)[at] =
                params.kind == PK_FILTER_MINIMUM ? element_of<true>(key) : element_of<false>(key);
        }
    }
};

// Filter a tile in each thread block: load, pass along the rows, pass down the columns.
template <class Tile>
__global__ void __launch_bounds__(THREADS) filter(__grid_constant__ const FilterParams params) {
    extern __shared__ double shared[];  // double, for the alignment of any sum
    const Tile tile(params, blockIdx.x, reinterpret_cast<char *>(shared));
    const int thread = int(threadIdx.x);
    tile.load(thread);
    __syncthreads();
    tile.across(thread);
    __syncthreads();
    tile.finish(thread);
}

}  // namespace pk::image::filters::device
