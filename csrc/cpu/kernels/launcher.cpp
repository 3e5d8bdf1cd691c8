// Runs the steps of user kernels, with the blocks of a launch distributed over threads.
#include "launcher.h"

#include <algorithm>
#include <atomic>
#include <shared_mutex>
#include <thread>

#include "buffers.h"
#include "common/call/thread_pool.h"
#include "module_cache.h"
#include "worker_pool.h"

namespace pk::kernels {

namespace {

// Distributes the blocks of a launch over threads, in shares of about a millisecond. Returns the number of
// threads.
int64_t parallel_for_blocks(const Launch &launch, Call &call) {
    constexpr double SHORT = 0.5e-3, LONG = 2e-3, WORTH_WAKING = 50e-6;
    const auto blocks = uint64_t(launch.shape.blocks());
    std::atomic<uint64_t> next{0}, share{1};
    std::atomic<int64_t> threads{0};
    auto work = [&](BlockExecutor &worker, uint64_t most) {
        double took = 0;
        for (uint64_t rounds = 0; rounds < most; ++rounds) {
            const uint64_t count = share, first = next.fetch_add(count);
            if (first >= blocks) break;
            const double begin = call.seconds();
            worker.run(int64_t(first), int64_t(std::min(count, blocks - first)));
            took = call.seconds() - begin;
            const uint64_t fair = (blocks - first) / uint64_t(4 * thread_count()) + 1;
            if (took < SHORT) share = std::min(2 * count, fair);
            if (took > LONG || count > fair) share = std::max<uint64_t>(1, std::min(count / 2, fair));
            call.check_interrupt();
        }
        return took;
    };
    const DefaultFloatingPoint environment;
    WorkerLease caller_worker;
    caller_worker->begin(launch);
    const PreemptionScope preemption(*caller_worker);
    const double first = work(*caller_worker, 1);
    const bool few = double(blocks - 1) * first < WORTH_WAKING;
    const auto most = int64_t(std::min<uint64_t>(uint64_t(thread_count()), blocks - 1));
    const std::thread::id caller = std::this_thread::get_id();
    run_on_threads(few ? 1 : most, call, [&] {
        if (next >= blocks) return;
        const DefaultFloatingPoint helper_environment;
        if (std::this_thread::get_id() == caller) {
            ++threads;
            work(*caller_worker, blocks);
            return;
        }
        WorkerLease worker;
        // A helper may give up: kernels of other calls may hold all stacks for long.
        if (launch.kernel.waits != 0 && launch.kernel.blocks == nullptr &&
            !reserve_stacks(*worker, launch.shape.threads()))
            return;
        ++threads;
        worker->begin(launch);
        const PreemptionScope helper_preemption(*worker);
        work(*worker, blocks);
    });
    return std::max<int64_t>(1, threads);
}

// The launches that the calling thread has begun: more than one, if a progress callback runs kernels.
thread_local int launches_of_thread = 0;

// Runs body() on a new thread: a kernel that is suspended on this thread has its state (blockIdx, ...) in
// thread-local variables.
template <class Body>
void run_on_helper_thread(Call &call, Body body) {
    std::exception_ptr error;
    std::atomic<bool> ended{false};
    std::thread thread([&] {
        try {
            body();
        } catch (...) {
            error = std::current_exception();
        }
        ended = true;
    });
    while (!ended) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        call.poll_callback();
    }
    thread.join();
    if (error) std::rethrow_exception(error);
}

// Runs body(), which launches kernels, on this thread, or on another if a kernel is suspended on this one.
template <class Body>
void run_where_no_kernel_is(Call &call, Body body) {
    if (launches_of_thread != 0) return run_on_helper_thread(call, body);
    struct Counted {
        Counted() { ++launches_of_thread; }
        ~Counted() { --launches_of_thread; }
    } const counted;
    body();
}

class Runner {
   public:
    Runner(const Run &run, PrintBuffer &print_buffer, Call &call)
        : run_(run), print_buffer_(print_buffer), call_(call) {
        for (const pk_image &image : run.images) modules_.push_back(load_module(image));
        for (const pk_kernel &kernel : run.kernels)
            kernels_.push_back(
                &modules_[size_t(kernel.image)]->kernel(text_of(kernel.symbol, kernel.symbol_bytes)));
        for (const pk_step &step : run.steps) {
            if (step.kernel != PK_STEP_REPEAT)
                require_allowed(run, step, limits_of(*kernels_[size_t(step.kernel)]));
        }
        lock();
        innermost = this;
    }
    ~Runner() {
        if (innermost == this) innermost = outer_;
        for (Module *module : changed_) module->restore();
    }
    Runner(const Runner &) = delete;
    Runner &operator=(const Runner &) = delete;

    void operator()() {
        const bool checked =
            std::any_of(modules_.begin(), modules_.end(), [](auto &module) { return module->checked(); });
        Buffers buffers(run_, checked, call_);
        prepare(buffers);
        run_where_no_kernel_is(call_, [&] { run_steps(buffers); });
        buffers.download(call_);
    }

   private:
    void run_steps(Buffers &buffers) {
        int64_t threads = 1;
        {
            TraceLane lane(call_);
            const double begin = call_.seconds();
            run_.each([&](const pk_step &step) {
                threads = std::max(threads, launch(step, buffers));
                call_.advance(1);
                ++call_.report.chunks;
            });
            lane.add(PK_STAGE_COMPUTE, begin, call_.seconds(), 0, call_.report.chunks);
        }
        call_.report.threads = threads;
    }

