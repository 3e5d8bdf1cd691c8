// Layout: the iteration space of a call, with reordered and merged dimensions, a view of each operand, and
// strided copies.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "pycudakit.h"

namespace pk {

enum class Access { constant, contiguous, strided };

// An operand in a layout. Element i, in the layout's order, is at base + i * item if the view is contiguous,
// at base if it is constant, and else where the strides say.
struct View {
    char *base;
    int type;
    int64_t item;  // bytes per element
    bool swapped;
    Access access;
    std::vector<int64_t> strides;  // for each of the layout's dimensions
    bool on_device = false;
};

// An array whose elements follow each other, in the machine's byte order.
struct ContiguousArray {
    const void *address;
    int type;
};

// The iteration space of a call. Its order is the memory order of the operands that are stored to, and
// dimensions are merged wherever every operand allows, so that most calls have a single one.
struct Layout {
    std::vector<int64_t> shape;
    int64_t size = 0;
    std::vector<View> views;

    Layout() = default;

    // Checks everything that can be checked without accessing elements. `stored` tells which operands are
    // written, and `allowed_flags` which flags operands may have.
    Layout(const pk_operand *operands, int64_t operand_count, const int64_t *dims, int64_t dim_count,
           const std::vector<bool> &stored, int32_t allowed_flags = PK_OPERAND_BYTE_SWAPPED);

    // The layout of arrays of `count` elements each, which are not checked.
    static Layout contiguous(std::initializer_list<ContiguousArray> arrays, int64_t count);

    // Sets the access pattern of each view from its strides.
    void classify_access();

    // The number of elements of which the parts of a transposed operand should be multiples: as many rows as
    // fill whole cache lines of a column. For any other operand it is 1.
    int64_t cache_line_granule(const View &view) const;

    // Copies elements [start, start + count) to or from a dense buffer in the machine's byte order.
    void gather(const View &view, int64_t start, int64_t count, void *dense) const;
    void fill(const View &view, int64_t count, void *dense) const;  // with the one element of a constant view

    // Whether these elements are whole rows of an operand whose columns are contiguous. gather_columns() then
    // copies column after column and plane after plane, which is faster than gather().
    bool are_transposed_rows(const View &view, int64_t start, int64_t count) const;
    void gather_columns(const View &view, int64_t start, int64_t count, void *dense) const;
    void scatter(const View &view, int64_t start, int64_t count, const void *dense) const;
};

// Copies a plane of an operand, given by its first element and strides in bytes, to rows that are `pitch`
// elements apart. The function is fast if the plane's rows are closer together than its columns.
// `bypass_cache` is for a result that is larger than the caches: it is stored past them.
void gather_plane(const View &view, const char *from, int64_t row_stride, int64_t column_stride, int64_t rows,
                  int64_t columns, char *to, int64_t pitch, bool bypass_cache);

}  // namespace pk
