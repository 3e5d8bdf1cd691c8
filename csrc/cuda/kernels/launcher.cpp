#include "launcher.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <optional>
#include <thread>

#include "buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "device_operands.h"
#include "module_variables.h"
#include "run_resources.h"

namespace pk::kernels {

namespace {

// In a profile, kernels have a lane of their own, beside those of the slots.
constexpr int KERNELS_LANE = 1 << 20;
constexpr int64_t LEAST_ROOM = 64 << 10, MOST_ROOM = 16 << 20;  // for what is printed

// A launch that was checked.
struct Prepared {
    const void *function = nullptr;
    cudaLaunchConfig_t config{};
    std::vector<void *> arguments;
};

dim3 extent(const int64_t (&of)[3]) { return dim3(unsigned(of[0]), unsigned(of[1]), unsigned(of[2])); }

std::string triple(const dim3 &of) {
    return "(" + std::to_string(of.x) + ", " + std::to_string(of.y) + ", " + std::to_string(of.z) + ")";
}

class Runner {
   public:
    // What is printed has so much room, in bytes of records.
    Runner(const Run &run, Call &call, int device, int64_t room, Progress *in_plan)
        : run_(run), call_(call), device_(device), room_(room), in_plan_(in_plan), there_(run, device) {}

    void run() {
        for (const pk_image &image : run_.images) modules_.push_back(loaded(image));
        const bool is_queued = can_be_queued();
        if (!is_queued) refuse_capture();
        use_modules();
        prepare();
        if (is_queued) return queue();
        const Symbols symbols(run_, modules_);
        held_.track = take_track(device_);
        queue_ = held_.queue();
        if (in_plan_ != nullptr) in_plan_->has_begun = true;
        try {
            Buffers buffers(run_, call_, device_, held_);
            bind(buffers);
            follow_streams();
            Printing printing(modules_, room_);
            if (printing.is_possible()) printing.begin(device_, held_);
            symbols.set(queue_);
            run(buffers);
            symbols.restore(queue_);
            if (run_.symbols.size != 0) wait();
            if (printing.is_possible()) text_ = printing.read(queue_, [&] { wait(); });
        } catch (const Failure &failure) {
            give_up();
            explain(failure);
        } catch (...) {
            give_up();
            throw;
        }
        give_back(std::move(held_.track));
    }

    double kernel_seconds() const { return kernel_seconds_; }
    const std::string &text() const { return text_; }

   private:
    // ---- Of arrays that lie there -------------------------------------------------------------------

    // Whether a run needs nothing but its kernels in the arrays' stream, and nobody has to wait for them.
    bool can_be_queued() const {
        const auto prints = [](const auto &module) { return module->printed().has_value(); };
        return in_plan_ == nullptr && there_.is_enough() && there_.streams().size() == 1 &&
               run_.launches <= UNPACED && run_.symbols.size == 0 && call_.options().waits == 0 &&
               std::none_of(modules_.begin(), modules_.end(), prints);
    }

    // A graph cannot have what the host waits for.
    void refuse_capture() const {
        for (const cudaStream_t stream : there_.streams()) {
            if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) continue;
            cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
            PK_CUDA(cudaStreamIsCapturing(stream, &status));
            if (status == cudaStreamCaptureStatusNone) continue;
            fail(PK_UNSUPPORTED, "this run cannot be captured in a CUDA graph: that takes at most " +
                                     std::to_string(UNPACED) +
                                     " launches, of kernels that do not print, in arrays on the GPU of one "
                                     "stream alone, of which none is written as another parameter, without "
                                     "time_kernel, wait and symbols");
        }
    }

    void queue() {
        queue_ = there_.streams().front();
        for (const auto &module : modules_) module->note_queued();
        try {
            Buffers buffers(run_, call_, device_, held_);
            bind(buffers);
            buffers.upload(queue_);
            has_launched_ = true;
            run_.each([&](const pk_step &step) { launch(step); });
        } catch (const Failure &failure) {
            explain(failure);
        }
        advance(run_.launches);
    }

    // Has what comes wait for what is in those streams. The other way round the host waits.
    void follow_streams() {
        for (const cudaStream_t stream : there_.streams()) {
            if (in_plan_ != nullptr && stream == nullptr) continue;
            PK_CUDA(cudaEventRecord(held_.track->arrived.get(), stream));
            PK_CUDA(cudaStreamWaitEvent(queue_, held_.track->arrived.get()));
        }
    }

