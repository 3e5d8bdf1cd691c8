// pk_evaluate on the CUDA engine: runs an elementwise program over host arrays chunk by chunk, or over device
// arrays on their stream.
#include "common/elementwise.h"

#include "cuda/elementwise/interpreter.h"
#include "cuda/runtime/stream_memory.h"
#include "cuda/runtime/tuning.h"

namespace pk::elementwise {

namespace {

// A request, and the device that its operands are on; -1 is the host.
struct Located : Request {
    template <class... Args>
    explicit Located(Args... args) : Request(args...), device(device_of(layout())) {}
    const int device;
};

// Enqueue a program over the caller's device arrays on their stream.
void launch_async(const Evaluation &evaluation, int device, Call &call) {
    if (evaluation.layout.size == 0) return;
    const AsyncCall async_call(device, call);
    const plan::Operands operands(plan::Operands::CallerOwned(), evaluation.layout, call);
    Interpreter algorithm(evaluation, operands, call, {device}, false);
    require(algorithm.is_resident(), "some operands are on a device, and others are on the host");
    if (!algorithm.has_memory) fail(PK_OUT_OF_MEMORY, "PYCUDAKIT_DEVICE_MEMORY leaves no room for a program");
    run_pipeline(algorithm, call, {device}, {{0, algorithm.units()}});
    async_call.finish();
}

void launch(const Located &request, Call &call) {
    const Evaluation evaluation = request.begin();
    if (request.device >= 0) return launch_async(evaluation, request.device, call);
    const std::vector<int> devices = devices_of(call);
    if (call.ranges().empty()) return;
    with_broadcast_fallback<Interpreter>(
        evaluation, call, devices,
        [&](Interpreter &algorithm) { run_pipeline(algorithm, call, devices, call.ranges()); }, true);
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
            return pk::elementwise::Located(program, instruction_count, operands, operand_count, shape,
                                            dimensions, exceptions, report,
                                            PK_OPERAND_BYTE_SWAPPED | PK_OPERAND_ON_DEVICE);
        },
        pk::elementwise::launch);
}
