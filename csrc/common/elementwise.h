// What pk_evaluate is in either engine, around the computing itself.
#pragma once

#include <algorithm>
#include <mutex>

#include "common/call/call.h"
#include "common/call/status.h"
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
    void add_exceptions(const Flags *met, pk_report &report) const {
        for (int64_t i = 0; i < instruction_count; ++i) {
            exceptions[i] |= uint8_t(met[i]);
            report.exceptions |= int64_t(met[i]);
        }
    }
};

// Calls compute(evaluation, call, ranges) for what is left to compute.
template <class Compute>
int32_t evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                 int64_t operand_count, const int64_t *shape, int64_t dimensions, const pk_options *options,
                 uint8_t *exceptions, pk_report *report, Compute compute) {
    return guarded([&] {
        check_evaluate(program, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                       report);
        Call call(options, report);
        const Program checked(program, instruction_count, operands, operand_count);
        const Layout layout(operands, operand_count, shape, dimensions, checked.stored);
        const std::vector<pk_range> ranges = call.begin(layout.size);
        std::fill_n(exceptions, instruction_count, uint8_t(0));
        compute(Evaluation{checked, layout, instruction_count, exceptions}, call, ranges);
        call.end();
    });
}

}  // namespace pk
