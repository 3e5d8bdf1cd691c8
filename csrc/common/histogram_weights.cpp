// Weighted histograms computed by host threads, with the sums in a fixed order: see pk_weighted_histogram.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "common/call/ordered_section.h"
#include "common/call/status.h"
#include "histogram.h"
#include "histogram_indexer.h"

namespace pk::histogram {

namespace {

constexpr int64_t SEGMENT = 65536;  // elements, as in NumPy, so that float64 sums are the same

// Sums the weights of each segment, in type Sum and in order, and passes the sums to fold(sums) in order.
// Returns whether any index was beyond the bins.
template <class Sum, class Fold>
bool add_segments(const BinnedElements &binned, const BinLoops &loops, Call &call, int64_t *out_of_range,
                  Fold fold) {
    const int64_t size = binned.layout.size, segment = elements_per_segment(binned.total);
    const int64_t segments = ceil_div(size, segment);
    const int weights_type = binned.view(binned.axes).type;
    const bins::CompareType as = std::is_same<Sum, double>::value ? bins::AS_DOUBLE
                                 : weights_type == PK_UINT64      ? bins::AS_UINT64
                                                                  : bins::AS_INT64;
    struct Worker {
        BinIndexer indexer;
        std::vector<Sum> sums;
        bool is_beyond_bins = false;
        int32_t indices[BinIndexer::BLOCK];
        uint64_t buffer[BinIndexer::BLOCK];
    };
    bool any_beyond_bins = false;
    parallel_for_ordered(
        call, segments, 1, std::min(segments, thread_count()),
        [&] {
            return Worker{
                BinIndexer(binned.layout, loops), std::vector<Sum>(size_t(binned.total + 1)), false, {}, {}};
        },
        [&](Worker &own, OrderedSection &section, int64_t i, int64_t) {
            const int64_t start = i * segment, count = std::min(segment, size - start);
            std::fill(own.sums.begin(), own.sums.end(), Sum(0));
            int64_t own_out_of_range = 0;
            for (int64_t done = 0; done < count; done += BinIndexer::BLOCK) {
                const int64_t part = std::min(BinIndexer::BLOCK, count - done);
                own.is_beyond_bins |= own.indexer.indices(binned, start + done, part, own.indices);
                const auto *weights = static_cast<const Sum *>(
                    own.indexer.values(binned.axes, as, start + done, part, own.buffer));
                for (int64_t j = 0; j < part; ++j) {
                    own.sums[size_t(own.indices[j])] += weights[j];
                    own_out_of_range += own.indices[j] == binned.total;
                }
                if (done % SEGMENT == 0) call.check_interrupt();
            }
            section.run({i, 1}, call, [&] {
                fold(own.sums.data());
                *out_of_range += own_out_of_range;
            });
            call.advance(count);
            return count;
        },
        [&](const Worker &own) { any_beyond_bins |= own.is_beyond_bins; });
    return any_beyond_bins;
}

}  // namespace

int64_t elements_per_segment(int64_t total) {
    int64_t elements = SEGMENT;
    while (elements < 4 * total) elements *= 2;
    return elements;
}

void add_weights(const BinnedElements &request, const BinLoops &loops, Call &call, double *sums,
                 int64_t *out_of_range) {
    const BinnedElements binned = request.for_host();
    std::fill_n(sums, binned.total, 0.0);
    out_of_range[0] = 0;
    out_of_range[1] =
        add_segments<double>(binned, loops, call, out_of_range, [&](const double *segment_sums) {
            for (int64_t i = 0; i < binned.total; ++i) sums[i] += segment_sums[i];
        });
}

void count_weights(const BinnedElements &request, const BinLoops &loops, Call &call, int64_t *counts) {
    const BinnedElements binned = request.for_host();
    const int64_t total = binned.total;
    const int type = binned.view(binned.axes).type;
    std::fill_n(counts, total + 2, int64_t(0));
    auto *const sums = reinterpret_cast<uint64_t *>(counts);
    if (binned.adds_in_floats()) {
        counts[total + 1] =
            add_segments<double>(binned, loops, call, counts + total, [&](const double *segment_sums) {
                for (int64_t i = 0; i < total; ++i) {
                    sums[i] += bins::whole(segment_sums[i], type != PK_UINT64);
                }
            });
    } else {
        counts[total + 1] =
            add_segments<uint64_t>(binned, loops, call, counts + total, [&](const uint64_t *segment_sums) {
                for (int64_t i = 0; i < total; ++i) sums[i] += segment_sums[i];
            });
    }
}

}  // namespace pk::histogram