    // ---- Before -------------------------------------------------------------------------------------

    // Those whose variables are set are used alone.
    void use_modules() {
        std::vector<std::pair<std::shared_ptr<Module>, bool>> wanted;
        for (const auto &module : modules_) wanted.emplace_back(module, module->printed().has_value());
        for (const pk_symbol &symbol : run_.symbols) wanted[size_t(symbol.image)].second = true;
        // In one order in all calls, so that they cannot wait for each other in a circle.
        std::sort(wanted.begin(), wanted.end(), std::greater<>());
        const Module *last = nullptr;
        for (const auto &[module, alone] : wanted) {
            if (module.get() != last) held_.uses.emplace_back(module, alone, call_);
            if (alone && module->was_queued()) PK_CUDA(cudaDeviceSynchronize());
            last = module.get();
        }
    }

    // Checks all launches, before anything runs.
    void prepare() {
        prepared_.resize(size_t(run_.steps.size));
        for (int64_t i = 0; i < run_.steps.size; ++i) {
            const pk_step &step = run_.steps[i];
            if (step.kernel == PK_REPEAT) continue;
            const pk_kernel &kernel = run_.kernels[step.kernel];
            const Loaded &found = modules_[size_t(kernel.image)]->kernel(
                text_of(kernel.symbol, kernel.symbol_bytes), named(kernel));
            require_allowed(run_, step, found.limits);
            const Shape shape = shape_of(step, found.limits);
            Prepared &prepared = prepared_[size_t(i)];
            prepared.function = found.function;
            prepared.config.gridDim = extent(shape.grid);
            prepared.config.blockDim = extent(shape.block);
            prepared.config.dynamicSmemBytes = size_t(step.shared);
        }
    }

    // Gives each launch its arguments, now that buffers have addresses.
    void bind(const Buffers &buffers) {
        places_.reserve(size_t(run_.arguments.size));
        for (const pk_argument &argument : run_.arguments)
            places_.push_back(argument.buffer >= 0 ? buffers.address(argument.buffer) + argument.offset
                                                   : nullptr);
        for (int64_t i = 0; i < run_.steps.size; ++i) {
            const pk_step &step = run_.steps[i];
            if (step.kernel == PK_REPEAT) continue;
            Prepared &prepared = prepared_[size_t(i)];
            prepared.config.stream = queue_;
            for (int64_t j = step.first_argument; j < step.first_argument + step.argument_count; ++j) {
                const bool is_value = run_.arguments[j].buffer == PK_VALUE_ARGUMENT;
                prepared.arguments.push_back(is_value ? const_cast<uint8_t *>(run_.value_of(j))
                                                      : static_cast<void *>(&places_[size_t(j)]));
            }
        }
    }

    // ---- The steps ----------------------------------------------------------------------------------

