#include "common/reduce.h"

#include "cuda/plan/workspace.h"
#include "cuda/program/interpreter.h"
#include "cuda/reduce/launch.cuh"
#include "cuda/reduce/there.cuh"
#include "cuda/stream/stream.h"

namespace pk {

namespace {

using namespace reduction;

class Reducer : public Interpreter {
   public:
    Reducer(const Evaluation &evaluation, const plan::Homes &homes, Call &call,
            const std::vector<int> &devices, bool may_keep, const Reduction &reduction, const Region &region,
            Partials &partials)
        : Interpreter(evaluation, homes, call, devices, may_keep),
          reduction_(reduction),
          region_(region),
          partials_(partials) {
        unit_elements = region.slabs.most_elements();
        result_bytes = partials.bytes_a_unit();
        for (int i = 0; i < reduction.asked.values; ++i) {
            const int operand = reduction.loaded(i);
            is_plain_ = is_plain_ && operand >= 0 && has_dense(operand);
        }
        if (is_plain_) scratch_bytes = 0;
        // Of other shapes, threads do not read whole lines.
        walks = walks && region.slabs.inner == 1 && region.slabs.length >= Slabs::BLOCK;
    }

    int64_t units() const override { return region_.slabs.units(); }
    int64_t start(int64_t unit) const override { return region_.slabs.start(unit); }

    void launch(const Chunk &chunk) override {
        if (!is_plain_) Interpreter::launch(chunk);
        clear_beyond(chunk);
        const char *values[2] = {nullptr, nullptr};
        for (int i = 0; i < reduction_.asked.values; ++i)
            values[i] = dense(chunk, is_plain_ ? reduction_.loaded(i) : reduction_.first_value + i);
        char *const results = chunk.memory + chunk.results;
        char *const partials =
            finishes_ ? chunk.memory + chunk.scratch + chunk.rounded * partials_at_ : results;
        const Given given{values[0],         values[1],   reduction_.type, region_.slabs, chunk.units.start,
                          chunk.units.count, chunk.start, partials,        is_alone_};
        const int64_t joined = launch_reduction(reduction_, given, chunk.queue);
        if (is_alone_) joined_ = joined;  // other chunks are launched by several threads
        if (finishes_) write_side_by_side(reduction_, slabs_of(chunk), partials, results, chunk.queue);
    }

    // Has results come down, which are smaller than partials, where each is of one.
    void finish_on_device() {
        finishes_ = region_.slabs.blocks() == 1 && !walks;  // what walks has no scratch
        if (!finishes_) return;
        result_bytes = partials_.result_bytes_a_unit();
        partials_at_ = scratch_bytes;
        scratch_bytes += (partials_.bytes_a_unit() + unit_elements - 1) / unit_elements;
    }

    // All at once, of what lies on a device. Returns how many blocks have become one partial.
    int64_t queue(const Queued &queued, char *partials) {
        require(is_at_home() && is_plain_, "what is reduced on a device is dense, and as it is there");
        Chunk chunk{};
        chunk.units = {0, units()};
        chunk.count = layout.size;
        chunk.rounded = Chunk::round_up(layout.size);
        chunk.memory = partials;
        chunk.queue = queued.stream;
        is_alone_ = true;
        launch(chunk);
        return joined_;
    }

    void deliver(const Chunk &chunk, const char *results) override {
        if (finishes_) {
            partials_.take_results(chunk.units.start, chunk.units.count, results);
        } else {
            partials_.take(chunk.units.start, chunk.units.count, results);
        }
    }

   private:
    // A chunk's, where they have one block.
    Slabs slabs_of(const Chunk &chunk) const {
        const Slabs::Unit last = region_.slabs.unit(chunk.units.start + chunk.units.count - 1);
        Slabs slabs = region_.slabs;
        slabs.count = last.slab + last.slabs - region_.slabs.unit(chunk.units.start).slab;
        return slabs;
    }

