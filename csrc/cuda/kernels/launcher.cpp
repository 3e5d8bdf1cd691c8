// Runs user kernels: checks and launches the steps, throttles launches so that a call can be interrupted, and
// explains failures.
#include "launcher.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <optional>
#include <thread>

#include "buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/tuning.h"
#include "device_operands.h"
#include "module_variables.h"
#include "run_resources.h"

namespace pk::kernels {

namespace {

constexpr int64_t MIN_PRINTF_BYTES = 64 << 10, MAX_PRINTF_BYTES = 16 << 20;  // of printf records

// A checked launch: its function, configuration and arguments.
struct Prepared {
    const void *function = nullptr;
    cudaLaunchConfig_t config{};
    std::vector<void *> arguments;
};

// Convert an array of three sizes to a dim3.
dim3 extent(const int64_t (&of)[3]) { return dim3(unsigned(of[0]), unsigned(of[1]), unsigned(of[2])); }

std::string triple(const dim3 &of) {
    return "(" + std::to_string(of.x) + ", " + std::to_string(of.y) + ", " + std::to_string(of.z) + ")";
}

// One run of a request.
class Launcher {
   public:
    // `capacity` is the size of the printf buffer, in bytes of records.
    Launcher(const Run &run, Call &call, int device, int64_t capacity, RunState *run_state)
        : run_(run),
          call_(call),
          device_(device),
          capacity_(capacity),
          run_state_(run_state),
          device_operands_(run, device) {}

    void run() {
        for (const pk_image &image : run_.images) modules_.push_back(load_module(image));
        const bool is_async = can_run_async();
        if (!is_async) refuse_capture();
        lock_modules();
        prepare();
        call_.count_launch();
        if (is_async) return run_async();
        const Symbols symbols(run_, modules_);
        resources_.run_stream = acquire_run_stream(device_);
        stream_ = resources_.stream();
        try {
            Buffers buffers(run_.buffers, call_, device_);
            allocate(buffers);
            bind(buffers);
            follow_streams();
            DevicePrintf device_printf(modules_, capacity_);
            if (device_printf.is_possible()) device_printf.begin(device_, resources_);
            symbols.set(stream_);
            run(buffers);
            symbols.restore(stream_);
            if (run_.symbols.size != 0) wait();
            if (device_printf.is_possible()) text_ = device_printf.read(stream_, [&] { wait(); });
        } catch (const Failure &failure) {
            stop();
            explain(failure);
        } catch (...) {
            stop();
            throw;
        }
        give_back(std::move(resources_.run_stream));
    }

    double kernel_seconds() const { return kernel_seconds_; }
    const std::string &text() const { return text_; }

   private:
    // Give the buffers memory: a staging slot's, or their own.
    void allocate(Buffers &buffers) {
        if (buffers.bytes() == 0 && std::any_of(run_.buffers.begin(), run_.buffers.end(), is_in_place))
            return;
        const SlotBytes slot = Lease::default_size(Lease::staged);
        if (buffers.bytes() <= slot.device &&
            buffers.pinned_bytes() <= std::min(slot.host, tuned(Tune::in_place_bytes))) {
            resources_.lease.emplace(slot, SlotBytes{0, 0}, device_, 1, call_);
            const Slot &leased = *resources_.lease->slots().front();
            // A slot that was created when memory was short may be too small.
            if (buffers.bytes() <= leased.device_bytes)
                return buffers.set_memory(leased.d_memory(), leased.host());
            resources_.lease.reset();
        }
        resources_.buffer = kernels::allocate(device_, std::max(buffers.bytes(), DEVICE_ALIGNMENT));
        buffers.set_memory(resources_.buffer.d_memory());
    }

    // ---- Device arrays ------------------------------------------------------------------------------

