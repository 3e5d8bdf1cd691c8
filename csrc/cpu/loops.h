// Inner loops of the CPU engine over dense blocks: a table of functions, compiled once for each instruction
// set.
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

// result[i] = f(a[i], b[i], c[i]). The result may be one of the arguments if its elements have the same size.
// Returns false if no exception flag can have been raised: no result is infinite or NaN.
using Loop = bool (*)(void *result, const void *a, const void *b, const void *c, int64_t count);

// A block of a reduction: rows of `width` values, and rows of a second value if the reduction takes one.
struct ValueBlock {
    const void *values, *others;
    int64_t rows, width;
    int64_t stride, column;   // elements from row to row, and from column to column
    int64_t first_row;        // its index in the slab
    const void *best_so_far;  // 8 bytes, or null: the best value of earlier blocks, for argmin and argmax of
                              // slabs of one column
};

// Reduces a block to a partial for each column. `lanes` has space for LANES lanes and a pivot of each column.
using BlockLoop = void (*)(const ValueBlock &block, void *lanes, void *partials);

// A block of a scan with `inner` columns: `totals` computes the totals of its segments, `run` its results
// from the states before its segments. Results may overwrite the terms. run() returns whether any result was
// infinite or NaN.
struct ScanLoops {
    void (*totals)(const void *terms, int64_t rows, int64_t inner, void *segments);
    bool (*run[2])(const void *terms, void *results, int64_t rows, int64_t inner, const void *segments);
};
constexpr int SUM_OF_FLOAT32 = scan::kinds;  // from float32 to float32; the others from terms to values

// Loops over dense pixels. A resize computes weighted sums along each old row, adds rows up, and rounds the
// sums; or it picks the nearest pixels.
struct PixelLoops {
    void (*gray[PK_TYPE_COUNT])(const void *in, void *out, int64_t pixels,
                                const image::pixels::GrayWeights &weights);
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
    Loop operation[ops::count][PK_TYPE_COUNT];  // null if the operation does not take the type
    Loop cast[PK_TYPE_COUNT][PK_TYPE_COUNT];
    Loop half_to_float;  // from float16 in memory to float16 in registers (as a float)
    Loop float_to_half;  // and back, which is exact
    Loop round_to_half;  // rounds floats to float16 values, as floats
    BlockLoop reduce[PK_REDUCE_COUNT][2][PK_TYPE_COUNT];  // indexed by masked (0 or 1); null if not supported
    BinLoops bins;
    PixelLoops pixels;
    RandomLoops random;
    MatmulLoops matmul;
    ScanLoops scan[scan::kinds + 1];  // run[1] is the exclusive scan
    FilterLoops filters;
};

// The table for this machine, or for PYCUDAKIT_ISA.
const Loops &loops();

// Computes the exception flags of an instruction over a block. With one argument, `b` is `a` again.
using Check = uint8_t (*)(const void *a, const void *b, const void *result, int64_t count);
Check operation_check(int op, int type);  // null if it cannot raise any
Check cast_check(int from, int to);

}  // namespace pk
