#include "common/reduce.h"

#include "cuda/elementwise/interpreter.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/reduce/combine_partials.cuh"
#include "cuda/reduce/dispatch.cuh"
#include "cuda/residency/workspace.h"

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
        if (finishes_) write(reduction_, {partials, slabs_of(chunk)}, results_of(chunk), chunk.queue);
    }

    // Has results come down, which are smaller than partials, where each is of one; or stay, where they have
    // a home.
    void finish_on_device(char *home) {
        finishes_ = region_.slabs.blocks() == 1 && !walks;  // what walks has no scratch
        require(finishes_ || home == nullptr, "what stays at home is of short rows");
        if (!finishes_) return;
        home_ = home;
        result_bytes = home == nullptr ? partials_.result_bytes_a_unit() : 0;
        partials_at_ = scratch_bytes;
        scratch_bytes += (partials_.bytes_a_unit() + unit_elements - 1) / unit_elements;
    }

    // In a line, of what lies there: the partials, chunk by chunk if their values take scratch, and the
    // results.
    void queue(const Line &line, char *results) {
        constexpr int64_t SCRATCH = 32 << 20;
        const int64_t a_unit = Chunk::round_up(unit_elements) * scratch_bytes;
        const int64_t most = a_unit == 0 ? units() : std::clamp<int64_t>(SCRATCH / a_unit, 1, units());
        const int64_t scratch = notes_bytes + Chunk::round_up(units() * result_bytes);
        const plan::Workspace memory(line, scratch + most * a_unit);
        is_alone_ = most == units();
        for (int64_t first = 0; first < units(); first += most) {
            const pk_range range{first, std::min(most, units() - first)};
            const int64_t count = start(first + range.count) - start(first);
            launch({range, start(first), count, Chunk::round_up(range.count * unit_elements), memory.get(),
                    notes_bytes + first * result_bytes, scratch, scratch, line.stream, 0});
        }
        char *const partials = memory.get() + notes_bytes;
        const View &result = reduction_.result.views[0];
        finish_there(reduction_, region_.slabs, partials, joined_, {results, result, region_}, line.stream);
    }

    bool is_plain() const { return is_plain_; }

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

    Results results_of(const Chunk &chunk) const {
        const View &result = reduction_.result.views[0];
        if (home_ == nullptr) return {chunk.memory + chunk.results, result, slabs_of(chunk)};
        Results results(home_, result, region_);
        results.first_slab = region_.slabs.unit(chunk.units.start).slab;
        return results;
    }

    // The last unit may have fewer partials than the others, and room for as many, which comes down, too.
    void clear_beyond(const Chunk &chunk) const {
        if (result_bytes == 0) return;
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
    char *home_ = nullptr;  // of the results
};

// The results go to their home, if that is not null.
void reduce_region(const Reduction &reduction, const Region &region, Call &call,
                   const std::vector<int> &devices, char *home) {
    const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                reduction.exceptions};
    // There is nothing to bring down meanwhile, and whole chunks are quicker than those that go by units.
    plan::bring_up(region.layout, reduction.program, call, devices);
    Partials partials(reduction, region);
    with_room<Reducer>(
        evaluation, call, devices,
        [&](Reducer &work) {
            work.finish_on_device(home);
            stream(work, call, devices, {{0, work.units()}});
        },
        reduction, region, partials);
    if (home == nullptr) partials.finish(call);
}

bool reads(const Reduction &reduction, const std::vector<Region> &regions, const plan::Span &written) {
    for (const Region &region : regions) {
        for (const Step &step : reduction.program.steps) {
            if (step.op != PK_LOAD) continue;
            const plan::Span read(region.layout, region.layout.views[size_t(step.a)], false);
            if (read.low < written.high && written.low < read.high) return true;
        }
    }
    return false;
}

// Whether results can be written on the device, to where they have a home: each is of one block, and nothing
// that is read lies there.
bool stay_at_home(const Reduction &reduction, const std::vector<Region> &regions, const plan::Span &result,
                  const std::vector<int> &devices) {
    const bool are_short = std::all_of(regions.begin(), regions.end(), [](const Region &region) {
        return region.slabs.blocks() == 1 && (region.slabs.inner != 1 || region.slabs.length < Slabs::BLOCK);
    });
    return are_short && plan::have_homes({result}, devices) && !reads(reduction, regions, result);
}

// In this thread's line, if all that is read lies there; what is whole in memory in one region, which takes
// no scratch.
bool queue_regions(const Reduction &reduction, const std::vector<Region> &regions, bool are_whole,
                   char *results, Call &call, const std::vector<int> &devices) {
    for (const Region &region : regions) {
        const Evaluation evaluation{reduction.program, region.layout, reduction.instruction_count,
                                    reduction.exceptions};
        plan::Homes homes(region.layout, reduction.program, call, devices);
        Partials partials(reduction, region);
        Reducer work(evaluation, homes, call, devices, false, reduction, region, partials);
        homes.leave();
        if (!work.is_at_home() || !work.may_queue || !work.has_room || (are_whole && !work.is_plain()))
            return false;
        work.queue(*Line::here(), results);
    }
    call.advance(reduction.size);
    return true;
}

bool queue_at_home(const Reduction &reduction, const plan::Span &result, Call &call,
                   const std::vector<int> &devices) {
    const Line *const line = Line::on(devices);
    if (line == nullptr) return false;
    if (!plan::have_homes({result}, devices)) return false;
    const CurrentDevice current(line->device);
    plan::Homes homes({result}, call, devices, true);
    const plan::Home home = homes.of(0);
    for (const bool are_whole : {true, false}) {
        const std::vector<Region> regions = are_whole ? reduction.regions(INT64_MAX) : reduction.regions();
        if (reads(reduction, regions, result)) break;
        if (!queue_regions(reduction, regions, are_whole, home.at, call, devices)) continue;
        if (home.leaves)
            plan::bring_down(devices[0], home.at, const_cast<char *>(result.low), result.high - result.low,
                             call);
        homes.settle();
        return true;
    }
    homes.leave();
    return false;
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
        require(work.is_at_home() && work.is_plain(),
                "what is reduced on a device is dense, and as it is there");
        work.queue(queued, reduction.result.views[0].base);
    }
    queued.end();
}

void launch(const Reduction &reduction, Call &call) {
    reduction.clear_exceptions();
    const std::vector<int> devices = devices_of(call);
    const std::vector<Region> regions = reduction.regions();
    plan::Span result(reduction.result, reduction.result.views[0], true);
    if (queue_at_home(reduction, result, call, devices)) return;
    result.may_be_home = result.may_be_home && stay_at_home(reduction, regions, result, devices);
    plan::Homes results({result}, call, devices);
    const plan::Home home = results.of(0);
    for (const Region &region : regions) reduce_region(reduction, region, call, devices, home.at);
    if (home.leaves) {
        const int64_t bytes = result.high - result.low;
        plan::bring_down(devices[0], home.at, reduction.result.views[0].base, bytes, call);
    }
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
