// What pk_evaluate is asked for, and what reductions compute their values as: a program over operands.
#pragma once

#include <cstdint>

#include "common/call/call.h"
#include "layout.h"
#include "program.h"

namespace pk {

// A program over its operands, both checked, and where its exceptions go.
struct Evaluation {
    const Program &program;
    const Layout &layout;
    int64_t instruction_count;
    uint8_t *exceptions;

    // Adds what a thread's or a chunk's instructions met. For one thread at a time.
    template <class Flags>
    void add_exceptions(const Flags *raised, pk_report &report) const {
        for (int64_t i = 0; i < instruction_count; ++i) {
            exceptions[i] |= uint8_t(raised[i]);
            report.exceptions |= int64_t(raised[i]);
        }
    }
};

namespace elementwise {

// A call of pk_evaluate, checked.
class Request {
   public:
    Request(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
            int64_t operand_count, const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
            const pk_report *report, int32_t flags = PK_OPERAND_BYTE_SWAPPED);
    int64_t elements() const { return layout_.size; }
    const Layout &layout() const { return layout_; }

    // To be computed: nothing was met yet.
    Evaluation begin() const;

   private:
    const Program program_;
    const Layout layout_;
    const int64_t instruction_count_;
    uint8_t *const exceptions_;
};

}  // namespace elementwise

}  // namespace pk
