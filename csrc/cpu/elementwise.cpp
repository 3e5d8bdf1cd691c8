// pk_evaluate on the CPU: decides how many threads share the blocks of a program.
#include <algorithm>
#include <memory>
#include <optional>

#include "common/call/parallel_for.h"
#include "common/elementwise.h"
#include "elementwise_copy.h"
#include "prepared_requests.h"
#include "program_machine.h"

namespace pk::elementwise {

// Costs in seconds. Waking helper threads takes WAKING, so they are woken only if that saves more; helpers
// that are spinning join after JOINING. Each thread gets work for at least WORTH_A_THREAD. A step takes at
// least PER_BYTE for each byte of the widest operand. THREAD_WAKE_SECONDS in
// pycudakit/_element_programs/program_cost.py is WAKING.
static constexpr double WAKING = 60e-6, JOINING = 10e-6, WORTH_A_THREAD = 8e-6, PER_BYTE = 60e-12;

// If the estimate is too small for several threads, the fastest of the call's first blocks is measured; the
// others find cold caches. Calls with fewer than MIN_SHARED_BLOCKS blocks are run by one thread. The blocks
// that are measured have at most MAX_MEASURED_BLOCK elements.
static constexpr int64_t MIN_SHARED_BLOCKS = 8, MAX_MEASURED_BLOCK = 4 << 10;

// The bytes of the widest operand that a thread takes at once. With fewer, two threads would wait for each
// other's first touch of a huge page.
static constexpr int64_t GRAIN_BYTES = 4 << 20;

static int64_t threads_for(double seconds) {
    const int64_t all_threads = thread_count();
    const double saved = seconds - seconds / double(all_threads);
    const bool is_worth_it = saved >= WAKING || (saved >= JOINING && helpers_are_spinning());
    return is_worth_it ? std::clamp(int64_t(seconds / WORTH_A_THREAD), int64_t(1), all_threads) : 1;
}

static void evaluate(const Evaluation &evaluation, Call &call, const BlockProgram &program, pk_range range) {
    int64_t widest = 1;
    for (const View &view : evaluation.layout.views) widest = std::max(widest, view.item);

    double fastest_part = 1;  // seconds of a measured part
    const auto compute = [&](int64_t count, int64_t threads, int64_t grain, bool is_measured) {
        parallel_for(
            call, count, grain, threads, [&] { return Machine(program, evaluation.instruction_count); },
            [&](Machine &machine, int64_t first, int64_t part) {
                const double begin = is_measured ? call.seconds() : 0;
                machine.run(range.start + first, part, call);
                if (is_measured) fastest_part = std::min(fastest_part, call.seconds() - begin);
                return part;
            },
            [&](Machine &machine) { evaluation.add_exceptions(machine.exceptions().data(), call.report); });
        range.start += count;
        range.count -= count;
    };

    const int64_t bytes = range.count * std::max<int64_t>(widest, 4) * int64_t(program.steps.size());
    const int64_t block = std::min(program.block, MAX_MEASURED_BLOCK);
    int64_t threads = threads_for(double(bytes) * PER_BYTE);
    if (threads == 1 && thread_count() > 1 && range.count >= MIN_SHARED_BLOCKS * block) {
        compute(3 * block, 1, block, true);
        threads = threads_for(fastest_part * double(range.count) / double(block));
    }
    const int64_t per_thread = ceil_div(range.count, threads);
    const int64_t grain = std::min(per_thread, GRAIN_BYTES / widest);
    compute(range.count, threads, align_up(grain, program.block), false);
}

// Computes a request; `program` is where its program is compiled, unless it has been.
static void run(const Request &request, std::optional<BlockProgram> &program, Call &call) {
    const Evaluation evaluation = request.begin();
    const std::vector<pk_range> &ranges = call.ranges();
    if (ranges.empty()) return;
    if (!program && ranges.size() == 1 && copy(evaluation, call, ranges[0])) return;
    if (!program) program.emplace(evaluation.program, evaluation.layout);
    for (const pk_range &range : ranges) evaluate(evaluation, call, *program, range);
}

static void launch(const Request &request, Call &call) {
    std::optional<BlockProgram> program;
    run(request, program, call);
}

namespace {

class Prepared final : public PreparedRequest {
   public:
    Prepared(const RequestArguments &a, const pk_report *report)
        : request_(a.program, a.instruction_count, a.operands, a.operand_count, a.shape, a.dimensions,
                   a.exceptions, report),
          addresses_(a.operands, a.operand_count) {}
    int64_t elements() const override { return request_.elements(); }
    void run(Call &call) override { elementwise::run(request_, program_, call); }
    bool rebind() override {
        return addresses_.rebind([&](size_t operand, int64_t bytes) { request_.move(operand, bytes); });
    }

    void prefetch() const override {
        addresses_.prefetch();
        fetch_into_cache(request_.layout().views);
        fetch_into_cache(request_.layout().shape);
        if (!program_) return;
        fetch_into_cache(program_->constants);
        fetch_into_cache(program_->steps);
    }

   private:
    Request request_;
    OperandAddresses addresses_;
    std::optional<BlockProgram> program_;
};

}  // namespace

std::unique_ptr<PreparedRequest> prepare(const pk_request &request) {
    const pk_report report{};
    return std::make_unique<Prepared>(RequestArguments(request), &report);
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
