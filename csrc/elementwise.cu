#include "common/elementwise.h"
#include "cuda/program/interpreter.h"
#include "cuda/stream/tuning.h"

namespace pk {

static void compute(const Evaluation &evaluation, Call &call, const std::vector<pk_range> &ranges) {
    arm_faults();
    require_cuda();
    const std::vector<int> devices = devices_of(call);
    if (ranges.empty()) return;
    with_room<Interpreter>(
        evaluation, call, devices, [&](Interpreter &work) { stream(work, call, devices, ranges); }, true);
}

}  // namespace pk

int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions,
                    const pk_options *options, uint8_t *exceptions, pk_report *report) {
    return pk::evaluate(program, instruction_count, operands, operand_count, shape, dimensions, options,
                        exceptions, report, pk::compute);
}
