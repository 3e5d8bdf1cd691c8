// The histogram entries on the CUDA engine: pk_extent, pk_histogram, pk_histogram_of_extent,
// pk_weighted_histogram and pk_digitize. The host's loops compute pk_extent, weighted histograms unless all
// elements and weights are on the device, and the others if device memory is short.
#include "common/histogram.h"

#include "cuda/histogram/weighted.cuh"

namespace pk::histogram {

namespace {

const BinLoops &host_loops() { return plain_bin_loops(); }

// Count elements of one byte: count each value of the byte, then find the bin of each of the 256 values on
// the host. Return false if there is no device memory.
bool count_bytes(const BinnedElements &binned, Operands &operands, Call &call,
                 const ExecutionContext &context, int64_t *counts) {
    int64_t byte_counts[256 + 2] = {};
    pk_bins bytes{};
    bytes.kind = PK_BINS_INDEX;
    bytes.count = 256;
    const int no_edges = -1;
    HistogramAlgorithm counter(binned.layout, &bytes, {PK_UINT8}, 256, {byte_counts}, &no_edges, operands,
                               call, context);
    if (!counter.has_memory || !try_execute(counter, operands, call, context)) return false;
    count_values(binned.bins[0], binned.view(0).type, host_loops(), byte_counts, counts);
    return true;
}

// Count elements of any dtype, in a table on the device or, if that is null, on the host. Return false if
// there is no device memory.
bool count_elements(const BinnedElements &binned, const MemoryRanges &memory_ranges, char *d_table,
                    Operands &operands, Call &call, const ExecutionContext &context, int64_t *counts) {
    std::vector<int> types;
    for (int64_t i = 0; i < binned.axes; ++i) types.push_back(binned.view(i).type);
    HistogramAlgorithm counter(binned.layout, binned.bins, types, binned.total, {counts, d_table},
                               memory_ranges.edges, operands, call, context);
    return counter.has_memory && try_execute(counter, operands, call, context);
}

// Count on the devices. Return false if their memory is short.
bool count_on_devices(const BinnedElements &binned, Call &call, const ExecutionContext &context,
                      int64_t *counts) {
    const bool are_resident = all_resident(ranges_of_values(binned.layout, binned.axes), context);
    // Bytes have a faster kernel, whose counts the host reads.
    const bool counts_bytes =
        binned.axes == 1 && binned.view(0).item == 1 && (context.is_synchronous || !are_resident);
    const bool are_on_device = are_resident && !counts_bytes;
    MemoryRanges memory_ranges(binned.layout, binned.axes, binned.bins, binned.axes, are_on_device);
    const int results = memory_ranges.add_results(counts, binned.total + 2, are_on_device);
    Operands operands(memory_ranges.all, call, context);
    char *const d_table = are_on_device ? operands.d_result(results) : nullptr;
    if (d_table == nullptr) std::fill_n(counts, binned.total + 2, int64_t(0));
    const bool is_counted =
        counts_bytes ? count_bytes(binned, operands, call, context, counts)
                     : count_elements(binned, memory_ranges, d_table, operands, call, context, counts);
    if (is_counted) operands.commit();
    return is_counted;
}

// Count on the devices or, if their memory is short, on the host.
void count(const BinnedElements &binned, Call &call, const ExecutionContext &context, int64_t *counts) {
    if (binned.layout.size != 0 && count_on_devices(binned, call, context, counts)) return;
    MemoryRanges memory_ranges(binned.layout, binned.axes, binned.bins, binned.axes, false);
    memory_ranges.add_results(counts, binned.total + 2, false);
    Operands operands(on_host(memory_ranges.all), call, context);
    std::fill_n(counts, binned.total + 2, int64_t(0));
    if (binned.layout.size != 0) count_on_host(binned, host_loops(), call, counts);
    operands.commit();
}

// Count in bins between the elements' minimum and maximum: upload the elements and find these in one pass,
// then count the elements on the device. Return false if that is not possible.
bool count_between_extremes(const HistogramOfExtentRequest &request, Operands &operands, Call &call,
                            const ExecutionContext &context) {
    const int type = request.type();
    const bool are_bytes = request.layout.views[0].item == 1;
    if (context.devices.size() != 1 || (are_bytes && operands.of(0).d_data == nullptr)) return false;
    CopyMinMaxAlgorithm copier(request.layout, operands, context);
    if (copier.d_values() == nullptr || !try_execute(copier, operands, call, context)) return false;
    uint64_t extent[2];
    extent_of_keys(type, copier.keys[0], copier.keys[1], extent);
    const pk_bins uniform_bins = request.found_bins(extent);
    std::fill_n(request.counts, request.count + 2, int64_t(0));
    const int no_edges = -1;
    HistogramAlgorithm counter(request.layout, &uniform_bins, {type}, request.count, {request.counts},
                               &no_edges, operands, call, context, copier.d_values());
    counter.counts_progress = false;  // copying did
    return counter.has_memory && try_execute(counter, operands, call, context);
}

void launch_extent(const ExtentRequest &request, Call &call) {
    std::vector<MemoryRange> memory_ranges;
    if (request.layout.size != 0) memory_ranges.emplace_back(request.layout, request.layout.views[0], false);
    sync_to_host(memory_ranges, call);
    extent_on_host(request.layout, host_loops(), call, request.extent);
}

// The results of a weighted histogram: the sums, and the two words for elements out of range. In pk_histogram
// these are one array.
template <class Total>
struct WeightedResults {
    Total *sums;
    int64_t *out_of_range;
    int64_t total;
    bool are_adjacent() const { return static_cast<void *>(sums + total) == out_of_range; }
};

// Compute a weighted histogram on the device. Return false if not all elements and weights are there, or if
// there is no memory.
template <class Sum, class Total>
bool weigh_on_device(const BinnedElements &binned, const WeightedResults<Total> &results, Call &call,
                     const ExecutionContext &context) {
    const int64_t values = binned.axes + 1, total = binned.total;
    if (binned.layout.size == 0 || !all_resident(ranges_of_values(binned.layout, values), context))
        return false;
    MemoryRanges memory_ranges(binned.layout, values, binned.bins, binned.axes, true);
    const bool are_adjacent = results.are_adjacent();
    const int sums = memory_ranges.add_results(results.sums, total + (are_adjacent ? 2 : 0), true);
    if (!are_adjacent) memory_ranges.add_results(results.out_of_range, 2, true);
    Operands operands(memory_ranges.all, call, context);
    char *const d_sums = operands.d_result(sums);
    if (d_sums == nullptr) return false;
    char *const d_out_of_range =
        are_adjacent ? d_sums + total * int64_t(sizeof(Total)) : operands.d_result(sums + 1);
    if (d_out_of_range == nullptr) return false;
    WeightedHistogramAlgorithm<Sum, Total> algorithm(binned, memory_ranges.edges, operands, call, context,
                                                     d_sums, d_out_of_range);
    if (!algorithm.has_memory || !try_execute(algorithm, operands, call, context)) return false;
    operands.commit();
    return true;
}

// Compute it by the host's threads.
template <class Total, class OnHost>
void weigh_on_host(const BinnedElements &binned, const WeightedResults<Total> &results, Call &call,
                   const ExecutionContext &context, OnHost add) {
    MemoryRanges memory_ranges(binned.layout, binned.axes + 1, binned.bins, binned.axes, false);
    memory_ranges.add_results(results.sums, results.total, false);
    memory_ranges.add_results(results.out_of_range, 2, false);
    Operands operands(on_host(memory_ranges.all), call, context);
    add();
    operands.commit();
}

void launch_histogram(const HistogramRequest &request, Call &call) {
    const ExecutionContext context(call);
    if (!request.has_weights) return count(request, call, context, request.counts);
    const WeightedResults<uint64_t> results{reinterpret_cast<uint64_t *>(request.counts),
                                            request.counts + request.total, request.total};
    const bool is_done = request.adds_in_floats()
                             ? weigh_on_device<double>(request, results, call, context)
                             : weigh_on_device<uint64_t>(request, results, call, context);
    if (is_done) return;
    weigh_on_host(request, results, call, context,
                  [&] { count_weights(request, host_loops(), call, request.counts); });
}

void launch_histogram_of_extent(const HistogramOfExtentRequest &request, Call &call) {
    const ExecutionContext context(call);
    {
        MemoryRanges memory_ranges(request.layout, 1, nullptr, 0, false);
        memory_ranges.add_results(request.counts, request.count + 2, false);
        Operands operands(memory_ranges.all, call, context);
        if (count_between_extremes(request, operands, call, context)) return operands.commit();
    }
    std::vector<MemoryRange> values = ranges_of_values(request.layout, 1);
    sync_to_host(values, call);
    call.begin_passes(2);
    uint64_t extent[2];
    extent_on_host(request.layout, host_loops(), call, extent);
    const pk_bins uniform_bins = request.found_bins(extent);
    count(request.binned(uniform_bins), call, context, request.counts);
}

void launch_weighted_histogram(const WeightedHistogramRequest &request, Call &call) {
    const ExecutionContext context(call);
    const WeightedResults<double> results{request.sums, request.out_of_range, request.total};
    if (weigh_on_device<double>(request, results, call, context)) return;
    weigh_on_host(request, results, call, context,
                  [&] { add_weights(request, host_loops(), call, request.sums, request.out_of_range); });
}

// Digitize on the devices. Return false if these have no memory for the edges.
bool digitize_on_devices(const DigitizeRequest &request, const std::vector<MemoryRange> &memory_ranges,
                         Call &call, const ExecutionContext &context) {
    Operands operands(memory_ranges, call, context);
    BroadcastBuffers broadcasts;
    const Edges edges(*request.bins, operands.of(2).d_data, broadcasts);
    if (!broadcasts.upload(call, context)) return false;
    DigitizeAlgorithm digitizer(request, operands, broadcasts, edges);
    execute(digitizer, operands, call, context);
    operands.commit();
    return true;
}

void launch_digitize(const DigitizeRequest &request, Call &call) {
    const ExecutionContext context(call);
    if (request.layout.size == 0) return;
    const std::vector<View> &views = request.layout.views;
    const std::vector<MemoryRange> memory_ranges{
        {request.layout, views[0], false},
        {request.layout, views[1], true},
        {reinterpret_cast<const void *>(request.bins->edges), edges_bytes(*request.bins), 8, false}};
    if (digitize_on_devices(request, memory_ranges, call, context)) return;
    Operands operands(on_host(memory_ranges), call, context);
    digitize_on_host(request, host_loops(), call);
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
