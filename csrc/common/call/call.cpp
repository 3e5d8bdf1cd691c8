// One call of an entry: its options, progress, cancellation, timeline and report; and the shutdown of the
// library.
#include "call.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "status.h"

namespace pk {

namespace {

// State of pk_disable_callbacks() and pk_shutdown(), which one thread calls at the end of the process: first
// callbacks are disabled, then calls are stopped.
std::atomic<bool> callbacks_disabled{false};
std::atomic<bool> exiting{false};
std::atomic<std::thread::id> exiting_thread{};
std::atomic<int64_t> callbacks_in_flight{0};
std::atomic<int64_t> calls_in_flight{0};

bool is_another_thread() { return exiting_thread.load() != std::this_thread::get_id(); }

// Whether pk_shutdown() has begun, on another thread: this one must then stop, and block instead of
// returning.
bool must_stop() { return exiting && is_another_thread(); }

// Once the process is exiting, blocks every thread but the exiting one for ever: the memory that the thread
// would touch may be freed.
void block_if_exiting() {
    while (must_stop()) pause();
}

void reset_counters_after_forks() {
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { calls_in_flight = callbacks_in_flight = 0; });
    (void)registered;
}

// Waits until a counter is 0, or for LONGEST_WAIT: a callback or call that hangs must not keep the process
// from ending.
void wait_until_zero(const std::atomic<int64_t> &counter) {
    constexpr std::chrono::seconds LONGEST_WAIT(4);
    const auto deadline = Clock::now() + LONGEST_WAIT;
    while (counter > 0 && Clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// Returns the callback's answer, or 0 if callbacks are disabled. The counter goes up before the flag is read,
// so that pk_disable_callbacks() waits for every callback that it did not prevent.
int32_t call_progress_callback(pk_progress_callback callback, const pk_progress &progress) {
    struct Counted {
        Counted() { ++callbacks_in_flight; }
        ~Counted() { --callbacks_in_flight; }
    } counted;
    if (callbacks_disabled && is_another_thread()) return 0;
    return called_back([&] { return callback(&progress); });
}

}  // namespace

Call::InFlight::InFlight() {
    reset_counters_after_forks();
    ++calls_in_flight;
    if (must_stop()) {
        --calls_in_flight;
        block_if_exiting();
    }
}

// A call that pk_shutdown() has stopped blocks here. It is no longer counted, so pk_shutdown() does not wait
// for it.
Call::InFlight::~InFlight() {
    --calls_in_flight;
    block_if_exiting();
}

Call::Call(const pk_options *options, pk_report *report_given) : report(*report_given) {
    if (options != nullptr) options_ = *options;
    const auto *requested = reinterpret_cast<const pk_rest *>(options_.rest);
    require(options_.device_count >= 0 && options_.span_capacity >= 0, "options hold a negative count");
    require(requested == nullptr || (requested->count >= 0 && requested->count <= PK_MAX_RANGES),
            "options.rest has a count that is not from 0 to PK_MAX_RANGES");
    if (options_.devices == 0) options_.device_count = 0;
    if (options_.spans == 0) options_.span_capacity = 0;
}

void Call::begin(int64_t elements) {
    const auto *requested = reinterpret_cast<const pk_rest *>(options_.rest);
    ranges_ = {{0, elements}};
    if (requested != nullptr && requested->count != 0)
        ranges_.assign(requested->ranges, requested->ranges + requested->count);
    for (const pk_range &range : ranges_) {
        require(range.start >= 0 && range.count >= 0 && range.start <= elements - range.count,
                "options.rest has a range outside of the call");
        total_ += range.count;
    }
    ranges_.erase(std::remove_if(ranges_.begin(), ranges_.end(), [](auto &r) { return r.count == 0; }),
                  ranges_.end());
    report = pk_report{};
}

void Call::begin_next(int64_t elements) {
    start_time_ = last_poll_ = Clock::now();
    total_ = done_before_ = 0;
    passes_ = 1;
    done_ = launches_ = spans_ = 0;
    timeline_.clear();
    for (std::optional<double> &each : stage_seconds_) each.reset();
    threads_.clear();
    begin(elements);
}

void Call::begin_passes(int64_t passes) {
    done_before_ += done_.exchange(0, std::memory_order_relaxed) / passes_;
    passes_ = passes;
}

void Call::check_interrupt() {
    if (std::this_thread::get_id() == caller_) poll_callback();
    if (stopped_.load(std::memory_order_relaxed)) fail(PK_INTERRUPTED, "the call was asked to stop");
}

void Call::poll_callback() {
    const bool is_exiting = exiting;
    if ((options_.progress_callback == 0 && !is_exiting) || stopped_) return;
    const Clock::time_point now = Clock::now();
    if (now - last_poll_ < POLL_INTERVAL) return;
    if (is_exiting) {
        if (must_stop()) stopped_ = true;
        return;
    }
    const auto callback = reinterpret_cast<pk_progress_callback>(options_.progress_callback);
    const pk_progress progress{done_before_ + done_.load(std::memory_order_relaxed) / passes_, total_};
    if (call_progress_callback(callback, progress) != 0) stopped_ = true;
    last_poll_ = Clock::now();
}

// Makes the spans of one stage and device disjoint. A device runs the chunks of a stage one after the other,
// but a chunk's span was recorded from the time when the chunk was enqueued. So each span's begin is moved up
// to the end of the span before.
static void make_disjoint(pk_span *spans, int64_t count) {
    std::vector<pk_span *> order;
    for (int64_t i = 0; i < count; ++i) {
        if (spans[i].device >= 0) order.push_back(&spans[i]);
    }
    std::sort(order.begin(), order.end(), [](auto *a, auto *b) {
        return std::tie(a->device, a->stage, a->end) < std::tie(b->device, b->stage, b->end);
    });
    for (size_t i = 1; i < order.size(); ++i) {
        pk_span &span = *order[i];
        const pk_span &before = *order[i - 1];
        const bool alike = before.device == span.device && before.stage == span.stage;
        if (alike) span.begin = std::min(std::max(span.begin, before.end), span.end);
    }
}

void Call::end() {
    report.spans = spans_;
    if (options_.span_capacity != 0) {
        make_disjoint(reinterpret_cast<pk_span *>(options_.spans),
                      std::min<int64_t>(spans_, options_.span_capacity));
    }
    timeline_.report(report);
    for (int stage = 0; stage < PK_STAGE_COUNT; ++stage) {
        report.stage_seconds[stage] = stage_seconds_[stage].value_or(report.stage_seconds[stage]);
    }
    report.seconds = seconds();
    if (stopped_) fail(PK_INTERRUPTED, "the call was asked to stop");
}

void Call::report_undelivered(const std::vector<pk_range> &ranges) {
    auto *undelivered = reinterpret_cast<pk_rest *>(options_.rest);
    if (undelivered == nullptr) return;
    std::vector<pk_range> sorted = ranges;
    std::sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) { return a.start < b.start; });
    undelivered->count = 0;
    for (const pk_range &range : sorted) {
        pk_range *last = undelivered->count == 0 ? nullptr : &undelivered->ranges[undelivered->count - 1];
        const bool adjoins = last != nullptr && last->start + last->count == range.start;
        if (adjoins || undelivered->count == PK_MAX_RANGES) {
            // If there is no room for another range, the last one also covers elements that were delivered.
            last->count = range.start + range.count - last->start;
        } else {
            undelivered->ranges[undelivered->count++] = range;
        }
    }
}