    // Return true if the run can be enqueued in options.stream without waiting: the arrays are of that
    // stream, and it needs no other memory, variables or printf, and has few launches.
    bool can_run_async() const {
        const auto prints = [](const auto &module) { return module->printf_header().has_value(); };
        const pk_options &options = call_.options();
        const std::vector<cudaStream_t> stream{reinterpret_cast<cudaStream_t>(options.stream)};
        return options.asynchronous != 0 && options.stream != 0 && run_state_ == nullptr &&
               device_operands_.needs_no_memory() && device_operands_.streams() == stream &&
               run_.launches <= MAX_UNTHROTTLED && run_.symbols.size == 0 &&
               std::none_of(modules_.begin(), modules_.end(), prints);
    }

    // Throw if a stream of the arrays is being captured in a CUDA graph, since this run synchronizes.
    void refuse_capture() const {
        for (const cudaStream_t stream : device_operands_.streams()) {
            if (!is_capturing(stream)) continue;
            fail(PK_UNSUPPORTED, "this run cannot be captured in a CUDA graph: that takes at most " +
                                     std::to_string(MAX_UNTHROTTLED) +
                                     " launches of kernels that do not print, on arrays on the GPU of one "
                                     "stream alone, none of them written through another parameter, without "
                                     "time_kernel, wait and symbols");
        }
    }

    void run_async() {
        stream_ = device_operands_.streams().front();
        for (const auto &module : modules_) module->mark_async();
        try {
            Buffers buffers(run_.buffers, call_, device_);
            allocate(buffers);
            bind(buffers);
            buffers.upload(stream_);
            has_launched_ = true;
            run_.each([&](const pk_step &step) { launch(step); });
        } catch (const Failure &failure) {
            explain(failure);
        }
        advance(run_.launches);
    }

    // Make this run's stream wait for the arrays' streams. (These need not wait for it: the host does.)
    void follow_streams() {
        for (const cudaStream_t stream : device_operands_.streams()) {
            PK_CUDA(cudaEventRecord(resources_.run_stream->arrived.get(), stream));
            PK_CUDA(cudaStreamWaitEvent(stream_, resources_.run_stream->arrived.get()));
        }
    }

    // ---- Preparation --------------------------------------------------------------------------------

    // Lock the modules: exclusively, if a run sets their variables or they print.
    void lock_modules() {
        std::vector<std::pair<std::shared_ptr<Module>, bool>> requests;
        for (const auto &module : modules_)
            requests.emplace_back(module, module->printf_header().has_value());
        for (const pk_symbol &symbol : run_.symbols) requests[size_t(symbol.image)].second = true;
        // All calls lock in the same order, so that they cannot deadlock.
        std::sort(requests.begin(), requests.end(), std::greater<>());
        const Module *last = nullptr;
        for (const auto &[module, exclusive] : requests) {
            if (module.get() != last) resources_.module_locks.emplace_back(module, exclusive, call_);
            if (exclusive && module->ran_async()) synchronize_current_device();
            last = module.get();
        }
    }

    // Check all launches before any runs.
    void prepare() {
        prepared_.resize(size_t(run_.steps.size));
        for (int64_t i = 0; i < run_.steps.size; ++i) {
            const pk_step &step = run_.steps[i];
            if (step.kernel == PK_STEP_REPEAT) continue;
            const pk_kernel &kernel = run_.kernels[step.kernel];
            const LoadedKernel &loaded_kernel = modules_[size_t(kernel.image)]->kernel(
                text_of(kernel.symbol, kernel.symbol_bytes), named(kernel));
            require_allowed(run_, step, loaded_kernel.limits);
            const Shape shape = shape_of(step, loaded_kernel.limits);
            Prepared &prepared = prepared_[size_t(i)];
            prepared.function = loaded_kernel.function;
            prepared.config.gridDim = extent(shape.grid);
            prepared.config.blockDim = extent(shape.block);
            prepared.config.dynamicSmemBytes = size_t(step.shared);
        }
    }

