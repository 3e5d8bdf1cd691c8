// pk_scan on the CUDA engine: reduce-then-scan (upsweep of totals, prefixes of blocks, downsweep) in the
// order that common/scan_ops.h specifies, so that both engines give the same bits.
#include <algorithm>
#include <vector>

#include "cuda/residency/execute.h"
#include "cuda/scan/block_prefix.cuh"
#include "cuda/scan/column_scan.cuh"
#include "cuda/scan/tile_scan.cuh"

namespace pk::scan {

static int device_of(const Request &request) {
    const Layout &layout = request.undivided.layout;
    require(layout.views[0].on_device == layout.views[1].on_device,
            "one operand is on a device, and the other is not");
    return pk::device_of(layout);
}

namespace {

// Operands of many columns are used where they are resident only if the scratch of a work unit takes at most
// 1 / BUDGET_SHARE of the device's memory budget.
constexpr int64_t BUDGET_SHARE = 4;

// Return the scratch bytes of an element for the states of segments and blocks; 0 if none are stored.
int64_t scratch_of(const Slabs &slabs) {
    return slabs.blocks() > 1 || (slabs.inner > 1 && slabs.length > SEGMENT) ? 1 : 0;
}

// Return the mask that is XORed with terms and results, so that the minimum and maximum of any type become
// one of two operations: the maximum of unsigned integers, or of floats.
uint64_t flipped_bits(int kind) {
    constexpr uint64_t SIGN = uint64_t(1) << 63;
    switch (kind) {
        case maximum_of_signed:
        case minimum_of_floats: return SIGN;
        case minimum_of_unsigned: return ~uint64_t(0);
        case minimum_of_signed: return ~SIGN;
        default: return 0;
    }
}

// Call visit() with the operation of a scan whose terms are XORed with flipped_bits().
template <class Visit>
void visit_flipped_op(int kind, Visit visit) {
    switch (kind) {
        case maximum_of_signed:
        case minimum_of_unsigned:
        case minimum_of_signed: return visit_flipped_op(maximum_of_unsigned, visit);
        case minimum_of_floats: return visit_flipped_op(maximum_of_floats, visit);
        case integer_sum: return visit(IntegerSum());
        case integer_product: return visit(IntegerProduct());
        case maximum_of_unsigned: return visit(Maximum<uint64_t>());
        case maximum_of_floats: return visit(Maximum<double>());
        case float_sum: return visit(FloatSum());
        case double_sum: return visit(DoubleSum());
        default: return visit(FloatProduct());
    }
}

// The scan of one region as a pipeline algorithm. Chunks are computed in order if slabs have several blocks.
template <class Op>
class ScanAlgorithm : public DeviceAlgorithm {
    using State = typename Op::State;
    // A state for each segment, one for each block and one for its group take less than a byte an element.
    static_assert(2 * sizeof(State) * (SEGMENTS + 2) <= Slabs::BLOCK && 2 * sizeof(State) <= SEGMENT,
                  "the scratch of a chunk has no room for its states");

   public:
    ScanAlgorithm(const Request &request, const Region &region, const Operands &operands, Call &call)
        : DeviceAlgorithm(region.layout, operands.loads({0}), stores_of(region, operands), sizeof(unsigned),
                          scratch_of(region.slabs)),
          request_(request),
          slabs_(region.slabs),
          operands_(operands),
          call_(call) {
        unit_elements = slabs_.max_elements();
        in_order = slabs_.blocks() > 1;
        can_run_async = true;
    }

    int64_t units() const override { return slabs_.units(); }
    int64_t start(int64_t unit) const override { return slabs_.start(unit); }

    void enqueue(const Chunk &chunk) override {
        const ScanParams params = params_for(chunk);
        if (slabs_.inner == 1) {
            launch_tiles(params, chunk.stream);
        } else {
            launch_columns(params, chunk.stream);
        }
    }

