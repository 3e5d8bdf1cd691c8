#include "common/histogram.h"

#include "cuda/histogram/works.cuh"

namespace pk::histogram {

namespace {

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
