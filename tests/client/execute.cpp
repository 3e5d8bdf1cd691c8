// Checks execute() with operands on the device, without a GPU, against a faked CUDA runtime: chunks and their
// memory, waiting, status words, state, results for the host, and the state after an error or an interrupt.
// Prints the first violation and exits with 1, else prints "ok".
#include "cuda/residency/execute.h"

#include "cuda/runtime/inline_upload.h"
#include "cuda/runtime/status_words.h"
#include "fake_cuda_runtime.h"

namespace pk {

char *shared_status_words(const StreamScope &, int64_t bytes) {
    static char sink[PK_MAX_INSTRUCTIONS * sizeof(unsigned)];
    EXPECT(bytes <= int64_t(sizeof(sink)));
    return sink;
}

void add_status_words(const char *, int64_t, const StreamScope &) {}

void upload_inline(const char *bytes, int64_t count, char *to, cudaStream_t stream) {
    const std::string copied(bytes, size_t(count));
    enqueue(stream, [=] { std::memcpy(to, copied.data(), copied.size()); });
}

}  // namespace pk

namespace {

using pk::Chunk;

constexpr int64_t LARGEST_TEMPORARY = 32 << 20, SLOT_BYTES = 4 << 20;

// A test's settings of the algorithm, and the algorithm's records.
struct Case {
    int64_t size = 1000, temporary = 0, state = 0, failing_chunk = -1;
    bool is_async = false, returns_state = false, is_slow = false, raises = true;
    int64_t operations = 1;
    std::vector<pk_range> chunks;
    int64_t begun = 0, finished = 0, collected = 0, computed = 0;
    unsigned status = 0;
    std::vector<int64_t> taken;
};

// Doubles integers on the "device". Its state counts elements, and its status word has bit 1.
class Doubling : public pk::DeviceAlgorithm {
   public:
    Doubling(const pk::Layout &layout, Case &test, const int64_t *in, int64_t *out)
        : DeviceAlgorithm(layout, {}, {}, sizeof(unsigned), 0), test_(test), in_(in), out_(out) {
        can_run_async = true;
        operations = test.operations;
        returns_state = test.returns_state;
    }
    int64_t temporary_bytes(int64_t units) const override { return units * test_.temporary; }
    int64_t state_bytes() const override { return test_.state; }
    void begin(char *d_state, cudaStream_t stream) override {
        ++test_.begun;
        EXPECT(test_.chunks.empty());
        if (test_.state != 0) cudaMemsetAsync(d_state, 0, size_t(test_.state), stream);
    }
    void enqueue(const Chunk &chunk) override {
        if (int64_t(test_.chunks.size()) == test_.failing_chunk)
            pk::fail(PK_DEVICE_ERROR, "a test's failure");
        EXPECT(test_.begun == 1 && test_.finished == 0);
        EXPECT(chunk.start == chunk.units.start && chunk.count == chunk.units.count);
        EXPECT(chunk.operands == chunk.scratch);  // where a program keeps its values
        test_.chunks.push_back(chunk.units);
        use(chunk.d_memory, chunk.stream);
        // The algorithm may be gone when the work is done.
        ::enqueue(chunk.stream, [=, test = &test_, in = in_, out = out_] { compute(*test, chunk, in, out); });
    }
    void finish(char *, cudaStream_t) override { ++test_.finished; }
    void collect(const void *status) override {
        ++test_.collected;
        test_.status |= *static_cast<const unsigned *>(status);
    }
    void take_state(const char *state) override {
        test_.taken.push_back(*reinterpret_cast<const int64_t *>(state));
    }

   private:
    static void compute(Case &test, const Chunk &chunk, const int64_t *in, int64_t *out) {
        if (test.is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (test.raises) *reinterpret_cast<unsigned *>(chunk.d_memory) |= 1;
        // The temporary storage is the chunk's own, up to its last byte.
        std::memset(chunk.d_memory + chunk.scratch, 0x5a, size_t(chunk.count * test.temporary));
        for (int64_t i = chunk.start; i < chunk.start + chunk.count; ++i) out[i] = 2 * in[i];
        if (test.state != 0) *reinterpret_cast<int64_t *>(chunk.d_state) += chunk.count;
        test.computed += chunk.count;
    }

    Case &test_;
    const int64_t *const in_;
    int64_t *const out_;
};

int32_t stop(const pk_progress *) { return 1; }

// Runs a case on arrays of the "device", in a stream, and returns the status.
struct Run {
    explicit Run(Case &test, bool stops = false) : in(size_t(test.size)), out(size_t(test.size), -1) {
        for (int64_t i = 0; i < test.size; ++i) in[size_t(i)] = i;
        options.stream = reinterpret_cast<uint64_t>(stream);
        options.asynchronous = test.is_async;
        if (stops) options.progress_callback = reinterpret_cast<uint64_t>(&stop);
        layout.shape = {test.size};
        layout.size = test.size;
        pk::Call call(&options, &report);
        call.begin(test.size);
        const int64_t waits = host_waits;
        try {
            const pk::ExecutionContext context(call, 0);
            EXPECT(context.is_synchronous == !test.is_async);
            pk::Operands operands({}, call, context);
            Doubling algorithm(layout, test, in.data(), out.data());
            execute(algorithm, operands, call, context);
        } catch (const pk::Failure &failure) {
            status = failure.status();
        }
        waited = host_waits - waits;
        EXPECT(test.is_async || pending[stream].empty());  // also after a failure
    }
    void check() {
        EXPECT(status == PK_OK);
        cudaStreamSynchronize(stream);
        for (size_t i = 0; i < out.size(); ++i) EXPECT(out[i] == 2 * int64_t(i));
    }

