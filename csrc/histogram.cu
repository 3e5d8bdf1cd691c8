#include "common/histogram.h"

#include "cuda/histogram/weighted.cuh"

namespace pk::histogram {

namespace {

const BinLoops &host_loops() { return plain_bin_loops(); }

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

// Queues it in the thread's line, where the counts and the edges are at home, too.
void count_in_line(const HistogramRequest &request, const Spans &spans, int results, Call &call,
                   const Line &line) {
    const CurrentDevice current(line.device);
    const std::vector<int> devices{line.device};
    plan::Homes homes(spans.all, call, devices, true);
    char *const table = homes.of(results).at;
    PK_CUDA(cudaMemsetAsync(table, 0, size_t(request.total + 2) * sizeof(int64_t), line.stream));
    const int types[2] = {request.view(0).type, request.axes == 2 ? request.view(1).type : 0};
    Counter counter(request.layout, request.bins, request.axes, types, request.total, nullptr, homes, call,
                    devices, {&spans, table});
    stream(counter, call, devices, {{0, request.layout.size}});
    homes.settle();
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

// Returns whether all lies there, and a device has room.
bool histogram_in_line(const HistogramRequest &request, Call &call, const std::vector<int> &devices) {
    const int64_t values = request.axes + request.has_weights, total = request.total;
    Spans spans(request.layout, values, request.bins, request.axes, true);
    const int results = spans.add_results(request.counts, total + 2, true);
    const Line *const line = request.layout.size == 0 ? nullptr : plan::line_of(spans.all, devices);
    if (line == nullptr) return false;
    if (!request.has_weights) {
        count_in_line(request, spans, results, call, *line);
        return true;
    }
    auto add = [&](auto sum) {
        return add_in_line<decltype(sum), uint64_t>(request, spans, results, results, total * 8, call, *line);
    };
    return request.adds_in_floats() ? add(double()) : add(uint64_t());
}

void launch_histogram(const HistogramRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (histogram_in_line(request, call, devices)) return;
    const int64_t total = request.total;
    Spans spans(request.layout, request.axes + request.has_weights, request.bins, request.axes, false);
    spans.add_results(request.counts, total + 2, false);
    if (request.has_weights) {
        auto *const sums = reinterpret_cast<uint64_t *>(request.counts);
        int64_t *const outside = request.counts + total;
        return weigh(
            request, spans.all, call,
            [&](const plan::Homes &homes, int device) {
                return request.adds_in_floats()
                           ? add_there<double>(request, homes, call, device, sums, outside)
                           : add_there<uint64_t>(request, homes, call, device, sums, outside);
            },
            [&] { count_weights(request, host_loops(), call, request.counts); });
    }
    plan::Homes homes(spans.all, call, devices);
    count(request, spans.all, homes, call, devices, request.counts);
    homes.settle();
}

void launch_histogram_of_extent(const HistogramOfExtentRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    Spans spans(request.layout, 1, nullptr, 0, false);
    spans.add_results(request.counts, request.count + 2, false);
    plan::Homes homes(spans.all, call, devices);
    if (!count_kept(request, homes, call, devices)) {
        bring_down(spans.all, call);
        uint64_t extent[2];
        extent_on_host(request.layout, host_loops(), call, extent);
        const pk_bins found = request.found_bins(extent);
        count(request.counting(found), spans.all, homes, call, devices, request.counts);
    }
    homes.settle();
}

void launch_weighted_histogram(const WeightedHistogramRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    auto spans_of = [&](bool is_there) {
        Spans spans(request.layout, request.axes + 1, request.bins, request.axes, is_there);
        spans.add_results(request.sums, request.total, is_there);
        spans.add_results(request.outside, 2, is_there);
        return spans;
    };
    {
        const Spans there = spans_of(true);
        const Line *const line = request.layout.size == 0 ? nullptr : plan::line_of(there.all, devices);
        const int outside = int(there.all.size()) - 1;
        if (line != nullptr &&
            add_in_line<double, double>(request, there, outside - 1, outside, 0, call, *line))
            return;
    }
    weigh(
        request, spans_of(false).all, call,
        [&](const plan::Homes &homes, int device) {
            return add_there<double>(request, homes, call, device, request.sums, request.outside);
        },
        [&] { add_weights(request, host_loops(), call, request.sums, request.outside); });
}

void launch_digitize(const DigitizeRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (request.layout.size == 0) return;
    const plan::Span edges_span(reinterpret_cast<const void *>(request.bins->edges),
                                edges_bytes(*request.bins), 8, false);
    const bool are_there = plan::have_homes({edges_span}, devices);
    if (!are_there) plan::bring_down({edges_span}, call);
    const std::vector<View> &views = request.layout.views;
    const plan::Span values(request.layout, views[0], false), places(request.layout, views[1], true);
    Resident resident;
    Edges edges;
    if (!are_there) edges = Edges(*request.bins, nullptr, resident);
    const bool has_room = resident.upload(call, devices);
    plan::Homes homes({values, places, edges_span}, call, has_room ? devices : std::vector<int>(), true);
    if (are_there) edges = Edges(*request.bins, homes.of(2).at, resident);
    if (has_room) {
        Digitizer digitizer(request, homes, resident, edges);
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
