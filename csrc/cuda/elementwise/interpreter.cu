// The host's side of the program interpreter: it classifies a program's operands, builds the kernel's
// parameters, and launches the interpreter kernel or, once it is compiled, the fused kernel.
#include "interpreter.h"

#include <algorithm>
#include <optional>

#include "cuda/runtime/tuning.h"
#include "interpreter.cuh"
#include "jit_kernel.h"
#include "transpose.cuh"

namespace pk {

// If a broadcast operand would expand to fewer bytes than this, staging expands it: uploading it separately
// takes longer.
static constexpr int64_t MIN_BROADCAST_BYTES = 256 << 10;
// A smaller transposed operand is not worth one more kernel for each chunk.
static constexpr int64_t MIN_TRANSPOSE_BYTES = 4 << 20;
// Threads compute more than one element only if there are more blocks of threads than this.
static constexpr int64_t MANY_BLOCKS = 512;

static int64_t spilled_registers(const Program &program, int block) {
    return program.register_count - device::registers_in_shared(program.register_count, block);
}

void UnravelTable::begin() {
    table_.push_back(int64_t(layout_.shape.size()));
    for (size_t d = layout_.shape.size(); d-- > 0;) {
        const int64_t size = layout_.shape[d];
        table_.push_back(size);
        int shift = 0;
        while (shift < 31 && int64_t(1) << shift < size) ++shift;
        // Division by an invariant integer (Granlund and Montgomery 1994, figure 4.1):
        // n / size == (mulhi(n, magic) + n) >> shift.
        const uint64_t magic =
            size <= MAX_SMALL ? (uint64_t((int64_t(1) << shift) - size) << 32) / uint64_t(size) + 1 : 0;
        table_.push_back(int64_t(magic | uint64_t(shift) << 32));
    }
}

int32_t UnravelTable::add(const View &view) {
    if (table_.empty()) begin();
    // Operands with the same strides share one entry; a fused kernel then computes their offset once.
    const auto dims = view.strides.size();
    for (size_t at = 1 + 2 * dims; at < table_.size(); at += dims) {
        if (std::equal(view.strides.rbegin(), view.strides.rend(), table_.begin() + int64_t(at)))
            return int32_t(at);
    }
    table_.insert(table_.end(), view.strides.rbegin(), view.strides.rend());
    return int32_t(table_.size() - dims);
}

// Return true if the program may raise an error that ends the call: an integer to a negative power.
static bool may_refuse(const Program &program) {
    return std::any_of(program.steps.begin(), program.steps.end(), [](const Step &step) {
        return step.op == ops::op_power && !is_float_type(step.type);
    });
}

// Return true if the operand is a single value, which is passed within the program.
static bool is_scalar(const Layout &layout, const View &view) {
    return view.access == Access::constant || (layout.size == 1 && view.base != nullptr);
}

Interpreter::OperandClasses::OperandClasses(const Evaluation &evaluation, const Operands &operands,
                                            bool may_broadcast, bool may_transpose, int block) {
    const Layout &layout = evaluation.layout;
    const std::vector<View> &views = layout.views;
    std::vector<bool> seen(views.size(), false);
    for (const Step &step : evaluation.program.steps) {
        if (step.op == PK_OP_STORE) {
            const View &view = views[size_t(step.target)];
            const Operand resident = operands.of(step.target);
            if (view.base != nullptr && (resident.d_data == nullptr || resident.copy_back)) {
                stores.push_back({step.target, 0});
            } else if (view.base == nullptr) {
                values.push_back({step.target, view.item, scratch_bytes});
                scratch_bytes += view.item;
            }
        }
        if (step.op != PK_OP_LOAD || seen[size_t(step.a)]) continue;
        seen[size_t(step.a)] = true;
        const View &view = views[size_t(step.a)];
        const Operand resident = operands.of(step.a);
        if (resident.upload_first_use) {
            loads.push_back({step.a, 0});
            loads.back().d_resident = resident.d_data;
        }
        if (resident.d_data != nullptr || is_scalar(layout, view)) continue;
        const bool repeats = std::count(view.strides.begin(), view.strides.end(), 0) != 0;
        if (repeats && may_broadcast && layout.size * view.item >= MIN_BROADCAST_BYTES) {
            broadcast.push_back(step.a);
        } else {
            loads.push_back({step.a, 0});
        }
    }
    values_bytes = scratch_bytes;
    // The spilled registers follow the values.
    scratch_bytes += 8 * spilled_registers(evaluation.program, block);
    for (const StreamedOperand &load : loads) {
        const View &view = views[size_t(load.operand)];
        if (!may_transpose || load.d_resident != nullptr || layout.size * view.item < MIN_TRANSPOSE_BYTES ||
            !layout.are_transposed_rows(view, 0, layout.size))
            continue;
        transposed.push_back({load.operand, view.item, scratch_bytes});
        scratch_bytes += view.item;
    }
}

static int64_t bits_of(const Layout &layout, const View &view) {
    int64_t bits = 0;
    layout.gather(view, 0, 1, &bits);
    return bits;
}

static const StreamedOperand *find(const std::vector<StreamedOperand> &group, int operand) {
    const auto match =
        std::find_if(group.begin(), group.end(), [&](auto &c) { return c.operand == operand; });
    return match == group.end() ? nullptr : &*match;
}

static int block_size() { return int(tuned(Tune::block)) / 32 * 32; }

Interpreter::Interpreter(const Evaluation &evaluation, const Operands &operands, Call &call,
                         const ExecutionContext &context, bool may_broadcast, bool may_transpose)
    : Interpreter(evaluation, operands, call, context,
                  OperandClasses(evaluation, operands, may_broadcast, may_transpose, block_size()),
                  block_size()) {}

Interpreter::Interpreter(const Evaluation &evaluation, const Operands &operands, Call &call,
                         const ExecutionContext &context, OperandClasses classes, int block)
    : DeviceAlgorithm(evaluation.layout, std::move(classes.loads), std::move(classes.stores),
                      evaluation.instruction_count * int64_t(sizeof(uint32_t)), classes.scratch_bytes),
      evaluation_(evaluation),
      operands_(operands),
      call_(call),
      block_(block),
      values_(std::move(classes.values)),
      values_bytes_(classes.values_bytes),
      transposed_(std::move(classes.transposed)) {
    const bool any_uploaded =
        std::any_of(loads.begin(), loads.end(), [](auto &c) { return c.d_resident != nullptr; });
    allow_zero_copy = transposed_.empty() && !any_uploaded;
    can_run_async = !may_refuse(evaluation.program);
    operations = std::max<int64_t>(1, int64_t(evaluation.program.steps.size()));
    single_pass_coalesced = allow_zero_copy && is_coalesced();
    UnravelTable coordinates(layout);
    for (const Step &step : evaluation.program.steps) {
        DeviceStep device_step{step.op, step.type,   step.to, step.target, step.a, step.b,
                               step.c,  step.origin, 0};
        if (step.op == PK_OP_STORE) {
            add_stores(device_step, coordinates);
            continue;
        }
        if (step.op == PK_OP_LOAD) set_source(device_step, classes.broadcast, coordinates);
        steps_.push_back(device_step);
    }
    const auto bytes = int64_t(steps_.size() * sizeof(DeviceStep));
    const bool fits = steps_.size() <= InterpreterParams::MAX_INLINE;
    if (!fits) steps_at_ = broadcasts_.add_inline(steps_.data(), bytes);
    const std::vector<int64_t> &table = coordinates.table();
    const bool is_short = table.size() <= InterpreterParams::MAX_COORDINATES;
    if (!is_short)
        coordinates_at_ = broadcasts_.add_inline(table.data(), int64_t(table.size() * sizeof(int64_t)));
    has_memory = broadcasts_.upload(call, context);

    common_.step_count = int32_t(steps_.size());
    common_.registers_in_shared = device::registers_in_shared(evaluation.program.register_count, block);
    common_.is_small = layout.size <= UnravelTable::MAX_SMALL;
    if (fits) std::copy(steps_.begin(), steps_.end(), common_.inline_steps);
    if (is_short) std::copy(table.begin(), table.end(), common_.inline_coordinates);
    if (operands.is_repeated() && is_short && common_.is_small)
        fused_kernel_ = FusedKernel::of(steps_, table.empty() ? 0 : int(table[0]),
                                        context.reports_exceptions() || !can_run_async);
    // Interpreted kernels are slow: other chunks should not wait for them.
    own_stream = !single_pass_coalesced && !loads.empty() &&
                 (fused_kernel_ == nullptr || !fused_kernel_->is_compiled());
}

static void set_resident_source(DeviceStep &step, int32_t &source, const Operand &resident, const View &view,
                                UnravelTable &coordinates) {
    source = int32_t(resident.contiguous ? Source::resident : Source::resident_strided);
    step.value = reinterpret_cast<int64_t>(resident.d_data);
    if (!resident.contiguous) step.c = coordinates.add(view);
}

void Interpreter::add_stores(const DeviceStep &step, UnravelTable &coordinates) {
    const int operand = step.target;
    const StreamedOperand *const store = find(stores, operand), *const values = find(values_, operand);
    if (store != nullptr || values != nullptr) {
        steps_.push_back(step);
        steps_.back().b = int32_t(Source::chunk);
        steps_.back().value =
            store != nullptr ? store->element_offset : streamed_bytes + values->element_offset;
    }
    const Operand resident = operands_.of(operand);
    if (resident.d_data == nullptr) return;
    steps_.push_back(step);
    set_resident_source(steps_.back(), steps_.back().b, resident, layout.views[size_t(operand)], coordinates);
}

void Interpreter::set_source(DeviceStep &step, const std::vector<int> &broadcast, UnravelTable &coordinates) {
    const int operand = step.a;
    const View &view = layout.views[size_t(operand)];
    const Operand resident = operands_.of(operand);
    if (resident.d_data != nullptr) {
        set_resident_source(step, step.a, resident, view, coordinates);
    } else if (is_scalar(layout, view)) {
        step.a = int32_t(Source::constant);
        step.value = bits_of(layout, view);
    } else if (std::find(broadcast.begin(), broadcast.end(), operand) != broadcast.end()) {
        BroadcastOperand distinct(layout, view);
        step.a = int32_t(Source::broadcast);
        step.c = int32_t(distinct.table[0]);
        step.value = broadcasts_.add(std::move(distinct));
    } else {
        step.a = int32_t(Source::chunk);
        const StreamedOperand *const transposed = find(transposed_, operand);
        step.value = transposed != nullptr ? streamed_bytes + transposed->element_offset
                                           : find(loads, operand)->element_offset;
    }
}

void Interpreter::stage(const StreamedOperand &load, const Chunk &chunk, char *to) const {
    const View &view = layout.views[size_t(load.operand)];
    if (find(transposed_, load.operand) != nullptr &&
        layout.are_transposed_rows(view, chunk.start, chunk.count)) {
        layout.gather_columns(view, chunk.start, chunk.count, to);
    } else {
        DeviceAlgorithm::stage(load, chunk, to);
    }
}

void Interpreter::transpose(const Chunk &chunk) const {
    for (const StreamedOperand &transposed : transposed_) {
        const View &view = layout.views[size_t(transposed.operand)];
        const char *const from = chunk.d_memory + chunk.operand(*find(loads, transposed.operand));
        char *const to = dense(chunk, transposed.operand);
        if (layout.are_transposed_rows(view, chunk.start, chunk.count)) {
            const int64_t columns = layout.shape.back(), height = layout.shape[layout.shape.size() - 2];
            device::transpose({from, to, chunk.start / columns % height, height, chunk.count, columns},
                              view.item, chunk.stream);
        } else {
            PK_CUDA(cudaMemcpyAsync(to, from, size_t(chunk.count * view.item), cudaMemcpyDeviceToDevice,
                                    chunk.stream));
        }
    }
}

// Return the address of an operand's first element in the chunk, a strided operand's base address, or a
// constant's bits.
static int64_t operand_address(const InterpreterParams &call, const DeviceStep &step, int32_t source) {
    switch (Source(source)) {
        case Source::chunk:
            return reinterpret_cast<int64_t>(call.memory) + call.operands + call.rounded * step.value;
        case Source::resident: return step.value + call.start * size_of(step.type);
        case Source::broadcast: return reinterpret_cast<int64_t>(call.broadcast) + step.value;
        default: return step.value;
    }
}

bool Interpreter::launch_compiled(const InterpreterParams &call, cudaStream_t stream) const {
    if (fused_kernel_ == nullptr) return false;
    device::JitParams params;
    params.status = reinterpret_cast<unsigned *>(call.memory);
    params.start = call.start;
    params.count = call.count;
    std::copy(std::begin(call.inline_coordinates), std::end(call.inline_coordinates), params.coordinates);
    int64_t *argument = params.operands;
    for (const DeviceStep &step : steps_) {
        if (step.op != PK_OP_LOAD && step.op != PK_OP_STORE) continue;
        const int32_t source = step.op == PK_OP_LOAD ? step.a : step.b;
        *argument++ = operand_address(call, step, source);
        if (source == int32_t(Source::broadcast)) {
            *argument = argument[-1] + elements_offset(step.c);
            ++argument;
        }
    }
    return fused_kernel_->launch(params, stream);
}

void Interpreter::enqueue(const Chunk &chunk) {
    transpose(chunk);
    InterpreterParams params = common_;
    params.memory = chunk.d_memory;
    params.operands = chunk.operands;
    // The spilled registers follow the values.
    params.scratch = chunk.scratch + chunk.rounded * values_bytes_;
    params.start = chunk.start;
    params.count = chunk.count;
    params.rounded = chunk.rounded;
    params.broadcast = broadcasts_.d_data(chunk.device_index);
    if (steps_at_ >= 0) params.steps = reinterpret_cast<const DeviceStep *>(params.broadcast + steps_at_);
    if (coordinates_at_ >= 0)
        params.coordinates = reinterpret_cast<const int64_t *>(params.broadcast + coordinates_at_);
    if (launch_compiled(params, chunk.stream)) return;
    const int64_t elements_wanted = chunk.count / (int64_t(block_) * MANY_BLOCKS);
    const int most = device::elements_per_thread(params.registers_in_shared, block_);
    params.per_thread = int32_t(std::clamp<int64_t>(elements_wanted, 1, most));
    const int64_t per_block = int64_t(block_) * params.per_thread;
    const unsigned blocks = grid_for(chunk.count, per_block);
    const size_t shared_bytes = size_t(params.registers_in_shared * per_block) * sizeof(uint64_t);
    device::interpret<<<blocks, unsigned(block_), shared_bytes, chunk.stream>>>(params);
    PK_CUDA(cudaGetLastError());
}

void Interpreter::collect(const void *status) {
    evaluation_.add_exceptions(static_cast<const uint32_t *>(status), call_.report);
}

bool Interpreter::has_dense(int operand) const {
    const Operand resident = operands_.of(operand);
    return resident.d_data != nullptr ? resident.contiguous : find(loads, operand) != nullptr;
}

char *Interpreter::dense(const Chunk &chunk, int operand) const {
    const Operand resident = operands_.of(operand);
    if (resident.d_data != nullptr) return resident.d_data + chunk.start * layout.views[size_t(operand)].item;
    const StreamedOperand *const load = find(loads, operand), *const transposed = find(transposed_, operand);
    if (transposed != nullptr)
        return chunk.d_memory + chunk.scratch + chunk.rounded * transposed->element_offset;
    if (load != nullptr) return chunk.d_memory + chunk.operand(*load);
    return chunk.d_memory + chunk.scratch + chunk.rounded * find(values_, operand)->element_offset;
}

}  // namespace pk
