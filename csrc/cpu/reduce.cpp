#include "common/reduce.h"

#include <atomic>
#include <mutex>

#include "common/call/thread_pool.h"
#include "common/elementwise.h"
#include "common/reduce_ops.h"
#include "program_machine.h"

namespace pk {

namespace {

using reduction::LANES;

constexpr int64_t WORTH_A_THREAD = 64 << 10, SHARE = 256 << 10;  // elements
constexpr int64_t MOST_WORDS = 5;                                // of a lane, and one more for a pivot
constexpr int64_t SHORT = 64, MOST_TOGETHER = 64;

// Where the values of a call are: an operand's own memory, or a buffer that the program fills.
class Values {
   public:
    Values(const Reduction &reduction, const Region &region) : values_(size_t(reduction.asked.values)) {
        for (int i = 0; i < reduction.asked.values; ++i) {
            const int operand = reduction.loaded(i);
            const View *const view = operand < 0 ? nullptr : &region.layout.views[size_t(operand)];
            if (view == nullptr || !lies_in_rows(region, *view)) {
                needs_program = true;
                return;
            }
            values_[size_t(i)] = view;
        }
        needs_program = values_.size() == 2 && stride(region, 0) != stride(region, 1);
    }

    bool needs_program = false;

    // From row to row, in elements.
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
    // Either the whole is dense, or it is rows of dense columns.
    static bool lies_in_rows(const Region &region, const View &view) {
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

// Wide rows are read as memory likes best; a program's values are to stay in the cache.
int64_t unit_elements(const Reduction &reduction) {
    constexpr int64_t MOST = 2 << 20, LEAST = 64 << 10;
    if (reduction.loaded(0) < 0) return LEAST;
    return std::clamp(reduction.size / (8 * thread_count()), LEAST, MOST);
}

void reduce_region(const Reduction &reduction, const Region &region, Call &call) {
    const Slabs &slabs = region.slabs;
    const Values own(reduction, region);
    std::unique_ptr<const Plan> plan;
    if (own.needs_program) plan = std::make_unique<const Plan>(reduction.program, region.layout);
    const BlockLoop loop = loops().reduce[reduction.asked.kind][reduction.masked][reduction.type];
    Partials partials(reduction, region);
    const int64_t units = slabs.units(), each = partials.bytes_a_unit();
    const int64_t threads = std::clamp<int64_t>(region.layout.size / WORTH_A_THREAD, 1, thread_count());
    // Taken at a time, so that what a thread asks and tells the others costs little.
    const int64_t many =
        std::clamp<int64_t>(units / (4 * threads), 1, std::max<int64_t>(1, SHARE / slabs.most_elements()));

    std::atomic<int64_t> next{0};
    run_on_threads(threads, call, [&] {
        if (next >= units) return;
        const DefaultFloatingPoint environment;
        Lane lane(call);
        std::unique_ptr<Machine> machine;
        std::vector<std::vector<double>> buffers;
        if (plan != nullptr) {
            machine = std::make_unique<Machine>(*plan, reduction.instruction_count);
            buffers.resize(size_t(reduction.asked.values),
                           std::vector<double>(size_t(slabs.most_elements())));
        }
        std::vector<double> lanes(size_t((MOST_WORDS + 1) * LANES * std::max(slabs.inner, MOST_TOGETHER)));
        std::vector<double> closed(size_t(many * each / 8));
        double leader = 0;
        int64_t led = -1;  // the slab that the leader is of
        auto fold = [&](int64_t index, double *partial) {
            const Slabs::Unit unit = slabs.unit(index);
            const int64_t start = slabs.start(index), count = slabs.start(index + 1) - start;
            if (machine != nullptr) {
                for (size_t v = 0; v < buffers.size(); ++v) {
                    const int operand = reduction.first_value + int(v);
                    machine->move(operand, reinterpret_cast<char *>(buffers[v].data()) -
                                               start * region.layout.views[size_t(operand)].item);
                }
                machine->run(start, count, call);
            }
            // Short slabs of one column are as good as the columns of one.
            const bool together = slabs.inner == 1 && slabs.length < SHORT && unit.slabs > 1;
            for (int64_t slab = 0; slab < unit.slabs;) {
                const int64_t now = together ? std::min(unit.slabs - slab, MOST_TOGETHER) : 1;
                const int64_t first = slab * slabs.length * slabs.inner;  // of the unit's elements
                ValueBlock block{nullptr,
                                 nullptr,
                                 unit.rows,
                                 slabs.inner,
                                 slabs.inner,
                                 1,
                                 unit.block * Slabs::BLOCK,
                                 led == unit.slab ? &leader : nullptr};
                const void **const places[] = {&block.values, &block.others};
                for (int v = 0; v < reduction.asked.values; ++v) {
                    if (machine != nullptr) {
                        const int64_t item = region.layout.views[size_t(reduction.first_value + v)].item;
                        *places[v] = reinterpret_cast<const char *>(buffers[size_t(v)].data()) + first * item;
                    } else {
                        *places[v] = own.at(region, v, start + first);
                        block.stride = own.stride(region, v);
                    }
                }
                if (together) {
                    block.width = now;
                    block.column = slabs.length;
                }
                loop(block, lanes.data(), partial + slab * slabs.inner * reduction.joining.words);
                slab += now;
                if (slabs.blocks() > 1 && slabs.inner == 1 && reduction.joining.beats != nullptr &&
                    (led != unit.slab || reduction.joining.beats(partial, &leader))) {
                    leader = partial[0];
                    led = unit.slab;
                }
            }
        };
        for (int64_t from = next.fetch_add(many); from < units; from = next.fetch_add(many)) {
            const double begin = call.seconds();
            const int64_t to = std::min(from + many, units), count = slabs.start(to) - slabs.start(from);
            for (int64_t index = from; index < to; ++index)
                fold(index, closed.data() + (index - from) * each / 8);
            partials.take(from, to - from, reinterpret_cast<const char *>(closed.data()));
            lane.add(PK_COMPUTE, begin, call.seconds(), 0, count);
            if (machine == nullptr) call.advance(count);
        }
        if (machine == nullptr) return;
        const std::lock_guard<std::mutex> lock(call.mutex);
        for (int64_t i = 0; i < reduction.instruction_count; ++i) {
            reduction.exceptions[i] |= machine->exceptions()[size_t(i)];
            call.report.exceptions |= machine->exceptions()[size_t(i)];
        }
    });
    partials.finish(call);
    call.report.chunks += units;
}

void launch(const Reduction &reduction, Call &call) {
    reduction.clear_exceptions();
    for (const Region &region : reduction.regions(unit_elements(reduction))) {
        reduce_region(reduction, region, call);
    }
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
            return pk::Reduction(reduction, program, instruction_count, operands, operand_count, shape,
                                 dimensions, exceptions, report);
        },
        pk::launch);
}
