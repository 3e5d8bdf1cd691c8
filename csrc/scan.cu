#include <optional>

#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"
#include "cuda/residency/workspace.h"
#include "cuda/runtime/stream_memory.h"
#include "cuda/scan/block_prefix.cuh"
#include "cuda/scan/column_scan.cuh"
#include "cuda/scan/tile_scan.cuh"

namespace pk::scan {

namespace {

// Of the device's budget, a chunk of one unit may take that part.
constexpr int64_t ROOM = 4;

// Bytes of an element for the states of segments and blocks, where these are kept.
int64_t scratch_of(const Slabs &slabs) {
    return slabs.blocks() > 1 || (slabs.inner > 1 && slabs.length > SEGMENT) ? 1 : 0;
}

// The extremes are one operation, on terms some of whose bits are flipped.
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

template <class Op>
class Scanner : public Work {
    using State = typename Op::State;
    // A state for each segment, one for each block and one for its group take less than a byte an element.
    static_assert(2 * sizeof(State) * (SEGMENTS + 2) <= Slabs::BLOCK && 2 * sizeof(State) <= SEGMENT,
                  "the scratch of a chunk has no room for its states");

   public:
    // Without a device, what runs on from chunk to chunk is the caller's, as queue() says.
    Scanner(const Request &request, const Region &region, const plan::Homes &homes, Call &call,
            std::optional<int> device)
        : Work(region.layout, homes.loads({0}), stores_of(region, homes), sizeof(unsigned),
               scratch_of(region.slabs)),
          request_(request),
          slabs_(region.slabs),
          homes_(homes),
          call_(call) {
        unit_elements = slabs_.most_elements();
        in_order = slabs_.blocks() > 1;
        if (!in_order || !device) return;
        const CurrentDevice current(*device);
        block_.emplace(*device, carries_bytes());
        if (block_->memory() == nullptr) {
            fail(PK_OUT_OF_MEMORY,
                 "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left for a scan");
        }
        carries_ = block_->memory();
    }

    int64_t units() const override { return slabs_.units(); }
    int64_t start(int64_t unit) const override { return slabs_.start(unit); }

    void launch(const Chunk &chunk) override {
        const Given given = given_of(chunk);
        if (slabs_.inner == 1) {
            launch_tiles(given, chunk.queue);
        } else {
            launch_columns(given, chunk.queue);
        }
    }

    // All at once, of what lies on a device, with so much memory.
    int64_t bytes_there() const { return states_at() + states_bytes(); }
    void queue(const Line &line, char *memory) {
        carries_ = memory;
        PK_CUDA(cudaMemsetAsync(memory, 0, size_t(states_at()), line.stream));
        Chunk chunk{};
        chunk.units = {0, units()};
        chunk.count = start(units());
        chunk.rounded = Chunk::round_up(chunk.count);
        chunk.memory = memory + notes_at();
        chunk.scratch = states_at() - notes_at();
        chunk.queue = line.stream;
        launch(chunk);
    }

    void collect(const void *notes) override {
        call_.report.exceptions |= *static_cast<const unsigned *>(notes);
    }

   private:
    static unsigned tiles_of(const Given &given) {
        return unsigned((given.parts + given.parts_a_tile - 1) / given.parts_a_tile);
    }

    // A result of many columns, of which chunks are long, goes down when all of it is at home.
    static std::vector<Carried> stores_of(const Region &region, const plan::Homes &homes) {
        if (homes.of(1).at != nullptr && region.slabs.inner > 1) return {};
        return homes.stores(1);
    }

    int64_t carries_bytes() const { return slabs_.inner * int64_t(sizeof(Carry<Op>)); }
    // In the memory of queue(): the carries, what is met, and the states of segments, parts and groups.
    int64_t notes_at() const { return Chunk::round_up(carries_bytes()); }
    int64_t states_at() const { return notes_at() + Chunk::ROUND; }
    int64_t states_bytes() const {
        const int64_t a_part = segments_of(std::min(slabs_.length, Slabs::BLOCK)) + 2;
        return slabs_.count * slabs_.blocks() * a_part * slabs_.inner * int64_t(sizeof(State));
    }

