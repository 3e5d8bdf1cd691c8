#include "interpreter.h"

#include <algorithm>
#include <optional>

#include "cuda/runtime/tuning.h"
#include "interpreter.cuh"
#include "jit_kernel.h"
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

void Coordinates::begin() {
    table_.push_back(int64_t(layout_.shape.size()));
    for (size_t d = layout_.shape.size(); d-- > 0;) {
        const int64_t size = layout_.shape[d];
        table_.push_back(size);
        int shift = 0;
        while (shift < 31 && int64_t(1) << shift < size) ++shift;
        // n / size is (the upper half of n * factor, and n) >> shift.
        const uint64_t factor =
            size <= MOST_SMALL ? (uint64_t((int64_t(1) << shift) - size) << 32) / uint64_t(size) + 1 : 0;
        table_.push_back(int64_t(factor | uint64_t(shift) << 32));
    }
}

int32_t Coordinates::add(const View &view) {
    if (table_.empty()) begin();
    // Those of one layout share their strides, and so what a compiled pass makes of them.
    const auto dims = view.strides.size();
    for (size_t at = 1 + 2 * dims; at < table_.size(); at += dims) {
        if (std::equal(view.strides.rbegin(), view.strides.rend(), table_.begin() + int64_t(at)))
            return int32_t(at);
    }
    table_.insert(table_.end(), view.strides.rbegin(), view.strides.rend());
    return int32_t(table_.size() - dims);
}

// Whether it may meet what no call may go on from: integers to negative powers.
static bool may_refuse(const Program &program) {
    return std::any_of(program.steps.begin(), program.steps.end(), [](const Step &step) {
        return step.op == ops::op_power && !is_float_type(step.type);
    });
}

// Whether it comes with the program.
static bool is_number(const Layout &layout, const View &view) {
    return view.access == Access::constant || (layout.size == 1 && view.base != nullptr);
}

