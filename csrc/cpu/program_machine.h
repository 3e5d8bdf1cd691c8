// The register machine of the CPU engine: a program as vectorised loops over blocks that fit in L1.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "common/program.h"
#include "loops.h"

namespace pk {

// Where a block of values lies: in a register, or in an operand's own memory, where that is dense, or a block
// is no more than a part of one of its dense rows.
struct ValueLocation {
    enum { nowhere, in_register, in_operand } kind = nowhere;
    int32_t index = 0;
};

// One loop over a block.
struct BlockStep {
    enum { compute, fill, gather, scatter } kind = compute;
    Loop loop = nullptr;
    Check check = nullptr;  // null where nothing can be met
    Loop round = nullptr;   // rounds a float16's result
    ValueLocation target, a, b, c;
    int32_t operand = 0;  // of a fill, gather or scatter
    int32_t origin = 0;   // the instruction it comes from
};

// A program laid out over a call's operands; shared by the threads that run it.
class BlockProgram {
   public:
    BlockProgram(const Program &program, const Layout &layout);

    const Layout &layout;
    std::vector<BlockStep> constants;    // run once a thread, for the operands that are one element
    std::vector<BlockStep> in_each_row;  // run where one begins, for the operands that are one element there
    std::vector<BlockStep> steps;
    std::vector<char> in_rows;  // of each operand, whether its rows are used where they lie
    bool by_rows = false;       // some are: no block goes beyond a row
    int32_t register_count = 0;
    int64_t block;  // elements

   private:
    bool is_in_place(int32_t operand) const;
    bool is_one_per_row(const View &view) const;
    void add_load(const Step &step, bool must_move);
    void add_store(const Step &step);
    void add_compute(const Step &step);
    ValueLocation register_for(int32_t program_register);
    ValueLocation new_register() { return {ValueLocation::in_register, register_count++}; }
    bool may_write_directly(int32_t operand, const BlockStep &producer) const;

    std::vector<ValueLocation>
        location_of_;                 // of each of the program's registers, as of the step being added
    std::vector<int32_t> registers_;  // the machine's for each of the program's
};

// One thread's registers.
class Machine {
   public:
    explicit Machine(const BlockProgram &program, int64_t instruction_count);

    void run(int64_t start, int64_t count, Call &call);
    // Lets an operand that lies side by side be elsewhere: its element 0.
    void move(int32_t operand, char *base) { bases_[size_t(operand)] = base; }
    const std::vector<uint8_t> &exceptions() const { return exceptions_; }

   private:
    int64_t enter_row_of(int64_t element);
    void run_block(const std::vector<BlockStep> &steps, int64_t start, int64_t count);
    void *at(const ValueLocation &place, int64_t start) const;

    const BlockProgram &program_;
    std::unique_ptr<char[]> memory_;
    char *registers_;
    int64_t register_bytes_;
    std::vector<char *> bases_;        // of each operand: its element 0, or where that would be for this row
    int64_t row_ = INT64_MIN;          // where that begins
    std::vector<uint8_t> exceptions_;  // of each instruction
};

}  // namespace pk
