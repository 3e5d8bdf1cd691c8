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

constexpr int64_t RUN = 65536;  // elements of a segment, as in NumPy, so that float64 sums are the same

// Sums the weights of each segment, in type Sum and in order, and passes the sums to fold(sums) in order.
// Returns whether any index was beyond the bins.
template <class Sum, class Fold>
bool add_runs(const BinnedElements &counting, const BinLoops &loops, Call &call, int64_t *none, Fold fold) {
    const int64_t size = counting.layout.size, run = run_for(counting.total);
    const int64_t runs = ceil_div(size, run);
    const int weights_type = counting.view(counting.axes).type;
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
        call, runs, 1, std::min(runs, thread_count()),
        [&] {
            return Worker{BinIndexer(counting.layout, loops),
                          std::vector<Sum>(size_t(counting.total + 1)),
                          false,
                          {},
                          {}};
        },
        [&](Worker &own, OrderedSection &section, int64_t i, int64_t) {
            const int64_t start = i * run, count = std::min(run, size - start);
            std::fill(own.sums.begin(), own.sums.end(), Sum(0));
            int64_t out_of_range = 0;
            for (int64_t done = 0; done < count; done += BinIndexer::BLOCK) {
                const int64_t part = std::min(BinIndexer::BLOCK, count - done);
                own.is_beyond_bins |= own.indexer.indices(counting, start + done, part, own.indices);
                const auto *weights = static_cast<const Sum *>(
                    own.indexer.values(counting.axes, as, start + done, part, own.buffer));
                for (int64_t j = 0; j < part; ++j) {
                    own.sums[size_t(own.indices[j])] += weights[j];
                    out_of_range += own.indices[j] == counting.total;
                }
                if (done % RUN == 0) call.check_interrupt();
            }
            section.run({i, 1}, call, [&] {
                fold(own.sums.data());
                *none += out_of_range;
            });
            call.advance(count);
            return count;
        },
        [&](const Worker &own) { any_beyond_bins |= own.is_beyond_bins; });
    return any_beyond_bins;
}

}  // namespace

int64_t run_for(int64_t total) {
    int64_t run = RUN;
    while (run < 4 * total) run *= 2;
    return run;
}

void add_weights(const BinnedElements &request, const BinLoops &loops, Call &call, double *sums,
                 int64_t *out_of_range) {
    const BinnedElements counting = request.for_host();
    std::fill_n(sums, counting.total, 0.0);
    out_of_range[0] = 0;
    out_of_range[1] = add_runs<double>(counting, loops, call, out_of_range, [&](const double *run) {
        for (int64_t i = 0; i < counting.total; ++i) sums[i] += run[i];
    });
}

void count_weights(const BinnedElements &request, const BinLoops &loops, Call &call, int64_t *counts) {
    const BinnedElements counting = request.for_host();
    const int64_t total = counting.total;
    const int type = counting.view(counting.axes).type;
    std::fill_n(counts, total + 2, int64_t(0));
    auto *const sums = reinterpret_cast<uint64_t *>(counts);
    if (counting.adds_in_floats()) {
        counts[total + 1] = add_runs<double>(counting, loops, call, counts + total, [&](const double *run) {
            for (int64_t i = 0; i < total; ++i) {
                sums[i] += bins::whole(run[i], type != PK_UINT64);
            }
        });
    } else {
        counts[total + 1] =
            add_runs<uint64_t>(counting, loops, call, counts + total, [&](const uint64_t *run) {
                for (int64_t i = 0; i < total; ++i) sums[i] += run[i];
            });
    }
}

}  // namespace pk::histogram