    // Locks in the order of addresses, so that two runs never deadlock.
    void lock() {
        std::vector<Module *> modules;
        modules.reserve(modules_.size());
        for (const auto &module : modules_) modules.push_back(module.get());
        std::sort(modules.begin(), modules.end());
        modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
        for (Module *module : modules) {
            const bool changes = std::any_of(run_.symbols.begin(), run_.symbols.end(), [&](auto &symbol) {
                return modules_[size_t(symbol.image)].get() == module;
            });
            if (const Runner *holder = holder_of(module)) {
                const auto &alone = holder->changed_;
                if (changes || std::find(alone.begin(), alone.end(), module) != alone.end())
                    fail(PK_INVALID_ARGUMENT,
                         named(kernel_of(module)) +
                             " has symbols, and is run by a signal's handler during another " +
                             "run of its module, which would see them; run it after that");
                continue;
            }
            if (changes) {
                exclusive_locks_.emplace_back(module->mutex, std::defer_lock);
                while (!exclusive_locks_.back().try_lock()) wait();
                changed_.push_back(module);
            } else {
                shared_locks_.emplace_back(module->mutex, std::defer_lock);
                while (!shared_locks_.back().try_lock()) wait();
            }
        }
        try {
            for (const pk_symbol &symbol : run_.symbols) modules_[size_t(symbol.image)]->set(symbol);
        } catch (...) {
            for (Module *module : changed_) module->restore();
            throw;
        }
    }

    // The run on this thread that has locked the module, or null.
    const Runner *holder_of(const Module *module) const {
        const Runner *runner = outer_;
        auto has = [&](auto &held) { return held.get() == module; };
        while (runner != nullptr && std::none_of(runner->modules_.begin(), runner->modules_.end(), has))
            runner = runner->outer_;
        return runner;
    }

    const pk_kernel &kernel_of(const Module *module) const {
        return *std::find_if(run_.kernels.begin(), run_.kernels.end(), [&](const pk_kernel &kernel) {
            return modules_[size_t(kernel.image)].get() == module;
        });
    }

    void wait() {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        call_.check_interrupt();
    }

    // Sets the addresses of arguments; those that are pointers get a table of their own.
    void prepare(const Buffers &buffers) {
        addresses_.resize(size_t(run_.arguments.size));
        for (int64_t i = 0; i < run_.arguments.size; ++i) {
            const pk_argument &argument = run_.arguments[i];
            void *&address = addresses_[size_t(i)];
            if (argument.buffer >= 0) address = buffers[argument.buffer] + argument.offset;
            const void *place =
                argument.buffer == PK_ARGUMENT_VALUE ? run_.value_of(i) : static_cast<const void *>(&address);
            arguments_.push_back(const_cast<void *>(place));
        }
    }

    int64_t launch(const pk_step &step, Buffers &buffers) {
        const pk_image_kernel &kernel = *kernels_[size_t(step.kernel)];
        const pk_kernel &named_kernel = run_.kernels[step.kernel];
        const Launch launch{kernel,
                            modules_[size_t(named_kernel.image)]->checked(),
                            modules_[size_t(named_kernel.image)]->code(),
                            named(named_kernel),
                            shape_of(step, limits_of(kernel)),
                            step.shared,
                            arguments_.data() + step.first_argument,
                            buffers.guarded_memory(),
                            std::chrono::milliseconds(run_.block_limit),
                            call_,
                            print_buffer_};
        return parallel_for_blocks(launch, call_);
    }

    const Run &run_;
    PrintBuffer &print_buffer_;
    Call &call_;
    std::vector<std::shared_ptr<Module>> modules_;
    std::vector<const pk_image_kernel *> kernels_;
    std::vector<std::unique_lock<std::shared_mutex>> exclusive_locks_;
    std::vector<std::shared_lock<std::shared_mutex>> shared_locks_;
    std::vector<Module *> changed_;
    std::vector<void *> addresses_, arguments_;

    // A progress callback may run other kernels on its thread.
    static thread_local const Runner *innermost;
    const Runner *const outer_ = innermost;
};

thread_local const Runner *Runner::innermost = nullptr;

}  // namespace

void run(const Run &run, PrintBuffer &print_buffer, Call &call) {
    Runner runner(run, print_buffer, call);
    runner();
}

void run_launch(const Launch &launch, Call &call) {
    if (BlockExecutor::of_this_thread() != nullptr)
        fail(PK_UNSUPPORTED, launch.name + " is launched by a kernel");
    run_where_no_kernel_is(call, [&] { parallel_for_blocks(launch, call); });
}

int32_t launch_from_host(const pk_image_launch *request, const char **message) noexcept {
    const int32_t status = guarded([&] {
        const pk_image_kernel &kernel = *request->kernel;
        if (BlockExecutor::of_this_thread() != nullptr)
            fail(PK_UNSUPPORTED, "kernel '" + std::string(kernel.symbol) + "' is launched by a kernel");
        const std::string name = "kernel '" + std::string(kernel.symbol) + "'";
        Shape shape{};
        std::copy(request->grid, request->grid + 3, shape.grid);
        std::copy(request->block, request->block + 3, shape.block);
        require(kernel.parameters <= PK_MAX_PARAMETERS, "the kernel has too many parameters");
        require_shape(name, shape, request->shared, limits_of(kernel));
        pk_report report{};
        Call call(nullptr, &report);
        PrintBuffer print_buffer(nullptr, 0);  // the source prints by C's own functions
        const Launch launch{kernel,
                            false,
                            code_around(reinterpret_cast<const void *>(kernel.thread)),
                            name,
                            shape,
                            request->shared,
                            request->arguments,
                            nullptr,
                            std::chrono::milliseconds(0),
                            call,
                            print_buffer};
        call.begin(1);
        parallel_for_blocks(launch, call);
        call.end();
    });
    if (status != PK_OK) pk_last_error(message);
    return status;
}

}  // namespace pk::kernels
