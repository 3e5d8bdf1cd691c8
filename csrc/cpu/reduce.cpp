// Reductions on the CPU: threads reduce units of blocks to partials, which Partials combines.
#include "common/reduce.h"

#include <deque>
#include <memory>
#include <optional>

#include "common/call/parallel_for.h"
#include "common/elementwise.h"
#include "common/reduce_ops.h"
#include "prepared_requests.h"
#include "program_machine.h"

namespace pk {

namespace {

using reduction::LANES;

constexpr int64_t WORTH_A_THREAD = 64 << 10, SHARE = 256 << 10;  // elements
constexpr int64_t MAX_WORDS = 5;                                 // of a lane; a pivot takes one more
constexpr int64_t SHORT = 64, MAX_SLABS_PER_LOOP = 64;
constexpr int64_t SHARED_UNIT = 128 << 10;  // elements

// The source of the values: an operand's own memory, or a buffer that the program fills.
class ValueSource {
   public:
    ValueSource(const Reduction &reduction, const Region &region)
        : values_(size_t(reduction.spec.value_count)) {
        for (int i = 0; i < reduction.spec.value_count; ++i) {
            const int operand = reduction.loaded(i);
            const View *const view = operand < 0 ? nullptr : &region.layout.views[size_t(operand)];
            if (view == nullptr || !has_dense_rows(region, *view)) {
                needs_program = true;
                return;
            }
            values_[size_t(i)] = view;
        }
        needs_program = values_.size() == 2 && stride(region, 0) != stride(region, 1);
    }

    bool needs_program = false;

    // The distance of rows, in elements.
    int64_t stride(const Region &region, int value) const {
        const View &view = *values_[size_t(value)];
        const size_t dims = region.layout.shape.size();
        const bool has_rows = view.access == Access::strided;
        return has_rows ? view.strides[dims - 2] / view.item : region.slabs.inner;
    }
    const char *at(const Region &region, int value, int64_t element) const {
        const View &view = *values_[size_t(value)];
        if (view.access == Access::contiguous) return view.base + element * view.item;
        const char *address = view.base;
        for (size_t d = region.layout.shape.size(); d-- > 0; element /= region.layout.shape[d])
            address += element % region.layout.shape[d] * view.strides[d];
        return address;
    }

   private:
    // Whether a view is dense, or consists of rows of dense columns.
    static bool has_dense_rows(const Region &region, const View &view) {
        if (view.access == Access::contiguous) return true;
        const std::vector<int64_t> &shape = region.layout.shape;
        const size_t dims = shape.size();
        return view.access == Access::strided && !view.swapped && dims >= 2 &&
               view.strides[dims - 1] == view.item && view.strides[dims - 2] % view.item == 0 &&
               uintptr_t(view.base) % uintptr_t(view.item) == 0 && shape[dims - 1] == region.slabs.inner &&
               shape[dims - 2] == region.slabs.length &&
               std::all_of(view.strides.begin(), view.strides.end(),
                           [&](int64_t stride) { return stride % view.item == 0; });
    }

    std::vector<const View *> values_;
};

// Wide rows are read in large units, as memory bandwidth needs; a program's values are to stay in the cache.
int64_t unit_elements(const Reduction &reduction) {
    constexpr int64_t MOST = 2 << 20, LEAST = 64 << 10;
    if (reduction.loaded(0) < 0) return LEAST;
    return std::clamp(reduction.size / (8 * thread_count()), LEAST, MOST);
}

// One of several reductions of the same values, on one thread.
struct ThreadReduction {
    ThreadReduction(const Reduction &reduction, Partials &partials, int64_t most_units)
        : reduction(reduction),
          partials(partials),
          loop(loops().reduce[reduction.spec.kind][reduction.masked][reduction.type]),
          partial_words(size_t(most_units * words_per_unit())) {}

    int64_t words_per_unit() const { return partials.bytes_per_unit() / int64_t(sizeof(double)); }

    // For argmin and argmax: the best value of the slab's earlier blocks spares most later blocks the search.
    void update_best(int64_t slab, const double *partial) {
        const auto is_better = reduction.partial_ops.is_better;
        if (is_better == nullptr || (best_slab == slab && !is_better(partial, &best_so_far))) return;
        best_so_far = partial[0];
        best_slab = slab;
    }

    const Reduction &reduction;
    Partials &partials;
    const BlockLoop loop;
    std::vector<double> partial_words;
    double best_so_far = 0;
    int64_t best_slab = -1;  // the slab of best_so_far
};

using All = std::vector<const Reduction *>;

// A thread that reduces some units of a region to partials.
class RegionReducer {
   public:
    RegionReducer(const All &reductions, const Region &region, const ValueSource &values,
                  const BlockProgram *program, int64_t most_units, std::vector<Partials> &partials,
                  Call &call)
        : reduction_(*reductions.front()),
          region_(region),
          slabs_(region.slabs),
          values_(values),
          call_(call),
          lanes_(new double[size_t((MAX_WORDS + 1) * LANES * most_columns())]) {
        for (size_t i = 0; i < reductions.size(); ++i)
            reductions_.emplace_back(*reductions[i], partials[i], most_units);
        if (program == nullptr) return;
        machine_.emplace(*program, reduction_.instruction_count);
        computed_.resize(size_t(reduction_.spec.value_count),
                         std::vector<double>(size_t(slabs_.max_elements())));
    }

