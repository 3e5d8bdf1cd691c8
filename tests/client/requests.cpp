// Checks lists of requests (pk_run_requests) without a GPU, against a faked CUDA runtime and entries that run
// one algorithm: copies, results, status words, calls on the host in between, memory, and the state after an
// error or an interrupt. Prints the first violation and exits with 1, else prints "ok".
#include "common/requests.h"

#include <array>

#include "cuda/kernels/cache_flush.h"
#include "cuda/kernels/run_resources.h"
#include "cuda/residency/execute.h"
#include "cuda/residency/request_graphs.h"
#include "cuda/runtime/inline_upload.h"
#include "cuda/runtime/status_words.h"
#include "fake_cuda_runtime.h"

static bool is_stale = false;  // graphs are

namespace pk {

char *shared_status_words(const StreamScope &scope, int64_t bytes) {
    EXPECT(scope.status.d_words != nullptr && bytes <= scope.status.bytes);
    return scope.status.d_words;
}

void add_status_words(const char *d_words, int64_t bytes, const StreamScope &scope) {
    EXPECT(bytes <= scope.status.bytes);
    enqueue(scope.stream, [=, to = scope.status.d_words] {
        for (int64_t i = 0; i < bytes; ++i) to[i] = char(to[i] | d_words[i]);
    });
}

void upload_inline(const char *bytes, int64_t count, char *to, cudaStream_t stream) {
    const std::string copied(bytes, size_t(count));
    enqueue(stream, [=] { std::memcpy(to, copied.data(), copied.size()); });
}

thread_local FusedKernelUses *FusedKernelUses::current_ = nullptr;
void FusedKernelUses::count_launch() const {}
bool FusedKernelUses::is_stale() const { return ::is_stale; }

namespace kernels {

ModuleLock::~ModuleLock() = default;
void release_modules() {}

}  // namespace kernels

}  // namespace pk

namespace {

using pk::Chunk;

// What the entries do besides: the status word that they raise, temporary bytes a unit, the call that fails.
unsigned raised = 0;
int64_t temporary = 0, failing_call = -1, calls = 0;
bool is_on_host = false;  // the entries use host memory alone
bool is_slow = false;     // they take 20 ms

// out[i] = in[i] + 1, of int64.
class Increment : public pk::DeviceAlgorithm {
   public:
    Increment(const pk::Layout &layout, const pk::Operands &operands)
        : DeviceAlgorithm(layout, operands.loads({0}), operands.stores(1), sizeof(unsigned), 0),
          operands_(operands) {
        can_run_async = true;
    }
    int64_t temporary_bytes(int64_t units) const override { return units * temporary; }
    void enqueue(const Chunk &chunk) override {
        const auto *const in = reinterpret_cast<const int64_t *>(operands_.d_data(*this, chunk, 0));
        auto *const out = reinterpret_cast<int64_t *>(operands_.d_data(*this, chunk, 1));
        if (temporary != 0) use(chunk.d_memory, chunk.stream);
        ::enqueue(chunk.stream, [=, word = raised, bytes = chunk.count * temporary] {
            *reinterpret_cast<unsigned *>(chunk.d_memory) |= word;
            std::memset(chunk.d_memory + chunk.scratch, 0x5a, size_t(bytes));
            for (int64_t i = 0; i < chunk.count; ++i) out[i] = in[i] + 1;
        });
    }
    void collect(const void *) override {}

