// pk_evaluate on the CUDA engine: the Interpreter runs an elementwise program over the operands, wherever
// they are.
#include "common/elementwise.h"

#include "cuda/elementwise/interpreter.h"

namespace pk::elementwise {

static int device_of(const Request &request) { return pk::device_of(request.layout()); }

namespace {

void launch(const Located<Request> &request, Call &call) {
    const ExecutionContext context(call, request.device);
    const Evaluation evaluation = request.begin();
    if (call.ranges().empty()) return;
    with_broadcast_fallback<Interpreter>(
        evaluation, call, context,
        [&](Interpreter &algorithm, Operands &operands) {
            execute(algorithm, operands, call, context, call.ranges());
        },
        true);
}

}  // namespace

}  // namespace pk::elementwise

extern "C" int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count,
                               const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                               int64_t dimensions, const pk_options *options, uint8_t *exceptions,
                               pk_report *report) {
    return pk::run_ranged_entry(
        options, report,
        [&] {
            return pk::Located<pk::elementwise::Request>(program, instruction_count, operands, operand_count,
                                                         shape, dimensions, exceptions, report,
                                                         PK_OPERAND_BYTE_SWAPPED | PK_ON_DEVICE);
        },
        pk::elementwise::launch);
}
