// pk_reduce and pk_reduce_several on the CUDA engine. Kernels reduce each block of rows to a partial;
// partials are combined in a fixed tree and finalized, by the host (Partials) or, for device-resident values,
// on the device.
#include "common/reduce.h"

#include "cuda/elementwise/interpreter.h"
#include "cuda/reduce/combine_partials.cuh"
#include "cuda/reduce/dispatch.cuh"

namespace pk {

namespace {

using namespace reduction;

// The reduction of one region: evaluates the program if there is one, and reduces its values to partials.
class ReduceAlgorithm : public Interpreter {
   public:
    ReduceAlgorithm(const Evaluation &evaluation, const plan::Operands &operands, Call &call,
                    const ExecutionContext &context, bool may_broadcast, const Reduction &reduction,
                    const Region &region, Partials &partials)
        : Interpreter(evaluation, operands, call, context, may_broadcast),
          reduction_(reduction),
          region_(region),
          partials_(partials) {
        unit_elements = region.slabs.max_elements();
        result_bytes = partials.bytes_per_unit();
        for (int i = 0; i < reduction.spec.value_count; ++i) {
            const int operand = reduction.loaded(i);
            is_plain_ = is_plain_ && operand >= 0 && has_dense(operand);
        }
        if (is_plain_) scratch_bytes = 0;
        // Only rows of at least a block are read in whole cache lines.
        single_pass_coalesced =
            single_pass_coalesced && region.slabs.inner == 1 && region.slabs.length >= Slabs::BLOCK;
    }

    int64_t units() const override { return region_.slabs.units(); }
    int64_t start(int64_t unit) const override { return region_.slabs.start(unit); }

    void enqueue(const Chunk &chunk) override {
        if (!is_plain_) Interpreter::enqueue(chunk);
        clear_unused_partials(chunk);
        const char *values[2] = {nullptr, nullptr};
        for (int i = 0; i < reduction_.spec.value_count; ++i)
            values[i] = dense(chunk, is_plain_ ? reduction_.loaded(i) : reduction_.first_value + i);
        char *const results = chunk.d_memory + chunk.results;
        char *const partials =
            finalizes_ ? chunk.d_memory + chunk.scratch + chunk.rounded * partials_at_ : results;
        const ReduceParams params{values[0],     values[1],         reduction_.type,
                                  region_.slabs, chunk.units.start, chunk.units.count,
                                  chunk.start,   partials,          is_single_chunk_};
        const int64_t combined = launch_reduction(reduction_, params, chunk.stream);
        if (is_single_chunk_) combined_ = combined;  // other chunks are launched by several threads
        if (finalizes_) write(reduction_, {partials, slabs_of(chunk)}, results_of(chunk), chunk.stream);
    }

    // If every result has exactly one partial, finalize on the device: results are downloaded instead of the
    // larger partials, or written to `d_results`, which is device-resident, if that is not null.
    void finalize_on_device(char *d_results) {
        finalizes_ =
            region_.slabs.blocks() == 1 && !single_pass_coalesced;  // a zero-copy kernel has no scratch
        require(finalizes_ || d_results == nullptr,
                "only results that have one block each are finalized in place");
        if (!finalizes_) return;
        d_results_ = d_results;
        result_bytes = d_results == nullptr ? partials_.result_bytes_per_unit() : 0;
        partials_at_ = scratch_bytes;
        scratch_bytes += (partials_.bytes_per_unit() + unit_elements - 1) / unit_elements;
    }

