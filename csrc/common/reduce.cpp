// Checks the arguments of pk_reduce, and combines the partials of blocks on the host.
#include "reduce.h"

#include <atomic>
#include <cstring>

#include "common/call/parallel_for.h"
#include "reduce_results.h"
#include "types.h"

namespace pk {

using namespace reduction;

namespace {

template <class Op>
PartialOps partial_ops() {
    using Word = typename Op::Word;
    static_assert(sizeof(Word) == 8, "partials are words of 8 bytes");
    return {Op::PARTIAL,
            [](void *partial, const void *next) {
                Op::merge(static_cast<Word *>(partial), static_cast<const Word *>(next));
            },
            [](const pk_reduction &spec, void *partial, int64_t length, int type, void *result) {
                write_result<Op>(spec, static_cast<Word *>(partial), length, type, result);
            }};
}

template <bool largest, class T>
PartialOps partial_ops(ArgMinOrMax<largest, T>) {
    PartialOps found = partial_ops<ArgMinOrMax<largest, T>>();
    found.is_better = [](const void *partial, const void *other) {
        return bool(is_better<largest>(*static_cast<const T *>(partial), *static_cast<const T *>(other)));
    };
    return found;
}
template <class Op>
PartialOps partial_ops(Op) {
    return partial_ops<Op>();
}

PartialOps partial_ops_of(int kind, int type, bool masked) {
    return visit_kind(kind, type, masked, [](auto op) { return partial_ops(op); });
}

void check(const pk_reduction &spec, const pk_operand *operands, int64_t operand_count, int64_t dimensions,
           int32_t flags) {
    require(spec.kind >= 0 && spec.kind < PK_REDUCE_COUNT, "reduction.kind is unknown");
    require(spec.finalize >= PK_FINALIZE_NONE && spec.finalize <= PK_FINALIZE_STD,
            "reduction.finalize is unknown");
    require(spec.outer >= 0 && spec.reduced >= 0 && spec.outer <= dimensions - spec.reduced,
            "reduction names more dimensions than there are");
    require(spec.value_count == 1 || spec.value_count == 2, "reduction.value_count is neither 1 nor 2");
    require(operand_count > spec.value_count, "there are fewer operands than values and a result");
    const pk_operand *values = operands + operand_count - 1 - spec.value_count;
    for (int i = 0; i < spec.value_count; ++i)
        require(values[i].address == 0, "a value's operand has an address");
    for (const pk_operand *o = operands; o != operands + operand_count; ++o) {
        require(o->type >= 0 && o->type < PK_TYPE_COUNT, "an operand has an unknown type");
        require((o->flags & ~flags) == 0, "an operand has unknown flags");
        require((o->flags & PK_ON_DEVICE) == 0 || (operands[operand_count - 1].flags & PK_ON_DEVICE) != 0,
                "an operand is on a device, and the result is not");
        require(o->address != 0 || (o >= values && o < values + spec.value_count),
                "an operand is a null pointer");
    }
    const int type = values[0].type;
    if (spec.value_count == 2 && spec.kind == PK_REDUCE_DOT) {
        require(values[1].type == type, "the values of PK_REDUCE_DOT have different types");
    } else if (spec.value_count == 2) {
        require((spec.kind == PK_REDUCE_SUM || spec.kind == PK_REDUCE_SUM_SQUARED_DEVIATIONS) &&
                    is_float_type(type) && values[1].type == PK_BOOL,
                "a second value is for PK_REDUCE_DOT, or a PK_BOOL for PK_REDUCE_SUM and "
                "PK_REDUCE_SUM_SQUARED_DEVIATIONS of floats");
    }
    require(spec.kind != PK_REDUCE_DOT || spec.value_count == 2, "PK_REDUCE_DOT takes two values");
    require(spec.kind != PK_REDUCE_SUM_SQUARED_DEVIATIONS || is_float_type(type),
            "PK_REDUCE_SUM_SQUARED_DEVIATIONS takes floats");
}

// The dimensions of the result, in the order in which results are computed.
Layout result_layout(const pk_reduction &spec, const pk_operand &operand, const int64_t *shape,
                     int64_t dimensions) {
    const int64_t item = size_of(operand.type);
    Layout layout;
    layout.size = 1;
    View view{reinterpret_cast<char *>(operand.address),
              operand.type,
              item,
              (operand.flags & PK_OPERAND_BYTE_SWAPPED) != 0 && item > 1,
              Access::strided,
              {}};
    for (int64_t d = 0; d < dimensions; ++d) {
        if ((d >= spec.outer && d < spec.outer + spec.reduced) || shape[d] == 1) continue;
        require(operand.strides[d] != 0, "the result has a stride of 0");
        const bool merges = !layout.shape.empty() && view.strides.back() == operand.strides[d] * shape[d];
        if (merges) {
            layout.shape.back() *= shape[d];
            view.strides.back() = operand.strides[d];
        } else {
            layout.shape.push_back(shape[d]);
            view.strides.push_back(operand.strides[d]);
        }
        layout.size *= shape[d];
    }
    if (layout.shape.empty()) {
        layout.shape.push_back(1);
        view.strides.push_back(item);
    }
    view.on_device = (operand.flags & PK_ON_DEVICE) != 0;
    layout.views.push_back(view);
    layout.classify_access();
    return layout;
}

}  // namespace

static const pk_reduction &checked(const pk_reduction *spec, const pk_instruction *instructions,
                                   int64_t instruction_count, const pk_operand *operands,
                                   int64_t operand_count, const int64_t *shape, int64_t dimensions,
                                   const uint8_t *exceptions, const pk_report *report, int32_t flags) {
    require(spec != nullptr, "reduction is a null pointer");
    check_evaluate(instructions, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                   report);
    check(*spec, operands, operand_count, dimensions, flags);
    return *spec;
}

Reduction::Reduction(const pk_reduction *given, const pk_instruction *instructions, int64_t instruction_count,
                     const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                     int64_t dimensions, uint8_t *exceptions, const pk_report *report, int32_t flags)
    : spec(checked(given, instructions, instruction_count, operands, operand_count, shape, dimensions,
                   exceptions, report, flags)),
      size(size_of_shape(shape, dimensions)),
      program(instructions, instruction_count, operands, operand_count),
      instruction_count(instruction_count),
      type(operands[operand_count - 1 - spec.value_count].type),
      masked(spec.value_count == 2 && spec.kind != PK_REDUCE_DOT),
      partial_ops(partial_ops_of(spec.kind, type, masked)),
      result(result_layout(spec, operands[operand_count - 1], shape, dimensions)),
      first_value(int(operand_count - 1 - spec.value_count)),
      exceptions(exceptions),
      operands_(operands),
      shape_(shape),
      dimensions_(dimensions) {
    for (int64_t i = 0; i < operand_count; ++i) {
        require(program.stored[size_t(i)] == (i >= first_value && i < operand_count - 1),
                "the program stores to other operands than the values");
    }
    for (const Step &step : program.steps) {
        require(step.op != PK_OP_LOAD || step.a < first_value, "the program loads a value, or the result");
    }
}

Reductions::Reductions(const pk_reduction *spec, int64_t count, const pk_instruction *instructions,
                       int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                       const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                       const pk_report *report) {
    require(spec != nullptr, "reductions is a null pointer");
    require(count >= 1 && count <= PK_MAX_REDUCTIONS, "reduction_count is out of range");
    require(operands != nullptr, "operands is a null pointer");
    require(operand_count > count && operand_count <= PK_MAX_OPERANDS, "operand_count is out of range");
    const int64_t shared = operand_count - count;
    for (int64_t i = 0; i < count; ++i) {
        require(spec[i].outer == spec[0].outer && spec[i].reduced == spec[0].reduced &&
                    spec[i].value_count == spec[0].value_count,
                "the reductions are not of the same values along the same dimensions");
        operands_.emplace_back(operands, operands + shared);
        operands_.back().push_back(operands[shared + i]);
    }
    for (int64_t i = 0; i < count; ++i) {
        all_.push_back(std::make_unique<Reduction>(spec + i, instructions, instruction_count,
                                                   operands_[size_t(i)].data(), shared + 1, shape, dimensions,
                                                   exceptions, report));
        require(all_.back()->type == all_.front()->type && all_.back()->masked == all_.front()->masked,
                "the reductions are not of the same values along the same dimensions");
    }
}

int Reduction::loaded(int value) const {
    const std::vector<Step> &steps = program.steps;
    int32_t from = -1;
    for (const Step &step : steps) {
        if (step.op != PK_OP_LOAD && step.op != PK_OP_STORE) return -1;
        if (step.op == PK_OP_STORE && step.target == first_value + value) from = step.a;
    }
    int found = -1;
    for (const Step &step : steps) {
        if (step.op == PK_OP_LOAD && step.target == from) found = step.a;
        if (step.op == PK_OP_STORE && step.target == first_value + value) break;
    }
    return found;
}

std::vector<Region> Reduction::regions(int64_t unit_elements) const {
    return regions_of(operands_, first_value + spec.value_count, first_value, shape_, dimensions_, spec.outer,
                      spec.reduced, unit_elements);
}

Partials::Partials(const Reduction &reduction, const Region &region, bool are_on_host)
    : reduction_(reduction), region_(region), bytes_(int64_t(8) * reduction.partial_ops.words) {
    const Slabs &slabs = region.slabs;
    if (are_on_host && slabs.blocks() > 1)
        partials_.reset(new char[size_t(slabs.count * slabs.blocks() * slabs.inner * bytes_)]);
}

int64_t Partials::bytes_per_unit() const {
    return region_.slabs.slabs_per_unit() * region_.slabs.inner * bytes_;
}

int64_t Partials::result_bytes_per_unit() const {
    return region_.slabs.slabs_per_unit() * region_.slabs.inner * reduction_.result.views[0].item;
}

void Partials::store_results(int64_t first_unit, int64_t units, const char *results) const {
    const int64_t first = region_.slabs.unit(first_unit).slab;
    const Slabs::WorkUnit last = region_.slabs.unit(first_unit + units - 1);
    scatter(first, last.slab + last.slabs - first, results);
}

void Partials::store(int64_t first_unit, int64_t units, const char *partials) {
    const Slabs &slabs = region_.slabs;
    const int64_t each = bytes_per_unit();
    if (partials_ != nullptr) {
        std::memcpy(partials_.get() + first_unit * each, partials, size_t(units * each));
        return;
    }
    std::vector<char> own(static_cast<size_t>(each));
    for (int64_t i = 0; i < units; ++i) {
        const Slabs::WorkUnit unit = slabs.unit(first_unit + i);
        std::memcpy(own.data(), partials + i * each, own.size());
        finalize(unit.slab, unit.slabs, own.data(), bytes_ * slabs.inner);
    }
}

// Computes and stores the results of slabs, of which each has slab_bytes bytes of partials.
void Partials::finalize(int64_t first_slab, int64_t slabs, char *partials, int64_t slab_bytes) const {
    const View &view = reduction_.result.views[0];
    const int64_t inner = region_.slabs.inner;
    std::vector<char> results(static_cast<size_t>(slabs * inner * view.item));
    char *result = results.data();
    for (int64_t i = 0; i < slabs; ++i) {
        for (int64_t column = 0; column < inner; ++column, result += view.item) {
            reduction_.partial_ops.finalize(reduction_.spec, partials + i * slab_bytes + column * bytes_,
                                            region_.slabs.length, view.type, result);
        }
    }
    scatter(first_slab, slabs, results.data());
}

// Stores contiguous results of slabs in the result array.
void Partials::scatter(int64_t first_slab, int64_t slabs, const char *results) const {
    const Layout &layout = reduction_.result;
    const View &view = layout.views[0];
    const int64_t inner = region_.slabs.inner;
    if (region_.columns == inner) {  // then the results of slabs are adjacent, too
        layout.scatter(view, first_slab * inner, slabs * inner, results);
        return;
    }
    for (int64_t i = 0; i < slabs; ++i)
        layout.scatter(view, region_.result(first_slab + i), inner, results + i * inner * view.item);
}

// Combines the partials of blocks [first, end) of a slab pairwise, as a tree. The two of a pair are
// `distance` blocks apart, which doubles at each level.
void Partials::combine(int64_t slab, int64_t first, int64_t end, int64_t distance) const {
    const int64_t row = region_.slabs.inner * bytes_;
    char *const at = partials_.get() + slab * region_.slabs.blocks() * row;
    for (; first + distance < end; distance *= 2) {
        for (int64_t block = first; block + distance < end; block += 2 * distance) {
            char *const to = at + block * row, *const from = to + distance * row;
            for (int64_t i = 0; i < row; i += bytes_) reduction_.partial_ops.merge(to + i, from + i);
        }
    }
}

void Partials::finish(Call &call) {
    if (partials_ == nullptr) return;
    constexpr int64_t GROUP = 1024;              // blocks, a power of two
    constexpr int64_t WORTH_A_THREAD = 4 << 10;  // partials
    const Slabs &slabs = region_.slabs;
    const int64_t blocks = slabs.blocks(), groups = ceil_div(blocks, GROUP);
    const int64_t of_slab = blocks * slabs.inner, all = slabs.count * of_slab;
    // The items of a piece that is worth a thread, of so many items in all.
    const auto piece = [&](int64_t count) {
        return std::max<int64_t>(1, count * (WORTH_A_THREAD / 4) / all);
    };
    const int64_t threads = std::min(all / WORTH_A_THREAD + 1, thread_count());
    const int64_t parts = slabs.count * groups;
    parallel_for_pieces(call, parts, piece(parts), threads, [&](int64_t, int64_t i, int64_t end) {
        for (; i < end; ++i) {
            const int64_t first = i % groups * GROUP;
            combine(i / groups, first, std::min(first + GROUP, blocks), 1);
        }
    });
    parallel_for_pieces(
        call, slabs.count, piece(slabs.count), threads, [&](int64_t, int64_t first, int64_t end) {
            for (int64_t slab = first; slab < end; ++slab) combine(slab, 0, blocks, GROUP);
            finalize(first, end - first, partials_.get() + first * of_slab * bytes_, of_slab * bytes_);
        });
}

}  // namespace pk
