#include "interpreter.h"

#include <algorithm>

#include "cuda/stream/tuning.h"
#include "interpreter.cuh"
#include "transpose.cuh"

namespace pk {

// A broadcast operand of a call smaller than this is spread out by staging: an upload of its own takes
// longer.
static constexpr int64_t WORTH_KEEPING = 256 << 10;
// Bytes of a transposed operand that are worth one more kernel for each chunk.
static constexpr int64_t WORTH_TURNING = 4 << 20;
// Few elements are for many threads rather than for many elements a thread.
static constexpr int64_t MANY_BLOCKS = 512;

static int64_t spilled(const Program &program, int block) {
    return program.register_count - device::registers_in_shared(program.register_count, block);
}

Interpreter::Ways::Ways(const Evaluation &evaluation, bool may_keep, bool may_turn, int block) {
    const Layout &layout = evaluation.layout;
    const std::vector<View> &views = layout.views;
    std::vector<bool> seen(views.size(), false);
    for (const Step &step : evaluation.program.steps) {
        if (step.op == PK_STORE) {
            const View &view = views[size_t(step.target)];
            if (view.base != nullptr) {
                stores.push_back({step.target, 0});
            } else {
                values.push_back({step.target, 8, scratch_bytes});
                scratch_bytes += 8;
            }
        }
        if (step.op != PK_LOAD || seen[size_t(step.a)]) continue;
        seen[size_t(step.a)] = true;
        const View &view = views[size_t(step.a)];
        if (view.access == Access::constant) continue;
        const bool repeats = std::count(view.strides.begin(), view.strides.end(), 0) != 0;
        if (repeats && may_keep && layout.size * view.item >= WORTH_KEEPING) {
            resident.push_back(step.a);
        } else {
            loads.push_back({step.a, 0});
        }
    }
    // Behind the values lie the registers that have no room elsewhere.
    scratch_bytes += 8 * spilled(evaluation.program, block);
    for (const Carried &load : loads) {
        const View &view = views[size_t(load.operand)];
        if (!may_turn || layout.size * view.item < WORTH_TURNING || !layout.are_turned(view, 0, layout.size))
            continue;
        turned.push_back({load.operand, view.item, scratch_bytes});
        scratch_bytes += view.item;
    }
}

static int64_t bits_of(const Layout &layout, const View &view) {
    int64_t bits = 0;
    layout.gather(view, 0, 1, &bits);
    return bits;
}

static const Carried *find(const std::vector<Carried> &group, int operand) {
    const auto found =
        std::find_if(group.begin(), group.end(), [&](auto &c) { return c.operand == operand; });
    return found == group.end() ? nullptr : &*found;
}

static int block_size() { return int(tuned(Tune::block)) / 32 * 32; }

Interpreter::Interpreter(const Evaluation &evaluation, Call &call, const std::vector<int> &devices,
                         bool may_keep, bool may_turn)
    : Interpreter(evaluation, call, devices, Ways(evaluation, may_keep, may_turn, block_size()),
                  block_size()) {}

Interpreter::Interpreter(const Evaluation &evaluation, Call &call, const std::vector<int> &devices, Ways ways,
                         int block)
    : Work(evaluation.layout, std::move(ways.loads), std::move(ways.stores),
           evaluation.instruction_count * int64_t(sizeof(uint32_t)), ways.scratch_bytes),
      evaluation_(evaluation),
      call_(call),
      block_(block),
      values_(std::move(ways.values)),
      turned_(std::move(ways.turned)) {
    may_stay = turned_.empty();
    walks = may_stay && takes_lines();
    alone = !walks && !loads.empty();
    for (const Step &step : evaluation.program.steps) {
        steps_.push_back({step.op, step.type, step.to, step.target, step.a, step.b, step.c, step.origin, 0});
        DeviceStep &added = steps_.back();
        if (step.op == PK_STORE) {
            const Carried *const store = find(stores, step.target);
            added.value =
                store != nullptr ? store->before : carried_bytes + find(values_, step.target)->before;
        }
        if (step.op == PK_LOAD) find_source(added, ways.resident);
    }
    const auto bytes = int64_t(steps_.size() * sizeof(DeviceStep));
    const bool fits = steps_.size() <= Interpretation::MOST_INLINE;
    if (!fits) steps_at_ = resident_.add(steps_.data(), bytes);
    has_room = resident_.upload(call, devices);

    common_.step_count = int32_t(steps_.size());
    common_.registers_in_shared = device::registers_in_shared(evaluation.program.register_count, block);
    if (fits) std::copy(steps_.begin(), steps_.end(), common_.inline_steps);
}

void Interpreter::find_source(DeviceStep &step, const std::vector<int> &resident) {
    const int operand = step.a;
    const View &view = layout.views[size_t(operand)];
    if (view.access == Access::constant) {
        step.a = int32_t(Source::constant);
        step.value = bits_of(layout, view);
    } else if (std::find(resident.begin(), resident.end(), operand) != resident.end()) {
        step.a = int32_t(Source::resident);
        step.value = resident_.add(Spread(layout, view));
    } else {
        step.a = int32_t(Source::chunk);
        const Carried *const turned = find(turned_, operand);
        step.value = turned != nullptr ? carried_bytes + turned->before : find(loads, operand)->before;
    }
}

void Interpreter::stage(const Carried &load, const Chunk &chunk, char *to) const {
    const View &view = layout.views[size_t(load.operand)];
    if (find(turned_, load.operand) != nullptr && layout.are_turned(view, chunk.start, chunk.count)) {
        layout.gather_turned(view, chunk.start, chunk.count, to);
    } else {
        Work::stage(load, chunk, to);
    }
}

void Interpreter::transpose(const Chunk &chunk) const {
    for (const Carried &turned : turned_) {
        const View &view = layout.views[size_t(turned.operand)];
        const char *const from = chunk.memory + chunk.operand(*find(loads, turned.operand));
        char *const to = chunk.memory + offset_of(chunk, turned.operand);
        if (layout.are_turned(view, chunk.start, chunk.count)) {
            const int64_t columns = layout.shape.back(), height = layout.shape[layout.shape.size() - 2];
            device::transpose({from, to, chunk.start / columns % height, height, chunk.count, columns},
                              view.item, chunk.queue);
        } else {
            PK_CUDA(cudaMemcpyAsync(to, from, size_t(chunk.count * view.item), cudaMemcpyDeviceToDevice,
                                    chunk.queue));
        }
    }
}

void Interpreter::launch(const Chunk &chunk) {
    transpose(chunk);
    Interpretation given = common_;
    given.memory = chunk.memory;
    given.operands = chunk.operands;
    // The registers that have no room elsewhere lie after the values.
    given.scratch = chunk.scratch + chunk.rounded * 8 * int64_t(values_.size());
    given.start = chunk.start;
    given.count = chunk.count;
    given.rounded = chunk.rounded;
    given.resident = resident_.on(chunk.device);
    if (steps_at_ >= 0) given.steps = reinterpret_cast<const DeviceStep *>(given.resident + steps_at_);
    const int64_t wide = chunk.count / (int64_t(block_) * MANY_BLOCKS);
    const int most = device::elements_per_thread(given.registers_in_shared, block_);
    given.per_thread = int32_t(std::clamp<int64_t>(wide, 1, most));
    const int64_t per_block = int64_t(block_) * given.per_thread;
    const auto blocks = unsigned((chunk.count + per_block - 1) / per_block);
    const size_t shared_bytes = size_t(given.registers_in_shared * per_block) * sizeof(uint64_t);
    device::interpret<<<blocks, unsigned(block_), shared_bytes, chunk.queue>>>(given);
    PK_CUDA(cudaGetLastError());
}

void Interpreter::collect(const void *notes) {
    evaluation_.add_exceptions(static_cast<const uint32_t *>(notes), call_.report);
}

bool Interpreter::carries(int operand) const { return find(loads, operand) != nullptr; }

int64_t Interpreter::offset_of(const Chunk &chunk, int operand) const {
    const Carried *const load = find(loads, operand), *const turned = find(turned_, operand);
    if (turned != nullptr) return chunk.scratch + chunk.rounded * turned->before;
    if (load != nullptr) return chunk.operand(*load);
    return chunk.scratch + chunk.rounded * find(values_, operand)->before;
}

}  // namespace pk
