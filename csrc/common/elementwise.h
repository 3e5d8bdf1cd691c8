// The checked arguments of pk_evaluate: an elementwise program and its operands. Reductions compute their
// values by such a program, too.
#pragma once

#include <cstdint>

#include "common/call/call.h"
#include "layout.h"
#include "program.h"

namespace pk {

// A checked program, the layout of its operands, and the destination of its exception flags. The program and
// the layout are the request's, which must outlive the evaluation; the flags are the caller's memory.
struct Evaluation {
    const Program &program;
    const Layout &layout;
    int64_t instruction_count;
    uint8_t *exceptions;

    // Merges the exception flags of a thread or a chunk. Only one thread may do so at a time.
    template <class Flags>
    void add_exceptions(const Flags *raised, pk_report &report) const {
        for (int64_t i = 0; i < instruction_count; ++i) {
            exceptions[i] |= uint8_t(raised[i]);
            report.exceptions |= int64_t(raised[i]);
        }
    }
};

namespace elementwise {

// The checked arguments of pk_evaluate.
class Request {
   public:
    Request(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
            int64_t operand_count, const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
            const pk_report *report, int32_t allowed_flags = PK_OPERAND_BYTE_SWAPPED);
    int64_t elements() const { return layout_.size; }
    const Layout &layout() const { return layout_; }

    void move(size_t operand, int64_t bytes) { layout_.views[operand].base += bytes; }

    // Clears the exception flags, which are the caller's memory, and returns the evaluation, which refers to
    // this.
    Evaluation begin() const;

   private:
    const Program program_;
    Layout layout_;
    const int64_t instruction_count_;
    uint8_t *const exceptions_;
};

}  // namespace elementwise

}  // namespace pk
