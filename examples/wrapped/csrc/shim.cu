// The table of the functions of sum.cu; made by `pycudakit wrap`.
#include "function_table.h"
// The functions:
#include "sum.cu"

PK_TABLE_EXPORT const pk_table::Function *pk_table_functions(int64_t *count) {
    static const pk_table::Function functions[] = {
        PK_TABLE_FUNCTION(::launch_sum_kernel, false),
    };
    *count = 1;
    return functions;
}
