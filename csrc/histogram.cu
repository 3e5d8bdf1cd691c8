#include "common/histogram.h"

#include "cuda/histogram/weights.cuh"

namespace pk::histogram {

namespace {

const BinLoops &host_loops() { return plain_bin_loops(); }

// What a call reads, of which kernels find the values at home, and what it writes on the host.
std::vector<plan::Span> spans_of(const Layout &layout, int64_t values, const void *results, int64_t count) {
    std::vector<plan::Span> spans;
    for (int64_t i = 0; i < values && layout.size != 0; ++i) {
        spans.emplace_back(layout, layout.views[size_t(i)], false);
        spans.back().item = std::max<int64_t>(spans.back().item, 4);  // bytes are read by words
    }
    spans.emplace_back(results, count * 8, 8, true, false);
    return spans;
}
std::vector<plan::Span> spans_of(const Counting &counting, const void *results, int64_t count) {
    const int64_t values = counting.axes + counting.has_weights;
    std::vector<plan::Span> spans = spans_of(counting.layout, values, results, count);
    for (int64_t i = 0; i < counting.axes; ++i) {
        const pk_bins &bins = counting.bins[i];
        if (bins.how == PK_BY_VALUE) continue;
        const auto *const edges = reinterpret_cast<const void *>(bins.edges);
        spans.emplace_back(edges, edges_bytes(bins), 8, false, false);
    }
    return spans;
}

// Each byte's value is counted, and looked up once. Returns whether a device has room.
bool count_bytes(const Counting &counting, const plan::Homes &homes, Call &call,
                 const std::vector<int> &devices, int64_t *counts) {
    int64_t of_byte[256 + 2] = {};
    pk_bins bytes{};
    bytes.how = PK_BY_VALUE;
    bytes.count = 256;
    const int type = PK_UINT8;
    Counter counter(counting.layout, &bytes, 1, &type, 256, of_byte, homes, call, devices);
    if (!counter.has_room) return false;
    stream(counter, call, devices, {{0, counting.layout.size}});
    counter.finish();
    count_values(counting.bins[0], counting.view(0).type, host_loops(), of_byte, counts);
    return true;
}

bool count_elements(const Counting &counting, const plan::Homes &homes, Call &call,
                    const std::vector<int> &devices, int64_t *counts) {
    const int types[2] = {counting.view(0).type, counting.axes == 2 ? counting.view(1).type : 0};
    Counter counter(counting.layout, counting.bins, counting.axes, types, counting.total, counts, homes, call,
                    devices);
    if (!counter.has_room) return false;
    stream(counter, call, devices, {{0, counting.layout.size}});
    counter.finish();
    return true;
}

// Where a device has no room for all bins, the host counts.
void count(const Counting &counting, const std::vector<plan::Span> &spans, const plan::Homes &homes,
           Call &call, const std::vector<int> &devices, int64_t *counts) {
    std::fill_n(counts, counting.total + 2, int64_t(0));
    if (counting.layout.size == 0) return;
    const bool are_bytes = counting.axes == 1 && counting.view(0).item == 1;
    const bool counted = are_bytes ? count_bytes(counting, homes, call, devices, counts)
                                   : count_elements(counting, homes, call, devices, counts);
    if (counted) return;
    bring_down(spans, call);
    count_on_host(counting, host_loops(), call, counts);
}

// Between the extremes of elements that stay on a device. Returns whether it has room.
bool count_kept(const HistogramOfExtentRequest &request, const plan::Homes &homes, Call &call,
                const std::vector<int> &devices) {
    const int type = request.type();
    const bool are_bytes = request.layout.views[0].item == 1;
    if (devices.size() != 1 || (are_bytes && homes.of(0).at == nullptr)) return false;
    Keeper keeper(request.layout, homes, call, devices);
    if (!keeper.has_room) return false;
    stream(keeper, call, devices, {{0, request.layout.size}});
    const CurrentDevice current(devices[0]);
    keeper.finish();
    uint64_t extent[2];
    extent_of_keys(type, keeper.keys[0], keeper.keys[1], extent);
    const pk_bins found = request.found_bins(extent);
    std::fill_n(request.counts, request.count + 2, int64_t(0));
    Counter counter(request.layout, &found, 1, &type, request.count, request.counts, homes, call, devices);
    if (!counter.has_room) return false;
    const OwnQueue own;
    counter.launch_all(keeper.data(), own.queue.get());
    PK_CUDA(cudaStreamSynchronize(own.queue.get()));
    counter.finish();
    return true;
}

void launch_extent(const ExtentRequest &request, Call &call) {
    std::vector<plan::Span> spans;
    if (request.layout.size != 0) spans.emplace_back(request.layout, request.layout.views[0], false);
    bring_down(spans, call);
    extent_on_host(request.layout, host_loops(), call, request.extent);
}

// Weights are added where they and the elements are at home, and else by the host's threads.
template <class There, class OnHost>
void weigh(const Counting &counting, const std::vector<plan::Span> &spans, Call &call, There add_there,
           OnHost add_on_host) {
    const std::vector<int> devices = devices_of(call);
    const auto operands = spans.begin() + (counting.layout.size == 0 ? 0 : counting.axes + 1);
    const bool are_there = operands != spans.begin() && plan::have_homes({spans.begin(), operands}, devices);
    plan::Homes homes(spans, call, are_there ? devices : std::vector<int>());
    if (!are_there || !add_there(homes, devices[0])) {
        bring_down(spans, call);
        add_on_host();
    }
    homes.settle();
}

void launch_histogram(const HistogramRequest &request, Call &call) {
    const std::vector<plan::Span> spans = spans_of(request, request.counts, request.total + 2);
    if (request.has_weights) {
        const bool in_floats = request.bins[0].how == PK_BY_WIDTH;
        auto *const sums = reinterpret_cast<uint64_t *>(request.counts);
        int64_t *const outside = request.counts + request.total;
        return weigh(
            request, spans, call,
            [&](const plan::Homes &homes, int device) {
                return in_floats ? add_there<double>(request, homes, call, device, sums, outside)
                                 : add_there<uint64_t>(request, homes, call, device, sums, outside);
            },
            [&] { count_weights(request, host_loops(), call, request.counts); });
    }
    const std::vector<int> devices = devices_of(call);
    plan::Homes homes(spans, call, devices);
    count(request, spans, homes, call, devices, request.counts);
    homes.settle();
}

void launch_histogram_of_extent(const HistogramOfExtentRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    const std::vector<plan::Span> spans = spans_of(request.layout, 1, request.counts, request.count + 2);
    plan::Homes homes(spans, call, devices);
    if (!count_kept(request, homes, call, devices)) {
        bring_down(spans, call);
        uint64_t extent[2];
        extent_on_host(request.layout, host_loops(), call, extent);
        const pk_bins found = request.found_bins(extent);
        count(request.counting(found), spans, homes, call, devices, request.counts);
    }
    homes.settle();
}

void launch_weighted_histogram(const WeightedHistogramRequest &request, Call &call) {
    std::vector<plan::Span> spans = spans_of(request, request.sums, request.total);
    spans.emplace_back(request.outside, 2 * int64_t(sizeof(int64_t)), 8, true, false);
    weigh(
        request, spans, call,
        [&](const plan::Homes &homes, int device) {
            return add_there<double>(request, homes, call, device, request.sums, request.outside);
        },
        [&] { add_weights(request, host_loops(), call, request.sums, request.outside); });
}

void launch_digitize(const DigitizeRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (request.layout.size == 0) return;
    const auto *const edges = reinterpret_cast<const void *>(request.bins->edges);
    plan::bring_down({{edges, edges_bytes(*request.bins), 8, false}}, call);
    Resident resident;
    const int64_t edges_at = keep_edges(resident, *request.bins);
    const bool has_room = resident.upload(call, devices);
    const std::vector<View> &views = request.layout.views;
    plan::Homes homes({{request.layout, views[0], false}, {request.layout, views[1], true}}, call,
                      has_room ? devices : std::vector<int>(), true);
    if (has_room) {
        Digitizer digitizer(request, homes, resident, edges_at);
        stream(digitizer, call, devices, {{0, request.layout.size}});
    } else {
        digitize_on_host(request, host_loops(), call);
    }
    homes.settle();
}

}  // namespace

}  // namespace pk::histogram

