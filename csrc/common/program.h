// An elementwise program, checked, and with a register for each value: what both engines start from.
#pragma once

#include <cstdint>
#include <vector>

#include "pycudakit.h"

namespace pk {

// Refuses the arguments of pk_evaluate that no later check may touch: null pointers, counts out of range.
void check_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions,
                    const uint8_t *exceptions, const pk_report *report);

// An instruction whose arguments are registers. Of a load, `a` is the operand; of a store, `target` is.
struct Step {
    uint16_t op;
    uint8_t type;
    uint8_t to;  // the result's type
    int32_t target;
    int32_t a, b, c;
    int32_t origin;  // the instruction it comes from
};

struct Program {
    std::vector<Step> steps;
    std::vector<bool> stored;    // for each operand: does the program store to it?
    int32_t register_count = 0;  // how many values are alive at once, at most

    Program(const pk_instruction *instructions, int64_t instruction_count, const pk_operand *operands,
            int64_t operand_count);
};

// A cast between these moves no bits: registers hold a float16 as a float32.
bool is_widening_of_half(int from, int to);

}  // namespace pk
