// Checks the arguments of pk_evaluate, and collects exception flags.
#include "elementwise.h"

#include <algorithm>

namespace pk::elementwise {

static Program checked(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                       int64_t operand_count, const int64_t *shape, int64_t dimensions,
                       const uint8_t *exceptions, const pk_report *report) {
    check_evaluate(program, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                   report);
    return Program(program, instruction_count, operands, operand_count);
}

Request::Request(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                 int64_t operand_count, const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                 const pk_report *report, int32_t allowed_flags)
    : program_(checked(program, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                       report)),
      layout_(operands, operand_count, shape, dimensions, program_.stored, allowed_flags),
      instruction_count_(instruction_count),
      exceptions_(exceptions) {}

Evaluation Request::begin() const {
    std::fill_n(exceptions_, instruction_count_, uint8_t(0));
    return {program_, layout_, instruction_count_, exceptions_};
}

}  // namespace pk::elementwise
