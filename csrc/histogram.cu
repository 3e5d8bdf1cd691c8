#include <algorithm>

#include "common/histogram.h"
#include "cuda/histogram/kernels.cuh"
#include "cuda/stream/resident.h"
#include "cuda/stream/stream.h"

namespace pk {

namespace {

namespace device = histogram::device;

constexpr int THREADS = 256;

unsigned blocks_for(int64_t count) {
    constexpr int64_t EACH = 8, MOST = 512;  // elements of a thread; blocks, each of which has a table to add
    return unsigned(std::clamp<int64_t>(count / (THREADS * EACH), 1, MOST));
}

// Adds the edges to what stays on the devices; returns where, -1 if there are none.
int64_t keep_edges(Resident &resident, const pk_bins &given) {
    if (given.how == PK_BY_VALUE) return -1;
    const int64_t item = given.type == PK_FLOAT16 || given.type == PK_FLOAT32 ? 4 : 8;
    return resident.add(reinterpret_cast<const void *>(given.edges), item * (given.count + 1));
}

device::Axis axis_on(const char *resident, const pk_bins &given, int64_t edges_at, int64_t offset, int type) {
    device::Axis axis{given, offset, type};
    axis.bins.edges = edges_at < 0 ? 0 : reinterpret_cast<uint64_t>(resident + edges_at);
    return axis;
}

// Counts values of a layout; what is in the table, which is zero at first, comes back with finish().
class Counter : public Work {
   public:
    Counter(const Layout &layout, const pk_bins *bins, int64_t axes, const int *types, int64_t total,
            int64_t *table, Call &call, const std::vector<int> &devices)
        : Work(layout, loads_of(axes), {}, 0, 0),
          bins_(bins),
          types_(types, types + axes),
          total_(total),
          table_(table),
          call_(call),
          devices_(devices) {
        for (int64_t i = 0; i < axes; ++i) edges_at_.push_back(keep_edges(resident_, bins[i]));
        table_at_ = resident_.add(table, table_bytes());
        has_room = resident_.upload(call, devices);
        counts_bytes_ = axes == 1 && types_[0] == PK_UINT8 && bins[0].how == PK_BY_VALUE && total == 256;
        walks = counts_bytes_ || takes_lines();
        while (copies_ != 0 && copies_ * (total + 1) > SHARED) copies_ /= 2;
    }

    void launch(const Chunk &chunk) override {
        int64_t offsets[2] = {};
        for (size_t i = 0; i < loads.size(); ++i) offsets[i] = chunk.operand(loads[i]);
        launch_on(resident_.on(chunk.device), chunk.memory, offsets, chunk.count, chunk.queue);
    }

    // For all elements of one axis, which are on the first device.
    void launch_all(const char *elements, cudaStream_t queue) const {
        const int64_t offset = 0;
        launch_on(resident_.on(0), elements, &offset, layout.size, queue);
    }

    void collect(const void *) override {}

    // Once every chunk was computed.
    void finish() {
        std::vector<int64_t> one(size_t(total_ + 2));
        for (size_t place = 0; place < devices_.size(); ++place) {
            const CurrentDevice current(devices_[place]);
            const char *const from = resident_.on(int(place)) + table_at_;
            PK_CUDA(cudaMemcpy(one.data(), from, size_t(table_bytes()), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < one.size(); ++i) table_[i] += one[i];
            call_.report.bytes_down += table_bytes();
        }
        table_[total_ + 1] = table_[total_ + 1] != 0;
    }

    bool has_room = false;

   private:
    static constexpr int64_t SHARED = 10 << 10;  // counts in a block's shared memory

    static std::vector<Carried> loads_of(int64_t axes) {
        std::vector<Carried> loads;
        for (int64_t i = 0; i < axes; ++i) loads.push_back({int(i), 0});
        return loads;
    }
    void launch_on(char *resident, const char *memory, const int64_t *offsets, int64_t count,
                   cudaStream_t queue) const {
        device::Tally given{};
        given.axis_count = int32_t(loads.size());
        for (size_t i = 0; i < loads.size(); ++i) {
            given.axes[i] = axis_on(resident, bins_[i], edges_at_[i], offsets[i], types_[i]);
        }
        given.total = int32_t(total_);
        given.copies = int32_t(copies_);
        given.memory = memory;
        given.count = count;
        given.table = reinterpret_cast<unsigned long long *>(resident + table_at_);
        const size_t shared_bytes = size_t(copies_ * (total_ + 1)) * sizeof(uint32_t);
        if (counts_bytes_) {
            device::count_bytes<<<blocks_for(count / 4), THREADS, shared_bytes, queue>>>(given);
        } else {
            device::count<<<blocks_for(count), THREADS, shared_bytes, queue>>>(given);
        }
        PK_CUDA(cudaGetLastError());
    }

    int64_t table_bytes() const { return (total_ + 2) * int64_t(sizeof(int64_t)); }

    const pk_bins *const bins_;
    const std::vector<int> types_;
    const int64_t total_;
    int64_t *const table_;
    Call &call_;
    const std::vector<int> &devices_;
    int64_t copies_ = 8;
    bool counts_bytes_ = false;
    Resident resident_;
    std::vector<int64_t> edges_at_;
    int64_t table_at_ = 0;
};

class Digitizer : public Work {
   public:
    Digitizer(const DigitizeRequest &request, Call &call, const std::vector<int> &devices)
        : Work(request.layout, {{0, 0}}, {{1, 0}}, 0, 0),
          bins_(*request.bins),
          right_(request.right),
          decreasing_(request.decreasing) {
        edges_at_ = keep_edges(resident_, bins_);
        has_room = resident_.upload(call, devices);
    }