    // The last unit may have fewer partials than the others, and room for as many, which comes down, too.
    void clear_beyond(const Chunk &chunk) const {
        const int64_t last = chunk.units.start + chunk.units.count - 1;
        if (region_.slabs.unit(last).slabs == region_.slabs.slabs_a_unit()) return;
        char *const results = chunk.memory + chunk.results + (chunk.units.count - 1) * result_bytes;
        PK_CUDA(cudaMemsetAsync(results, 0, size_t(result_bytes), chunk.queue));
    }

    const Reduction &reduction_;
    const Region &region_;
    Partials &partials_;
    bool is_plain_ = true;  // the values are what a load brings
    bool is_alone_ = false, finishes_ = false;
    int64_t joined_ = 1, partials_at_ = 0;
};

void reduce_region(const Reduction &reduction, const Region &region, Call &call,
                   const std::vector<int> &devices) {
    const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                reduction.exceptions};
    // There is nothing to bring down meanwhile, and whole chunks are quicker than those that go by units.
    plan::bring_up(region.layout, reduction.program, call, devices);
    Partials partials(reduction, region);
    with_room<Reducer>(
        evaluation, call, devices,
        [&](Reducer &work) {
            work.finish_on_device();
            stream(work, call, devices, {{0, work.units()}});
        },
        reduction, region, partials);
    partials.finish(call);
}

// A reduction, and the device that its operands lie on: -1 is the host.
struct Located : Reduction {
    template <class... Given>
    explicit Located(Given... given) : Reduction(given...), device(device_of(result)) {}
    const int device;
};

// Of arrays on a device, into one there.
void queue(const Located &reduction, Call &call) {
    require(reduction.result.views[0].access == Access::contiguous, "a result on a device is not dense");
    const Queued queued(reduction.device, call);
    for (const Region &region : reduction.regions(INT64_MAX)) {  // in one, which is dense
        const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                    reduction.exceptions};
        require(device_of(region.layout) == reduction.device, "the arrays lie on several GPUs");
        const plan::Homes homes(plan::Homes::Callers(), region.layout, call);
        Partials partials(reduction, region);
        Reducer work(evaluation, homes, call, {reduction.device}, false, reduction, region, partials);
        const int64_t bytes = work.units() * work.result_bytes;
        const auto compute = [&](char *partials) {
            const int64_t joined = work.queue(queued, partials);
            reduction::finish_there(reduction, region, partials, joined, queued.stream);
        };
        const QueuedMemory memory(queued, bytes);
        if (memory.get() != nullptr) {
            compute(memory.get());
            queued.end();
        } else {
            const plan::Workspace other(reduction.device, bytes);
            compute(other.get());
            queued.end(true);  // the memory is in use
        }
    }
}

void launch(const Reduction &reduction, Call &call) {
    reduction.clear_exceptions();
    const std::vector<int> devices = devices_of(call);
    plan::Homes results(reduction.result, call);
    for (const Region &region : reduction.regions()) reduce_region(reduction, region, call, devices);
    results.settle();
}

void launch_where_it_lies(const Located &reduction, Call &call) {
    if (reduction.device < 0) return launch(reduction, call);
    reduction.clear_exceptions();
    queue(reduction, call);
}

// One after the other: what they share lies on the device, if it is kept.
void launch_several(const Reductions &reductions, Call &call) {
    for (const auto &reduction : reductions.all()) launch(*reduction, call);
}

}  // namespace
}  // namespace pk

extern "C" int32_t pk_reduce(const pk_reduction *reduction, const pk_instruction *program,
                             int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                             const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                             const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::Located(reduction, program, instruction_count, operands, operand_count, shape,
                               dimensions, exceptions, report, PK_BYTE_SWAPPED | PK_ON_DEVICE);
        },
        pk::launch_where_it_lies);
}

extern "C" int32_t pk_reduce_several(const pk_reduction *reductions, int64_t reduction_count,
                                     const pk_instruction *program, int64_t instruction_count,
                                     const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                     int64_t dimensions, uint8_t *exceptions, const pk_options *options,
                                     pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::Reductions(reductions, reduction_count, program, instruction_count, operands,
                                  operand_count, shape, dimensions, exceptions, report);
        },
        pk::launch_several);
}
