// pk_reduce and pk_reduce_several on the CUDA engine. Kernels reduce each block of rows to a partial. The
// partials are combined in a fixed tree and finalized: on the device if the values are there, else by the
// host (class Partials).
#include "common/reduce.h"

#include <algorithm>

#include "cuda/elementwise/interpreter.h"
#include "cuda/reduce/combine_partials.cuh"
#include "cuda/reduce/dispatch.cuh"

namespace pk {

static int device_of(const Reduction &reduction) { return device_of(reduction.result); }

namespace {

using namespace reduction;

// The reduction of one region: evaluates the program if there is one, reduces its values to partials of
// blocks, and combines and finalizes these. Partials of values that come from the host are combined there.
class ReduceAlgorithm : public Interpreter {
   public:
    // Results are written to `d_results`, laid out like the result operand. If that is null, they, or the
    // partials, are delivered to `partials`.
    ReduceAlgorithm(const Evaluation &evaluation, const Operands &operands, Call &call,
                    const ExecutionContext &context, bool may_broadcast, const Reduction &reduction,
                    const Region &region, Partials &partials, char *d_results, bool overlaps)
        : Interpreter(evaluation, operands, call, context, may_broadcast),
          reduction_(reduction),
          region_(region),
          operands_(operands),
          partials_(partials),
          d_results_(d_results) {
        const Slabs &slabs = region.slabs;
        unit_elements = slabs.max_elements();
        for (int i = 0; i < reduction.spec.value_count; ++i) {
            const int operand = reduction.loaded(i);
            is_plain_ = is_plain_ && operand >= 0 &&
                        (has_dense(operand) || (!region.strides.empty() && is_strided(operands.of(operand))));
        }
        if (is_plain_) scratch_bytes = 0;
        // Only slabs of one column and at least a block are read in whole cache lines.
        single_pass_coalesced = single_pass_coalesced && slabs.inner == 1 && slabs.length >= Slabs::BLOCK;
        // Calls that are zero-copy as a whole (single_pass_coalesced) have no scratch; and no result may be
        // written while another chunk reads its memory.
        finalizes_chunks_ = slabs.blocks() == 1 && !single_pass_coalesced && !overlaps;
        partials_at_ = scratch_bytes;
        if (finalizes_chunks_) scratch_bytes += ceil_div(partials.bytes_per_unit(), unit_elements);
        if (d_results != nullptr) return;
        result_bytes = finalizes_chunks_ ? partials.result_bytes_per_unit() : partials.bytes_per_unit();
    }

    int64_t units() const override { return region_.slabs.units(); }
    int64_t start(int64_t unit) const override { return region_.slabs.start(unit); }

    int64_t temporary_bytes(int64_t units) const override {
        return Chunk::round_up(units * unit_elements) * partials_at_ +
               (finalizes_chunks_ ? units * partials_.bytes_per_unit() : 0);
    }
    int64_t state_bytes() const override {
        return combines_on_device() ? units() * partials_.bytes_per_unit() : 0;
    }
    void enqueue(const Chunk &chunk) override {
        if (!is_plain_) Interpreter::enqueue(chunk);
        clear_unused_partials(chunk);
        StridedValues values[2] = {};
        for (int i = 0; i < reduction_.spec.value_count; ++i)
            values[i] = values_of(chunk, is_plain_ ? reduction_.loaded(i) : reduction_.first_value + i);
        char *const partials = partials_of(chunk);
        const bool is_alone = combines_on_device() && chunk.units.count == units();
        const ReduceParams params{values[0],     values[1],         reduction_.type,
                                  region_.slabs, chunk.units.start, chunk.units.count,
                                  chunk.start,   partials,          is_alone};
        const int64_t combined = launch_reduction(reduction_, params, chunk.stream);
        if (is_alone) combined_ = combined;
        if (finalizes_chunks_)
            finalize(reduction_, {partials, slabs_of(chunk)}, results_of(chunk), chunk.stream);
    }