    // Async path, for device-resident values: enqueue the partials, in several chunks if their values need
    // scratch, and then the results.
    void run_resident(const StreamScope &stream_scope, char *results) {
        constexpr int64_t SCRATCH = 32 << 20;
        const int64_t bytes_per_unit = Chunk::round_up(unit_elements) * scratch_bytes;
        const int64_t most =
            bytes_per_unit == 0 ? units() : std::clamp<int64_t>(SCRATCH / bytes_per_unit, 1, units());
        const int64_t scratch = status_bytes + Chunk::round_up(units() * result_bytes);
        const plan::Workspace memory(stream_scope, scratch + most * bytes_per_unit);
        is_single_chunk_ = most == units();
        for (int64_t first = 0; first < units(); first += most) {
            const pk_range range{first, std::min(most, units() - first)};
            const int64_t count = start(first + range.count) - start(first);
            enqueue({range, start(first), count, Chunk::round_up(range.count * unit_elements), memory.get(),
                     status_bytes + first * result_bytes, scratch, scratch, stream_scope.stream, 0});
        }
        char *const partials = memory.get() + status_bytes;
        const View &result = reduction_.result.views[0];
        combine_on_device(reduction_, region_.slabs, partials, combined_, {results, result, region_},
                          stream_scope.stream);
    }

    bool is_plain() const { return is_plain_; }

    void deliver(const Chunk &chunk, const char *results) override {
        if (finalizes_) {
            partials_.take_results(chunk.units.start, chunk.units.count, results);
        } else {
            partials_.take(chunk.units.start, chunk.units.count, results);
        }
    }

   private:
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
    Partials &partials_;
    bool is_plain_ = true;  // the values are dense operands: no program to evaluate
    bool is_single_chunk_ = false, finalizes_ = false;
    int64_t combined_ = 1, partials_at_ = 0;
    char *d_results_ = nullptr;  // device-resident results; null: they are downloaded
};

// Reduce a region through the pipeline. The results are written to `d_results` if that is not null.
void reduce_region(const Reduction &reduction, const Region &region, Call &call,
                   const ExecutionContext &context, char *d_results) {
    const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                reduction.exceptions};
    // No download could overlap with these uploads, and whole operands are uploaded faster than work units.
    plan::upload_loads(region.layout, reduction.program, call, context.devices);
    Partials partials(reduction, region);
    with_broadcast_fallback<ReduceAlgorithm>(
        evaluation, call, context,
        [&](ReduceAlgorithm &algorithm, plan::Operands &operands) {
            algorithm.finalize_on_device(d_results);
            execute(algorithm, operands, call, context);
        },
        reduction, region, partials);
    if (d_results == nullptr) partials.finish(call);
}

// Return true if the reduction reads memory that overlaps `written`.
bool reads(const Reduction &reduction, const std::vector<Region> &regions, const plan::HostRange &written) {
    for (const Region &region : regions) {
        for (const Step &step : reduction.program.steps) {
            if (step.op != PK_OP_LOAD) continue;
            const plan::HostRange read(region.layout, region.layout.views[size_t(step.a)], false);
            if (read.low < written.high && written.low < read.high) return true;
        }
    }
    return false;
}

// Return true if results can be written straight to a device-resident output: each has one block, and no
// input overlaps the output.
bool can_finalize_in_place(const Reduction &reduction, const std::vector<Region> &regions,
                           const plan::HostRange &result, const std::vector<int> &devices) {
    const bool are_short = std::all_of(regions.begin(), regions.end(), [](const Region &region) {
        return region.slabs.blocks() == 1 && (region.slabs.inner != 1 || region.slabs.length < Slabs::BLOCK);
    });
    return are_short && plan::all_resident({result}, devices) && !reads(reduction, regions, result);
}

// Async path: enqueue all regions on the current stream and return true, if all inputs are device-resident.
// With `are_contiguous` there is one region, which takes no scratch.
bool enqueue_regions(const Reduction &reduction, const std::vector<Region> &regions, bool are_contiguous,
                     char *results, Call &call, const ExecutionContext &context) {
    for (const Region &region : regions) {
        const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                    reduction.exceptions};
        plan::Operands operands(region.layout, reduction.program, call, context);
        Partials partials(reduction, region);
        ReduceAlgorithm algorithm(evaluation, operands, call, context, false, reduction, region, partials);
        if (!algorithm.is_resident() || !algorithm.can_run_async || !algorithm.has_memory ||
            (are_contiguous && !algorithm.is_plain()))
            return false;
        call.count_launch();
        algorithm.run_resident(*context.stream_scope(), results);
    }
    call.advance(reduction.size);
    return true;
}

