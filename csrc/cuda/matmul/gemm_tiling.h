// How a product is cut to go through a GPU: into parts of the result, which stay on the device while panels
// of both factors, so deep each, go past them.
#pragma once

#include "common/matmul.h"

namespace pk::matmul {

// A part: some rows and columns of some pairs' results; a panel: what some of their products take.
struct Part {
    int64_t pair, pairs, row, rows, column, columns;
};
struct Panel {
    int64_t part, start, depth;
};

// Bytes of an element on its way up, of a sum, and of what is beside an element of a panel.
struct Items {
    int64_t factor, total, scratch;
};

struct Cut {
    static constexpr int64_t PANELS = 2;         // on the device at once
    static constexpr int64_t LEAST_DEPTH = 512;  // but for shallower products
    static constexpr int64_t LEAST_SIDE = 64, MOST_PAIRS = 1 << 14;
    static constexpr int64_t PANEL_BYTES = 8 << 20, MOST_PANEL_BYTES = 64 << 20, GROUP_BYTES = 16 << 20;

    int64_t rows, columns, depth;  // of a part, and of its panels
    int64_t pairs = 1;             // of small matrices, so many make a part
    int64_t totals = 1;            // parts on the device at once

    Items items{};

    int64_t panel_elements() const { return pairs * (rows + columns) * depth; }
    int64_t total_bytes() const { return aligned(pairs * rows * columns * items.total); }
    int64_t panel_bytes() const { return aligned(panel_elements() * items.factor); }
    int64_t scratch_bytes() const { return aligned(panel_elements() * items.scratch); }
    int64_t bytes() const {
        return NOTES + totals * total_bytes() + PANELS * panel_bytes() + scratch_bytes();
    }

    static constexpr int64_t NOTES = 256;
    static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }
    static int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }
    static int64_t half(int64_t size) { return (parts_of(size, 2) + 63) / 64 * 64; }

    int64_t down(const Product &given) const { return parts_of(given.m, rows); }
    int64_t across(const Product &given) const { return parts_of(given.n, columns); }
    int64_t panels(const Product &given) const { return parts_of(given.k, depth); }
    int64_t parts(const Product &given) const {
        return parts_of(given.batch, pairs) * down(given) * across(given);
    }
    double uploaded(const Product &given) const {
        return double(given.batch) * double(given.k) *
               (double(given.m) * double(across(given)) + double(given.n) * double(down(given)));
    }

    // The largest parts for which `room` bytes do, of rows and columns that are not longer than `longest`;
    // false if there is no room.
    static bool fit(const Product &given, Items items, int64_t totals, int64_t room, int64_t longest,
                    Cut &cut) {
        cut = {std::min(given.m, longest), std::min(given.n, longest), std::min(given.k, LEAST_DEPTH)};
        cut.items = items;
        cut.totals = totals;
        while (cut.bytes() > room || cut.panel_bytes() > MOST_PANEL_BYTES) {
            int64_t &side = cut.rows >= cut.columns ? cut.rows : cut.columns;
            const bool deep = cut.depth > LEAST_SIDE && 2 * totals * cut.total_bytes() < room &&
                              cut.panel_bytes() <= MOST_PANEL_BYTES;
            if (deep) {
                cut.depth = half(cut.depth);
            } else if (side > LEAST_SIDE) {
                side = half(side);
            } else if (cut.depth > LEAST_SIDE) {
                cut.depth = half(cut.depth);
            } else {
                return false;
            }
        }
        auto grows = [&](int64_t &size, int64_t to, int64_t most_bytes) {
            const int64_t before = size;
            size = to;
            const bool fits = cut.panel_bytes() <= most_bytes && cut.bytes() <= room;
            if (!fits) size = before;
            return fits;
        };
        while (cut.depth < std::min(given.k, longest) &&
               grows(cut.depth, std::min({2 * cut.depth, given.k, longest}), PANEL_BYTES)) {
        }
        const bool is_whole = cut.rows == given.m && cut.columns == given.n && cut.depth == given.k;
        while (is_whole && cut.pairs < std::min(given.batch, MOST_PAIRS) &&
               grows(cut.pairs, std::min({2 * cut.pairs, given.batch, MOST_PAIRS}), GROUP_BYTES)) {
        }
        return true;
    }

    // With one part on the device, its download stops the work; with two, they are smaller, and more goes up.
    static bool best(const Product &given, Items items, int64_t room, int64_t longest, Cut &cut) {
        Cut one, two;
        const bool has_one = fit(given, items, 1, room, longest, one);
        const bool has_two = fit(given, items, 2, room, longest, two);
        const double results = double(given.elements()) * double(items.total);
        const bool alone = has_one && one.parts(given) == 1;
        const bool slower = has_one && one.uploaded(given) * double(items.factor) + results <
                                           two.uploaded(given) * double(items.factor);
        cut = alone || slower || !has_two ? one : two;
        return has_one || has_two;
    }
};

}  // namespace pk::matmul