int Call::lane_of_this_thread() {
    const auto found = std::find(threads_.begin(), threads_.end(), std::this_thread::get_id());
    const int lane = int(found - threads_.begin());
    if (found == threads_.end()) threads_.push_back(std::this_thread::get_id());
    report.threads = std::max(report.threads, int64_t(threads_.size()));
    return lane;
}

void Call::add_span(const pk_span &span) {
    const int64_t index = spans_.fetch_add(1, std::memory_order_relaxed);
    if (index < options_.span_capacity) reinterpret_cast<pk_span *>(options_.spans)[index] = span;
}

void Call::record_computing(double begin, double end, int64_t elements) {
    timeline_.mark(PK_STAGE_COMPUTE, begin, end);
    add_span({begin, end, 0, elements, PK_STAGE_COMPUTE, -1, lane_of_this_thread(), 0});
}

TraceLane::TraceLane(Call &call) : call_(call) {
    const std::lock_guard<std::mutex> lock(call.mutex);
    number_ = call.lane_of_this_thread();
}

TraceLane::~TraceLane() {
    std::lock_guard<std::mutex> lock(call_.mutex);
    call_.timeline_.merge(timeline_);
}

void TraceLane::add(int stage, double begin, double end, int64_t bytes, int64_t elements, int device,
                    int slot) {
    timeline_.mark(stage, begin, end);
    call_.add_span({begin, end, bytes, elements, stage, device, slot, 0});
}

}  // namespace pk

extern "C" int32_t pk_disable_callbacks(void) {
    return pk::guarded([] {
        pk::exiting_thread = std::this_thread::get_id();
        pk::callbacks_disabled = true;
        pk::wait_until_zero(pk::callbacks_in_flight);
    });
}

extern "C" int32_t pk_shutdown(void) {
    return pk::guarded([] {
        pk::exiting_thread = std::this_thread::get_id();
        pk::exiting = true;
        pk::wait_until_zero(pk::calls_in_flight);
    });
}