    // Fill in the arguments of each launch, when the buffers have device addresses.
    void bind(const Buffers &buffers) {
        addresses_.reserve(size_t(run_.arguments.size));
        for (const pk_argument &argument : run_.arguments)
            addresses_.push_back(argument.buffer >= 0 ? buffers.address(argument.buffer) + argument.offset
                                                      : nullptr);
        for (int64_t i = 0; i < run_.steps.size; ++i) {
            const pk_step &step = run_.steps[i];
            if (step.kernel == PK_STEP_REPEAT) continue;
            Prepared &prepared = prepared_[size_t(i)];
            prepared.config.stream = stream_;
            for (int64_t j = step.first_argument; j < step.first_argument + step.argument_count; ++j) {
                const bool is_value = run_.arguments[j].buffer == PK_ARGUMENT_VALUE;
                prepared.arguments.push_back(is_value ? const_cast<uint8_t *>(run_.value_of(j))
                                                      : static_cast<void *>(&addresses_[size_t(j)]));
            }
        }
    }

    // ---- The steps ----------------------------------------------------------------------------------

    void run(Buffers &buffers) {
        const double began = call_.seconds();
        buffers.upload(stream_);
        const double launched = call_.seconds();
        launch_all();
        buffers.enqueue_download(stream_);
        wait();
        advance(run_.launches - advanced_);
        const double end = call_.seconds();
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, resources_.run_stream->begun.get(),
                                     resources_.run_stream->ended.get()));
        kernel_seconds_ = double(milliseconds) * 1e-3;
        const double computed = std::min(end, launched + kernel_seconds_);
        {
            TraceLane lane(call_);
            auto add = [&](int stage, double from, double to, int64_t bytes) {
                lane.add(stage, from, to, bytes, 0, device_, KERNELS_LANE);
            };
            add(PK_STAGE_KERNEL, launched, computed, 0);
            // Small copies are not timed by events, which would cost as much as the copies.
            if (buffers.has_pinned_memory() && buffers.bytes_up() != 0)
                add(PK_STAGE_UPLOAD, began, launched, buffers.bytes_up());
            if (buffers.has_pinned_memory() && buffers.bytes_down() != 0)
                add(PK_STAGE_DOWNLOAD, computed, end, buffers.bytes_down());
        }
        buffers.download();
    }

    void launch_all() {
        PK_CUDA(cudaEventRecord(resources_.run_stream->begun.get(), stream_));
        has_launched_ = true;
        run_.each([&](const pk_step &step) {
            launch(step);
            throttle();
        });
        PK_CUDA(cudaEventRecord(resources_.run_stream->ended.get(), stream_));
    }

    void launch(const pk_step &step) {
        Prepared &prepared = prepared_[size_t(&step - run_.steps.begin())];
        PK_CUDA(cudaLaunchKernelExC(&prepared.config, prepared.function, prepared.arguments.data()));
    }

    // Keep at most two batches of launches in flight, each of a few milliseconds, so that a call can be
    // interrupted.
    void throttle() {
        if (run_.launches <= MAX_UNTHROTTLED || ++in_batch_ < batch_) return;
        advance(in_batch_);
        in_batch_ = 0;
        const auto turn = size_t(batches_ % 2);
        PK_CUDA(cudaEventRecord(resources_.run_stream->pace_events[turn].get(), stream_));
        if (batches_++ == 0) return;
        wait_for([&] { return cudaEventQuery(resources_.run_stream->pace_events[turn ^ 1].get()); });
        const double now = call_.seconds(), took = now - paced_;
        paced_ = now;
        if (took < QUICK) batch_ = std::min<int64_t>(2 * batch_, LONGEST_BATCH);
        if (took > SLOW) batch_ = std::max<int64_t>(batch_ / 2, 1);
    }

    void advance(int64_t launches) {
        advanced_ += launches;
        call_.advance(launches);
    }

    void wait() {
        wait_for([&] { return cudaStreamQuery(stream_); });
    }