    void finish(char *d_state, cudaStream_t stream) override {
        if (!combines_on_device()) return;
        combine_on_device(reduction_, region_.slabs, d_state, combined_,
                          {d_results_, reduction_.result.views[0], region_}, stream);
    }

    void deliver(const Chunk &chunk, const char *results) override {
        if (finalizes_chunks_) {
            partials_.store_results(chunk.units.start, chunk.units.count, results);
        } else {
            partials_.store(chunk.units.start, chunk.units.count, results);
        }
    }

   private:
    // Return true for an operand that is not contiguous, and is on the device before the first chunk.
    static bool is_strided(const Operand &operand) {
        return operand.d_data != nullptr && !operand.contiguous && !operand.upload_first_use;
    }

    StridedValues values_of(const Chunk &chunk, int operand) const {
        const Operand resident = operands_.of(operand);
        if (!is_strided(resident)) return StridedValues::contiguous(dense(chunk, operand), region_.slabs);
        const Region::Strides &strides = region_.strides[size_t(operand)];
        const int64_t item = layout.views[size_t(operand)].item;
        return {resident.d_data, false, strides.slab / item, strides.row / item, strides.column / item};
    }

    // Partials stay on the device until the last chunk, for finish(). Only values on the device are reduced
    // so.
    bool combines_on_device() const { return d_results_ != nullptr && !finalizes_chunks_; }

    char *partials_of(const Chunk &chunk) const {
        if (finalizes_chunks_) return chunk.d_memory + chunk.scratch + chunk.rounded * partials_at_;
        if (combines_on_device()) return chunk.d_state + chunk.units.start * partials_.bytes_per_unit();
        return chunk.d_memory + chunk.results;
    }

    // Return a chunk's slabs, each of which has one block.
    Slabs slabs_of(const Chunk &chunk) const {
        const Slabs::WorkUnit last = region_.slabs.unit(chunk.units.start + chunk.units.count - 1);
        Slabs slabs = region_.slabs;
        slabs.count = last.slab + last.slabs - region_.slabs.unit(chunk.units.start).slab;
        return slabs;
    }

    Results results_of(const Chunk &chunk) const {
        const View &result = reduction_.result.views[0];
        if (d_results_ == nullptr) return {chunk.d_memory + chunk.results, result, slabs_of(chunk)};
        Results results(d_results_, result, region_);
        results.first_slab = region_.slabs.unit(chunk.units.start).slab;
        return results;
    }

    // The last unit may have fewer partials than the others. The space of the missing ones is downloaded,
    // too.
    void clear_unused_partials(const Chunk &chunk) const {
        if (result_bytes == 0) return;
        const int64_t last = chunk.units.start + chunk.units.count - 1;
        if (region_.slabs.unit(last).slabs == region_.slabs.slabs_per_unit()) return;
        char *const results = chunk.d_memory + chunk.results + (chunk.units.count - 1) * result_bytes;
        PK_CUDA(cudaMemsetAsync(results, 0, size_t(result_bytes), chunk.stream));
    }