Interpreter::Ways::Ways(const Evaluation &evaluation, const plan::Homes &homes, bool may_keep, bool may_turn,
                        int block) {
    const Layout &layout = evaluation.layout;
    const std::vector<View> &views = layout.views;
    std::vector<bool> seen(views.size(), false);
    for (const Step &step : evaluation.program.steps) {
        if (step.op == PK_STORE) {
            const View &view = views[size_t(step.target)];
            const plan::Home home = homes.of(step.target);
            if (view.base != nullptr && (home.at == nullptr || home.leaves)) {
                stores.push_back({step.target, 0});
            } else if (view.base == nullptr) {
                values.push_back({step.target, view.item, scratch_bytes});
                scratch_bytes += view.item;
            }
        }
        if (step.op != PK_LOAD || seen[size_t(step.a)]) continue;
        seen[size_t(step.a)] = true;
        const View &view = views[size_t(step.a)];
        const plan::Home home = homes.of(step.a);
        if (home.arrives) {
            loads.push_back({step.a, 0});
            loads.back().home = home.at;
        }
        if (home.at != nullptr || is_number(layout, view)) continue;
        const bool repeats = std::count(view.strides.begin(), view.strides.end(), 0) != 0;
        if (repeats && may_keep && layout.size * view.item >= WORTH_KEEPING) {
            resident.push_back(step.a);
        } else {
            loads.push_back({step.a, 0});
        }
    }
    values_bytes = scratch_bytes;
    // Behind the values lie the registers that have no room elsewhere.
    scratch_bytes += 8 * spilled(evaluation.program, block);
    for (const Carried &load : loads) {
        const View &view = views[size_t(load.operand)];
        if (!may_turn || load.home != nullptr || layout.size * view.item < WORTH_TURNING ||
            !layout.are_turned(view, 0, layout.size))
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

Interpreter::Interpreter(const Evaluation &evaluation, const plan::Homes &homes, Call &call,
                         const std::vector<int> &devices, bool may_keep, bool may_turn)
    : Interpreter(evaluation, homes, call, devices, Ways(evaluation, homes, may_keep, may_turn, block_size()),
                  block_size()) {}

Interpreter::Interpreter(const Evaluation &evaluation, const plan::Homes &homes, Call &call,
                         const std::vector<int> &devices, Ways ways, int block)
    : Work(evaluation.layout, std::move(ways.loads), std::move(ways.stores),
           evaluation.instruction_count * int64_t(sizeof(uint32_t)), ways.scratch_bytes),
      evaluation_(evaluation),
      homes_(homes),
      call_(call),
      block_(block),
      values_(std::move(ways.values)),
      values_bytes_(ways.values_bytes),
      turned_(std::move(ways.turned)) {
    const bool arrive = std::any_of(loads.begin(), loads.end(), [](auto &c) { return c.home != nullptr; });
    may_stay = turned_.empty() && !arrive;
    may_queue = !may_refuse(evaluation.program);
    walks = may_stay && takes_lines();
    Coordinates coordinates(layout);
    for (const Step &step : evaluation.program.steps) {
        DeviceStep added{step.op, step.type, step.to, step.target, step.a, step.b, step.c, step.origin, 0};
        if (step.op == PK_STORE) {
            add_stores(added, coordinates);
            continue;
        }
        if (step.op == PK_LOAD) find_source(added, ways.resident, coordinates);
        steps_.push_back(added);
    }
    const auto bytes = int64_t(steps_.size() * sizeof(DeviceStep));
    const bool fits = steps_.size() <= Interpretation::MOST_INLINE;
    if (!fits) steps_at_ = resident_.add_parameters(steps_.data(), bytes);
    const std::vector<int64_t> &table = coordinates.table();
    const bool is_short = table.size() <= Interpretation::MOST_COORDINATES;
    if (!is_short)
        coordinates_at_ = resident_.add_parameters(table.data(), int64_t(table.size() * sizeof(int64_t)));
    has_room = resident_.upload(call, devices);

    common_.step_count = int32_t(steps_.size());
    common_.registers_in_shared = device::registers_in_shared(evaluation.program.register_count, block);
    common_.is_small = layout.size <= Coordinates::MOST_SMALL;
    if (fits) std::copy(steps_.begin(), steps_.end(), common_.inline_steps);
    if (is_short) std::copy(table.begin(), table.end(), common_.inline_coordinates);
    if (homes.are_lasting() && is_short && common_.is_small)
        pass_ = Pass::of(steps_, table.empty() ? 0 : int(table[0]), homes.are_heeded() || !may_queue);
    // Interpreted kernels take long.
    alone = !walks && !loads.empty() && (pass_ == nullptr || !pass_->is_compiled());
}

static void find_home(DeviceStep &step, int32_t &source, const plan::Home &home, const View &view,
                      Coordinates &coordinates) {
    source = int32_t(home.dense ? Source::home : Source::home_strided);
    step.value = reinterpret_cast<int64_t>(home.at);
    if (!home.dense) step.c = coordinates.add(view);
}

void Interpreter::add_stores(const DeviceStep &step, Coordinates &coordinates) {
    const int operand = step.target;
    const Carried *const store = find(stores, operand), *const values = find(values_, operand);
    if (store != nullptr || values != nullptr) {
        steps_.push_back(step);
        steps_.back().b = int32_t(Source::chunk);
        steps_.back().value = store != nullptr ? store->before : carried_bytes + values->before;
    }
    const plan::Home home = homes_.of(operand);
    if (home.at == nullptr) return;
    steps_.push_back(step);
    find_home(steps_.back(), steps_.back().b, home, layout.views[size_t(operand)], coordinates);
}

void Interpreter::find_source(DeviceStep &step, const std::vector<int> &resident, Coordinates &coordinates) {
    const int operand = step.a;
    const View &view = layout.views[size_t(operand)];
    const plan::Home home = homes_.of(operand);
    if (home.at != nullptr) {
        find_home(step, step.a, home, view, coordinates);
    } else if (is_number(layout, view)) {
        step.a = int32_t(Source::constant);
        step.value = bits_of(layout, view);
    } else if (std::find(resident.begin(), resident.end(), operand) != resident.end()) {
        Spread spread(layout, view);
        step.a = int32_t(Source::resident);
        step.c = int32_t(spread.table[0]);
        step.value = resident_.add(std::move(spread));
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
        char *const to = dense(chunk, turned.operand);
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

// Where the elements of an operand begin, as far as they do not lie apart.
static int64_t place_of(const Interpretation &call, const DeviceStep &step, int32_t source) {
    switch (Source(source)) {
        case Source::chunk:
            return reinterpret_cast<int64_t>(call.memory) + call.operands + call.rounded * step.value;
        case Source::home: return step.value + call.start * size_of(step.type);
        case Source::resident: return reinterpret_cast<int64_t>(call.resident) + step.value;
        default: return step.value;
    }
}

bool Interpreter::launch_compiled(const Interpretation &call, cudaStream_t queue) const {
    if (pass_ == nullptr) return false;
    device::Sweep sweep;
    sweep.notes = reinterpret_cast<unsigned *>(call.memory);
    sweep.start = call.start;
    sweep.count = call.count;
    std::copy(std::begin(call.inline_coordinates), std::end(call.inline_coordinates), sweep.coordinates);
    int64_t *place = sweep.places;
    for (const DeviceStep &step : steps_) {
        if (step.op != PK_LOAD && step.op != PK_STORE) continue;
        const int32_t source = step.op == PK_LOAD ? step.a : step.b;
        *place++ = place_of(call, step, source);
        if (source == int32_t(Source::resident)) {
            *place = place[-1] + data_after(step.c);
            ++place;
        }
    }
    return pass_->launch(sweep, queue);
}

void Interpreter::launch(const Chunk &chunk) {
    transpose(chunk);
    Interpretation given = common_;
    given.memory = chunk.memory;
    given.operands = chunk.operands;
    // The registers that have no room elsewhere lie after the values.
    given.scratch = chunk.scratch + chunk.rounded * values_bytes_;
    given.start = chunk.start;
    given.count = chunk.count;
    given.rounded = chunk.rounded;
    given.resident = resident_.on(chunk.device);
    if (steps_at_ >= 0) given.steps = reinterpret_cast<const DeviceStep *>(given.resident + steps_at_);
    if (coordinates_at_ >= 0)
        given.coordinates = reinterpret_cast<const int64_t *>(given.resident + coordinates_at_);
    if (launch_compiled(given, chunk.queue)) return;
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

bool Interpreter::has_dense(int operand) const {
    const plan::Home home = homes_.of(operand);
    return home.at != nullptr ? home.dense : find(loads, operand) != nullptr;
}

char *Interpreter::dense(const Chunk &chunk, int operand) const {
    const plan::Home home = homes_.of(operand);
    if (home.at != nullptr) return home.at + chunk.start * layout.views[size_t(operand)].item;
    const Carried *const load = find(loads, operand), *const turned = find(turned_, operand);
    if (turned != nullptr) return chunk.memory + chunk.scratch + chunk.rounded * turned->before;
    if (load != nullptr) return chunk.memory + chunk.operand(*load);
    return chunk.memory + chunk.scratch + chunk.rounded * find(values_, operand)->before;
}

}  // namespace pk