    // Reduces units; returns their number of elements.
    int64_t run(int64_t first, int64_t units) {
        for (int64_t i = 0; i < units; ++i) reduce_unit(first + i, i);
        for (ThreadReduction &each : reductions_)
            each.partials.store(first, units, reinterpret_cast<const char *>(each.partial_words.data()));
        const int64_t count = slabs_.start(first + units) - slabs_.start(first);
        if (!machine_) call_.advance(count);
        return count;
    }

    // Merges the exception flags. For one thread at a time.
    void end() const {
        if (!machine_) return;
        for (int64_t i = 0; i < reduction_.instruction_count; ++i) {
            const uint8_t raised = machine_->exceptions()[size_t(i)];
            reduction_.exceptions[i] |= raised;
            call_.report.exceptions |= raised;
        }
    }

   private:
    int64_t most_columns() const {
        const bool together = slabs_.inner == 1 && slabs_.length < SHORT;
        return together ? std::min(slabs_.slabs_per_unit(), MAX_SLABS_PER_LOOP) : slabs_.inner;
    }

    // Reduces a unit by all reductions. Its partials come at `place` in the buffer of each.
    void reduce_unit(int64_t index, int64_t place) {
        const Slabs::WorkUnit unit = slabs_.unit(index);
        const int64_t start = slabs_.start(index);
        if (machine_) compute(*machine_, start, slabs_.start(index + 1) - start);
        // Short slabs of one column are reduced together, as the columns of one slab.
        const bool together = slabs_.inner == 1 && slabs_.length < SHORT && unit.slabs > 1;
        const int64_t most = together ? MAX_SLABS_PER_LOOP : 1;
        for (int64_t slab = 0; slab < unit.slabs; slab += most) {
            ValueBlock block = block_of(unit, start, slab);
            if (together) {
                block.width = std::min(unit.slabs - slab, most);
                block.column = slabs_.length;
            }
            for (ThreadReduction &each : reductions_) {
                double *const partials = each.partial_words.data() + place * each.words_per_unit();
                block.best_so_far = each.best_slab == unit.slab ? &each.best_so_far : nullptr;
                each.loop(block, lanes_.get(),
                          partials + slab * slabs_.inner * each.reduction.partial_ops.words);
            }
        }
        if (slabs_.blocks() == 1 || slabs_.inner != 1) return;
        for (ThreadReduction &each : reductions_)
            each.update_best(unit.slab, each.partial_words.data() + place * each.words_per_unit());
    }

    // Runs the program, which fills the buffers with the values of some elements.
    void compute(Machine &machine, int64_t start, int64_t count) {
        for (size_t v = 0; v < computed_.size(); ++v) {
            const int operand = reduction_.first_value + int(v);
            machine.move(operand, reinterpret_cast<char *>(computed_[v].data()) - start * item_of(operand));
        }
        machine.run(start, count, call_);
    }

    int64_t item_of(int operand) const { return region_.layout.views[size_t(operand)].item; }

    // The values of one slab of a unit, which begins at element `start`.
    ValueBlock block_of(const Slabs::WorkUnit &unit, int64_t start, int64_t slab) const {
        ValueBlock block{};
        block.rows = unit.rows;
        block.width = block.stride = slabs_.inner;
        block.column = 1;
        block.first_row = unit.block * Slabs::BLOCK;
        const int64_t first = slab * slabs_.length * slabs_.inner;  // in the unit
        const void **const places[] = {&block.values, &block.others};
        for (int v = 0; v < reduction_.spec.value_count; ++v) {
            if (machine_) {
                const auto *const computed = reinterpret_cast<const char *>(computed_[size_t(v)].data());
                *places[v] = computed + first * item_of(reduction_.first_value + v);
            } else {
                *places[v] = values_.at(region_, v, start + first);
                block.stride = values_.stride(region_, v);
            }
        }
        return block;
    }

    const Reduction &reduction_;  // the first reduction, for the properties that all share
    const Region &region_;
    const Slabs slabs_;
    const ValueSource &values_;
    Call &call_;
    std::vector<ThreadReduction> reductions_;
    std::optional<Machine> machine_;             // if a program computes the values
    std::vector<std::vector<double>> computed_;  // the buffers of its values
    std::unique_ptr<double[]> lanes_;            // initialized by each loop
};

// A region with the source of its values: shared by the threads that reduce it.
struct CompiledRegion {
    CompiledRegion(const Reduction &first, const Region &region) : region(region), values(first, region) {
        if (values.needs_program) program.emplace(first.program, region.layout);
    }

