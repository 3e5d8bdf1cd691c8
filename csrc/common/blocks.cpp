// Checks the arguments of pk_run_blocks.
#include "blocks.h"

#include "elementwise.h"
#include "reduce.h"
#include "types.h"

namespace pk::blocks {

std::vector<pk_operand> operands_of(const pk_block_program &pass, const char *scratch) {
    const auto *first = at<pk_operand>(pass.operands);
    std::vector<pk_operand> operands(first, first + pass.operand_count);
    for (pk_operand &operand : operands) {
        if ((operand.flags & PK_OPERAND_IN_SCRATCH) == 0) continue;
        operand.flags &= ~PK_OPERAND_IN_SCRATCH;
        operand.address += reinterpret_cast<uint64_t>(scratch);
    }
    return operands;
}

// Checks a block by the checks of pk_evaluate and pk_reduce_several.
static void check_block(const pk_block_program &pass, const pk_report *report) {
    const char placeholder = 0;  // a placeholder address, which is not accessed
    const std::vector<pk_operand> operands = operands_of(pass, &placeholder);
    const auto *program = at<pk_instruction>(pass.program);
    const auto *shape = at<int64_t>(pass.shape);
    auto *exceptions = at<uint8_t>(pass.exceptions);
    if (pass.reduction_count == 0) {
        elementwise::Request(program, pass.instruction_count, operands.data(), pass.operand_count, shape,
                             pass.dimensions, exceptions, report);
    } else {
        Reductions(at<pk_reduction>(pass.reductions), pass.reduction_count, program, pass.instruction_count,
                   operands.data(), pass.operand_count, shape, pass.dimensions, exceptions, report);
    }
}

// Checks that the range that a block touches of an operand in scratch is inside of it.
static void check_scratch_operand(const pk_block_program &pass, int64_t index, int64_t scratch_bytes) {
    const pk_operand &operand = at<pk_operand>(pass.operands)[index];
    if ((operand.flags & PK_OPERAND_IN_SCRATCH) == 0) return;
    const char *beyond = "an operand is outside of the scratch memory";
    require(at<int64_t>(pass.block_strides)[index] == 0, "an operand in the threads' memory moves");
    require(operand.address < uint64_t(scratch_bytes), beyond);
    int64_t low = int64_t(operand.address), high = low + size_of(operand.type);
    for (int64_t d = 0; d < pass.dimensions; ++d) {
        const int64_t length = at<int64_t>(pass.shape)[d];
        if (length == 0) return;
        const int64_t reach = checked_product(length - 1, operand.strides[d], beyond);
        require(reach >= -low && reach <= scratch_bytes, beyond);
        (reach < 0 ? low : high) += reach;
        require(high <= scratch_bytes, beyond);
    }
}

static void check(const pk_block_program &pass, int64_t blocks, int64_t scratch_bytes,
                  const pk_report *report) {
    require(pass.operands != 0, "operands is a null pointer");
    require(pass.block_strides != 0, "block_strides is a null pointer");
    require(pass.operand_count >= 0 && pass.operand_count <= PK_MAX_OPERANDS,
            "operand_count is out of range");
    require((pass.reductions != 0) == (pass.reduction_count != 0), "there are no reductions, or no count");
    check_block(pass, report);
    for (int64_t i = 0; i < pass.operand_count; ++i) {
        checked_product(blocks, at<int64_t>(pass.block_strides)[i], "the last block's offset is too large");
        check_scratch_operand(pass, i, scratch_bytes);
    }
}

Request::Request(pk_block_program *programs, int64_t program_count, int64_t blocks, int64_t scratch_bytes,
                 const pk_report *report)
    : programs(programs), program_count(program_count), blocks(blocks), scratch_bytes(scratch_bytes) {
    require(programs != nullptr, "programs is a null pointer");
    require(program_count >= 0, "program_count is negative");
    checked_product(program_count, sizeof(pk_block_program), "program_count is too large");
    require(blocks >= 0, "blocks is negative");
    require(scratch_bytes >= 0 && scratch_bytes <= INT64_MAX / 2, "scratch_bytes is out of range");
    for (int64_t i = 0; i < program_count; ++i) check(programs[i], blocks, scratch_bytes, report);
}

}  // namespace pk::blocks