    // The state before the next chunk, for each column.
    int64_t state_bytes() const override { return in_order ? slabs_.inner * int64_t(sizeof(Carry<Op>)) : 0; }
    // The states of segments, blocks and groups.
    int64_t temporary_bytes(int64_t units) const override {
        if (scratch_bytes == 0) return 0;
        const int64_t blocks = in_order ? units : std::min(units * slabs_.slabs_per_unit(), slabs_.count);
        const int64_t states_per_block = segments_of(std::min(slabs_.length, Slabs::BLOCK)) + 2;
        return blocks * states_per_block * slabs_.inner * int64_t(sizeof(State));
    }

    void collect(const void *status) override {
        call_.report.exceptions |= *static_cast<const unsigned *>(status);
    }

   private:
    static unsigned tiles_of(const ScanParams &params) {
        return grid_for(params.scan_blocks, params.blocks_per_tile);
    }

    // A device-resident result of many columns is downloaded as a whole, at the end.
    static std::vector<StreamedOperand> stores_of(const Region &region, const Operands &operands) {
        if (operands.of(1).d_data != nullptr && region.slabs.inner > 1) return {};
        return operands.stores(1);
    }

    void launch_tiles(const ScanParams &params, cudaStream_t stream) const {
        const unsigned tiles = tiles_of(params);
        if (in_order) {
            device::upsweep_tiles<Op><<<tiles, device::TILE_THREADS, 0, stream>>>(params);
            PK_CUDA(cudaGetLastError());
            launch_prefixes(params, stream);
        }
        device::downsweep_tiles<Op><<<tiles, device::TILE_THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void launch_columns(const ScanParams &params, cudaStream_t stream) const {
        const int64_t segments = params.scan_blocks * params.segments_per_block * params.inner;
        if (params.segments_per_block > 1 || in_order) {
            device::upsweep_segments<Op><<<blocks(segments), device::THREADS, 0, stream>>>(params);
            PK_CUDA(cudaGetLastError());
        }
        if (in_order) {
            device::upsweep_blocks<Op>
                <<<blocks(params.scan_blocks * params.inner), device::THREADS, 0, stream>>>(params);
            PK_CUDA(cudaGetLastError());
            launch_prefixes(params, stream);
        }
        device::downsweep_segments<Op><<<blocks(segments), device::THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    // Enqueue the kernels that turn the blocks' totals into their prefixes.
    void launch_prefixes(const ScanParams &params, cudaStream_t stream) const {
        const int64_t threads = params.group_count * params.inner;
        const int64_t slabs =
            ceil_div(params.first_group + params.group_count, params.groups_per_slab) - params.first_slab;
        device::upsweep_groups<Op><<<blocks(threads), device::THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
        device::prefix_groups<Op><<<blocks(slabs * params.inner), device::THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
        device::prefix_blocks<Op><<<blocks(threads), device::THREADS, 0, stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    static unsigned blocks(int64_t threads) { return grid_for(threads, device::THREADS); }

    ScanParams params_for(const Chunk &chunk) const {
        ScanParams params{};
        params.from = operands_.d_data(*this, chunk, 0);
        params.to = operands_.d_data(*this, chunk, 1);
        params.exceptions = reinterpret_cast<unsigned *>(chunk.d_memory);
        params.start = chunk.start;
        params.length = slabs_.length;
        params.inner = slabs_.inner;
        params.blocks = slabs_.blocks();
        params.segments_per_block = segments_of(std::min(slabs_.length, Slabs::BLOCK));
        const Slabs::WorkUnit first = slabs_.unit(chunk.units.start);
        params.first_slab = first.slab;
        params.first_block = first.block;
        params.blocks_per_tile = device::blocks_per_tile(slabs_.length);
        params.scan_blocks = in_order ? chunk.units.count : chunk.count / (slabs_.length * slabs_.inner);
        params.segments = chunk.d_memory + chunk.scratch;
        params.totals = static_cast<State *>(params.segments) +
                        params.scan_blocks * params.segments_per_block * params.inner;
        params.groups = static_cast<State *>(params.totals) + params.scan_blocks * params.inner;
        params.carries = chunk.d_state;
        params.groups_per_slab = ceil_div(slabs_.blocks(), GROUP);
        params.first_group = first.slab * params.groups_per_slab + first.block / GROUP;
        const Slabs::WorkUnit last = slabs_.unit(chunk.units.start + chunk.units.count - 1);
        params.group_count = last.slab * params.groups_per_slab + last.block / GROUP + 1 - params.first_group;
        params.instead_of_nan = request_.instead_of_nan;
        params.from_type = request_.from;
        params.to_type = request_.to;
        params.flipped = flipped_bits(request_.kind);
        params.narrows = request_.narrows();
        params.skips_nan = request_.skips_nan;
        params.is_exclusive = request_.is_exclusive;
        params.reports = request_.reports();
        return params;
    }

    const Request &request_;
    const Slabs slabs_;
    const Operands &operands_;
    Call &call_;
};

// Return true if the operands may be the same memory. An element is read before it is overwritten, unless
// part of a column may have to be scanned again (DoubleSum::must_run).
bool may_overlap(const Request &request, const Region &region) {
    const View &from = region.layout.views[0], &to = region.layout.views[1];
    return from.base == to.base && from.item == to.item &&
           (region.slabs.inner == 1 || request.kind != double_sum);
}

// Return the operands' memory ranges, and whether these may be device-resident. One column may be scanned
// wherever its operands are; many columns only where all operands are resident, since rows of chunks would be
// short.
std::vector<MemoryRange> memory_ranges_of(const Request &request, const ExecutionContext &context) {
    const Region &region = request.undivided;
    const Layout &layout = region.layout;
    std::vector<MemoryRange> memory_ranges{{layout, layout.views[0], false}, {layout, layout.views[1], true}};
    const bool overlap =
        memory_ranges[0].low < memory_ranges[1].high && memory_ranges[1].low < memory_ranges[0].high;
    bool may_be_resident = !overlap || may_overlap(request, region);
    if (context.is_on_device) {
        require(memory_ranges[0].may_be_resident && memory_ranges[1].may_be_resident,
                "arrays to scan on a device must be contiguous");
        if (!may_be_resident) {
            fail(PK_UNSUPPORTED,
                 "columns of float64 on a device cannot be summed in place: pass another output");
        }
        return memory_ranges;
    }
    if (region.slabs.inner > 1) {
        const bool fits = scratch_of(region.slabs) * region.slabs.max_elements() <=
                          DevicePool::staging_budget() / BUDGET_SHARE;
        may_be_resident = may_be_resident && fits && all_resident(memory_ranges, context);
    }
    for (MemoryRange &memory_range : memory_ranges) {
        memory_range.may_be_resident = memory_range.may_be_resident && may_be_resident;
        memory_range.may_upload_by_chunk = region.slabs.inner == 1;
    }
    return memory_ranges;
}

// Return the context of a scan. Carries from chunk to chunk are on one device.
ExecutionContext context_of(const Located<Request> &request, Call &call) {
    if (request.device < 0 && request.undivided.slabs.blocks() > 1)
        return ExecutionContext::on_first_device(call);
    return ExecutionContext(call, request.device);
}

void launch(const Located<Request> &request, Call &call) {
    const ExecutionContext context = context_of(request, call);
    Operands operands(memory_ranges_of(request, context), call, context);
    const bool is_on_host = operands.of(0).d_data == nullptr && operands.of(1).d_data == nullptr;
    const std::vector<Region> regions = is_on_host ? request.regions : std::vector<Region>{request.undivided};
    // Chunks of a resident result of many columns would be short rows: it is downloaded as a whole.
    if (!is_on_host && request.undivided.slabs.inner > 1) operands.d_result(1);
    for (const Region &region : regions) {
        visit_flipped_op(request.kind, [&](auto op) {
            ScanAlgorithm<decltype(op)> algorithm(request, region, operands, call);
            execute(algorithm, operands, call, context);
        });
    }
    operands.commit();
}

}  // namespace
}  // namespace pk::scan

extern "C" int32_t pk_scan(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
                           int64_t dimensions, int64_t outer, int64_t rows, const pk_options *options,
                           pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::Located<pk::scan::Request>(operation, flags, operands, shape, dimensions, outer, rows,
                                                  PK_OPERAND_BYTE_SWAPPED | PK_ON_DEVICE);
        },
        pk::scan::launch);
}