    const Reduction &reduction_;
    const Region &region_;
    const Operands &operands_;
    Partials &partials_;
    bool is_plain_ = true;  // the values are operands that can be read in place: no program to evaluate
    bool finalizes_chunks_ = false;
    int64_t partials_at_ = 0;  // bytes of scratch an element that precede the partials
    char *const d_results_;
    int64_t combined_ = 1;  // blocks whose partials the kernel has combined to one
};

// Return true if the reduction reads memory that overlaps its result.
bool overlaps_result(const Reduction &reduction, const Layout &layout) {
    const MemoryRange written(reduction.result, reduction.result.views[0], true);
    for (const Step &step : reduction.program.steps) {
        if (step.op != PK_OP_LOAD) continue;
        const MemoryRange read(layout, layout.views[size_t(step.a)], false);
        if (read.low < written.high && written.low < read.high) return true;
    }
    return false;
}

// Return true if each value is an operand, unchanged and dense in the order of the reduction.
bool reduces_dense_operands(const Reduction &reduction, const Layout &layout) {
    for (int i = 0; i < reduction.spec.value_count; ++i) {
        const int operand = reduction.loaded(i);
        if (operand < 0 || !MemoryRange(layout, layout.views[size_t(operand)], false).may_be_resident)
            return false;
    }
    return true;
}

// Return true if each value is an operand, unchanged, that kernels can read in place if it is on the device.
bool reduces_strided_operands(const Reduction &reduction, const Region &undivided) {
    if (undivided.strides.empty()) return false;
    for (int i = 0; i < reduction.spec.value_count; ++i) {
        const int operand = reduction.loaded(i);
        if (operand < 0 || undivided.layout.views[size_t(operand)].access == Access::constant) return false;
    }
    return undivided.layout.size > 1;
}

// Return true if the pipeline can finalize the results of each chunk: slabs have one block, and no kernel is
// zero-copy.
bool has_short_rows(const std::vector<Region> &regions) {
    return std::all_of(regions.begin(), regions.end(), [](const Region &region) {
        return region.slabs.blocks() == 1 && (region.slabs.inner != 1 || region.slabs.length < Slabs::BLOCK);
    });
}

void reduce(const Reduction &reduction, int device, Call &call) {
    const ExecutionContext context(call, device);
    reduction.clear_exceptions();
    const Region undivided = reduction.regions(INT64_MAX).front();
    const Layout &layout = undivided.layout;
    // No download could overlap with these uploads, and whole operands are uploaded faster than work units.
    upload_loads(layout, reduction.program, call, context);
    const bool are_on_device = loads_are_on_device(layout, reduction.program, context);
    const bool are_dense = reduces_dense_operands(reduction, layout);
    const bool are_in_place = are_dense || reduces_strided_operands(reduction, undivided);
    const std::vector<Region> regions =
        are_on_device && are_in_place ? std::vector<Region>{undivided} : reduction.regions();

    MemoryRange result(reduction.result, reduction.result.views[0], true);
    const bool overlaps = overlaps_result(reduction, layout);
    if (context.is_on_device) {
        require(result.may_be_resident, "the result on a device must be contiguous");
        require(are_dense, "arrays on a device must be contiguous, and reduced as they are");
        require(device_of(layout) == context.device(), "the arrays are on several GPUs");
    } else if (overlaps || !(are_on_device || has_short_rows(regions))) {
        result.may_be_resident = false;
    }
    Operands results({result}, call, context);
    const bool stay_on_device = are_on_device || results.of(0).d_data != nullptr;
    char *const d_results = stay_on_device ? results.d_result(0, &reduction.result) : nullptr;
    for (const Region &region : regions) {
        Partials partials(reduction, region, d_results == nullptr);
        with_broadcast_fallback<ReduceAlgorithm>(
            {reduction.program, region.layout, reduction.instruction_count, reduction.exceptions}, call,
            context,
            [&](ReduceAlgorithm &algorithm, Operands &operands) {
                // After the last region, execute() downloads the results.
                execute(algorithm, &region == &regions.back() ? results : operands, call, context);
            },
            reduction, region, partials, d_results, overlaps);
        if (d_results == nullptr) partials.finish(call);
    }
    results.commit();
}

void launch(const Located<Reduction> &reduction, Call &call) { reduce(reduction, reduction.device, call); }

// Run the reductions one after the other. Shared operands are uploaded once if a residency scope keeps them.
void launch_several(const Reductions &reductions, Call &call) {
    for (const auto &reduction : reductions.all()) reduce(*reduction, -1, call);
}

}  // namespace
}  // namespace pk

extern "C" int32_t pk_reduce(const pk_reduction *reduction, const pk_instruction *program,
                             int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                             const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                             const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::Located<pk::Reduction>(reduction, program, instruction_count, operands, operand_count,
                                              shape, dimensions, exceptions, report,
                                              PK_OPERAND_BYTE_SWAPPED | PK_ON_DEVICE);
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
