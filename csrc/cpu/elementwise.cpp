#include <algorithm>

#include "../common/evaluate.h"
#include "../common/share_out.h"
#include "copy.h"
#include "machine.h"

namespace pk {

// What a call does is counted in bytes of its widest operand, of 4 at least, times steps. Waking threads
// takes as long as WAKING of it, so no thread is woken where sharing would spare less, and each for no less
// than WORTH_A_THREAD. (pycudakit/_cost.py has WAKING, too.)
static constexpr int64_t WAKING = 720 << 10;
static constexpr int64_t WORTH_A_THREAD = 128 << 10;

// What a thread takes at once, in bytes of the widest operand: smaller shares have two threads wait for each
// other in the first touch of one huge page.
static constexpr int64_t SHARE_BYTES = 4 << 20;

static int64_t threads_for(int64_t work) {
    const int64_t most = thread_count();
    const bool worth_waking = work - work / most >= WAKING;
    return worth_waking ? std::clamp<int64_t>(work / WORTH_A_THREAD, 1, most) : 1;
}

static void evaluate(const Evaluation &evaluation, Call &call, const Plan &plan, pk_range range) {
    int64_t widest = 1;
    for (const View &view : evaluation.layout.views) widest = std::max(widest, view.item);
    const int64_t steps = int64_t(plan.steps.size());
    const int64_t threads = threads_for(range.count * std::max<int64_t>(widest, 4) * steps);
    const int64_t fair = (range.count + threads - 1) / threads;
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