// Enqueue the reduction on the thread's current stream. Return false if it must run synchronously.
bool reduce_async(const Reduction &reduction, const plan::HostRange &result, Call &call,
                  const ExecutionContext &context) {
    const std::vector<int> &devices = context.devices;
    if (context.stream_scope() == nullptr) return false;
    if (!plan::all_resident({result}, devices)) return false;
    const CurrentDevice current(context.device());
    plan::Operands operands({result}, call, devices, true);
    const plan::DeviceOperand resident = operands.of(0);
    for (const bool are_contiguous : {true, false}) {
        const std::vector<Region> regions =
            are_contiguous ? reduction.regions(INT64_MAX) : reduction.regions();
        if (reads(reduction, regions, result)) break;
        if (!enqueue_regions(reduction, regions, are_contiguous, resident.d_data, call, context)) continue;
        if (resident.copy_back)
            plan::download(devices[0], resident.d_data, const_cast<char *>(result.low),
                           result.high - result.low, call);
        operands.commit();
        return true;
    }
    operands.discard();
    return false;
}

// A reduction, and the device that its operands are on; -1 is the host.
struct Located : Reduction {
    template <class... Args>
    explicit Located(Args... args) : Reduction(args...), device(device_of(result)) {}
    const int device;
};

// Enqueue a reduction of the caller's device arrays on their stream.
void launch_async(const Located &reduction, Call &call) {
    require(reduction.result.views[0].access == Access::contiguous,
            "the result on a device must be contiguous");
    const ExecutionContext context(call, reduction.device);
    for (const Region &region : reduction.regions(INT64_MAX)) {  // one region, as the arrays are contiguous
        const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                    reduction.exceptions};
        require(device_of(region.layout) == reduction.device, "the arrays are on several GPUs");
        const plan::Operands operands(region.layout, reduction.program, call, context);
        Partials partials(reduction, region);
        ReduceAlgorithm algorithm(evaluation, operands, call, context, false, reduction, region, partials);
        require(algorithm.is_resident() && algorithm.is_plain(),
                "arrays on a device must be contiguous, and reduced as they are");
        algorithm.run_resident(*context.stream_scope(), reduction.result.views[0].base);
    }
    if (context.is_synchronous) PK_CUDA(cudaStreamSynchronize(context.stream_scope()->stream));
}

void launch(const Reduction &reduction, Call &call) {
    reduction.clear_exceptions();
    const ExecutionContext context(call);
    const std::vector<int> &devices = context.devices;
    const std::vector<Region> regions = reduction.regions();
    plan::HostRange result(reduction.result, reduction.result.views[0], true);
    if (reduce_async(reduction, result, call, context)) return;
    result.may_be_resident =
        result.may_be_resident && can_finalize_in_place(reduction, regions, result, devices);
    plan::Operands results({result}, call, devices);
    const plan::DeviceOperand resident = results.of(0);
    for (const Region &region : regions) reduce_region(reduction, region, call, context, resident.d_data);
    if (resident.copy_back) {
        const int64_t bytes = result.high - result.low;
        plan::download(devices[0], resident.d_data, reduction.result.views[0].base, bytes, call);
    }
    results.commit();
}

void launch_located(const Located &reduction, Call &call) {
    if (reduction.device < 0) return launch(reduction, call);
    reduction.clear_exceptions();
    launch_async(reduction, call);
}

// Run the reductions one after the other. Shared operands are uploaded once if a residency scope keeps them.
void launch_several(const Reductions &reductions, Call &call) {
    for (const auto &reduction : reductions.all()) launch(*reduction, call);
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
            return pk::Located(reduction, program, instruction_count, operands, operand_count, shape,
                               dimensions, exceptions, report,
                               PK_OPERAND_BYTE_SWAPPED | PK_OPERAND_ON_DEVICE);
        },
        pk::launch_located);
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
