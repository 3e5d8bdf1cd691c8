#include "common/elementwise.h"

#include "cuda/program/interpreter.h"
#include "cuda/stream/tuning.h"

namespace pk::elementwise {

namespace {

void launch(const Request &request, Call &call) {
    const Evaluation evaluation = request.begin();
    const std::vector<int> devices = devices_of(call);
    if (call.ranges().empty()) return;
    with_room<Interpreter>(
        evaluation, call, devices, [&](Interpreter &work) { stream(work, call, devices, call.ranges()); },
        true);
}

}  // namespace

}  // namespace pk::elementwise

extern "C" int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count,
                               const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                               int64_t dimensions, const pk_options *options, uint8_t *exceptions,
                               pk_report *report) {
    return pk::called_in_ranges(
        options, report,
        [&] {
            return pk::elementwise::Request(program, instruction_count, operands, operand_count, shape,
                                            dimensions, exceptions, report);
        },
        pk::elementwise::launch);
}
