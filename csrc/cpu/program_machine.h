// The register machine of the CPU engine: runs a program as vectorised loops over blocks that fit in L1.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "common/program.h"
#include "loops.h"

namespace pk {

// The location of a block of values: a register, or the operand's own memory, if that is dense within the
// block.
struct ValueLocation {
    enum { none, in_register, in_operand } kind = none;
    int32_t index = 0;
};

// One loop over a block.
struct BlockStep {
    enum { compute, fill, gather, scatter } kind = compute;
    Loop loop = nullptr;
    Check check = nullptr;  // null if no flag can be raised
    Loop round = nullptr;   // rounds a float16 result
    ValueLocation target, a, b, c;
    int32_t operand = 0;  // of a fill, gather or scatter
    int32_t origin = 0;   // the instruction that it comes from
};

// A program compiled to loops for the layout of a call's operands; shared by the threads that run it.
class BlockProgram {
   public:
    BlockProgram(const Program &program, const Layout &layout);

    const Layout &layout;
    std::vector<BlockStep> constants;    // run once a thread: operands of one element
    std::vector<BlockStep> in_each_row;  // run at the begin of each row: operands of one element per row
    std::vector<BlockStep> steps;
    std::vector<char> in_rows;  // of each operand, whether its rows are used in place
    bool by_rows = false;       // if any is: then no block extends beyond a row
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

    // Of each register of the program: where its value is at the step that is being added, and its machine
    // register.
    std::vector<ValueLocation> location_of_;
    std::vector<int32_t> registers_;
};

// The registers of one thread.
class Machine {
   public:
    explicit Machine(const BlockProgram &program, int64_t instruction_count);

    void run(int64_t start, int64_t count, Call &call);
    // Sets the address of element 0 of a dense operand.
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
    // Of each operand: the address of element 0, or its extrapolation from the current row.
    std::vector<char *> bases_;
    int64_t row_ = INT64_MIN;          // the first element of the current row
    std::vector<uint8_t> exceptions_;  // of each instruction
};

}  // namespace pk
