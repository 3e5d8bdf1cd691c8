// The entries of counting, around what differs between the engines:
//   loops()                                                    a table of loops for the host
//   count(counting, call, counts)                              without weights
//   count_kept(layout, find, count, call, counts)              between the extremes; false if it can't
//   digitize(layout, bins, right, decreasing, call)
#pragma once

#include "common/call/status.h"
#include "histogram.h"

namespace pk {

template <class Engine>
int32_t enter_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions, uint64_t *extent,
                     const pk_options *options, pk_report *report) {
    return guarded([&] {
        require(extent != nullptr, "extent is a null pointer");
        check_operands(operand, 1, shape, dimensions);
        const Layout layout(operand, 1, shape, dimensions, {false});
        require(layout.size != 0, "there are no elements");
        run_call(options, report, layout.size,
                 [&](Call &call) { extent_on_host(layout, Engine::loops(), call, extent); });
    });
}

template <class Engine>
int32_t enter_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                        int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,
                        const pk_options *options, pk_report *report) {
    return guarded([&] {
        require(counts != nullptr, "counts is a null pointer");
        const Counting counting(operands, operand_count, shape, dimensions, bins, axes, false);
        run_call(options, report, counting.layout.size, [&](Call &call) {
            if (counting.has_weights) {
                count_weights(counting, Engine::loops(), call, counts);
            } else {
                Engine::count(counting, call, counts);
            }
        });
    });
}

template <class Engine>
int32_t enter_histogram_of_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                                  uint64_t find, int64_t count, int64_t *counts, const pk_options *options,
                                  pk_report *report) {
    return guarded([&] {
        require(counts != nullptr && find != 0, "counts or find is a null pointer");
        check_operands(operand, 1, shape, dimensions);
        const Layout layout(operand, 1, shape, dimensions, {false});
        require(layout.size != 0, "there are no elements");
        run_call(options, report, layout.size, [&](Call &call) {
            if (Engine::count_kept(layout, find, count, call, counts)) return;
            uint64_t extent[2];
            extent_on_host(layout, Engine::loops(), call, extent);
            const pk_bins found = found_bins(find, extent, count, layout.views[0].type);
            const Counting counting(operand, 1, shape, dimensions, &found, 1, false);
            Engine::count(counting, call, counts);
        });
    });
}

template <class Engine>
int32_t enter_weighted_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                 int64_t dimensions, const pk_bins *bins, int64_t axes, double *sums,
                                 int64_t *outside, const pk_options *options, pk_report *report) {
    return guarded([&] {
        require(sums != nullptr && outside != nullptr, "sums or outside is a null pointer");
        const Counting counting(operands, operand_count, shape, dimensions, bins, axes, true);
        run_call(options, report, counting.layout.size,
                 [&](Call &call) { add_weights(counting, Engine::loops(), call, sums, outside); });
    });
}

template <class Engine>
int32_t enter_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                       const pk_bins *bins, int32_t right, int32_t decreasing, const pk_options *options,
                       pk_report *report) {
    return guarded([&] {
        require(bins != nullptr, "bins is a null pointer");
        check_operands(operands, 2, shape, dimensions);
        require(operands[1].type == PK_INT64, "indices are of the type PK_INT64");
        require(bins->how == PK_BY_EDGES, "bins.how is not PK_BY_EDGES");
        check_bins(*bins, operands[0].type);
        const Layout layout(operands, 2, shape, dimensions, {false, true});
        run_call(options, report, layout.size,
                 [&](Call &call) { Engine::digitize(layout, *bins, right != 0, decreasing != 0, call); });
    });
}

}  // namespace pk

// The entries of an engine.
#define PK_HISTOGRAM_ENTRIES(Engine)                                                                         \
    int32_t pk_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions, uint64_t *extent, \
                      const pk_options *options, pk_report *report) {                                        \
        return pk::enter_extent<Engine>(operand, shape, dimensions, extent, options, report);                \
    }                                                                                                        \
    int32_t pk_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,            \
                         int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,             \
                         const pk_options *options, pk_report *report) {                                     \
        return pk::enter_histogram<Engine>(operands, operand_count, shape, dimensions, bins, axes, counts,   \
                                           options, report);                                                 \
    }                                                                                                        \
    int32_t pk_histogram_of_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,      \
                                   uint64_t find, int64_t count, int64_t *counts, const pk_options *options, \
                                   pk_report *report) {                                                      \
        return pk::enter_histogram_of_extent<Engine>(operand, shape, dimensions, find, count, counts,        \
                                                     options, report);                                       \
    }                                                                                                        \
    int32_t pk_weighted_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,   \
                                  int64_t dimensions, const pk_bins *bins, int64_t axes, double *sums,       \
                                  int64_t *outside, const pk_options *options, pk_report *report) {          \
        return pk::enter_weighted_histogram<Engine>(operands, operand_count, shape, dimensions, bins, axes,  \
                                                    sums, outside, options, report);                         \
    }                                                                                                        \
    int32_t pk_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,                \
                        const pk_bins *bins, int32_t right, int32_t decreasing, const pk_options *options,   \
                        pk_report *report) {                                                                 \
        return pk::enter_digitize<Engine>(operands, shape, dimensions, bins, right, decreasing, options,     \
                                          report);                                                           \
    }
