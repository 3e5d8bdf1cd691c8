#include <algorithm>

#include "../common/evaluate.h"
#include "../common/share_out.h"
#include "copy.h"
#include "machine.h"

namespace pk {

// A thread is woken for no less than this many elements times steps. It takes this many bytes of the widest
// operand at once: smaller shares have two threads wait for each other in the first touch of one huge page.
static constexpr int64_t WORTH_A_THREAD = 32 << 10;
static constexpr int64_t SHARE_BYTES = 4 << 20;

static void evaluate(const Evaluation &evaluation, Call &call, const Plan &plan, pk_range range) {
    const int64_t worth = range.count * int64_t(plan.steps.size()) / WORTH_A_THREAD;
    const int64_t threads = std::clamp<int64_t>(worth, 1, thread_count());
    const int64_t fair = (range.count + threads - 1) / threads;
    int64_t widest = 1;
    for (const View &view : evaluation.layout.views) widest = std::max(widest, view.item);
    const int64_t share = (std::min(fair, SHARE_BYTES / widest) + plan.block - 1) / plan.block * plan.block;

    share_out(
        call, range.count, share, threads, [&] { return Machine(plan, evaluation.instruction_count); },
        [&](Machine &machine, int64_t first, int64_t count) {
            machine.run(range.start + first, count, call);
            return count;
        },
        [&](Machine &machine) { evaluation.add_exceptions(machine.exceptions().data(), call.report); });
}

}  // namespace pk

int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions,
                    const pk_options *options, uint8_t *exceptions, pk_report *report) {
    return pk::evaluate(program, instruction_count, operands, operand_count, shape, dimensions, options,
                        exceptions, report,
                        [](const pk::Evaluation &evaluation, pk::Call &call, const auto &ranges) {
                            if (ranges.empty()) return;
                            if (ranges.size() == 1 && pk::copy(evaluation, call, ranges[0])) return;
                            const pk::Plan plan(evaluation.program, evaluation.layout);
                            for (const pk_range &range : ranges) pk::evaluate(evaluation, call, plan, range);
                        });
}