extern "C" int32_t pk_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                             uint64_t *extent, const pk_options *options, pk_report *report) {
    return pk::called(
        options, report, [&] { return pk::histogram::ExtentRequest(operand, shape, dimensions, extent); },
        pk::histogram::launch_extent);
}

extern "C" int32_t pk_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,
                                const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::histogram::HistogramRequest(operands, operand_count, shape, dimensions, bins, axes,
                                                   counts);
        },
        pk::histogram::launch_histogram);
}

extern "C" int32_t pk_histogram_of_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                                          uint64_t find, int64_t count, int64_t *counts,
                                          const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::histogram::HistogramOfExtentRequest(operand, shape, dimensions, find, count, counts);
        },
        pk::histogram::launch_histogram_of_extent);
}

extern "C" int32_t pk_weighted_histogram(const pk_operand *operands, int64_t operand_count,
                                         const int64_t *shape, int64_t dimensions, const pk_bins *bins,
                                         int64_t axes, double *sums, int64_t *outside,
                                         const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::histogram::WeightedHistogramRequest(operands, operand_count, shape, dimensions, bins,
                                                           axes, sums, outside);
        },
        pk::histogram::launch_weighted_histogram);
}

extern "C" int32_t pk_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                               const pk_bins *bins, int32_t right, int32_t decreasing,
                               const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::histogram::DigitizeRequest(operands, shape, dimensions, bins, right != 0,
                                                  decreasing != 0);
        },
        pk::histogram::launch_digitize);
}
