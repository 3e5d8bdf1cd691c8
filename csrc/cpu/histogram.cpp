// The histogram entries on the CPU.
#include "common/histogram.h"

#include "loops.h"

namespace pk::histogram {

namespace {

void launch_extent(const ExtentRequest &request, Call &call) {
    extent_on_host(request.layout, loops().bins, call, request.extent);
}

void launch_histogram(const HistogramRequest &request, Call &call) {
    if (request.has_weights) {
        count_weights(request, loops().bins, call, request.counts);
    } else {
        count_on_host(request, loops().bins, call, request.counts);
    }
}

void launch_histogram_of_extent(const HistogramOfExtentRequest &request, Call &call) {
    call.begin_passes(2);
    uint64_t extent[2];
    extent_on_host(request.layout, loops().bins, call, extent);
    const pk_bins bins = request.found_bins(extent);
    count_on_host(request.binned(bins), loops().bins, call, request.counts);
}

void launch_weighted_histogram(const WeightedHistogramRequest &request, Call &call) {
    add_weights(request, loops().bins, call, request.sums, request.out_of_range);
}

void launch_digitize(const DigitizeRequest &request, Call &call) {
    digitize_on_host(request, loops().bins, call);
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
