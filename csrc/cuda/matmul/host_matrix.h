// Views of the rows of a tile or panel, in the caller's matrices on the host or in their resident buffers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm_tiling.h"

namespace pk::matmul {

// Rows of a batch of matrices. On the device they are copied to a dense array, pair after pair.
struct HostMatrixView {
    char *base;             // the first row of matrix 0
    int64_t matrix;         // bytes from one matrix to the next
    const int64_t *places;  // index of each pair's matrix; null: 0, 1, 2, ...
    int64_t place_step;
    int64_t pitch, run;  // bytes from one row to the next on the host, and of a row
    int64_t rows;        // of each pair
    int64_t pairs;

    char *row(int64_t index) const {
        const int64_t pair = index / rows;
        const int64_t place = places == nullptr ? pair : places[pair * place_step];
        return base + place * matrix + index % rows * pitch;
    }
    int64_t all_rows() const { return rows * pairs; }

    // Return true if the rows are dense already. (With several pairs, each has a whole matrix.)
    bool are_dense() const {
        bool dense = pitch == run || rows == 1;
        for (int64_t pair = 1; dense && pair < pairs; ++pair)
            dense = row(pair * rows) == row(0) + pair * rows * run;
        return dense;
    }

    // Call copy(host address, offset in the dense array, bytes) for each row, or for several dense rows at
    // once.
    template <class Copy>
    void each(int64_t first, int64_t count, Copy copy) const {
        for (int64_t done = 0; done < count;) {
            const int64_t index = first + done;
            const int64_t rows_at_once = pitch == run ? std::min(count - done, rows - index % rows) : 1;
            copy(row(index), done * run, rows_at_once * run);
            done += rows_at_once;
        }
    }
};

// Makes the views of a product's factors and result.
template <class Kind>
struct HostOperands {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;

    const Product &product;

    HostMatrixView of_a(const OutputTile &tile, const Panel &panel) const {
        constexpr int64_t item = sizeof(Element);
        const bool transposed = product.transposed_a;
        const int64_t pitch = transposed ? product.m : product.k;
        const int64_t row = transposed ? panel.start : tile.row, column = transposed ? tile.row : panel.start;
        return {bytes_of(product.a) + (row * pitch + column) * item,
                product.m * product.k * item,
                product.index_pairs + 2 * tile.pair,
                2,
                pitch * item,
                (transposed ? tile.rows : panel.depth) * item,
                transposed ? panel.depth : tile.rows,
                tile.pairs};
    }
    HostMatrixView of_b(const OutputTile &tile, const Panel &panel) const {
        constexpr int64_t item = sizeof(Element);
        const bool transposed = product.transposed_b;
        const int64_t pitch = transposed ? product.k : product.n;
        const int64_t row = transposed ? tile.column : panel.start,
                      column = transposed ? panel.start : tile.column;
        return {bytes_of(product.b) + (row * pitch + column) * item,
                product.k * product.n * item,
                product.index_pairs + 2 * tile.pair + 1,
                2,
                pitch * item,
                (transposed ? panel.depth : tile.columns) * item,
                transposed ? tile.columns : panel.depth,
                tile.pairs};
    }
    // Rows of sums, whose type may be wider than that of the results on the host.
    HostMatrixView of_c(const OutputTile &tile) const {
        constexpr int64_t item = sizeof(Total);
        const int64_t start = (tile.pair * product.m + tile.row) * product.n + tile.column;
        return {bytes_of(product.c) + start * int64_t(sizeof(Element)),
                product.m * product.n * int64_t(sizeof(Element)),
                nullptr,
                0,
                product.n * int64_t(sizeof(Element)),
                tile.columns * item,
                tile.rows,
                tile.pairs};
    }

   private:
    static char *bytes_of(const void *memory) { return static_cast<char *>(const_cast<void *>(memory)); }
};

}  // namespace pk::matmul
