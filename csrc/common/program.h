// A checked elementwise program with allocated registers, which both engines run.
#pragma once

#include <cstdint>
#include <vector>

#include "pycudakit.h"

namespace pk {

// Checks the arguments of pk_evaluate before they are read: null pointers, counts out of range.
void check_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions,
                    const uint8_t *exceptions, const pk_report *report);

// An instruction on registers. In a load, `a` is the operand; in a store, `target` is.
struct Step {
    uint16_t op;
    uint8_t type;
    uint8_t to;  // of the result
    int32_t target;
    int32_t a, b, c;
    int32_t origin;  // the instruction that it comes from
};

struct Program {
    std::vector<Step> steps;
    std::vector<bool> stored;    // for each operand: whether the program stores to it
    int32_t register_count = 0;  // the maximum number of live values

    Program(const pk_instruction *instructions, int64_t instruction_count, const pk_operand *operands,
            int64_t operand_count);
};

// Whether a cast is a no-op: registers hold a float16 as a float32.
bool is_widening_of_half(int from, int to);

}  // namespace pk
