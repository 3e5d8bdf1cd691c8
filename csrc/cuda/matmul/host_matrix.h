// Which rows of the matrices on the host, or at home, a device works on: of both factors, and of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm_tiling.h"

namespace pk::matmul {

// Rows of a matrix on the host, and as they lie on a device: dense, pair after pair.
struct HostMatrixView {
    char *base;             // of the first row of the matrix 0
    int64_t matrix;         // bytes from one matrix to the next
    const int64_t *places;  // which of them; null: one after the other
    int64_t place_step;
    int64_t pitch, run;  // bytes from row to row on the host, and of a row
    int64_t rows;        // of each pair
    int64_t pairs;

    char *row(int64_t index) const {
        const int64_t pair = index / rows;
        const int64_t place = places == nullptr ? pair : places[pair * place_step];
        return base + place * matrix + index % rows * pitch;
    }
    int64_t all_rows() const { return rows * pairs; }

    // Whether they lie as on a device. Several pairs have whole matrices.
    bool are_dense() const {
        bool dense = pitch == run || rows == 1;
        for (int64_t pair = 1; dense && pair < pairs; ++pair)
            dense = row(pair * rows) == row(0) + pair * rows * run;
        return dense;
    }

    // Calls copy(bytes on the host, offset on the device, count) for rows, dense ones of a matrix as one.
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
                product.places + 2 * tile.pair,
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
                product.places + 2 * tile.pair + 1,
                2,
                pitch * item,
                (transposed ? panel.depth : tile.columns) * item,
                transposed ? tile.columns : panel.depth,
                tile.pairs};
    }
    // Its rows are of sums, which may be longer than the results on the host.
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
