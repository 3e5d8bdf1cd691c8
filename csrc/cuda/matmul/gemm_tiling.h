// The tiling of a matrix product for a GPU: tiles of the result stay on the device, while panels of both
// factors along K are streamed past them.
#pragma once

#include "common/matmul.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/launch.h"

namespace pk::matmul {

// A tile: rows and columns of the results of some matrix pairs. A panel: the parts of both factors that add
// `depth` products to each element of a tile.
struct OutputTile {
    int64_t pair, pairs, row, rows, column, columns;
};
struct Panel {
    int64_t tile, start, depth;
};

// Bytes of an uploaded element, of a sum, and of scratch for each element of a panel.
struct ElementBytes {
    int64_t factor, total, scratch;
};

// The sizes of tiles and panels.
struct GemmTiling {
    static constexpr int64_t PANELS = 2;       // on the device at once (double buffering)
    static constexpr int64_t MIN_DEPTH = 512;  // of a panel, unless the product is shallower
    static constexpr int64_t MIN_SIDE = 64, MAX_PAIRS = 1 << 14;
    static constexpr int64_t PANEL_BYTES = 8 << 20, MAX_PANEL_BYTES = 64 << 20, GROUP_BYTES = 16 << 20;

    int64_t rows, columns, depth;  // of a tile, and of its panels
    int64_t pairs = 1;             // matrix pairs in a tile, for small matrices
    int64_t totals = 1;            // tiles on the device at once

    ElementBytes element_bytes{};

    int64_t panel_elements() const { return pairs * (rows + columns) * depth; }
    int64_t total_bytes() const { return aligned(pairs * rows * columns * element_bytes.total); }
    int64_t panel_bytes() const { return aligned(panel_elements() * element_bytes.factor); }
    int64_t scratch_bytes() const { return aligned(panel_elements() * element_bytes.scratch); }
    int64_t bytes() const {
        return STATUS_BYTES + totals * total_bytes() + PANELS * panel_bytes() + scratch_bytes();
    }

    static constexpr int64_t STATUS_BYTES = 256;
    static int64_t aligned(int64_t bytes) { return align_up(bytes, DEVICE_ALIGNMENT); }
    static int64_t half(int64_t size) { return align_up(ceil_div(size, 2), 64); }

    int64_t tiles_down(const Product &product) const { return ceil_div(product.m, rows); }
    int64_t tiles_across(const Product &product) const { return ceil_div(product.n, columns); }
    int64_t panels(const Product &product) const { return ceil_div(product.k, depth); }
    int64_t tiles(const Product &product) const {
        return ceil_div(product.batch, pairs) * tiles_down(product) * tiles_across(product);
    }
    double uploaded_elements(const Product &product) const {
        return double(product.batch) * double(product.k) *
               (double(product.m) * double(tiles_across(product)) +
                double(product.n) * double(tiles_down(product)));
    }

    // Find the largest tiles that fit into `available` bytes, with rows and columns of at most `longest`.
    // Return false if none fits.
    static bool fit(const Product &product, ElementBytes element_bytes, int64_t totals, int64_t available,
                    int64_t longest, GemmTiling &tiling) {
        tiling = {std::min(product.m, longest), std::min(product.n, longest), std::min(product.k, MIN_DEPTH)};
        tiling.element_bytes = element_bytes;
        tiling.totals = totals;
        while (tiling.bytes() > available || tiling.panel_bytes() > MAX_PANEL_BYTES) {
            int64_t &side = tiling.rows >= tiling.columns ? tiling.rows : tiling.columns;
            const bool deep = tiling.depth > MIN_SIDE && 2 * totals * tiling.total_bytes() < available &&
                              tiling.panel_bytes() <= MAX_PANEL_BYTES;
            if (deep) {
                tiling.depth = half(tiling.depth);
            } else if (side > MIN_SIDE) {
                side = half(side);
            } else if (tiling.depth > MIN_SIDE) {
                tiling.depth = half(tiling.depth);
            } else {
                return false;
            }
        }
        auto grows = [&](int64_t &size, int64_t to, int64_t most_bytes) {
            const int64_t before = size;
            size = to;
            const bool fits = tiling.panel_bytes() <= most_bytes && tiling.bytes() <= available;
            if (!fits) size = before;
            return fits;
        };
        while (tiling.depth < std::min(product.k, longest) &&
               grows(tiling.depth, std::min({2 * tiling.depth, product.k, longest}), PANEL_BYTES)) {
        }
        const bool is_whole =
            tiling.rows == product.m && tiling.columns == product.n && tiling.depth == product.k;
        while (is_whole && tiling.pairs < std::min(product.batch, MAX_PAIRS) &&
               grows(tiling.pairs, std::min({2 * tiling.pairs, product.batch, MAX_PAIRS}), GROUP_BYTES)) {
        }
        return true;
    }

    // Choose one or two tiles on the device. With one, computing waits for its download; with two, tiles are
    // smaller, and more elements are uploaded.
    static bool best(const Product &product, ElementBytes element_bytes, int64_t available, int64_t longest,
                     GemmTiling &tiling) {
        GemmTiling one, two;
        const bool has_one = fit(product, element_bytes, 1, available, longest, one);
        const bool has_two = fit(product, element_bytes, 2, available, longest, two);
        const double results = double(product.elements()) * double(element_bytes.total);
        const bool is_single = has_one && one.tiles(product) == 1;
        const bool slower =
            has_one && one.uploaded_elements(product) * double(element_bytes.factor) + results <
                           two.uploaded_elements(product) * double(element_bytes.factor);
        tiling = is_single || slower || !has_two ? one : two;
        return has_one || has_two;
    }
};

}  // namespace pk::matmul