   private:
    const pk::Operands &operands_;
};

int32_t increment(const pk_operand *operands, int64_t size, const pk_options *options, pk_report *report) {
    return pk::guarded([&] {
        if (calls++ == failing_call) pk::fail(PK_UNSUPPORTED, "a test's failure");
        if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        pk::Call call(options, report);
        call.begin(size);
        const pk::ExecutionContext context(call);
        auto *const in = reinterpret_cast<int64_t *>(operands[0].address);
        auto *const out = reinterpret_cast<int64_t *>(operands[1].address);
        std::vector<pk::MemoryRange> ranges{{in, size * 8, 8, false}, {out, size * 8, 8, true}};
        if (is_on_host) ranges = pk::on_host(std::move(ranges));
        pk::Operands resolved(std::move(ranges), call, context);
        if (is_on_host) {
            pk::StreamScope::synchronize();  // as the pipeline does
            for (int64_t i = 0; i < size; ++i) out[i] = in[i] + 1;
        } else {
            const pk::Layout layout = pk::Layout::contiguous({{in, PK_INT64}, {out, PK_INT64}}, size);
            Increment algorithm(layout, resolved);
            execute(algorithm, resolved, call, context);
        }
        resolved.commit();
        call.end();
    });
}

}  // namespace

// PK_REQUEST_EVALUATE increments on the device, and PK_REQUEST_SCAN on the host.
int32_t pk::call_entry(const pk_request &request, const pk_options *options, pk_report *report) {
    const RequestArguments arguments(request);
    is_on_host = request.entry == PK_REQUEST_SCAN;
    const int32_t status = increment(arguments.operands, *arguments.shape, options, report);
    is_on_host = false;
    return status;
}

namespace {

enum { KEPT = 0, UP = PK_BUFFER_UPLOAD, DOWN = PK_BUFFER_DOWNLOAD, BOTH = UP | DOWN };

// A list over buffers of int64: each request increments one buffer to another.
struct List {
    struct Step {
        int from, to;
        bool on_host = false;
        int64_t first = 0, count = 0;  // of the elements; 0: all
    };

    List(std::vector<int32_t> buffer_flags, int64_t size) : flags(std::move(buffer_flags)), size(size) {
        for (size_t i = 0; i < flags.size(); ++i) arrays.emplace_back(size_t(size), 1000 * int64_t(i + 1));
    }

    int32_t run(const std::vector<Step> &steps) {
        make_requests(steps);
        return run();
    }
    void make_requests(const std::vector<Step> &steps) {
        requests.assign(steps.size(), {});
        operands.assign(steps.size(), {});
        sizes.assign(steps.size(), 0);
        bindings.clear();
        order.clear();
        for (size_t i = 0; i < steps.size(); ++i) {
            const Step &step = steps[i];
            sizes[i] = step.count != 0 ? step.count : size;
            pk_request &request = requests[i];
            request.entry = step.on_host ? PK_REQUEST_SCAN : PK_REQUEST_EVALUATE;
            request.arguments[1] = 1;  // an instruction
            request.arguments[2] = reinterpret_cast<uint64_t>(operands[i].data());
            request.arguments[step.on_host ? 3 : 4] = reinterpret_cast<uint64_t>(&sizes[i]);
            const int buffers_of_step[] = {step.from, step.to};
            for (int j = 0; j < 2; ++j) {
                bindings.push_back({reinterpret_cast<uint64_t>(&operands[i][size_t(j)].address),
                                    buffers_of_step[j], 8 * step.first});
            }
            order.push_back(int32_t(i));
        }
    }
    // Run the same requests again.
    int32_t run() {
        std::vector<pk_buffer> buffers(flags.size());
        for (size_t i = 0; i < flags.size(); ++i) {
            buffers[i].address = reinterpret_cast<uint64_t>(arrays[i].data());
            buffers[i].bytes = size * 8;
            buffers[i].flags = flags[i];
        }
        calls = 0;
        return pk_run_requests(requests.data(), int64_t(requests.size()), order.data(), int64_t(order.size()),
                               bindings.data(), int64_t(bindings.size()), buffers.data(),
                               int64_t(buffers.size()), stops.data(), int64_t(stops.size()), key, &completed,
                               &options, &report);
    }
    bool holds(int buffer, int64_t value) const {
        const auto &array = arrays[size_t(buffer)];
        return std::all_of(array.begin(), array.end(), [=](int64_t each) { return each == value; });
    }

