// Where the elements of a call's operands lie: dimensions reordered and merged, and strided copies.
#pragma once

#include <cstdint>
#include <vector>

#include "pycudakit.h"

namespace pk {

enum class Access { constant, contiguous, strided };

// An operand as it is walked: element i of the call, in the layout's order, lies at
// base + i * (item) if contiguous, at base if constant, and where the strides say otherwise.
struct View {
    char *base;
    int type;
    int64_t item;  // bytes of an element
    bool swapped;
    Access access;
    std::vector<int64_t> strides;  // one for each of the layout's dimensions
    bool on_device = false;
};

// The iteration space of a call. Its order is the memory's order of the operands that are stored to, with
// dimensions merged wherever every operand allows, so that most calls have a single one.
struct Layout {
    std::vector<int64_t> shape;
    int64_t size = 0;
    std::vector<View> views;

    Layout() = default;

    // Checks what can be checked without touching an element. `stored` says which operands are written, and
    // `flags` which ones they may have.
    Layout(const pk_operand *operands, int64_t operand_count, const int64_t *dims, int64_t dim_count,
           const std::vector<bool> &stored, int32_t flags = PK_OPERAND_BYTE_SWAPPED);

    // Says of each view, by its strides, how it is walked.
    void classify_access();

    // The elements of as many rows as make up whole lines of a transposed operand's memory; 1 if it is not
    // one.
    int64_t elements_per_cache_line(const View &view) const;

    // Copies elements [start, start + count) to or from a dense buffer in the machine's byte order.
    void gather(const View &view, int64_t start, int64_t count, void *dense) const;
    void fill(const View &view, int64_t count, void *dense) const;  // with a constant's one element

    // Whether these are whole rows of an operand whose columns lie side by side in memory; gather_turned()
    // copies them column after column, plane after plane, which is quicker.
    bool are_transposed_rows(const View &view, int64_t start, int64_t count) const;
    void gather_columns(const View &view, int64_t start, int64_t count, void *dense) const;
    void scatter(const View &view, int64_t start, int64_t count, const void *dense) const;
};

// Copies rows and columns of an operand, from where they begin and so many bytes apart, to rows that are
// `pitch` elements apart. Columns that lie far apart, and rows that lie side by side, are what it is for.
// What is larger than caches is better written past them.
void gather_plane(const View &view, const char *from, int64_t row_stride, int64_t column_stride, int64_t rows,
                  int64_t columns, char *to, int64_t pitch, bool past_cache);

}  // namespace pk