    const Region &region;
    const ValueSource values;
    std::optional<const BlockProgram> program;
};

// Reductions of the same values, compiled for their operands. If several share the values, a unit stays in
// the cache.
class CompiledReductions {
   public:
    explicit CompiledReductions(const All &reductions)
        : reductions_(reductions),
          regions_(first().regions(reductions.size() == 1 ? unit_elements(first()) : SHARED_UNIT)) {
        for (const Region &region : regions_) compiled_.emplace_back(first(), region);
    }

    void move(size_t operand, int64_t bytes) {
        for (Region &region : regions_) region.layout.views[operand].base += bytes;
    }

    void prefetch() const {
        for (const Reduction *each : reductions_) fetch_into_cache(each, sizeof(Reduction));
        for (const Region &region : regions_) fetch_into_cache(region.layout.views);
        for (const CompiledRegion &compiled : compiled_) {
            if (compiled.program) fetch_into_cache(compiled.program->steps);
        }
    }

    void run(Call &call) const {
        first().clear_exceptions();
        for (const CompiledRegion &compiled : compiled_) reduce(compiled, call);
    }

   private:
    const Reduction &first() const { return *reductions_.front(); }

    void reduce(const CompiledRegion &compiled, Call &call) const {
        const Region &region = compiled.region;
        std::vector<Partials> partials;
        for (const Reduction *reduction : reductions_) partials.emplace_back(*reduction, region);
        const int64_t units = region.slabs.units();
        const int64_t threads = threads_for(region.layout.size, WORTH_A_THREAD);
        // Threads take several units at once, to keep the overhead low.
        const int64_t share = std::clamp<int64_t>(units / (4 * threads), 1,
                                                  std::max<int64_t>(1, SHARE / region.slabs.max_elements()));
        const BlockProgram *const program = compiled.program ? &*compiled.program : nullptr;
        parallel_for(
            call, units, share, threads,
            [&] {
                return RegionReducer(reductions_, region, compiled.values, program, share, partials, call);
            },
            [](RegionReducer &reducer, int64_t at, int64_t count) { return reducer.run(at, count); },
            [](RegionReducer &reducer) { reducer.end(); }, Waking::if_long);
        for (Partials &each : partials) each.finish(call);
    }

    const All reductions_;
    std::vector<Region> regions_;
    std::deque<CompiledRegion> compiled_;
};

All all_of(const Reductions &reductions) {
    All all;
    for (const auto &reduction : reductions.all()) all.push_back(reduction.get());
    return all;
}

void launch(const Reduction &reduction, Call &call) { CompiledReductions({&reduction}).run(call); }

void launch_several(const Reductions &reductions, Call &call) {
    CompiledReductions(all_of(reductions)).run(call);
}

class Prepared final : public PreparedRequest {
   public:
    Prepared(const RequestArguments &a, const pk_report *report)
        : reductions_(a.reductions, a.reduction_count, a.program, a.instruction_count, a.operands,
                      a.operand_count, a.shape, a.dimensions, a.exceptions, report),
          compiled_(all_of(reductions_)),
          first_result_(size_t(a.operand_count - a.reduction_count)),
          addresses_(a.operands, a.operand_count) {}
    int64_t elements() const override { return reductions_.elements(); }
    void run(Call &call) override { compiled_.run(call); }
    bool rebind() override {
        return addresses_.rebind([&](size_t operand, int64_t bytes) {
            if (operand >= first_result_) {
                reductions_.move_result(operand - first_result_, bytes);
            } else {
                compiled_.move(operand, bytes);
            }
        });
    }

    void prefetch() const override {
        addresses_.prefetch();
        compiled_.prefetch();
    }

   private:
    Reductions reductions_;
    CompiledReductions compiled_;
    const size_t first_result_;  // the operand
    OperandAddresses addresses_;
};

}  // namespace

std::unique_ptr<PreparedRequest> reduction::prepare(const pk_request &request) {
    const pk_report report{};
    return std::make_unique<Prepared>(RequestArguments(request), &report);
}

}  // namespace pk

extern "C" int32_t pk_reduce(const pk_reduction *reduction, const pk_instruction *program,
                             int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                             const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                             const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::Reduction(reduction, program, instruction_count, operands, operand_count, shape,
                                 dimensions, exceptions, report);
        },
        pk::launch);
}

extern "C" int32_t pk_reduce_several(const pk_reduction *reductions, int64_t reduction_count,
                                     const pk_instruction *program, int64_t instruction_count,
                                     const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                     int64_t dimensions, uint8_t *exceptions, const pk_options *options,
                                     pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::Reductions(reductions, reduction_count, program, instruction_count, operands,
                                  operand_count, shape, dimensions, exceptions, report);
        },
        pk::launch_several);
}
