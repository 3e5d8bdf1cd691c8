// Checks the arguments of pk_scan.
#include "scan.h"

#include "common/call/status.h"
#include "types.h"

namespace pk::scan {

static int kind_of(int64_t operation, int from, int to) {
    const bool is_truth = to == PK_BOOL;
    const bool is_unsigned = to >= PK_UINT8 && to <= PK_UINT64;
    // For bool results, the sum is a logical or, and the product a logical and.
    if (is_truth && operation == PK_SCAN_SUM) operation = PK_SCAN_MAX;
    if (is_truth && operation == PK_SCAN_PROD) operation = PK_SCAN_MIN;
    switch (operation) {
        case PK_SCAN_SUM:
            if (!is_float_type(to)) return integer_sum;
            return from == PK_FLOAT64 || to == PK_FLOAT64 ? double_sum : float_sum;
        case PK_SCAN_PROD: return is_float_type(to) ? float_product : integer_product;
        case PK_SCAN_MAX:
            if (is_float_type(to)) return maximum_of_floats;
            return is_unsigned || is_truth ? maximum_of_unsigned : maximum_of_signed;
        case PK_SCAN_MIN:
            if (is_float_type(to)) return minimum_of_floats;
            return is_unsigned || is_truth ? minimum_of_unsigned : minimum_of_signed;
        default: fail(PK_INVALID_ARGUMENT, "operation is not one of PK_SCAN_SUM to PK_SCAN_MIN");
    }
}

static int term_of(int kind) {
    switch (kind) {
        case maximum_of_signed:
        case minimum_of_signed: return PK_INT64;
        case integer_sum:
        case integer_product:
        case maximum_of_unsigned:
        case minimum_of_unsigned: return PK_UINT64;
        default: return PK_FLOAT64;
    }
}

Request::Request(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
                 int64_t dimensions, int64_t outer, int64_t rows, int32_t allowed) {
    require(operands != nullptr, "operands is a null pointer");
    require(shape != nullptr || dimensions == 0, "shape is a null pointer");
    require(dimensions >= 1 && dimensions <= PK_MAX_DIMS, "dimensions is not from 1 to PK_MAX_DIMS");
    require(outer >= 0 && rows >= 1 && outer <= dimensions && rows <= dimensions - outer,
            "outer and rows are not among the dimensions");
    require((flags & ~int64_t(PK_SCAN_EXCLUSIVE | PK_SCAN_SKIP_NAN)) == 0, "flags has an unknown bit");
    for (int i = 0; i < 2; ++i) {
        require(operands[i].type >= 0 && operands[i].type < PK_TYPE_COUNT, "an operand's type is unknown");
        require(operands[i].address != 0, "an operand is a null pointer");
        require((operands[i].flags & ~allowed) == 0, "an operand has unknown flags");
    }
    from = operands[0].type;
    to = operands[1].type;
    instead_of_nan = operation == PK_SCAN_PROD ? 1 : 0;
    kind = kind_of(operation, from, to);
    term = term_of(kind);
    is_exclusive = (flags & PK_SCAN_EXCLUSIVE) != 0;
    skips_nan = (flags & PK_SCAN_SKIP_NAN) != 0 && is_float_type(from);
    size = 1;
    regions = regions_of(operands, 2, 2, shape, dimensions, outer, rows);
    undivided = regions_of(operands, 2, 2, shape, dimensions, outer, rows, INT64_MAX).front();
    for (int64_t d = 0; d < dimensions; ++d) {
        size *= shape[d];
        require(shape[d] == 1 || operands[1].strides[d] != 0, "the result has a stride of 0");
    }
}

}  // namespace pk::scan
