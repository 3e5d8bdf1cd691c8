#include "reduce.h"

#include <atomic>
#include <cstring>

#include "common/call/thread_pool.h"
#include "reduce_results.h"
#include "types.h"

namespace pk {

using namespace reduction;

namespace {

template <class Op>
Joining joining() {
    using Word = typename Op::Word;
    static_assert(sizeof(Word) == 8, "partials are words of 8 bytes");
    return {Op::PARTIAL,
            [](void *partial, const void *next) {
                Op::merge(static_cast<Word *>(partial), static_cast<const Word *>(next));
            },
            [](const pk_reduction &asked, void *partial, int64_t length, int type, void *result) {
                write_result<Op>(asked, static_cast<Word *>(partial), length, type, result);
            }};
}

template <bool largest, class T>
Joining joining(Place<largest, T>) {
    Joining found = joining<Place<largest, T>>();
    found.beats = [](const void *partial, const void *other) {
        return bool(beats<largest>(*static_cast<const T *>(partial), *static_cast<const T *>(other)));
    };
    return found;
}
template <class Op>
Joining joining(Op) {
    return joining<Op>();
}

Joining joining_of(int kind, int type, bool masked) {
    return visit_kind(kind, type, masked, [](auto op) { return joining(op); });
}

void check(const pk_reduction &asked, const pk_operand *operands, int64_t operand_count, int64_t dimensions,
           int32_t flags) {
    require(asked.kind >= 0 && asked.kind < PK_REDUCTIONS, "reduction.kind is unknown");
    require(asked.finish >= PK_AS_IT_IS && asked.finish <= PK_DEVIATION, "reduction.finish is unknown");
    require(asked.outer >= 0 && asked.reduced >= 0 && asked.outer <= dimensions - asked.reduced,
            "reduction names more dimensions than there are");
    require(asked.values == 1 || asked.values == 2, "reduction.values is neither 1 nor 2");
    require(operand_count > asked.values, "there are fewer operands than values and a result");
    const pk_operand *values = operands + operand_count - 1 - asked.values;
    for (int i = 0; i < asked.values; ++i)
        require(values[i].address == 0, "a value's operand has an address");
    for (const pk_operand *o = operands; o != operands + operand_count; ++o) {
        require(o->type >= 0 && o->type < PK_TYPE_COUNT, "an operand has an unknown type");
        require((o->flags & ~flags) == 0, "an operand has unknown flags");
        require((o->flags & PK_ON_DEVICE) == 0 || (operands[operand_count - 1].flags & PK_ON_DEVICE) != 0,
                "an operand lies on a device, and the result does not");
        require(o->address != 0 || (o >= values && o < values + asked.values),
                "an operand is a null pointer");
    }
    const int type = values[0].type;
    if (asked.values == 2 && asked.kind == PK_DOT) {
        require(values[1].type == type, "the values of PK_DOT have different types");
    } else if (asked.values == 2) {
        require((asked.kind == PK_SUM || asked.kind == PK_SQUARES) && is_float_type(type) &&
                    values[1].type == PK_BOOL,
                "a second value is for PK_DOT, or a PK_BOOL for PK_SUM and PK_SQUARES of floats");
    }
    require(asked.kind != PK_DOT || asked.values == 2, "PK_DOT takes two values");
    require(asked.kind != PK_SQUARES || is_float_type(type), "PK_SQUARES takes floats");
}

// The result's own dimensions, in the order in which results come.
Layout result_layout(const pk_reduction &asked, const pk_operand &operand, const int64_t *shape,
                     int64_t dimensions) {
    const int64_t item = size_of(operand.type);
    Layout layout;
    layout.size = 1;
    View view{reinterpret_cast<char *>(operand.address),          operand.type,    item,
              (operand.flags & PK_BYTE_SWAPPED) != 0 && item > 1, Access::strided, {}};
    for (int64_t d = 0; d < dimensions; ++d) {
        if ((d >= asked.outer && d < asked.outer + asked.reduced) || shape[d] == 1) continue;
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
    layout.find_access();
    return layout;
}

}  // namespace

static const pk_reduction &checked(const pk_reduction *asked, const pk_instruction *instructions,
                                   int64_t instruction_count, const pk_operand *operands,
                                   int64_t operand_count, const int64_t *shape, int64_t dimensions,
                                   const uint8_t *exceptions, const pk_report *report, int32_t flags) {
    require(asked != nullptr, "reduction is a null pointer");
    check_evaluate(instructions, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                   report);
    check(*asked, operands, operand_count, dimensions, flags);
    return *asked;
}

Reduction::Reduction(const pk_reduction *given, const pk_instruction *instructions, int64_t instruction_count,
                     const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                     int64_t dimensions, uint8_t *exceptions, const pk_report *report, int32_t flags)
    : asked(checked(given, instructions, instruction_count, operands, operand_count, shape, dimensions,
                    exceptions, report, flags)),
      size(size_of_shape(shape, dimensions)),
      program(instructions, instruction_count, operands, operand_count),
      instruction_count(instruction_count),
      type(operands[operand_count - 1 - asked.values].type),
      masked(asked.values == 2 && asked.kind != PK_DOT),
      joining(joining_of(asked.kind, type, masked)),
      result(result_layout(asked, operands[operand_count - 1], shape, dimensions)),
      first_value(int(operand_count - 1 - asked.values)),
      exceptions(exceptions),
      operands_(operands),
      shape_(shape),
      dimensions_(dimensions) {
    for (int64_t i = 0; i < operand_count; ++i) {
        require(program.stored[size_t(i)] == (i >= first_value && i < operand_count - 1),
                "the program stores to other operands than the values");
    }
    for (const Step &step : program.steps) {
        require(step.op != PK_LOAD || step.a < first_value, "the program loads a value, or the result");
    }
}

Reductions::Reductions(const pk_reduction *asked, int64_t count, const pk_instruction *instructions,
                       int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                       const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                       const pk_report *report) {
    require(asked != nullptr, "reductions is a null pointer");
    require(count >= 1 && count <= PK_MAX_REDUCTIONS, "reduction_count is out of range");
    require(operands != nullptr, "operands is a null pointer");
    require(operand_count > count && operand_count <= PK_MAX_OPERANDS, "operand_count is out of range");
    const int64_t shared = operand_count - count;
    for (int64_t i = 0; i < count; ++i) {
        require(asked[i].outer == asked[0].outer && asked[i].reduced == asked[0].reduced &&
                    asked[i].values == asked[0].values,
                "the reductions are not of the same values along the same dimensions");
        operands_.emplace_back(operands, operands + shared);
        operands_.back().push_back(operands[shared + i]);
    }
    for (int64_t i = 0; i < count; ++i) {
        all_.push_back(std::make_unique<Reduction>(asked + i, instructions, instruction_count,
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
        if (step.op != PK_LOAD && step.op != PK_STORE) return -1;
        if (step.op == PK_STORE && step.target == first_value + value) from = step.a;
    }
    int found = -1;
    for (const Step &step : steps) {
        if (step.op == PK_LOAD && step.target == from) found = step.a;
        if (step.op == PK_STORE && step.target == first_value + value) break;
    }
    return found;
}

std::vector<Region> Reduction::regions(int64_t unit_elements) const {
    return regions_of(operands_, first_value + asked.values, first_value, shape_, dimensions_, asked.outer,
                      asked.reduced, unit_elements);
}

Partials::Partials(const Reduction &reduction, const Region &region)
    : reduction_(reduction), region_(region), bytes_(8 * reduction.joining.words) {
    const Slabs &slabs = region.slabs;
    if (slabs.blocks() > 1)
        kept_.reset(new char[size_t(slabs.count * slabs.blocks() * slabs.inner * bytes_)]);
}

int64_t Partials::bytes_a_unit() const { return region_.slabs.slabs_a_unit() * region_.slabs.inner * bytes_; }

int64_t Partials::result_bytes_a_unit() const {
    return region_.slabs.slabs_a_unit() * region_.slabs.inner * reduction_.result.views[0].item;
}

void Partials::take_results(int64_t first_unit, int64_t units, const char *results) const {
    const int64_t first = region_.slabs.unit(first_unit).slab;
    const Slabs::Unit last = region_.slabs.unit(first_unit + units - 1);
    put(first, last.slab + last.slabs - first, results);
}

void Partials::take(int64_t first_unit, int64_t units, const char *partials) {
    const Slabs &slabs = region_.slabs;
    const int64_t each = bytes_a_unit();
    if (kept_ != nullptr) {
        std::memcpy(kept_.get() + first_unit * each, partials, size_t(units * each));
        return;
    }
    std::vector<char> own(static_cast<size_t>(each));
    for (int64_t i = 0; i < units; ++i) {
        const Slabs::Unit unit = slabs.unit(first_unit + i);
        std::memcpy(own.data(), partials + i * each, own.size());
        write(unit.slab, unit.slabs, own.data(), bytes_ * slabs.inner);
    }
}

// Writes the results of slabs, whose partials begin so many bytes apart.
void Partials::write(int64_t slab, int64_t slabs, char *partials, int64_t apart) const {
    const View &view = reduction_.result.views[0];
    const int64_t inner = region_.slabs.inner;
    std::vector<char> results(static_cast<size_t>(slabs * inner * view.item));
    char *result = results.data();
    for (int64_t i = 0; i < slabs; ++i) {
        for (int64_t column = 0; column < inner; ++column, result += view.item) {
            reduction_.joining.write(reduction_.asked, partials + i * apart + column * bytes_,
                                     region_.slabs.length, view.type, result);
        }
    }
    put(slab, slabs, results.data());
}

void Partials::put(int64_t slab, int64_t slabs, const char *results) const {
    const Layout &layout = reduction_.result;
    const View &view = layout.views[0];
    const int64_t inner = region_.slabs.inner;
    if (region_.columns == inner) {  // so that slabs' results lie side by side, too
        layout.scatter(view, slab * inner, slabs * inner, results);
        return;
    }
    for (int64_t i = 0; i < slabs; ++i)
        layout.scatter(view, region_.result(slab + i), inner, results + i * inner * view.item);
}

// Joins blocks [first, end) of a slab with their neighbours, those with theirs, and so on, from neighbours on
// that are so far apart.
void Partials::join(int64_t slab, int64_t first, int64_t end, int64_t apart) const {
    const int64_t row = region_.slabs.inner * bytes_;
    char *const at = kept_.get() + slab * region_.slabs.blocks() * row;
    for (; first + apart < end; apart *= 2) {
        for (int64_t block = first; block + apart < end; block += 2 * apart) {
            char *const to = at + block * row, *const from = to + apart * row;
            for (int64_t i = 0; i < row; i += bytes_) reduction_.joining.merge(to + i, from + i);
        }
    }
}

void Partials::finish(Call &call) {
    if (kept_ == nullptr) return;
    constexpr int64_t GROUP = 1024;              // blocks, a power of two
    constexpr int64_t WORTH_A_THREAD = 4 << 10;  // partials
    const Slabs &slabs = region_.slabs;
    const int64_t blocks = slabs.blocks(), groups = (blocks + GROUP - 1) / GROUP;
    const int64_t of_slab = blocks * slabs.inner, all = slabs.count * of_slab;
    // Calls work(first, end) for parts of what there is, each worth its while.
    auto share = [&](int64_t count, auto work) {
        const int64_t part = std::max<int64_t>(1, count * (WORTH_A_THREAD / 4) / all);
        std::atomic<int64_t> next{0};
        const int64_t threads = std::min({count, all / WORTH_A_THREAD + 1, thread_count()});
        run_on_threads(threads, call, [&] {
            const DefaultFloatingPoint environment;
            for (int64_t i = next.fetch_add(part); i < count; i = next.fetch_add(part)) {
                work(i, std::min(i + part, count));
                call.look();
            }
        });
    };
    share(slabs.count * groups, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
            const int64_t first = i % groups * GROUP;
            join(i / groups, first, std::min(first + GROUP, blocks), 1);
        }
    });
    share(slabs.count, [&](int64_t first, int64_t end) {
        for (int64_t slab = first; slab < end; ++slab) join(slab, 0, blocks, GROUP);
        write(first, end - first, kept_.get() + first * of_slab * bytes_, of_slab * bytes_);
    });
}

}  // namespace pk