    template <class Query>
    void wait_for(Query query) {
        const double since = call_.seconds();
        for (;;) {
            const cudaError_t state = query();
            if (state != cudaErrorNotReady) {
                check_cuda(fault_due() ? fault_of("the kernels") : state, "the kernels", __FILE__, __LINE__);
                return;
            }
            call_.check_interrupt();
            if (call_.seconds() - since > AWAKE) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }

    // ---- Failures -----------------------------------------------------------------------------------

    // Wait for running kernels. If that takes too long, detach them, with all that they use.
    void stop() noexcept {
        // The modules' variables no longer have their initial values.
        for (const pk_symbol &symbol : run_.symbols) unload(run_.images[symbol.image]);
        const double since = call_.seconds();
        cudaError_t state;
        while ((state = cudaStreamQuery(stream_)) == cudaErrorNotReady) {
            if (call_.seconds() - since > LAST_PATIENCE) {
                for (const pk_image &image : run_.images) unload(image);
                detach(resources_list_);
                if (run_state_ != nullptr) run_state_->is_detached = true;
                return;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        is_lost_ = state != cudaSuccess;
        (void)cudaGetLastError();
    }

    // Throw the failure with the names of the kernels that may have caused it.
    [[noreturn]] void explain(const Failure &failure) {
        if (!has_launched_ || failure.status() != PK_DEVICE_ERROR) throw failure;
        std::vector<std::string> labels;
        for (const pk_step &step : run_.steps) {
            if (step.kernel == PK_STEP_REPEAT) continue;
            const std::string label = named(run_.kernels[step.kernel]);
            if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
        }
        constexpr size_t MAX_LABELS = 8;
        std::string names;
        for (size_t i = 0; i < std::min(labels.size(), MAX_LABELS); ++i)
            names += (i == 0 ? "" : i + 1 == labels.size() ? " or " : ", ") + labels[i];
        if (labels.size() > MAX_LABELS) names += ", ...";
        if (run_.steps.size == 1) {
            const cudaLaunchConfig_t &config = prepared_[0].config;
            names += " (block " + triple(config.blockDim) + ", grid " + triple(config.gridDim) + ")";
        }
        const char *const remedy = "; with isolate=True, a kernel's fault ends a helper process alone";
        fail(PK_DEVICE_ERROR, names + ": " + failure.what() + (is_lost_ ? remedy : ""));
    }

    static constexpr int64_t MAX_UNTHROTTLED = 4, LONGEST_BATCH = 256;
    static constexpr double QUICK = 2e-3, SLOW = 20e-3, AWAKE = 300e-6, LAST_PATIENCE = 0.1;

    const Run &run_;
    Call &call_;
    const int device_;
    const int64_t capacity_;
    RunState *const run_state_;
    const DeviceOperands device_operands_;
    Modules modules_;
    std::vector<Prepared> prepared_;             // one for each step
    std::vector<char *> addresses_;              // one for each argument
    std::list<RunResources> resources_list_{1};  // one element, which detach() can take
    RunResources &resources_ = resources_list_.front();
    cudaStream_t stream_ = nullptr;

    bool has_launched_ = false, is_lost_ = false;
    double kernel_seconds_ = 0, paced_ = 0;
    int64_t batch_ = 1, in_batch_ = 0, batches_ = 0, advanced_ = 0;
    std::string text_;
};

// Copy the printed text to the caller's buffer, as much as fits, and give its whole length.
void give(const std::string &text, uint8_t *to, int64_t capacity, int64_t *length) {
    *length = int64_t(text.size());
    const auto bytes = size_t(std::min(*length, capacity));
    if (bytes != 0) std::memcpy(to, text.data(), bytes);
}

}  // namespace

void run(const Request &request, Call &call, int device, RunState *run_state) {
    const int64_t capacity = std::clamp(request.capacity, MIN_PRINTF_BYTES / 8, MAX_PRINTF_BYTES / 8) * 8;
    Launcher launcher(request.run, call, device, capacity, run_state);
    launcher.run();
    call.set_stage_seconds(PK_STAGE_KERNEL, launcher.kernel_seconds());
    give(launcher.text(), request.text, request.capacity, request.length);
}

}  // namespace pk::kernels
