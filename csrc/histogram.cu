// The histogram entries on the CUDA engine: pk_extent, pk_histogram, pk_histogram_of_extent,
// pk_weighted_histogram and pk_digitize. If device memory is short, the host's loops compute them.
#include "common/histogram.h"

#include "cuda/histogram/weighted.cuh"

namespace pk::histogram {

namespace {

const BinLoops &host_loops() { return plain_bin_loops(); }

// Count elements of one byte: count each value of the byte, then find the bin of each of the 256 values on
// the host. Return false if there is no device memory.
bool count_bytes(const BinnedElements &counting, const plan::Operands &operands, Call &call,
                 const std::vector<int> &devices, int64_t *counts) {
    int64_t byte_counts[256 + 2] = {};
    pk_bins bytes{};
    bytes.kind = PK_BINS_INDEX;
    bytes.count = 256;
    const int type = PK_UINT8;
    HistogramAlgorithm counter(counting.layout, &bytes, 1, &type, 256, byte_counts, operands, call, devices);
    if (!counter.has_memory) return false;
    run_pipeline(counter, call, devices, {{0, counting.layout.size}});
    counter.finish();
    count_values(counting.bins[0], counting.view(0).type, host_loops(), byte_counts, counts);
    return true;
}

// Count elements of any dtype. Return false if there is no device memory.
bool count_elements(const BinnedElements &counting, const plan::Operands &operands, Call &call,
                    const std::vector<int> &devices, int64_t *counts) {
    const int types[2] = {counting.view(0).type, counting.axes == 2 ? counting.view(1).type : 0};
    HistogramAlgorithm counter(counting.layout, counting.bins, counting.axes, types, counting.total, counts,
                               operands, call, devices);
    if (!counter.has_memory) return false;
    run_pipeline(counter, call, devices, {{0, counting.layout.size}});
    counter.finish();
    return true;
}

// Enqueue the counting on the thread's stream; edges and counts are device-resident, too.
void count_async(const HistogramRequest &request, const HostRanges &host_ranges, int results, Call &call,
                 const ExecutionContext &context) {
    const CurrentDevice current(context.device());
    const StreamScope &stream_scope = *context.stream_scope();
    plan::Operands operands(host_ranges.all, call, context.devices, true);
    char *const table = operands.of(results).d_data;
    call.count_launch();
    PK_CUDA(cudaMemsetAsync(table, 0, size_t(request.total + 2) * sizeof(int64_t), stream_scope.stream));
    const int types[2] = {request.view(0).type, request.axes == 2 ? request.view(1).type : 0};
    HistogramAlgorithm counter(request.layout, request.bins, request.axes, types, request.total, nullptr,
                               operands, call, context.devices, {&host_ranges, table});
    execute(counter, operands, call, context);
    operands.commit();
}

// Count on the devices or, if their memory is short, on the host.
void count(const BinnedElements &counting, const std::vector<plan::HostRange> &host_ranges,
           const plan::Operands &operands, Call &call, const std::vector<int> &devices, int64_t *counts) {
    std::fill_n(counts, counting.total + 2, int64_t(0));
    if (counting.layout.size == 0) return;
    const bool are_bytes = counting.axes == 1 && counting.view(0).item == 1;
    const bool counted = are_bytes ? count_bytes(counting, operands, call, devices, counts)
                                   : count_elements(counting, operands, call, devices, counts);
    if (counted) return;
    sync_to_host(host_ranges, call);
    count_on_host(counting, host_loops(), call, counts);
}

// Count in bins between the elements' minimum and maximum: upload the elements and find these in one pass,
// then count the elements on the device. Return false if that is not possible.
bool count_between_extremes(const HistogramOfExtentRequest &request, const plan::Operands &operands,
                            Call &call, const std::vector<int> &devices) {
    const int type = request.type();
    const bool are_bytes = request.layout.views[0].item == 1;
    if (devices.size() != 1 || (are_bytes && operands.of(0).d_data == nullptr)) return false;
    CopyMinMaxAlgorithm copier(request.layout, operands, call, devices);
    if (!copier.has_memory) return false;
    run_pipeline(copier, call, devices, {{0, request.layout.size}});
    const CurrentDevice current(devices[0]);
    copier.finish();
    uint64_t extent[2];
    extent_of_keys(type, copier.keys[0], copier.keys[1], extent);
    const pk_bins uniform_bins = request.found_bins(extent);
    std::fill_n(request.counts, request.count + 2, int64_t(0));
    HistogramAlgorithm counter(request.layout, &uniform_bins, 1, &type, request.count, request.counts,
                               operands, call, devices);
    if (!counter.has_memory) return false;
    const OwnStream own;
    counter.launch_all(copier.data(), own.stream.get());
    PK_CUDA(cudaStreamSynchronize(own.stream.get()));
    counter.finish();
    return true;
}

void launch_extent(const ExtentRequest &request, Call &call) {
    std::vector<plan::HostRange> host_ranges;
    if (request.layout.size != 0) host_ranges.emplace_back(request.layout, request.layout.views[0], false);
    sync_to_host(host_ranges, call);
    extent_on_host(request.layout, host_loops(), call, request.extent);
}

// Compute a weighted histogram on the device if elements and weights are device-resident, else by the host's
// threads.
template <class OnDevice, class OnHost>
void weigh(const BinnedElements &counting, const std::vector<plan::HostRange> &host_ranges, Call &call,
           OnDevice add_on_device, OnHost add_on_host) {
    const std::vector<int> devices = devices_of(call);
    const auto inputs_end = host_ranges.begin() + (counting.layout.size == 0 ? 0 : counting.axes + 1);
    const bool are_resident =
        inputs_end != host_ranges.begin() && plan::all_resident({host_ranges.begin(), inputs_end}, devices);
    plan::Operands operands(host_ranges, call, are_resident ? devices : std::vector<int>());
    if (!are_resident || !add_on_device(operands, devices[0])) {
        sync_to_host(host_ranges, call);
        add_on_host();
    }
    operands.commit();
}

// Enqueue the histogram on the thread's stream. Return false if not all operands are device-resident, or if
// there is no device memory.
bool histogram_async(const HistogramRequest &request, Call &call, const ExecutionContext &context) {
    const int64_t values = request.axes + request.has_weights, total = request.total;
    HostRanges host_ranges(request.layout, values, request.bins, request.axes, true);
    const int results = host_ranges.add_results(request.counts, total + 2, true);
    const StreamScope *const stream_scope =
        request.layout.size == 0 ? nullptr : plan::stream_scope_for(host_ranges.all, context.devices);
    if (stream_scope == nullptr) return false;
    if (!request.has_weights) {
        count_async(request, host_ranges, results, call, context);
        return true;
    }
    auto add = [&](auto sum) {
        return add_weights_async<decltype(sum), uint64_t>(request, host_ranges, results, results, total * 8,
                                                          call, *stream_scope);
    };
    return request.adds_in_floats() ? add(double()) : add(uint64_t());
}

void launch_histogram(const HistogramRequest &request, Call &call) {
    const ExecutionContext context(call);
    const std::vector<int> &devices = context.devices;
    if (histogram_async(request, call, context)) return;
    const int64_t total = request.total;
    HostRanges host_ranges(request.layout, request.axes + request.has_weights, request.bins, request.axes,
                           false);
    host_ranges.add_results(request.counts, total + 2, false);
    if (request.has_weights) {
        auto *const sums = reinterpret_cast<uint64_t *>(request.counts);
        int64_t *const out_of_range = request.counts + total;
        return weigh(
            request, host_ranges.all, call,
            [&](const plan::Operands &operands, int device) {
                return request.adds_in_floats()
                           ? add_on_device<double>(request, operands, call, device, sums, out_of_range)
                           : add_on_device<uint64_t>(request, operands, call, device, sums, out_of_range);
            },
            [&] { count_weights(request, host_loops(), call, request.counts); });
    }
    plan::Operands operands(host_ranges.all, call, devices);
    count(request, host_ranges.all, operands, call, devices, request.counts);
    operands.commit();
}

void launch_histogram_of_extent(const HistogramOfExtentRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    HostRanges host_ranges(request.layout, 1, nullptr, 0, false);
    host_ranges.add_results(request.counts, request.count + 2, false);
    plan::Operands operands(host_ranges.all, call, devices);
    if (!count_between_extremes(request, operands, call, devices)) {
        sync_to_host(host_ranges.all, call);
        uint64_t extent[2];
        extent_on_host(request.layout, host_loops(), call, extent);
        const pk_bins uniform_bins = request.found_bins(extent);
        count(request.counting(uniform_bins), host_ranges.all, operands, call, devices, request.counts);
    }
    operands.commit();
}

void launch_weighted_histogram(const WeightedHistogramRequest &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    auto host_ranges_of = [&](bool is_resident) {
        HostRanges host_ranges(request.layout, request.axes + 1, request.bins, request.axes, is_resident);
        host_ranges.add_results(request.sums, request.total, is_resident);
        host_ranges.add_results(request.out_of_range, 2, is_resident);
        return host_ranges;
    };
    {
        const HostRanges resident = host_ranges_of(true);
        const StreamScope *const stream_scope =
            request.layout.size == 0 ? nullptr : plan::stream_scope_for(resident.all, devices);
        const int out_of_range = int(resident.all.size()) - 1;
        if (stream_scope != nullptr &&
            add_weights_async<double, double>(request, resident, out_of_range - 1, out_of_range, 0, call,
                                              *stream_scope))
            return;
    }
    weigh(
        request, host_ranges_of(false).all, call,
        [&](const plan::Operands &operands, int device) {
            return add_on_device<double>(request, operands, call, device, request.sums, request.out_of_range);
        },
        [&] { add_weights(request, host_loops(), call, request.sums, request.out_of_range); });
}

void launch_digitize(const DigitizeRequest &request, Call &call) {
    const ExecutionContext context(call);
    const std::vector<int> &devices = context.devices;
    if (request.layout.size == 0) return;
    const plan::HostRange edges_range(reinterpret_cast<const void *>(request.bins->edges),
                                      edges_bytes(*request.bins), 8, false);
    const bool are_resident = plan::all_resident({edges_range}, devices);
    if (!are_resident) plan::sync_to_host({edges_range}, call);
    const std::vector<View> &views = request.layout.views;
    const plan::HostRange values(request.layout, views[0], false), places(request.layout, views[1], true);
    BroadcastBuffers broadcasts;
    Edges edges;
    if (!are_resident) edges = Edges(*request.bins, nullptr, broadcasts);
    const bool has_memory = broadcasts.upload(call, devices);
    plan::Operands operands({values, places, edges_range}, call, has_memory ? devices : std::vector<int>(),
                            true);
    if (are_resident) edges = Edges(*request.bins, operands.of(2).d_data, broadcasts);
    if (has_memory) {
        DigitizeAlgorithm digitizer(request, operands, broadcasts, edges);
        execute(digitizer, operands, call, context);
    } else {
        digitize_on_host(request, host_loops(), call);
    }
    operands.commit();
}

}  // namespace

}  // namespace pk::histogram

extern "C" int32_t pk_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                             uint64_t *extent, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::histogram::ExtentRequest(operand, shape, dimensions, extent); },
        pk::histogram::launch_extent);
}

extern "C" int32_t pk_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,
                                const pk_options *options, pk_report *report) {
    return pk::run_entry(
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
    return pk::run_entry(
        options, report,
        [&] {
            return pk::histogram::HistogramOfExtentRequest(operand, shape, dimensions, find, count, counts);
        },
        pk::histogram::launch_histogram_of_extent);
}

extern "C" int32_t pk_weighted_histogram(const pk_operand *operands, int64_t operand_count,
                                         const int64_t *shape, int64_t dimensions, const pk_bins *bins,
                                         int64_t axes, double *sums, int64_t *out_of_range,
                                         const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::histogram::WeightedHistogramRequest(operands, operand_count, shape, dimensions, bins,
                                                           axes, sums, out_of_range);
        },
        pk::histogram::launch_weighted_histogram);
}

extern "C" int32_t pk_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                               const pk_bins *bins, int32_t right, int32_t decreasing,
                               const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::histogram::DigitizeRequest(operands, shape, dimensions, bins, right != 0,
                                                  decreasing != 0);
        },
        pk::histogram::launch_digitize);
}