    void launch(const Chunk &chunk) override {
        const int type = layout.views[0].type;
        const device::Search given{
            axis_on(resident_.on(chunk.device), bins_, edges_at_, chunk.operand(loads[0]), type),
            !right_,
            decreasing_,
            chunk.memory,
            chunk.count,
            chunk.operand(stores[0]),
        };
        device::digitize<<<blocks_for(chunk.count), THREADS, 0, chunk.queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

    bool has_room = false;

   private:
    const pk_bins &bins_;
    const bool right_, decreasing_;
    Resident resident_;
    int64_t edges_at_ = 0;
};

// Takes all elements to a device, where they stay, and finds the extent.
class Keeper : public Work {
   public:
    Keeper(const Layout &layout, Call &call, const std::vector<int> &devices)
        : Work(layout, {{0, 0}}, {}, 0, 0), data_(block_on(devices[0], layout.size * layout.views[0].item)) {
        if (data_.memory() == nullptr) return;
        walks = takes_lines();
        keys_at_ = resident_.add(keys, sizeof(keys));
        has_room = resident_.upload(call, devices);
    }

    void launch(const Chunk &chunk) override {
        const View &view = layout.views[0];
        const device::Keep given{
            axis_on(nullptr, pk_bins{}, -1, chunk.operand(loads[0]), view.type),
            chunk.memory,
            data() + chunk.start * view.item,
            chunk.count,
            reinterpret_cast<long long *>(resident_.on(chunk.device) + keys_at_),
        };
        device::keep<<<blocks_for(chunk.count), THREADS, 0, chunk.queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

    // Once every chunk was computed.
    void finish() {
        PK_CUDA(cudaMemcpy(keys, resident_.on(0) + keys_at_, sizeof(keys), cudaMemcpyDeviceToHost));
    }

    char *data() const { return data_.memory(); }

    bool has_room = false;
    int64_t keys[2] = {INT64_MAX, INT64_MIN};

   private:
    static Block block_on(int device, int64_t bytes) {
        const CurrentDevice current(device);
        return Block(device, bytes);
    }

    const Block data_;
    Resident resident_;
    int64_t keys_at_ = 0;
};

// A queue whose work is done when it ends, whatever failed.
struct OwnQueue {
    Stream queue = stream();
    ~OwnQueue() { (void)cudaStreamSynchronize(queue.get()); }
};

const BinLoops &host_loops() { return plain_bin_loops(); }

// Each byte's value is counted, and looked up once. Returns whether a device has room.
bool count_bytes(const Counting &counting, Call &call, const std::vector<int> &devices, int64_t *counts) {
    int64_t of_byte[256 + 2] = {};
    pk_bins bytes{};
    bytes.how = PK_BY_VALUE;
    bytes.count = 256;
    const int type = PK_UINT8;
    Counter counter(counting.layout, &bytes, 1, &type, 256, of_byte, call, devices);
    if (!counter.has_room) return false;
    stream(counter, call, devices, {{0, counting.layout.size}});
    counter.finish();
    count_values(counting.bins[0], counting.view(0).type, host_loops(), of_byte, counts);
    return true;
}

bool count_elements(const Counting &counting, Call &call, const std::vector<int> &devices, int64_t *counts) {
    const int types[2] = {counting.view(0).type, counting.axes == 2 ? counting.view(1).type : 0};
    Counter counter(counting.layout, counting.bins, counting.axes, types, counting.total, counts, call,
                    devices);
    if (!counter.has_room) return false;
    stream(counter, call, devices, {{0, counting.layout.size}});
    counter.finish();
    return true;
}

// Where a device has no room for all bins, the host counts.
void count(const Counting &counting, Call &call, int64_t *counts) {
    std::fill_n(counts, counting.total + 2, int64_t(0));
    const std::vector<int> devices = devices_of(call);
    if (counting.layout.size == 0) return;
    const bool are_bytes = counting.axes == 1 && counting.view(0).item == 1;
    const bool counted = are_bytes ? count_bytes(counting, call, devices, counts)
                                   : count_elements(counting, call, devices, counts);
    if (!counted) count_on_host(counting, host_loops(), call, counts);
}

// Between the extremes of elements that stay on a device. Returns whether it has room.
bool count_kept(const HistogramOfExtentRequest &request, Call &call, const std::vector<int> &devices) {
    const int type = request.type();
    if (devices.size() != 1 || request.layout.views[0].item == 1) return false;
    Keeper keeper(request.layout, call, devices);
    if (!keeper.has_room) return false;
    stream(keeper, call, devices, {{0, request.layout.size}});
    const CurrentDevice current(devices[0]);
    keeper.finish();
    uint64_t extent[2];
    extent_of_keys(type, keeper.keys[0], keeper.keys[1], extent);
    const pk_bins found = request.found_bins(extent);
    std::fill_n(request.counts, request.count + 2, int64_t(0));
    Counter counter(request.layout, &found, 1, &type, request.count, request.counts, call, devices);
    if (!counter.has_room) return false;
    const OwnQueue own;
    counter.launch_all(keeper.data(), own.queue.get());
    PK_CUDA(cudaStreamSynchronize(own.queue.get()));
    counter.finish();
    return true;
}

void launch_extent(const ExtentRequest &request, Call &call) {
    extent_on_host(request.layout, host_loops(), call, request.extent);
}

void launch_histogram(const HistogramRequest &request, Call &call) {
    if (request.has_weights) {
        count_weights(request, host_loops(), call, request.counts);
    } else {
        count(request, call, request.counts);
    }
}

void launch_histogram_of_extent(const HistogramOfExtentRequest &request, Call &call) {
    if (count_kept(request, call, devices_of(call))) return;
    uint64_t extent[2];
    extent_on_host(request.layout, host_loops(), call, extent);
    const pk_bins found = request.found_bins(extent);
    count(request.counting(found), call, request.counts);
}

void launch_weighted_histogram(const WeightedHistogramRequest &request, Call &call) {
    add_weights(request, host_loops(), call, request.sums, request.outside);
}

void launch_digitize(const DigitizeRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (request.layout.size == 0) return;
    Digitizer digitizer(request, call, devices);
    if (!digitizer.has_room) return digitize_on_host(request, host_loops(), call);
    stream(digitizer, call, devices, {{0, request.layout.size}});
}

}  // namespace

}  // namespace pk

extern "C" int32_t pk_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                             uint64_t *extent, const pk_options *options, pk_report *report) {
    return pk::called(
        options, report, [&] { return pk::ExtentRequest(operand, shape, dimensions, extent); },
        pk::launch_extent);
}

extern "C" int32_t pk_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,
                                const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] { return pk::HistogramRequest(operands, operand_count, shape, dimensions, bins, axes, counts); },
        pk::launch_histogram);
}

extern "C" int32_t pk_histogram_of_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                                          uint64_t find, int64_t count, int64_t *counts,
                                          const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] { return pk::HistogramOfExtentRequest(operand, shape, dimensions, find, count, counts); },
        pk::launch_histogram_of_extent);
}

extern "C" int32_t pk_weighted_histogram(const pk_operand *operands, int64_t operand_count,
                                         const int64_t *shape, int64_t dimensions, const pk_bins *bins,
                                         int64_t axes, double *sums, int64_t *outside,
                                         const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::WeightedHistogramRequest(operands, operand_count, shape, dimensions, bins, axes, sums,
                                                outside);
        },
        pk::launch_weighted_histogram);
}

extern "C" int32_t pk_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                               const pk_bins *bins, int32_t right, int32_t decreasing,
                               const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] { return pk::DigitizeRequest(operands, shape, dimensions, bins, right != 0, decreasing != 0); },
        pk::launch_digitize);
}
