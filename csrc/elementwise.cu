#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>

#include "common/layout.h"
#include "common/program.h"
#include "common/status.h"
#include "common/thread_pool.h"
#include "interpreter.cuh"
#include "stream/slots.h"

namespace pk {

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Measured: larger chunks fall out of cache, more threads or slots gain nothing.
static constexpr int64_t SMALLEST_CHUNK = 256 << 10;  // bytes
static constexpr int64_t MOST_THREADS = 12;
static constexpr size_t SLOTS_A_THREAD = 3;
static constexpr int64_t ALIGNMENT = 16;

// A chunk of at most this many bytes stays in pinned memory, where the kernel reads and writes it over the
// link: a launch instead of a launch and two copies.
static constexpr int64_t MOST_IN_PLACE = 64 << 10;

// Chunks that a thread takes at once: neighbours, so that threads seldom meet in the first touch of a huge
// page.
static constexpr int64_t RUN = 3;

static int64_t aligned(int64_t offset) { return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

namespace {

// A call, as the threads that stream it share it.
struct Call {
    const Program &program;
    const Layout &layout;
    int64_t instruction_count;
    uint8_t *exceptions;
    pk_report *report;
    std::mutex merge;  // guards the two above

    int64_t fixed_bytes = 0;    // of an image, whatever its number of elements
    int64_t element_bytes = 0;  // of an image, for each element
    int64_t spilled = 0;        // registers that shared memory has no room for

    Call(const Program &program, const Layout &layout, int64_t instruction_count, uint8_t *exceptions,
         pk_report *report)
        : program(program),
          layout(layout),
          instruction_count(instruction_count),
          exceptions(exceptions),
          report(report) {
        fixed_bytes = aligned(int64_t(program.steps.size() * sizeof(DeviceStep))) +
                      aligned(instruction_count * int64_t(sizeof(uint32_t)));
        for (const Step &step : program.steps) {
            if (step.op != PK_LOAD && step.op != PK_STORE) continue;
            const View &view = layout.views[step.op == PK_LOAD ? step.a : step.target];
            fixed_bytes += ALIGNMENT;
            if (view.access != Access::constant || step.op == PK_STORE) element_bytes += view.item;
        }
        spilled = std::max<int64_t>(0, program.register_count - device::MOST_REGISTERS);
    }

    // The elements of a full chunk.
    int64_t chunk_elements(int64_t threads) const {
        const int64_t in_host = (Slot::HOST_BYTES - fixed_bytes) / std::max<int64_t>(1, element_bytes);
        const int64_t in_device = (Slot::DEVICE_BYTES - fixed_bytes) / (element_bytes + 8 * spilled + 1);
        const int64_t fair = layout.size / (threads * int64_t(SLOTS_A_THREAD)) + 1;
        const int64_t smallest = SMALLEST_CHUNK / std::max<int64_t>(1, element_bytes) + 1;
        return std::max<int64_t>(1, std::min({in_host, in_device, std::max(fair, smallest)}));
    }
};

// One chunk on its way through a slot.
class Passage {
   public:
    Passage(Call &call, Slot &slot) : call_(call), slot_(slot) {}

    bool under_way() const { return count_ != 0; }

    void begin(int64_t start, int64_t count) {
        const Clock::time_point clock = Clock::now();
        start_ = start;
        count_ = count;
        stage();
        stage_seconds_ = seconds_since(clock);

        in_place_ = aligned(end_) + call_.spilled * 8 * count <= MOST_IN_PLACE;
        const cudaStream_t queue = slot_.queue.get();
        PK_CUDA(cudaEventRecord(slot_.begun.get(), queue));
        if (!in_place_) upload(outputs_);
        PK_CUDA(cudaEventRecord(slot_.uploaded.get(), queue));
        launch();
        PK_CUDA(cudaEventRecord(slot_.computed.get(), queue));
        if (!in_place_) download(exceptions_, end_);
        PK_CUDA(cudaEventRecord(slot_.downloaded.get(), queue));
    }

    void finish() {
        PK_CUDA(cudaEventSynchronize(slot_.downloaded.get()));
        const Clock::time_point clock = Clock::now();
        for (const Step &step : call_.program.steps) {
            if (step.op != PK_STORE) continue;
            const View &view = call_.layout.views[step.target];
            call_.layout.scatter(view, start_, count_, slot_.host() + offset_of(step));
        }
        const double unstage_seconds = seconds_since(clock);
        const auto *met = reinterpret_cast<const uint32_t *>(slot_.host() + exceptions_);

        std::lock_guard<std::mutex> lock(call_.merge);
        pk_report &report = *call_.report;
        for (int64_t i = 0; i < call_.instruction_count; ++i) {
            call_.exceptions[i] |= uint8_t(met[i]);
            report.exceptions |= met[i];
        }
        report.chunks += 1;
        report.bytes_up += outputs_;
        report.bytes_down += end_ - exceptions_;
        report.stage_seconds += stage_seconds_;
        report.upload_seconds += between(slot_.begun, slot_.uploaded);
        report.kernel_seconds += between(slot_.uploaded, slot_.computed);
        report.download_seconds += between(slot_.computed, slot_.downloaded);
        report.unstage_seconds += unstage_seconds;
        count_ = 0;
    }

   private:
    void upload(int64_t end) {
        PK_CUDA(cudaMemcpyAsync(slot_.device(), slot_.host(), size_t(end), cudaMemcpyHostToDevice,
                                slot_.queue.get()));
    }

    void download(int64_t from, int64_t end) {
        PK_CUDA(cudaMemcpyAsync(slot_.host() + from, slot_.device() + from, size_t(end - from),
                                cudaMemcpyDeviceToHost, slot_.queue.get()));
    }

    void launch() {
        const int registers = int(std::min<int64_t>(call_.program.register_count, device::MOST_REGISTERS));
        Chunk chunk{};
        chunk.image = in_place_ ? slot_.host() : slot_.device();
        chunk.exceptions = exceptions_;
        chunk.spilled = aligned(end_);
        chunk.count = count_;
        chunk.step_count = int32_t(call_.program.steps.size());
        chunk.registers_in_shared = registers;
        chunk.per_thread = device::elements_per_thread(registers);
        const int64_t per_block = int64_t(device::BLOCK) * chunk.per_thread;
        const auto blocks = unsigned((count_ + per_block - 1) / per_block);
        const size_t shared_bytes = size_t(registers) * per_block * sizeof(uint64_t);
        device::interpret<<<blocks, device::BLOCK, shared_bytes, slot_.queue.get()>>>(chunk);
        PK_CUDA(cudaGetLastError());
    }

    // Fills the slot's host memory up to the outputs; interpreter.cuh draws the layout.
    void stage() {
        const std::vector<Step> &steps = call_.program.steps;
        auto *image = reinterpret_cast<DeviceStep *>(slot_.host());
        int64_t offset = aligned(int64_t(steps.size() * sizeof(DeviceStep)));
        for (size_t i = 0; i < steps.size(); ++i) {
            const Step &step = steps[i];
            image[i] = {step.op, step.type, step.to,     step.target, step.a,
                        step.b,  step.c,    step.origin, offset};
            if (step.op != PK_LOAD) continue;
            const View &view = call_.layout.views[step.a];
            const bool constant = view.access == Access::constant;
            const int64_t elements = constant ? 1 : count_;
            call_.layout.gather(view, constant ? 0 : start_, elements, slot_.host() + offset);
            image[i].a = constant ? 0 : 1;
            offset = aligned(offset + elements * view.item);
        }
        exceptions_ = offset;
        outputs_ = aligned(offset + call_.instruction_count * int64_t(sizeof(uint32_t)));
        std::memset(slot_.host() + exceptions_, 0, size_t(outputs_ - exceptions_));
        end_ = outputs_;
        for (size_t i = 0; i < steps.size(); ++i) {
            if (steps[i].op != PK_STORE) continue;
            image[i].offset = end_;
            end_ = aligned(end_ + count_ * call_.layout.views[steps[i].target].item);
        }
    }

    int64_t offset_of(const Step &step) const {
        const auto index = size_t(&step - call_.program.steps.data());
        return reinterpret_cast<const DeviceStep *>(slot_.host())[index].offset;
    }

    static double between(const Event &from, const Event &to) {
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, from.get(), to.get()));
        return milliseconds * 1e-3;
    }

    Call &call_;
    Slot &slot_;
    int64_t start_ = 0, count_ = 0;
    int64_t exceptions_ = 0, outputs_ = 0, end_ = 0;  // offsets in the image
    double stage_seconds_ = 0;
    bool in_place_ = false;
};

// Every thread takes the next chunks, stages each into the next of its slots, and starts it on its way; when
// the slot comes round again, the chunk before is copied out of it.
void stream_chunks(Call &call) {
    const int64_t size = call.layout.size;
    const int64_t most_threads = std::min(thread_count(), MOST_THREADS);
    const int64_t chunk = call.chunk_elements(most_threads);
    const int64_t chunks = (size + chunk - 1) / chunk;
    std::atomic<int64_t> next{0};
    const int64_t threads = run_on_threads(std::min(chunks, most_threads), [&] {
        int64_t index = next.fetch_add(RUN);
        if (index >= chunks) return;
        const CurrentDevice device(0);
        Lease slots(std::min(SLOTS_A_THREAD, size_t(chunks - index)));
        std::vector<Passage> passages;
        for (size_t i = 0; i < slots.size(); ++i) passages.emplace_back(call, slots[i]);
        size_t turn = 0;
        try {
            for (; index < chunks; index = next.fetch_add(RUN)) {
                for (int64_t i = index; i < std::min(index + RUN, chunks); ++i) {
                    Passage &passage = passages[turn++ % passages.size()];
                    if (passage.under_way()) passage.finish();
                    passage.begin(i * chunk, std::min(chunk, size - i * chunk));
                }
            }
            for (size_t i = 0; i < passages.size(); ++i) {
                Passage &passage = passages[turn++ % passages.size()];
                if (passage.under_way()) passage.finish();
            }
        } catch (...) {
            next = chunks;  // the call has failed: the other threads need not go on
            throw;
        }
    });
    call.report->threads = threads;
}

}  // namespace
}  // namespace pk

int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count, const pk_operand *operands,
                    int64_t operand_count, const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                    pk_report *report) {
    return pk::guarded([&] {
        const auto begin = pk::Clock::now();
        pk::check_evaluate(program, instruction_count, operands, operand_count, shape, dimensions, exceptions,
                           report);
        const pk::Program checked(program, instruction_count, operands, operand_count);
        const pk::Layout layout(operands, operand_count, shape, dimensions, checked.stored);
        pk::arm_faults();
        pk::require_cuda();
        std::fill_n(exceptions, instruction_count, uint8_t(0));
        *report = pk_report{};
        pk::Call call(checked, layout, instruction_count, exceptions, report);
        if (layout.size != 0) pk::stream_chunks(call);
        report->seconds = pk::seconds_since(begin);
    });
}
