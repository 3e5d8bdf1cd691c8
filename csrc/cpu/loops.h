// The CPU engine's loops over dense blocks, compiled once for each instruction set behind one table.
#pragma once

#include <cstdint>

#include "common/histogram_loops.h"
#include "common/image_pixels.h"
#include "common/operations.h"
#include "common/scan_ops.h"
#include "image_filter_loops.h"
#include "matmul_loops.h"
#include "random_loops.h"

namespace pk {

// result[i] = f(a[i], b[i], c[i]). The result may be one of the arguments if its elements are as large.
// Returns false if it is sure that nothing was met that anyone reports: no result is infinite or NaN.
using Loop = bool (*)(void *result, const void *a, const void *b, const void *c, int64_t count);

// A block of a reduction: rows of `width` values, and a row of others beside each if the kind takes them.
struct ValueBlock {
    const void *values, *others;
    int64_t rows, width;
    int64_t stride, column;   // elements from row to row, and from column to column
    int64_t first_row;        // in the slab
    const void *best_so_far;  // 8 bytes, or null: an extreme of an earlier block of a slab of one column
};

// Reduces a block to a partial for each column; `lanes` has room for LANES of each, and for as many pivots.
using BlockLoop = void (*)(const ValueBlock &block, void *lanes, void *partials);

// A block of a scan, of `inner` columns: the totals of its segments, and its results from the states before
// its segments. Results may take the place of terms. run() returns whether any result was infinite or NaN.
struct ScanLoops {
    void (*totals)(const void *terms, int64_t rows, int64_t inner, void *segments);
    bool (*run[2])(const void *terms, void *results, int64_t rows, int64_t inner, const void *segments);
};
constexpr int SUM_OF_FLOAT32 = scan::kinds;  // from float32 to float32; others from terms to values

// Dense pixels. To resize, each row of `sums` is made from a row of an image, those are added up, and the
// sums divided and rounded; or the nearest pixels are picked.
struct PixelLoops {
    void (*gray[PK_TYPE_COUNT])(const void *in, void *out, int64_t pixels, const image::pixels::Grey &grey);
    void (*lookup[PK_TYPE_COUNT])(const void *in, void *out, int64_t count, const uint16_t *table);
    void (*pick[PK_TYPE_COUNT])(const void *row, void *out, int64_t channels,
                                const image::pixels::Taps &taps);
    void (*along_row[PK_TYPE_COUNT])(const void *row, double *sums, int64_t channels,
                                     const image::pixels::Taps &taps);
    void (*add_row)(double weight, const double *row, double *sums, int64_t count, bool is_first);
    void (*round_row[PK_TYPE_COUNT])(const double *sums, double divisor, void *out, int64_t count);
};

struct Loops {
    const char *name;
    Loop operation[ops::count][PK_TYPE_COUNT];  // null where the operation does not take the type
    Loop cast[PK_TYPE_COUNT][PK_TYPE_COUNT];
    Loop half_to_float;  // float16 as stored, to float16 as registers hold it
    Loop float_to_half;  // and back, exactly
    Loop round_to_half;  // floats rounded to float16, kept as floats
    BlockLoop reduce[PK_REDUCE_COUNT][2][PK_TYPE_COUNT];  // masked or not; null where there is none
    BinLoops bins;
    PixelLoops pixels;
    RandomLoops random;
    MatmulLoops matmul;
    ScanLoops scan[scan::kinds + 1];  // run[1] is the exclusive one
    FilterLoops filters;
};

// The table for this machine, or for PYCUDAKIT_ISA.
const Loops &loops();

// What an instruction over a block met: PK_FPE_DIVIDE_BY_ZERO and so on. `b` repeats `a` where there is one
// argument.
using Check = uint8_t (*)(const void *a, const void *b, const void *result, int64_t count);
Check operation_check(int op, int type);  // null where there is nothing to meet
Check cast_check(int from, int to);

}  // namespace pk
