#include "common/elementwise.h"

#include "cuda/elementwise/interpreter.h"
#include "cuda/runtime/stream_memory.h"
#include "cuda/runtime/tuning.h"

namespace pk::elementwise {

namespace {

// A request, and the device that its operands lie on: -1 is the host.
struct Located : Request {
    template <class... Given>
    explicit Located(Given... given) : Request(given...), device(device_of(layout())) {}
    const int device;
};

void queue(const Evaluation &evaluation, int device, Call &call) {
    if (evaluation.layout.size == 0) return;
    const Queued queued(device, call);
    const plan::Homes homes(plan::Homes::Callers(), evaluation.layout, call);
    Interpreter work(evaluation, homes, call, {device}, false);
    require(work.is_at_home(), "arrays lie on a device, and others on the host");
    if (!work.has_room) fail(PK_OUT_OF_MEMORY, "PYCUDAKIT_DEVICE_MEMORY leaves no room for a program");
    stream(work, call, {device}, {{0, work.units()}});
    queued.end();
}

void launch(const Located &request, Call &call) {
    const Evaluation evaluation = request.begin();
    if (request.device >= 0) return queue(evaluation, request.device, call);
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
            return pk::elementwise::Located(program, instruction_count, operands, operand_count, shape,
                                            dimensions, exceptions, report, PK_BYTE_SWAPPED | PK_ON_DEVICE);
        },
        pk::elementwise::launch);
}