    void run(Buffers &buffers) {
        const double began = call_.seconds();
        buffers.upload(queue_);
        const double launched = call_.seconds();
        launch_all();
        buffers.queue_download(queue_);
        wait();
        advance(run_.launches - advanced_);
        const double end = call_.seconds();
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, held_.track->begun.get(), held_.track->ended.get()));
        kernel_seconds_ = double(milliseconds) * 1e-3;
        const double computed = std::min(end, launched + kernel_seconds_);
        {
            Lane lane(call_);
            auto add = [&](int stage, double from, double to, int64_t bytes) {
                lane.add(stage, from, to, bytes, 0, device_, KERNELS_LANE);
            };
            add(PK_KERNEL, launched, computed, 0);
            // How long each small copy took is not asked: events cost as much as they do.
            if (buffers.are_small() && buffers.bytes_up() != 0)
                add(PK_UPLOAD, began, launched, buffers.bytes_up());
            if (buffers.are_small() && buffers.bytes_down() != 0)
                add(PK_DOWNLOAD, computed, end, buffers.bytes_down());
        }
        buffers.download(queue_);
    }

    void launch_all() {
        PK_CUDA(cudaEventRecord(held_.track->begun.get(), queue_));
        has_launched_ = true;
        run_.each([&](const pk_step &step) {
            launch(step);
            pace();
        });
        PK_CUDA(cudaEventRecord(held_.track->ended.get(), queue_));
    }

    void launch(const pk_step &step) {
        Prepared &prepared = prepared_[size_t(&step - run_.steps.begin())];
        PK_CUDA(cudaLaunchKernelExC(&prepared.config, prepared.function, prepared.arguments.data()));
    }

    // Has at most two batches of launches under way, each of some milliseconds, so that a call can be
    // stopped.
    void pace() {
        if (run_.launches <= UNPACED || ++in_batch_ < batch_) return;
        advance(in_batch_);
        in_batch_ = 0;
        const auto turn = size_t(batches_ % 2);
        PK_CUDA(cudaEventRecord(held_.track->paces[turn].get(), queue_));
        if (batches_++ == 0) return;
        wait_for([&] { return cudaEventQuery(held_.track->paces[turn ^ 1].get()); });
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
        wait_for([&] { return cudaStreamQuery(queue_); });
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
            call_.look();
            if (call_.seconds() - since > AWAKE) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }

    // ---- Failures -----------------------------------------------------------------------------------

    // Waits for what is under way; where that takes long, it is left alone, with all that it uses.
    void give_up() noexcept {
        // Their variables are not what they were.
        for (const pk_symbol &symbol : run_.symbols) unload(run_.images[symbol.image]);
        const double since = call_.seconds();
        cudaError_t state;
        while ((state = cudaStreamQuery(queue_)) == cudaErrorNotReady) {
            if (call_.seconds() - since > LAST_PATIENCE) {
                for (const pk_image &image : run_.images) unload(image);
                abandon(holdings_);
                if (in_plan_ != nullptr) in_plan_->is_abandoned = true;
                return;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        is_lost_ = state != cudaSuccess;
        (void)cudaGetLastError();
    }

    [[noreturn]] void explain(const Failure &failure) {
        if (!has_launched_ || failure.status() != PK_DEVICE_ERROR) throw failure;
        std::vector<std::string> labels;
        for (const pk_step &step : run_.steps) {
            if (step.kernel == PK_REPEAT) continue;
            const std::string label = named(run_.kernels[step.kernel]);
            if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
        }
        constexpr size_t MOST_LABELS = 8;
        std::string who;
        for (size_t i = 0; i < std::min(labels.size(), MOST_LABELS); ++i)
            who += (i == 0 ? "" : i + 1 == labels.size() ? " or " : ", ") + labels[i];
        if (labels.size() > MOST_LABELS) who += ", ...";
        if (run_.steps.size == 1) {
            const cudaLaunchConfig_t &config = prepared_[0].config;
            who += " (block " + triple(config.blockDim) + ", grid " + triple(config.gridDim) + ")";
        }
        const char *const remedy = "; with isolate=True, a kernel's fault ends a helper process alone";
        fail(PK_DEVICE_ERROR, who + ": " + failure.what() + (is_lost_ ? remedy : ""));
    }

    static constexpr int64_t UNPACED = 4, LONGEST_BATCH = 256;
    static constexpr double QUICK = 2e-3, SLOW = 20e-3, AWAKE = 300e-6, LAST_PATIENCE = 0.1;

    const Run &run_;
    Call &call_;
    const int device_;
    const int64_t room_;
    Progress *const in_plan_;
    const There there_;
    Modules modules_;
    std::vector<Prepared> prepared_;   // a step's each
    std::vector<char *> places_;       // an argument's each
    std::list<Holdings> holdings_{1};  // of one, which can be abandoned
    Holdings &held_ = holdings_.front();
    cudaStream_t queue_ = nullptr;

    bool has_launched_ = false, is_lost_ = false;
    double kernel_seconds_ = 0, paced_ = 0;
    int64_t batch_ = 1, in_batch_ = 0, batches_ = 0, advanced_ = 0;
    std::string text_;
};

// What was printed, as much of it as there is room for.
void give(const std::string &text, uint8_t *to, int64_t capacity, int64_t *length) {
    *length = int64_t(text.size());
    const auto bytes = size_t(std::min(*length, capacity));
    if (bytes != 0) std::memcpy(to, text.data(), bytes);
}

}  // namespace

void run(const Request &request, Call &call, int device, Progress *in_plan) {
    const int64_t room = std::clamp(request.capacity, LEAST_ROOM / 8, MOST_ROOM / 8) * 8;
    Runner runner(request.run, call, device, room, in_plan);
    runner.run();
    call.took(PK_KERNEL, runner.kernel_seconds());
    give(runner.text(), request.text, request.capacity, request.length);
}

}  // namespace pk::kernels
