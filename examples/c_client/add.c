/* Adds two arrays from C, with the CPU or the CUDA library, whichever it is linked with. CMakeLists.txt builds it. */
#include <stdio.h>
#include <string.h>

#include "pycudakit.h"

enum { COUNT = 5 };

static int fail(const char *function) {
    const char *message = "";
    pk_last_error(&message);
    fprintf(stderr, "%s: %s\n", function, message);
    return 1;
}

/* Returns the opcode of an operation of csrc/ops.def, or -1. */
static int opcode(const char *name) {
    int64_t count = 0;
    pk_operation operation;
    if (pk_operation_count(&count) != PK_OK) return -1;
    for (int64_t i = 0; i < count; ++i) {
        if (pk_operation_info(i, &operation) != PK_OK) return -1;
        if (strcmp(operation.name, name) == 0) return (int)(PK_OP_FIRST + i);
    }
    return -1;
}

static pk_operand operand(void *first, int32_t type, int64_t stride) {
    pk_operand result;
    memset(&result, 0, sizeof result);
    result.address = (uint64_t)(uintptr_t)first;
    result.type = type;
    result.strides[0] = stride;
    return result;
}

int main(void) {
    float a[COUNT] = {1, 2, 3, 4, 5}, b[COUNT] = {10, 20, 30, 40, 50}, sum[COUNT];

    int64_t version = 0;
    if (pk_abi_version(&version) != PK_OK || version != PK_ABI_VERSION) {
        fprintf(stderr, "the library has version %d of the ABI, not %d\n", (int)version, PK_ABI_VERSION);
        return 1;
    }
    const int add = opcode("add");
    if (add < 0) return fail("add");

    /* sum = a + b in reverse: a negative stride from the last element of b. */
    const pk_operand operands[3] = {
        operand(a, PK_FLOAT32, sizeof(float)),
        operand(&b[COUNT - 1], PK_FLOAT32, -(int64_t)sizeof(float)),
        operand(sum, PK_FLOAT32, sizeof(float)),
    };
    const pk_instruction program[4] = {
        {PK_OP_LOAD, PK_FLOAT32, PK_FLOAT32, 0, 0, 0},    /* value 0: operand 0 */
        {PK_OP_LOAD, PK_FLOAT32, PK_FLOAT32, 1, 0, 0},    /* value 1: operand 1 */
        {(uint16_t)add, PK_FLOAT32, PK_FLOAT32, 0, 1, 0}, /* value 2: value 0 + value 1 */
        {PK_OP_STORE, PK_FLOAT32, PK_FLOAT32, 2, 2, 0},   /* value 2 to operand 2 */
    };
    const int64_t shape[1] = {COUNT};
    uint8_t exceptions[4];
    pk_report report;
    if (pk_evaluate(program, 4, operands, 3, shape, 1, NULL, exceptions, &report) != PK_OK) return fail("pk_evaluate");

    for (int i = 0; i < COUNT; ++i) printf("%g%c", sum[i], i + 1 < COUNT ? ' ' : '\n');
    return 0;
}