    const std::vector<int32_t> flags;
    const int64_t size;
    std::vector<std::vector<int64_t>> arrays;  // filled with 1000, 2000, ...
    std::vector<pk_request> requests;
    std::vector<std::array<pk_operand, 2>> operands;
    std::vector<int64_t> sizes;
    std::vector<pk_binding> bindings;
    std::vector<int32_t> order;
    std::vector<pk_stop> stops;
    uint64_t key[2] = {};
    int64_t completed = -1;
    pk_options options{};
    pk_report report{};
};

void release() {
    pk::RequestGraphs::release();
    pk::kernels::release();
    pk::release_slots();
    pk::DevicePool::release_all();
    EXPECT(allocated == 0 && graphs == 0);
}

// Short lists access small buffers in pinned memory; in longer lists these are copied together, and large
// ones by staged copies.
constexpr int64_t SMALL = 100, MEDIUM = 30'000, LARGE = 300'000, SIZES[] = {1, SMALL, MEDIUM, LARGE};

void check_lists() {
    for (const int64_t size : SIZES) {
        for (const bool is_long : {false, true}) {
            for (const int64_t bytes : {0, 16}) {
                temporary = bytes;
                List list({UP, KEPT, DOWN, BOTH}, size);
                std::vector<List::Step> steps{{0, 1}, {1, 2}, {2, 2}, {3, 3}};
                if (is_long) steps.insert(steps.end(), {{3, 3}, {2, 2}, {2, 2}});
                EXPECT(list.run(steps) == PK_OK);
                EXPECT(list.completed == int64_t(steps.size()) && list.holds(0, 1000) && list.holds(1, 2000));
                EXPECT(list.holds(2, is_long ? 1005 : 1003) && list.holds(3, is_long ? 4002 : 4001));
                EXPECT(list.report.bytes_up == 2 * size * 8 && list.report.bytes_down == 2 * size * 8);
                EXPECT(pk::StreamScope::current() == nullptr);
                EXPECT(pk::ResidencyScope::current() == nullptr);
            }
        }
    }
    temporary = 0;
    release();
}

// Elements of an uploaded buffer that no request writes stay; and an empty list changes nothing.
void check_unwritten() {
    for (const int64_t size : {SMALL, LARGE}) {
        List list({UP, BOTH, DOWN}, size);
        EXPECT(list.run({{0, 1, false, 3, 5}}) == PK_OK);
        for (int64_t i = 0; i < size; ++i)
            EXPECT(list.arrays[1][size_t(i)] == (i >= 3 && i < 8 ? 1001 : 2000));
        List untouched({UP, DOWN}, size);
        EXPECT(untouched.run({}) == PK_OK);
        EXPECT(untouched.completed == 0 && untouched.holds(1, 2000));
    }
    release();
}

// Calls on the host see what came before on the device, and the other way round.
void check_host() {
    for (const int64_t size : SIZES) {
        for (const bool pinned : {false, true}) {
            List list({BOTH, KEPT, DOWN, DOWN}, size);
            if (pinned) {
                pinned_begin = reinterpret_cast<const char *>(list.arrays[0].data());
                pinned_end = pinned_begin + size * 8;
            }
            const bool on_host = true;
            EXPECT(list.run({{0, 1}, {0, 0, on_host}, {1, 2, on_host}, {2, 3}, {0, 0}, {3, 3, on_host}}) ==
                   PK_OK);
            EXPECT(list.completed == 6 && list.holds(0, 1002) && list.holds(2, 1002) && list.holds(3, 1004));
            EXPECT(list.run({{0, 1}, {0, 0, on_host}, {1, 2, on_host}, {2, 3}}) == PK_OK);
            EXPECT(list.holds(0, 1003) && list.holds(2, 1004) && list.holds(3, 1005));
            pinned_begin = pinned_end = nullptr;
        }
    }
    release();
}

void check_status_words() {
    for (const int64_t bytes : {0, 16}) {
        for (const unsigned word : {5u, 0u, 2u}) {
            temporary = bytes;
            raised = word;
            List list({UP, DOWN}, SMALL);
            EXPECT(list.run({{0, 1}, {1, 1}}) == PK_OK);
            EXPECT(list.report.exceptions == word);
        }
    }
    temporary = raised = 0;
    release();
}

void expect_nothing_left() {
    for (const auto &[stream, work] : pending) EXPECT(work.empty());
    EXPECT(pk::StreamScope::current() == nullptr && pk::ResidencyScope::current() == nullptr);
}

// A failure or an interrupt in the middle leaves nothing enqueued, and no scope.
void check_failures() {
    for (const int64_t size : SIZES) {
        failing_call = 2;
        List list({UP, KEPT, DOWN}, size);
        EXPECT(list.run({{0, 1}, {1, 2}, {2, 2}}) == PK_UNSUPPORTED);
        EXPECT(list.completed == 2);
        failing_call = -1;
        expect_nothing_left();
        EXPECT(list.run({{0, 1}, {1, 2}, {2, 2}}) == PK_OK);
        EXPECT(list.holds(2, 1003));

        is_slow = true;
        const pk_progress_callback stop = [](const pk_progress *) { return int32_t(1); };
        list.options.progress_callback = reinterpret_cast<uint64_t>(stop);
        EXPECT(list.run(std::vector<List::Step>(10, {2, 2})) == PK_INTERRUPTED);
        EXPECT(list.completed > 0 && list.completed < 10);
        is_slow = false;
        expect_nothing_left();
    }
    release();
}

// A list ends after the call that meets a stop: here if the first byte of a buffer becomes 0. Its value is
// read in pinned memory if the buffer is small, else copied, or computed on the host.
void check_stops() {
    for (const int64_t size : SIZES) {
        for (const bool on_host : {false, true}) {
            for (const int32_t first : {1020, 1022, 1030}) {
                List list({UP, DOWN, BOTH}, size);
                list.arrays[2].assign(size_t(size), first);
                for (int64_t call = 0; call < 6; ++call)
                    list.stops.push_back({call, 2, 0, PK_BOOL, PK_STOP_IF_FALSE});
                const List::Step step{2, 2, on_host};
                EXPECT(list.run({{0, 1}, step, step, step, step, {1, 1}}) == PK_OK);
                const int64_t calls = first == 1020 ? 5 : first == 1022 ? 3 : 6;
                EXPECT(list.completed == calls && list.holds(2, first + std::min<int64_t>(calls - 1, 4)));
                EXPECT(list.holds(1, first == 1030 ? 1002 : 1001));
                expect_nothing_left();
            }
        }
    }
    release();
}

// Buffers that are resident in a scope of the caller's stay on the device, from list to list.
void check_resident() {
    for (const int64_t size : SIZES) {
        List list({BOTH, KEPT, DOWN}, size);
        pk::ResidencyScope scope;
        for (const int buffer : {0, 2}) {
            pk::ResidentBuffer resident{};
            resident.host = reinterpret_cast<char *>(list.arrays[size_t(buffer)].data());
            resident.bytes = size * 8;
            resident.intent = buffer == 0 ? PK_RESIDENT_INPUT : PK_RESIDENT_TEMPORARY;
            resident.owned = pk::DevicePool::of(0).allocate_if_possible(resident.bytes, std::nullopt,
                                                                        pk::Account::resident);
            resident.host_valid = buffer == 0;
            scope.add(std::move(resident));
        }
        for (const int turn : {0, 1}) {
            EXPECT(list.run({{0, 1}, {1, 2}, {0, 0}}) == PK_OK);
            EXPECT(list.report.bytes_up == (turn == 0 ? size * 8 : 0) && list.report.bytes_down == 0);
            EXPECT(list.holds(0, 1000) && list.holds(2, 3000));
        }
        pk::Call call(&list.options, &list.report);
        for (const int buffer : {0, 2})
            pk::ResidencyScope::find(reinterpret_cast<uint64_t>(list.arrays[size_t(buffer)].data()))
                ->sync_to_host(call);
        EXPECT(list.holds(0, 1002) && list.holds(2, 1003));
    }
    release();
}

// Without room on the device, the requests are calls of their own.
void check_no_room() {
    List list({UP, KEPT, DOWN}, 30 << 20);
    EXPECT(list.run({{0, 1, false, 0, 10}, {1, 2, false, 0, 10}}) == PK_OK);
    EXPECT(list.arrays[1][9] == 1001 && list.arrays[2][9] == 1002 && list.arrays[2][10] == 3000);
    release();
}

// A list with a key is captured in graphs in its second run, and later runs launch them.
struct KeyedList : List {
    KeyedList(std::vector<int32_t> buffer_flags, int64_t size) : List(std::move(buffer_flags), size) {
        static uint64_t last_key = 0;
        key[0] = ++last_key;
    }
    // Run with other values; return the calls of entries. Afterwards, buffer 2 has `more` added to buffer 0.
    int64_t run_with(int64_t value, int64_t more) {
        for (std::vector<int64_t> &array : arrays) {
            std::vector<int64_t> moved(array.size(), -1);
            array.swap(moved);
        }
        arrays[0].assign(size_t(size), value);
        EXPECT(run() == PK_OK);
        EXPECT(completed == int64_t(order.size()) && holds(0, value) && holds(2, value + more));
        expect_nothing_left();
        EXPECT(captured == nullptr);
        return calls;
    }
};

const std::vector<List::Step> LONG = {{0, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 2}};
constexpr int64_t CALLS = 9;

void check_graphs() {
    for (const int64_t size : SIZES) {
        for (const int64_t bytes : {0, 16}) {
            temporary = bytes;
            KeyedList list({UP, KEPT, DOWN}, size);
            list.make_requests(LONG);
            EXPECT(list.run_with(10, CALLS) == CALLS);
            EXPECT(list.run_with(20, CALLS) == 2 * CALLS);
            for (const int64_t value : {30, 40}) EXPECT(list.run_with(value, CALLS) == 0);
            EXPECT(list.report.bytes_up == size * 8 && list.report.bytes_down == size * 8);
            is_stale = true;
            EXPECT(list.run_with(50, CALLS) == 2 * CALLS);
            is_stale = false;
            EXPECT(list.run_with(60, CALLS) == 0);
            list.order.push_back(int32_t(CALLS) - 2);  // buffer 1 again, which nothing reads afterwards
            EXPECT(list.run_with(70, CALLS) == 2 * (CALLS + 1));
            list.key[0] += 1000;
            EXPECT(list.run_with(80, CALLS) == CALLS + 1);
        }
    }
    temporary = 0;
    release();
}

// Calls on the host, between graphs.
void check_graphs_and_the_host() {
    for (const int64_t size : SIZES) {
        KeyedList list({UP, KEPT, DOWN}, size);
        std::vector<List::Step> steps = LONG;
        steps[3].on_host = steps[4].on_host = steps.back().on_host = true;
        list.make_requests(steps);
        EXPECT(list.run_with(10, CALLS) == CALLS);
        (void)list.run_with(20, CALLS);
        const int64_t before = graph_launches;
        for (const int64_t value : {30, 40, 50}) EXPECT(list.run_with(value, CALLS) == 3);
        EXPECT(graph_launches == before + 3 * 2);
    }
    release();
}

// Graphs give way to allocations: those of 60 lists have more memory than PYCUDAKIT_PLAN_MEMORY.
void check_graphs_and_shortage() {
    for (int i = 0; i < 60; ++i) {
        KeyedList list({UP, KEPT, DOWN}, LARGE);
        list.make_requests(LONG);
        EXPECT(list.run_with(10, CALLS) == CALLS);
        EXPECT(list.run_with(20, CALLS) == 2 * CALLS);
        EXPECT(list.run_with(30, CALLS) == 0);
    }
    release();
}

// Graphs that are in use while all are released are not cached again.
void check_release_during_a_run() {
    KeyedList list({UP, KEPT, DOWN}, SMALL);
    list.make_requests(LONG);
    for (const int64_t value : {10, 20, 30}) (void)list.run_with(value, CALLS);
    is_slow = true;
    const pk_progress_callback release_graphs = [](const pk_progress *) {
        pk::RequestGraphs::release();
        return int32_t(0);
    };
    list.order.insert(list.order.end(), 5, int32_t(CALLS) - 2);  // slow enough for the callback
    list.options.progress_callback = reinterpret_cast<uint64_t>(release_graphs);
    EXPECT(list.run() == PK_OK);
    list.options.progress_callback = 0;
    is_slow = false;
    EXPECT(list.run_with(40, CALLS) == CALLS + 5);
    release();
}

// An interrupt while calls are captured ends the list; a later run captures them.
void check_interrupted_captures() {
    KeyedList list({UP, KEPT, DOWN}, SMALL);
    list.make_requests(LONG);
    (void)list.run_with(10, CALLS);
    const pk_progress_callback stop = [](const pk_progress *) { return int32_t(captured != nullptr); };
    list.options.progress_callback = reinterpret_cast<uint64_t>(stop);
    is_slow = true;
    EXPECT(list.run() == PK_INTERRUPTED);
    EXPECT(captured == nullptr && capturing == nullptr);
    expect_nothing_left();
    list.options.progress_callback = 0;
    is_slow = false;
    EXPECT(list.run_with(20, CALLS) == CALLS);
    EXPECT(list.run_with(30, CALLS) == 2 * CALLS);
    EXPECT(list.run_with(40, CALLS) == 0);
    release();
}

// A call that fails only while it is captured is made without a graph.
void check_failing_captures() {
    for (const int64_t failing : {0, 4, 8}) {
        KeyedList list({UP, KEPT, DOWN}, SMALL);
        list.make_requests(LONG);
        (void)list.run_with(10, CALLS);
        failing_call = CALLS + failing;
        (void)list.run_with(20, CALLS);
        failing_call = -1;
        for (const int64_t value : {30, 40}) EXPECT(list.run_with(value, CALLS) <= 1);
    }
    release();
}

// A list ends at a stop after a graph; a later run may go further.
void check_stops_after_graphs() {
    for (const int64_t size : SIZES) {
        KeyedList list({UP, DOWN, BOTH}, size);
        list.make_requests(std::vector<List::Step>(20, {2, 2}));
        for (const int64_t call : {9, 14, 19}) list.stops.push_back({call, 2, 0, PK_BOOL, PK_STOP_IF_FALSE});
        for (const int64_t end : {10, 10, 10, 15, 15, 20, 10, 20, 15}) {
            list.arrays[2].assign(size_t(size), 1024 - end);
            EXPECT(list.run() == PK_OK);
            EXPECT(list.completed == end && list.holds(2, 1024));
            expect_nothing_left();
        }
    }
    release();
}

void check_threads() {
    std::vector<std::thread> threads;
    temporary = 16;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            for (int round = 0; round < 20; ++round) {
                List list({UP, KEPT, DOWN}, round % 4 == 0 ? LARGE : SMALL);
                std::vector<List::Step> steps{{0, 1}, {1, 2}};
                for (int j = 0; j < 20; ++j) steps.push_back({2, 2});
                EXPECT(list.run(steps) == PK_OK && list.holds(2, 1022));
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    temporary = 0;
    release();
}

}  // namespace

int main() {
    setenv("PYCUDAKIT_DEVICE_MEMORY", "8M", 1);
    setenv("PYCUDAKIT_PINNED_MEMORY", "4M", 1);
    setenv("PYCUDAKIT_PLAN_MEMORY", "256M", 1);
    check_lists();
    check_status_words();
    check_failures();
    check_host();
    check_no_room();
    check_threads();
    check_unwritten();
    check_stops();
    check_resident();
    check_graphs();
    check_graphs_and_the_host();
    check_graphs_and_shortage();
    check_release_during_a_run();
    check_interrupted_captures();
    check_failing_captures();
    check_stops_after_graphs();
    std::printf("ok\n");
}
