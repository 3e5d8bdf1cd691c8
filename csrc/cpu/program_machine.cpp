// Compiles a program to loops over blocks, and runs them.
#include "program_machine.h"

#include <algorithm>

#include "common/rounding.h"
#include "common/types.h"

namespace pk {

// Budgets of a block's registers and operands, which share L1 with the stack, and often with another
// hyperthread. If L1 cannot hold blocks of SHORT elements, longer blocks in L2 are faster, because each step
// of a block has a fixed cost.
static constexpr int64_t L1_BUDGET = 12 << 10, L2_BUDGET = 256 << 10;
static constexpr int64_t SHORT = 192, IN_L2 = 512;  // elements
static constexpr int64_t SMALLEST_BLOCK = 64, LARGEST_BLOCK = 64 << 10;
static constexpr int64_t REGISTER_ITEM = 8;
// Shorter rows are faster when they are gathered than when each is a block.
static constexpr int64_t SHORTEST_ROW = 128;                // elements
static constexpr int64_t CHECK_INTERRUPT_AFTER = 64 << 10;  // elements times steps
static constexpr int32_t NO_REGISTER = -1;

// The size of a value in a register.
static int64_t register_item(int type) { return type == PK_FLOAT16 ? 4 : size_of(type); }

// Whether a store overwrites the memory of a loaded value before its last use.
static bool overwritten_in_use(const std::vector<Step> &steps, size_t load, const Layout &layout) {
    const char *memory = layout.views[steps[load].a].base;
    const int32_t value = steps[load].target;
    bool overwritten = false, renamed = false;
    for (size_t i = load + 1; i < steps.size(); ++i) {
        const Step &step = steps[i];
        const bool uses = step.op != PK_OP_LOAD && (step.a == value || step.b == value || step.c == value);
        renamed |= uses && step.op == PK_OP_CAST && step.type == step.to;
        if (overwritten && (uses || renamed)) return true;
        if (step.op == PK_OP_STORE) {
            overwritten |= layout.views[step.target].base == memory;
        } else if (step.target == value && !renamed) {
            return false;
        }
    }
    return overwritten && renamed;
}

static bool has_dense_rows(const View &view) {
    return view.access == Access::strided && !view.swapped && view.strides.back() == view.item &&
           reinterpret_cast<uintptr_t>(view.base) % uintptr_t(view.item) == 0 &&
           std::all_of(view.strides.begin(), view.strides.end(),
                       [&](int64_t stride) { return stride % view.item == 0; });
}

// The number of elements of a block, given the bytes of its registers and operands for each element.
static int64_t elements_per_block(int64_t bytes) {
    const bool is_in_l1 = L1_BUDGET / bytes >= SHORT;
    const int64_t fitting = (is_in_l1 ? L1_BUDGET : L2_BUDGET) / bytes / SMALLEST_BLOCK * SMALLEST_BLOCK;
    return std::clamp(fitting, SMALLEST_BLOCK, is_in_l1 ? LARGEST_BLOCK / 16 : IN_L2);
}

// Divides a row into as few blocks as possible, of at most `most` elements.
static int64_t part_of_row(int64_t row, int64_t most) {
    const int64_t parts = ceil_div(row, most);
    return std::min(most, (row / parts / SMALLEST_BLOCK + 1) * SMALLEST_BLOCK);
}

BlockProgram::BlockProgram(const Program &program, const Layout &layout)
    : layout(layout),
      in_rows(layout.views.size(), 0),
      location_of_(size_t(program.register_count)),
      registers_(size_t(program.register_count), NO_REGISTER) {
    if (layout.shape.size() > 1 && layout.shape.back() >= SHORTEST_ROW) {
        for (size_t i = 0; i < in_rows.size(); ++i) by_rows |= in_rows[i] = has_dense_rows(layout.views[i]);
    }
    steps.reserve(2 * program.steps.size());  // float16 and scattered operands need several
    int64_t widest = 1;
    for (size_t i = 0; i < program.steps.size(); ++i) {
        const Step &step = program.steps[i];
        widest = std::max({widest, register_item(step.type), register_item(step.to)});
        if (step.op == PK_OP_LOAD) {
            add_load(step, overwritten_in_use(program.steps, i, layout));
        } else if (step.op == PK_OP_STORE) {
            add_store(step);
        } else {
            add_compute(step);
        }
    }
    // Without registers, blocks need not fit in a cache.
    int64_t bytes = register_count * widest;
    for (const View &view : layout.views) bytes += view.item;
    block = register_count == 0 ? LARGEST_BLOCK : elements_per_block(bytes);
    if (by_rows) block = part_of_row(layout.shape.back(), block);
    // Operands of one element are repeated for a whole block.
    block = std::min(block, align_up(std::max<int64_t>(1, layout.size), SMALLEST_BLOCK));
}

bool BlockProgram::is_in_place(int32_t operand) const {
    return layout.views[size_t(operand)].access == Access::contiguous || in_rows[size_t(operand)];
}

// The machine register for a register of the program, allocated on first use; values that stay in an
// operand's memory need none.
ValueLocation BlockProgram::register_for(int32_t program_register) {
    int32_t &index = registers_[program_register];
    if (index == NO_REGISTER) index = register_count++;
    return {ValueLocation::in_register, index};
}

bool BlockProgram::is_one_per_row(const View &view) const {
    return by_rows && view.access == Access::strided && view.strides.back() == 0;
}

void BlockProgram::add_load(const Step &step, bool must_move) {
    const View &view = layout.views[step.a];
    const bool half = view.type == PK_FLOAT16;
    const bool constant = view.access == Access::constant, stays = constant || is_one_per_row(view);
    std::vector<BlockStep> &list = constant ? constants : stays ? in_each_row : steps;
    ValueLocation raw{ValueLocation::in_operand, step.a};
    if (!is_in_place(step.a) || must_move) {
        BlockStep gather;
        gather.kind = constant ? BlockStep::fill : BlockStep::gather;
        gather.operand = step.a;
        // A constant keeps its register, so no other value may share it.
        raw = stays || half ? new_register() : register_for(step.target);
        gather.target = raw;
        list.push_back(gather);
    }
    location_of_[step.target] = raw;
    if (half) {
        BlockStep widen;
        widen.loop = loops().half_to_float;
        widen.a = raw;
        widen.target = stays ? new_register() : register_for(step.target);
        list.push_back(widen);
        location_of_[step.target] = widen.target;
    }
}

void BlockProgram::add_compute(const Step &step) {
    if (step.op == PK_OP_CAST && (step.type == step.to || is_widening_of_half(step.type, step.to))) {
        // The value is used in place. A value in a register is moved if its register may be reused before.
        const ValueLocation from = location_of_[step.a];
        if (from.kind == ValueLocation::in_operand) {
            location_of_[step.target] = from;
            return;
        }
    }
    BlockStep compute;
    compute.a = location_of_[step.a];
    if (step.b >= 0) compute.b = location_of_[step.b];
    if (step.c >= 0) compute.c = location_of_[step.c];
    compute.target = register_for(step.target);
    compute.origin = step.origin;
    if (step.op == PK_OP_CAST) {
        compute.loop = loops().cast[step.type][step.to];
        compute.check = cast_check(step.type, step.to);
    } else {
        compute.loop = loops().operation[step.op - PK_OP_FIRST][step.type];
        compute.check = operation_check(step.op, step.type);
        if (step.to == PK_FLOAT16) compute.round = loops().round_to_half;
    }
    steps.push_back(compute);
    location_of_[step.target] = compute.target;
}

void BlockProgram::add_store(const Step &step) {
    const View &view = layout.views[step.target];
    const ValueLocation out{ValueLocation::in_operand, step.target};
    ValueLocation from = location_of_[step.a];
    BlockStep *last = steps.empty() ? nullptr : &steps.back();
    const bool just_made =
        last != nullptr && last->kind == BlockStep::compute && from.kind == ValueLocation::in_register &&
        last->target.kind == ValueLocation::in_register && last->target.index == from.index;
    if (is_in_place(step.target) && view.type != PK_FLOAT16 && just_made &&
        may_write_directly(step.target, *last)) {
        last->target = out;
        location_of_[step.a] = out;
        return;
    }
    BlockStep store;
    store.a = from;
    store.target = out;
    store.operand = step.target;
    if (view.type == PK_FLOAT16) {
        store.loop = loops().float_to_half;
        if (!is_in_place(step.target)) {
            store.target = new_register();
            steps.push_back(store);
            store.a = store.target;
            store.kind = BlockStep::scatter;
        }
    } else if (is_in_place(step.target)) {
        const int type = view.type == PK_BOOL ? PK_UINT8 : view.type;
        store.loop = loops().cast[type][type];
    } else {
        store.kind = BlockStep::scatter;
    }
    steps.push_back(store);
}

// A check reads the arguments after the result is written, so they must not share memory.
bool BlockProgram::may_write_directly(int32_t operand, const BlockStep &producer) const {
    if (producer.check == nullptr) return true;
    for (const ValueLocation &argument : {producer.a, producer.b, producer.c}) {
        if (argument.kind == ValueLocation::in_operand &&
            layout.views[argument.index].base == layout.views[operand].base) {
            return false;
        }
    }
    return true;
}

Machine::Machine(const BlockProgram &program, int64_t instruction_count)
    : program_(program),
      register_bytes_(program.block * REGISTER_ITEM),
      exceptions_(size_t(instruction_count), 0) {
    bases_.reserve(program.layout.views.size());
    for (const View &view : program.layout.views) bases_.push_back(view.base);
    constexpr int64_t CACHE_LINE = 64;
    memory_.reset(new char[size_t(register_bytes_ * program.register_count + CACHE_LINE)]);
    registers_ = memory_.get() +
                 (CACHE_LINE - int64_t(reinterpret_cast<uintptr_t>(memory_.get()) % CACHE_LINE)) % CACHE_LINE;
    run_block(program.constants, 0, program.block);
}

void *Machine::at(const ValueLocation &place, int64_t start) const {
    switch (place.kind) {
        case ValueLocation::in_register: return registers_ + place.index * register_bytes_;
        case ValueLocation::in_operand: {
            const size_t operand = size_t(place.index);
            return bases_[operand] + start * program_.layout.views[operand].item;
        }
        default: return nullptr;
    }
}

void Machine::run(int64_t start, int64_t count, Call &call) {
    const int64_t often = CHECK_INTERRUPT_AFTER / (1 + int64_t(program_.steps.size())) + 1;  // elements
    int64_t checked = 0;
    for (int64_t done = 0; done < count;) {
        int64_t block = std::min(program_.block, count - done);
        if (program_.by_rows) block = std::min(block, enter_row_of(start + done));
        run_block(program_.steps, start + done, block);
        done += block;
        if (done - checked >= often || done == count) {
            call.advance(done - checked);
            checked = done;
        }
    }
}

// Sets the bases to the row of an element; returns how many elements of the row are left from there on.
int64_t Machine::enter_row_of(int64_t element) {
    const Layout &layout = program_.layout;
    const size_t last = layout.shape.size() - 1;
    const int64_t length = layout.shape[last];
    if (element < row_ || element >= row_ + length) {
        const int64_t row = element / length, first = row_ = row * length;
        for (size_t i = 0; i < bases_.size(); ++i) {
            if (!program_.in_rows[i]) continue;
            const View &view = layout.views[i];
            int64_t offset = -first * view.item, remaining = row;
            for (size_t d = last; d-- > 1; remaining /= layout.shape[d])
                offset += remaining % layout.shape[d] * view.strides[d];
            bases_[i] = view.base + offset + remaining * view.strides[0];
        }
        run_block(program_.in_each_row, first, std::min(program_.block, length));
    }
    return row_ + length - element;
}

void Machine::run_block(const std::vector<BlockStep> &steps, int64_t start, int64_t count) {
    const Layout &layout = program_.layout;
    for (const BlockStep &step : steps) {
        void *target = at(step.target, start);
        const void *a = at(step.a, start);
        switch (step.kind) {
            case BlockStep::fill: layout.fill(layout.views[step.operand], count, target); break;
            case BlockStep::gather: layout.gather(layout.views[step.operand], start, count, target); break;
            case BlockStep::scatter: layout.scatter(layout.views[step.operand], start, count, a); break;
            case BlockStep::compute: {
                const void *b = at(step.b, start);
                bool may_raise = step.loop(target, a, b, at(step.c, start), count);
                if (step.round != nullptr) may_raise = step.round(target, target, nullptr, nullptr, count);
                if (may_raise && step.check != nullptr) {
                    exceptions_[step.origin] |= step.check(a, b != nullptr ? b : a, target, count);
                }
                break;
            }
        }
    }
}

}  // namespace pk
