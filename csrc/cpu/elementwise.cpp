// pk_evaluate on the CPU: decides how many threads share the blocks of a program.
#include <algorithm>

#include "common/call/parallel_for.h"
#include "common/elementwise.h"
#include "elementwise_copy.h"
#include "program_machine.h"

namespace pk::elementwise {

// Costs in seconds. Waking threads takes WAKING, so they are woken only if that saves more; threads that are
// polling join after COMING. Each thread gets work for at least WORTH_A_THREAD.
// (pycudakit/_element_programs/program_cost.py has WAKING, too.) A step takes at least A_BYTE for each byte
// of the widest operand.
static constexpr double WAKING = 60e-6, COMING = 10e-6, WORTH_A_THREAD = 8e-6, A_BYTE = 60e-12;

// If the estimate is too small for several threads, the fastest of the call's first blocks is measured; the
// others find cold caches. Calls with fewer than FEW blocks are run by one thread.
static constexpr int64_t FEW = 8, LARGEST = 4 << 10;  // blocks, and elements of one

// The bytes of the widest operand that a thread takes at once. With smaller shares, two threads would wait
// for each other's first touch of a huge page.
static constexpr int64_t SHARE_BYTES = 4 << 20;

static int64_t threads_for(double seconds) {
    const int64_t most = thread_count();
    const double spared = seconds - seconds / double(most);
    const bool is_worth_it = spared >= WAKING || (spared >= COMING && helpers_are_spinning());
    return is_worth_it ? std::clamp(int64_t(seconds / WORTH_A_THREAD), int64_t(1), most) : 1;
}

static void evaluate(const Evaluation &evaluation, Call &call, const BlockProgram &program, pk_range range) {
    int64_t widest = 1;
    for (const View &view : evaluation.layout.views) widest = std::max(widest, view.item);

    double least_share = 1;  // seconds of a share on one thread
    const auto compute = [&](int64_t count, int64_t threads, int64_t share) {
        parallel_for(
            call, count, share, threads, [&] { return Machine(program, evaluation.instruction_count); },
            [&](Machine &machine, int64_t first, int64_t own) {
                const double begin = call.seconds();
                machine.run(range.start + first, own, call);
                if (threads == 1) least_share = std::min(least_share, call.seconds() - begin);
                return own;
            },
            [&](Machine &machine) { evaluation.add_exceptions(machine.exceptions().data(), call.report); });
        range.start += count;
        range.count -= count;
    };

    const int64_t bytes = range.count * std::max<int64_t>(widest, 4) * int64_t(program.steps.size());
    const int64_t block = std::min(program.block, LARGEST);
    int64_t threads = threads_for(double(bytes) * A_BYTE);
    if (threads == 1 && thread_count() > 1 && range.count >= FEW * block) {
        compute(3 * block, 1, block);
        threads = threads_for(least_share * double(range.count) / double(block));
    }
    const int64_t fair = (range.count + threads - 1) / threads;
    const int64_t fitting = std::min(fair, SHARE_BYTES / widest);
    compute(range.count, threads, (fitting + program.block - 1) / program.block * program.block);
}

static void launch(const Request &request, Call &call) {
    const Evaluation evaluation = request.begin();
    const std::vector<pk_range> &ranges = call.ranges();
    if (ranges.empty()) return;
    if (ranges.size() == 1 && copy(evaluation, call, ranges[0])) return;
    const BlockProgram program(evaluation.program, evaluation.layout);
    for (const pk_range &range : ranges) evaluate(evaluation, call, program, range);
}

}  // namespace pk::elementwise

extern "C" int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count,
                               const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                               int64_t dimensions, const pk_options *options, uint8_t *exceptions,
                               pk_report *report) {
    return pk::run_ranged_entry(
        options, report,
        [&] {
            return pk::elementwise::Request(program, instruction_count, operands, operand_count, shape,
                                            dimensions, exceptions, report);
        },
        pk::elementwise::launch);
}