    cudaStream_t stream = [] {
        cudaStream_t made = nullptr;
        cudaStreamCreateWithFlags(&made, 0);
        return made;
    }();
    std::vector<int64_t> in, out;
    pk::Layout layout;
    pk_options options{};
    pk_report report{};
    pk_status status = PK_OK;
    int64_t waited = 0;
};

void release() {
    pk::release_slots();
    pk::DevicePool::release_all();
}

// Chunks follow each other, and have as many elements as their temporary storage allows.
void check_chunks() {
    for (const bool is_async : {false, true}) {
        for (const int64_t temporary : {0, 1, 100, 1000}) {
            for (const int64_t state : {0, 8, 5000}) {
                Case test;
                test.size = 300'001;
                test.temporary = temporary;
                test.state = state;
                test.is_async = is_async;
                Run run(test);
                run.check();
                int64_t next = 0;
                const int64_t limit = is_async ? LARGEST_TEMPORARY : SLOT_BYTES;
                for (const pk_range &chunk : test.chunks) {
                    EXPECT(chunk.start == next && chunk.count > 0);
                    EXPECT(chunk.count * temporary <= limit);
                    next += chunk.count;
                    EXPECT(next == test.size || chunk.count % Chunk::ROUND == 0);
                }
                EXPECT(next == test.size);
                const int64_t bytes = test.size * temporary;
                EXPECT(int64_t(test.chunks.size()) <= 1 + 3 * bytes / limit);
                EXPECT(test.begun == 1 && test.finished == 1);
                EXPECT(test.collected == !is_async && test.status == unsigned(!is_async));
                EXPECT(run.report.chunks == (is_async ? 0 : int64_t(test.chunks.size())));
            }
        }
    }
    release();
}

// One unit may need more than any slot has.
void check_large_units() {
    Case test;
    test.size = 3;
    test.temporary = 5 << 20;
    Run run(test);
    run.check();
    EXPECT(test.chunks.size() == 3);
    release();
}

void check_waiting() {
    Case synchronous, asynchronous;
    asynchronous.is_async = true;
    asynchronous.temporary = 1000;
    for (int i = 0; i < 3; ++i) {
        asynchronous.chunks.clear();
        asynchronous.begun = asynchronous.finished = asynchronous.computed = 0;
        Run run(asynchronous);
        EXPECT(run.waited == 0 && asynchronous.computed == 0);
        run.check();
    }
    Run run(synchronous);
    EXPECT(run.waited > 0 && synchronous.computed == synchronous.size);
    run.check();
    release();
}

// Status words are those of the call, whatever the one before left in their place.
void check_status_words() {
    for (const int64_t size : {1000, 5'000'000}) {  // in pinned memory, and on the device
        for (const bool raises : {true, false, true}) {
            Case test;
            test.size = size;
            test.raises = raises;
            Run(test).check();
            EXPECT(test.collected == 1 && test.status == unsigned(raises));
        }
    }
    release();
}

// A long call waits after each slice, so that it can be stopped.
void check_slices() {
    Case test;
    test.size = 100 * Chunk::ROUND;
    test.operations = (int64_t(1) << 33) / Chunk::ROUND;
    Run run(test);
    run.check();
    EXPECT(test.chunks.size() == 100 && run.waited >= 100);

    Case stopped = test;
    stopped.chunks.clear();
    stopped.begun = stopped.finished = stopped.collected = 0;
    stopped.is_slow = true;
    const Run stopped_run(stopped, true);
    EXPECT(stopped_run.status == PK_INTERRUPTED);
    EXPECT(stopped.chunks.size() >= 2 && stopped.chunks.size() < 50);
    EXPECT(stopped.collected == 0);
    release();
}

// A failure in the middle leaves nothing that still uses memory.
void check_failures() {
    for (const bool is_async : {false, true}) {
        Case test;
        test.size = 300'000;
        test.temporary = 1000;
        test.is_async = is_async;
        test.failing_chunk = 2;
        const Run run(test);
        EXPECT(run.status == PK_DEVICE_ERROR && test.collected == 0 && test.finished == 0);
        EXPECT(test.computed == (is_async ? 0 : test.chunks[0].count + test.chunks[1].count));
        cudaStreamSynchronize(run.stream);
        Case after;
        after.size = 300'000;
        after.temporary = 1000;
        Run(after).check();
    }
    release();
}

void check_state() {
    Case test;
    test.size = 50'000;
    test.temporary = 1000;
    test.state = 64;
    test.returns_state = true;
    test.is_async = true;  // it waits all the same: the host takes the state
    Run run(test);
    EXPECT(run.waited > 0 && test.computed == test.size);
    EXPECT((test.taken == std::vector<int64_t>{test.size}));
    EXPECT(run.report.bytes_down >= 64);
    run.check();
    release();
}

pk_options options_for(const int64_t &device) {
    pk_options options{};
    options.devices = reinterpret_cast<uint64_t>(&device);
    options.device_count = 1;
    return options;
}

// Results for the host are there when a call on host memory returns, whether it has a current stream or not.
// The device that computes them copies them back: the faked runtime refuses other ones.
void check_results() {
    for (const int64_t device : {0, 1}) {
        for (const int64_t size : {100, 200'000}) {
            for (const bool has_scope : {false, true}) {
                Case test;
                test.size = size;
                std::vector<int64_t> in(size_t(size), 21), host(size_t(size), -1);
                pk::Layout layout;
                layout.shape = {size};
                layout.size = size;
                const pk_options options = options_for(device);
                pk_report report{};
                pk::Call call(&options, &report);
                call.begin(size);
                cudaStream_t stream = nullptr;
                {
                    const pk::CurrentDevice current(static_cast<int>(device));
                    cudaStreamCreateWithFlags(&stream, 0);
                }
                std::optional<pk::StreamScope> scope;
                if (has_scope) scope.emplace(static_cast<int>(device), stream);
                const pk::ExecutionContext context(call);
                EXPECT(context.is_synchronous == !has_scope);
                pk::Operands operands({{host.data(), size * 8, 8, true}}, call, context);
                char *const d_result = operands.d_result(0);
                EXPECT(device_of_memory(d_result) == device);
                Doubling algorithm(layout, test, in.data(), reinterpret_cast<int64_t *>(d_result));
                execute(algorithm, operands, call, context);
                EXPECT(std::all_of(host.begin(), host.end(), [](int64_t value) { return value == 42; }));
                EXPECT(report.bytes_down >= size * 8 && report.bytes_down < size * 8 + 100);
                operands.commit();
            }
        }
    }
    release();
}

// A resident result that the host has, too, is copied back by the device that it is on.
void check_results_in_residency() {
    constexpr int64_t SIZE = 200'000;
    const int64_t device = 1;
    std::vector<int64_t> in(size_t(SIZE), 21), host(size_t(SIZE), -1);
    const pk_options options = options_for(device);
    pk_report report{};
    pk::Call call(&options, &report);
    call.begin(SIZE);
    pk::ResidencyScope residency;
    residency.set_device(static_cast<int>(device));
    pk::ResidentBuffer buffer{};
    buffer.host = reinterpret_cast<char *>(host.data());
    buffer.bytes = SIZE * 8;
    buffer.intent = PK_RESIDENT_OUTPUT;
    buffer.device = static_cast<int>(device);
    {
        const pk::CurrentDevice current(buffer.device);
        buffer.owned = pk::DeviceBuffer(buffer.device, buffer.bytes);
    }
    buffer.host_valid = true;
    residency.add(std::move(buffer));
    pk::Layout layout;
    layout.shape = {SIZE};
    layout.size = SIZE;
    {
        Case test;
        test.size = SIZE;
        const pk::ExecutionContext context(call);
        pk::Operands operands({{host.data(), SIZE * 8, 8, true}}, call, context);
        char *const d_result = operands.d_result(0);
        EXPECT(device_of_memory(d_result) == device);
        Doubling algorithm(layout, test, in.data(), reinterpret_cast<int64_t *>(d_result));
        execute(algorithm, operands, call, context);
        EXPECT(std::all_of(host.begin(), host.end(), [](int64_t value) { return value == 42; }));
        operands.commit();
    }
    release();
}

}  // namespace

int main() {
    setenv("PYCUDAKIT_DEVICE_MEMORY", "8M", 1);
    setenv("PYCUDAKIT_PINNED_MEMORY", "4M", 1);
    setenv("PYCUDAKIT_PLAN_MEMORY", "256M", 1);
    check_chunks();
    check_large_units();
    check_waiting();
    check_status_words();
    check_slices();
    check_failures();
    check_state();
    check_results();
    check_results_in_residency();
    std::printf("ok\n");
}
