// Which rows of the matrices on the host, or at home, a device works on: of both factors, and of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm_tiling.h"

namespace pk::matmul {

// Rows of a matrix on the host, and as they lie on a device: dense, pair after pair.
struct HostRows {
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
            const int64_t together = pitch == run ? std::min(count - done, rows - index % rows) : 1;
            copy(row(index), done * run, together * run);
            done += together;
        }
    }
};

template <class Kind>
struct HostMatrices {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;

    const Product &given;

    HostRows of_a(const Part &part, const Panel &panel) const {
        constexpr int64_t item = sizeof(Element);
        const bool turned = given.transposed_a;
        const int64_t pitch = turned ? given.m : given.k;
        const int64_t row = turned ? panel.start : part.row, column = turned ? part.row : panel.start;
        return {bytes_of(given.a) + (row * pitch + column) * item,
                given.m * given.k * item,
                given.places + 2 * part.pair,
                2,
                pitch * item,
                (turned ? part.rows : panel.depth) * item,
                turned ? panel.depth : part.rows,
                part.pairs};
    }
    HostRows of_b(const Part &part, const Panel &panel) const {
        constexpr int64_t item = sizeof(Element);
        const bool turned = given.transposed_b;
        const int64_t pitch = turned ? given.k : given.n;
        const int64_t row = turned ? part.column : panel.start, column = turned ? panel.start : part.column;
        return {bytes_of(given.b) + (row * pitch + column) * item,
                given.k * given.n * item,
                given.places + 2 * part.pair + 1,
                2,
                pitch * item,
                (turned ? panel.depth : part.columns) * item,
                turned ? part.columns : panel.depth,
                part.pairs};
    }
    // Its rows are of sums, which may be longer than the results on the host.
    HostRows of_c(const Part &part) const {
        constexpr int64_t item = sizeof(Total);
        const int64_t start = (part.pair * given.m + part.row) * given.n + part.column;
        return {bytes_of(given.c) + start * int64_t(sizeof(Element)),
                given.m * given.n * int64_t(sizeof(Element)),
                nullptr,
                0,
                given.n * int64_t(sizeof(Element)),
                part.columns * item,
                part.rows,
                part.pairs};
    }

   private:
    static char *bytes_of(const void *memory) { return static_cast<char *>(const_cast<void *>(memory)); }
};

}  // namespace pk::matmul
