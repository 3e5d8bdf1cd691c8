#include "runner.h"

#include <algorithm>
#include <atomic>
#include <shared_mutex>
#include <thread>

#include "common/call/thread_pool.h"
#include "memory.h"
#include "modules.h"

namespace pk::kernels {

namespace {

// Spreads a launch's blocks over threads, in shares of a millisecond or so. Returns how many threads that
// took.
int64_t spread(const Launch &launch, Call &call) {
    constexpr double SHORT = 0.5e-3, LONG = 2e-3, WORTH_WAKING = 50e-6;
    constexpr int64_t MOST_STACKS = 20000;  // each is two of the mappings that a process may have
    const auto blocks = uint64_t(launch.shape.blocks());
    std::atomic<uint64_t> next{0}, share{1};
    std::atomic<int64_t> threads{0};
    auto work = [&](Worker &worker, uint64_t most) {
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
            call.look();
        }
        return took;
    };
    const DefaultFloatingPoint environment;
    Lent own;
    own->begin(launch);
    const double first = work(*own, 1);
    const bool few = double(blocks - 1) * first < WORTH_WAKING;
    const int64_t waiting = launch.kernel.waits != 0 ? MOST_STACKS / launch.shape.threads() : MOST_STACKS;
    const auto most = int64_t(std::min<uint64_t>(uint64_t(std::min(thread_count(), waiting)), blocks - 1));
    std::atomic<bool> own_taken{false};
    run_on_threads(few ? 1 : most, call, [&] {
        if (next >= blocks) return;
        ++threads;
        const DefaultFloatingPoint environment_there;
        if (!own_taken.exchange(true)) {
            work(*own, blocks);
            return;
        }
        Lent worker;
        worker->begin(launch);
        work(*worker, blocks);
    });
    return std::max<int64_t>(1, threads);
}

class Runner {
   public:
    Runner(const Run &run, Printed &printed, Call &call) : run_(run), printed_(printed), call_(call) {
        for (const pk_image &image : run.images) modules_.push_back(load_module(image));
        for (const pk_kernel &kernel : run.kernels)
            kernels_.push_back(
                &modules_[size_t(kernel.image)]->kernel(text_of(kernel.symbol, kernel.symbol_bytes)));
        for (const pk_step &step : run.steps) {
            if (step.kernel != PK_REPEAT)
                require_allowed(run, step, limits_of(*kernels_[size_t(step.kernel)]));
        }
        lock();
    }
    ~Runner() {
        for (Module *module : changed_) module->restore();
    }
    Runner(const Runner &) = delete;
    Runner &operator=(const Runner &) = delete;

    void operator()() {
        const bool checked =
            std::any_of(modules_.begin(), modules_.end(), [](auto &module) { return module->checked(); });
        Memory memory(run_, checked, call_);
        prepare(memory);
        int64_t threads = 1;
        {
            Lane lane(call_);
            const double begin = call_.seconds();
            run_.each([&](const pk_step &step) {
                threads = std::max(threads, launch(step, memory));
                call_.advance(1);
                ++call_.report.chunks;
            });
            lane.add(PK_COMPUTE, begin, call_.seconds(), 0, call_.report.chunks);
        }
        call_.report.threads = threads;
        memory.deliver(call_);
    }

   private:
    // In the order of their addresses, so that two runs never wait for each other.
    void lock() {
        std::vector<Module *> modules;
        for (const auto &module : modules_) modules.push_back(module.get());
        std::sort(modules.begin(), modules.end());
        modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
        for (Module *module : modules) {
            const bool changes = std::any_of(run_.symbols.begin(), run_.symbols.end(), [&](auto &symbol) {
                return modules_[size_t(symbol.image)].get() == module;
            });
            if (changes) {
                alone_.emplace_back(module->mutex, std::defer_lock);
                while (!alone_.back().try_lock()) wait();
                changed_.push_back(module);
            } else {
                together_.emplace_back(module->mutex, std::defer_lock);
                while (!together_.back().try_lock()) wait();
            }
        }
        try {
            for (const pk_symbol &symbol : run_.symbols) modules_[size_t(symbol.image)]->set(symbol);
        } catch (...) {
            for (Module *module : changed_) module->restore();
            throw;
        }
    }

    void wait() {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        call_.look();
    }

    // Where each argument lies. Of those that are addresses, in a table of their own.
    void prepare(const Memory &memory) {
        addresses_.resize(size_t(run_.arguments.size));
        for (int64_t i = 0; i < run_.arguments.size; ++i) {
            const pk_argument &argument = run_.arguments[i];
            void *&address = addresses_[size_t(i)];
            if (argument.buffer >= 0) address = memory[argument.buffer] + argument.offset;
            const void *place =
                argument.buffer == PK_VALUE_ARGUMENT ? run_.value_of(i) : static_cast<const void *>(&address);
            arguments_.push_back(const_cast<void *>(place));
        }
    }

    int64_t launch(const pk_step &step, Memory &memory) {
        const pk_image_kernel &kernel = *kernels_[size_t(step.kernel)];
        const pk_kernel &named_kernel = run_.kernels[step.kernel];
        const Launch launch{kernel,
                            modules_[size_t(named_kernel.image)]->checked(),
                            named(named_kernel),
                            shape_of(step, limits_of(kernel)),
                            step.shared,
                            arguments_.data() + step.first_argument,
                            memory.arena(),
                            std::chrono::milliseconds(run_.block_limit),
                            call_,
                            printed_};
        return spread(launch, call_);
    }

    const Run &run_;
    Printed &printed_;
    Call &call_;
    std::vector<std::shared_ptr<Module>> modules_;
    std::vector<const pk_image_kernel *> kernels_;
    std::vector<std::unique_lock<std::shared_mutex>> alone_;
    std::vector<std::shared_lock<std::shared_mutex>> together_;
    std::vector<Module *> changed_;
    std::vector<void *> addresses_, arguments_;
};

}  // namespace

void run(const Run &run, Printed &printed, Call &call) {
    Runner runner(run, printed, call);
    runner();
}

}  // namespace pk::kernels
