// The checked arguments of pk_scan, for both engines.
#pragma once

#include <cstdint>
#include <vector>

#include "common/call/call.h"
#include "scan_ops.h"
#include "slabs.h"
#include "types.h"

namespace pk::scan {

static_assert(SEGMENT * SEGMENTS == Slabs::BLOCK, "a block is made of segments");

// The checked arguments of pk_scan.
struct Request {
    int kind;
    int from, to;  // of the operands
    int term;      // the type of terms: PK_UINT64, PK_INT64 or PK_FLOAT64
    bool is_exclusive, skips_nan;
    double instead_of_nan;
    int64_t size;
    std::vector<Region> regions;
    Region undivided;  // the whole call as one region, however many columns it has

    // Whether NumPy reports floating-point exceptions of this scan.
    bool reports() const { return kind == float_sum || kind == double_sum || kind == float_product; }

    // Whether elements must be cast to the result's type before they become terms.
    bool narrows() const {
        const bool wraps = kind == integer_sum || kind == integer_product;
        return term != PK_FLOAT64 && from != to && !(wraps && !is_float_type(from));
    }

    Request(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
            int64_t dimensions, int64_t outer, int64_t rows, int32_t allowed = PK_OPERAND_BYTE_SWAPPED);
    int64_t elements() const { return size; }
};

}  // namespace pk::scan
