// Weighted histograms computed by host threads, with the sums in a fixed order: see pk_weighted_histogram.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <type_traits>

#include "common/call/status.h"
#include "common/call/thread_pool.h"
#include "histogram.h"
#include "histogram_indexer.h"

namespace pk::histogram {

namespace {

constexpr int64_t RUN = 65536;  // elements of a segment, as in NumPy, so that float64 sums are the same

// In-order executor: threads add the sums of their segments in the order of the segments.
class InOrderExecutor {
   public:
    explicit InOrderExecutor(Call &call) : call_(call) {}

    template <class Fold>
    void take(int64_t turn, Fold fold) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (turn_ != turn) {
            changed_.wait_for(lock, Call::POLL_INTERVAL);
            call_.check_interrupt();
        }
        fold();
        ++turn_;
        changed_.notify_all();
    }

   private:
    Call &call_;
    std::mutex mutex_;
    std::condition_variable changed_;
    int64_t turn_ = 0;
};

// Sums the weights of each segment, in type Sum and in order, and passes the sums to fold(sums) in order.
// Returns whether any index was beyond the bins.
template <class Sum, class Fold>
bool add_runs(const BinnedElements &counting, const BinLoops &loops, Call &call, int64_t *none, Fold fold) {
    const int64_t size = counting.layout.size, run = run_for(counting.total);
    const int64_t runs = (size + run - 1) / run;
    const int weights_type = counting.view(counting.axes).type;
    const bins::CompareType as = std::is_same<Sum, double>::value ? bins::AS_DOUBLE
                                 : weights_type == PK_UINT64      ? bins::AS_UINT64
                                                                  : bins::AS_INT64;
    std::atomic<int64_t> next{0};
    std::atomic<bool> any_beyond_bins{false};
    InOrderExecutor executor(call);
    run_on_threads(std::min(runs, thread_count()), call, [&] {
        if (next >= runs) return;
        const DefaultFloatingPoint environment;
        TraceLane lane(call);
        BinIndexer indexer(counting.layout, loops);
        std::vector<Sum> sums(size_t(counting.total + 1));
        int32_t indices[BinIndexer::BLOCK];
        uint64_t buffer[BinIndexer::BLOCK];
        bool is_beyond_bins = false;
        // Once a thread has taken a segment, it must reach its turn, unless all threads stop.
        for (int64_t i = next++; i < runs; i = next++) {
            const double began = call.seconds();
            const int64_t start = i * run, count = std::min(run, size - start);
            std::fill(sums.begin(), sums.end(), Sum(0));
            int64_t out_of_range = 0;
            for (int64_t done = 0; done < count; done += BinIndexer::BLOCK) {
                const int64_t part = std::min(BinIndexer::BLOCK, count - done);
                is_beyond_bins |= indexer.indices(counting, start + done, part, indices);
                const auto *weights =
                    static_cast<const Sum *>(indexer.values(counting.axes, as, start + done, part, buffer));
                for (int64_t j = 0; j < part; ++j) {
                    sums[size_t(indices[j])] += weights[j];
                    out_of_range += indices[j] == counting.total;
                }
                if (done % RUN == 0) call.check_interrupt();
            }
            executor.take(i, [&] {
                fold(sums.data());
                *none += out_of_range;
            });
            lane.add(PK_STAGE_COMPUTE, began, call.seconds(), 0, count);
            call.advance(count);
        }
        if (is_beyond_bins) any_beyond_bins = true;
    });
    call.report.chunks += runs;
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