    void launch_tiles(const Given &given, cudaStream_t queue) const {
        const unsigned tiles = tiles_of(given);
        if (in_order) {
            device::total_tiles<Op><<<tiles, device::TILE_THREADS, 0, queue>>>(given);
            PK_CUDA(cudaGetLastError());
            launch_groups(given, queue);
        }
        device::run_tiles<Op><<<tiles, device::TILE_THREADS, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    void launch_columns(const Given &given, cudaStream_t queue) const {
        const int64_t segments = given.parts * given.segments_a_part * given.inner;
        if (given.segments_a_part > 1 || in_order) {
            device::total_segments<Op><<<blocks(segments), device::THREADS, 0, queue>>>(given);
            PK_CUDA(cudaGetLastError());
        }
        if (in_order) {
            device::total_parts<Op><<<blocks(given.parts * given.inner), device::THREADS, 0, queue>>>(given);
            PK_CUDA(cudaGetLastError());
            launch_groups(given, queue);
        }
        device::run_segments<Op><<<blocks(segments), device::THREADS, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    // Makes of the parts' totals what is before each.
    void launch_groups(const Given &given, cudaStream_t queue) const {
        const int64_t threads = given.group_count * given.inner;
        const int64_t slabs =
            (given.first_group + given.group_count - 1) / given.groups_a_slab + 1 - given.first_slab;
        device::total_groups<Op><<<blocks(threads), device::THREADS, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
        device::run_groups<Op><<<blocks(slabs * given.inner), device::THREADS, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
        device::run_parts<Op><<<blocks(threads), device::THREADS, 0, queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    static unsigned blocks(int64_t threads) {
        return unsigned((threads + device::THREADS - 1) / device::THREADS);
    }

    Given given_of(const Chunk &chunk) const {
        Given given{};
        given.from = homes_.at(*this, chunk, 0);
        given.to = homes_.at(*this, chunk, 1);
        given.met = reinterpret_cast<unsigned *>(chunk.memory);
        given.start = chunk.start;
        given.length = slabs_.length;
        given.inner = slabs_.inner;
        given.blocks = slabs_.blocks();
        given.segments_a_part = segments_of(std::min(slabs_.length, Slabs::BLOCK));
        const Slabs::Unit first = slabs_.unit(chunk.units.start);
        given.first_slab = first.slab;
        given.first_block = first.block;
        given.parts_a_tile = device::parts_a_tile(slabs_.length);
        given.parts = in_order ? chunk.units.count : chunk.count / (slabs_.length * slabs_.inner);
        given.segments = chunk.memory + chunk.scratch;
        given.totals =
            static_cast<State *>(given.segments) + given.parts * given.segments_a_part * given.inner;
        given.groups = static_cast<State *>(given.totals) + given.parts * given.inner;
        given.carries = carries_;
        given.groups_a_slab = (slabs_.blocks() + GROUP - 1) / GROUP;
        given.first_group = first.slab * given.groups_a_slab + first.block / GROUP;
        const Slabs::Unit last = slabs_.unit(chunk.units.start + chunk.units.count - 1);
        given.group_count = last.slab * given.groups_a_slab + last.block / GROUP + 1 - given.first_group;
        given.instead_of_nan = request_.instead_of_nan;
        given.from_type = request_.from;
        given.to_type = request_.to;
        given.flipped = flipped_bits(request_.kind);
        given.narrows = request_.narrows();
        given.skips_nan = request_.skips_nan;
        given.is_exclusive = request_.is_exclusive;
        given.reports = request_.reports();
        return given;
    }

    const Request &request_;
    const Slabs slabs_;
    const plan::Homes &homes_;
    Call &call_;
    std::optional<Block> block_;
    char *carries_ = nullptr;  // up to the chunk that is next
};

void scan_region(const Request &request, const Region &region, const plan::Homes &homes, Call &call,
                 const std::vector<int> &asked) {
    visit_flipped_op(request.kind, [&](auto op) {
        Scanner<decltype(op)> scanner(request, region, homes, call, asked.front());
        // What runs on from chunk to chunk stays on one device.
        const size_t devices = scanner.in_order ? 1 : asked.size();
        stream(scanner, call, {asked.begin(), asked.begin() + int64_t(devices)}, {{0, scanner.units()}});
    });
}

// A scan in place goes along its columns after it has read what it writes, unless it has to run through a
// part of one again.
bool may_overlap(const Request &request, const Region &region) {
    const View &from = region.layout.views[0], &to = region.layout.views[1];
    return from.base == to.base && from.item == to.item &&
           (region.slabs.inner == 1 || request.kind != double_sum);
}

// The homes that its operands may have. A column is scanned wherever its operands are, many columns where all
// of them are at home: in chunks, their rows would be short.
std::vector<plan::Span> spans_of(const Request &request, const std::vector<int> &asked) {
    const Region &region = request.undivided;
    const Layout &layout = region.layout;
    std::vector<plan::Span> spans{{layout, layout.views[0], false}, {layout, layout.views[1], true}};
    const bool overlap = spans[0].low < spans[1].high && spans[1].low < spans[0].high;
    bool may_be_home = !overlap || may_overlap(request, region);
    if (region.slabs.inner > 1) {
        const bool fits = scratch_of(region.slabs) * region.slabs.most_elements() <=
                          streaming_memory().device_budget / ROOM;
        may_be_home = may_be_home && fits && plan::have_homes(spans, asked);
    }
    for (plan::Span &span : spans) {
        span.may_be_home = span.may_be_home && may_be_home;
        span.may_arrive = region.slabs.inner == 1;
    }
    return spans;
}

// A request, and the device that its operands lie on: -1 is the host.
struct Located : Request {
    template <class... Given>
    explicit Located(Given... given) : Request(given...), device(device_of(undivided.layout)) {
        const std::vector<View> &views = undivided.layout.views;
        require(views[0].on_device == views[1].on_device,
                "one operand lies on a device, and the other does not");
    }
    const int device;
};

// In a line, of operands that lie there.
void queue(const Request &request, const plan::Homes &homes, const Line &line, Call &call) {
    visit_flipped_op(request.kind, [&](auto op) {
        Scanner<decltype(op)> scanner(request, request.undivided, homes, call, std::nullopt);
        require(scanner.is_at_home(), "what is scanned on a device is dense");
        const plan::Workspace memory(line, scanner.bytes_there());
        scanner.queue(line, memory.get());
    });
}

// Of arrays on a device, in their stream.
void queue_there(const Located &request, Call &call) {
    const Queued queued(request.device, call);
    const plan::Homes homes(plan::Homes::Callers(), request.undivided.layout, call);
    require(homes.of(0).dense && homes.of(1).dense, "what is scanned on a device is dense");
    if (homes.of(0).at == homes.of(1).at && !may_overlap(request, request.undivided))
        fail(PK_UNSUPPORTED, "columns of float64 on a device are not summed in place");
    queue(request, homes, queued, call);
    queued.end();
}

void launch(const Located &request, Call &call) {
    if (request.device >= 0) return queue_there(request, call);
    const std::vector<int> asked = devices_of(call);
    const Line *const line = Line::on(asked);
    plan::Homes homes(spans_of(request, asked), call, asked, true);
    const plan::Home from = homes.of(0), to = homes.of(1);
    const bool are_there = from.at != nullptr && !from.arrives && to.at != nullptr && !to.leaves;
    if (line != nullptr && are_there) {
        const CurrentDevice current(line->device);
        queue(request, homes, *line, call);
        call.advance(request.undivided.layout.size);
    } else if (homes.of(0).at == nullptr && to.at == nullptr) {
        for (const Region &region : request.regions) scan_region(request, region, homes, call, asked);
    } else {
        const Region &region = request.undivided;
        scan_region(request, region, homes, call, asked);
        if (region.slabs.inner > 1 && to.leaves) {
            const View &view = region.layout.views[1];
            plan::bring_down(0, to.at, view.base, region.layout.size * view.item, call);
        }
    }
    homes.settle();
}

}  // namespace
}  // namespace pk::scan

extern "C" int32_t pk_scan(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
                           int64_t dimensions, int64_t outer, int64_t rows, const pk_options *options,
                           pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::scan::Located(operation, flags, operands, shape, dimensions, outer, rows,
                                     PK_BYTE_SWAPPED | PK_ON_DEVICE);
        },
        pk::scan::launch);
}
