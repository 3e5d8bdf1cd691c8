#include <algorithm>

#include "common/evaluate.h"
#include "interpreter.cuh"
#include "stream/resident.h"
#include "stream/stream.h"
#include "stream/tuning.h"

namespace pk {

namespace {

// A broadcast operand of a call smaller than this is spread out by staging: an upload of its own takes
// longer.
constexpr int64_t WORTH_KEEPING = 256 << 10;

// The operands of a program by the way that they go.
struct Ways {
    std::vector<Carried> loads, stores;
    std::vector<int> resident;

    Ways(const Evaluation &evaluation, bool may_keep) {
        const std::vector<View> &views = evaluation.layout.views;
        std::vector<bool> seen(views.size(), false);
        for (const Step &step : evaluation.program.steps) {
            if (step.op == PK_STORE) stores.push_back({step.target, 0});
            if (step.op != PK_LOAD || seen[size_t(step.a)]) continue;
            seen[size_t(step.a)] = true;
            const View &view = views[size_t(step.a)];
            if (view.access == Access::constant) continue;
            const bool repeats = std::count(view.strides.begin(), view.strides.end(), 0) != 0;
            if (repeats && may_keep && evaluation.layout.size * view.item >= WORTH_KEEPING) {
                resident.push_back(step.a);
            } else {
                loads.push_back({step.a, 0});
            }
        }
    }
};

int64_t bits_of(const Layout &layout, const View &view) {
    int64_t bits = 0;
    layout.gather(view, 0, 1, &bits);
    return bits;
}

class Interpreter : public Work {
   public:
    Interpreter(const Evaluation &evaluation, Call &call, const std::vector<int> &devices, Ways ways,
                int block)
        : Work(evaluation.layout, std::move(ways.loads), std::move(ways.stores),
               evaluation.instruction_count * int64_t(sizeof(uint32_t)),
               8 * spilled(evaluation.program, block)),
          evaluation_(evaluation),
          call_(call),
          block_(block) {
        for (const Step &step : evaluation.program.steps) {
            steps_.push_back(
                {step.op, step.type, step.to, step.target, step.a, step.b, step.c, step.origin, 0});
            DeviceStep &added = steps_.back();
            if (step.op == PK_STORE) added.value = before(stores, step.target);
            if (step.op == PK_LOAD) find(added, ways.resident);
        }
        const auto bytes = int64_t(steps_.size() * sizeof(DeviceStep));
        const bool fits = steps_.size() <= Interpretation::MOST_INLINE;
        if (!fits) steps_at_ = resident_.add(steps_.data(), bytes);
        has_room = resident_.upload(call, devices);

        common_.step_count = int32_t(steps_.size());
        common_.registers_in_shared = device::registers_in_shared(evaluation.program.register_count, block);
        if (fits) std::copy(steps_.begin(), steps_.end(), common_.inline_steps);
    }

    void launch(const Chunk &chunk) override {
        Interpretation given = common_;
        given.image = chunk.image;
        given.operands = chunk.operands;
        given.scratch = chunk.scratch;
        given.start = chunk.start;
        given.count = chunk.count;
        given.rounded = chunk.rounded;
        given.resident = resident_.on(chunk.device);
        if (steps_at_ >= 0) given.steps = reinterpret_cast<const DeviceStep *>(given.resident + steps_at_);
        // Few elements are for many threads rather than for many elements a thread.
        const int64_t wide = chunk.count / (int64_t(block_) * MANY_BLOCKS);
        const int most = device::elements_per_thread(given.registers_in_shared, block_);
        given.per_thread = int32_t(std::clamp<int64_t>(wide, 1, most));
        const int64_t per_block = int64_t(block_) * given.per_thread;
        const auto blocks = unsigned((chunk.count + per_block - 1) / per_block);
        const size_t shared_bytes = size_t(given.registers_in_shared * per_block) * sizeof(uint64_t);
        device::interpret<<<blocks, unsigned(block_), shared_bytes, chunk.queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *notes) override {
        evaluation_.add_exceptions(static_cast<const uint32_t *>(notes), call_.report);
    }

    bool has_room = false;

   private:
    static constexpr int64_t MANY_BLOCKS = 512;

    static int64_t spilled(const Program &program, int block) {
        return program.register_count - device::registers_in_shared(program.register_count, block);
    }

    static int64_t before(const std::vector<Carried> &group, int operand) {
        return std::find_if(group.begin(), group.end(), [&](auto &c) { return c.operand == operand; })
            ->before;
    }

    void find(DeviceStep &load, const std::vector<int> &resident) {
        const int operand = load.a;
        const View &view = layout.views[size_t(operand)];
        if (view.access == Access::constant) {
            load.a = int32_t(Source::constant);
            load.value = bits_of(layout, view);
        } else if (std::find(resident.begin(), resident.end(), operand) != resident.end()) {
            load.a = int32_t(Source::resident);
            load.value = resident_.add(Spread(layout, view));
        } else {
            load.a = int32_t(Source::chunk);
            load.value = before(loads, operand);
        }
    }

    const Evaluation evaluation_;
    Call &call_;
    const int block_;
    std::vector<DeviceStep> steps_;
    Resident resident_;
    int64_t steps_at_ = -1;  // where they are resident
    Interpretation common_{};
};

void compute(const Evaluation &evaluation, Call &call, const std::vector<pk_range> &ranges) {
    arm_faults();
    require_cuda();
    const std::vector<int> devices = devices_of(call);
    if (ranges.empty()) return;
    const int block = int(tuned(Tune::block)) / 32 * 32;
    Interpreter keeping(evaluation, call, devices, Ways(evaluation, true), block);
    if (keeping.has_room) return stream(keeping, call, devices, ranges);
    Interpreter spreading(evaluation, call, devices, Ways(evaluation, false), block);
    if (!spreading.has_room) {
        fail(PK_OUT_OF_MEMORY,
             "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left for a program");
    }
    stream(spreading, call, devices, ranges);
}

}  // namespace
}  // namespace pk

int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions,
                    const pk_options *options, uint8_t *exceptions, pk_report *report) {
    return pk::evaluate(program, instruction_count, operands, operand_count, shape, dimensions, options,
                        exceptions, report, pk::compute);
}
