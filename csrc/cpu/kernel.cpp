// The user's kernels on the CPU: where their buffers lie, and blocks spread over threads.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <shared_mutex>

#include "common/call/call.h"
#include "common/call/thread_pool.h"
#include "common/kernels.h"
#include "cpu/kernels/block.h"
#include "cpu/kernels/modules.h"
#include "cpu/kernels/release.h"

namespace pk::kernels {

namespace {

// Calls run(first, count) for parts of `size` bytes, on all threads if they are many.
template <class Body>
void in_parts(Call &call, int64_t size, Body body) {
    constexpr int64_t PART = int64_t(1) << 20;
    const int64_t parts = (size + PART - 1) / PART;
    std::atomic<int64_t> next{0};
    run_on_threads(std::min(parts, thread_count()), call, [&] {
        for (int64_t part = next++; part < parts; part = next++) {
            body(part * PART, std::min(PART, size - part * PART));
            call.look();
        }
    });
}

// The memory of a call's buffers while kernels see it.
class Memory {
   public:
    Memory(const Run &run, bool checked, Call &call) : run_(run) {
        for (int64_t i = 0; i < run.buffers.size; ++i) places_.push_back(place(i, checked));
        for (int64_t i = 0; i < run.buffers.size; ++i) fill(i, call);
    }
    ~Memory() {
        for (const Mapped &one : mapped_) munmap(one.memory, one.bytes);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    char *operator[](int64_t buffer) const { return places_[size_t(buffer)]; }
    Arena *arena() { return &arena_; }

    void deliver(Call &call) {
        for (int64_t i = 0; i < run_.buffers.size; ++i) {
            const pk_buffer &buffer = run_.buffers[i];
            if ((buffer.flags & PK_BUFFER_DOWN) == 0 || places_[size_t(i)] == host(buffer)) continue;
            in_parts(call, buffer.bytes, [&](int64_t first, int64_t count) {
                std::memcpy(host(buffer) + first, places_[size_t(i)] + first, size_t(count));
            });
        }
    }

   private:
    static char *host(const pk_buffer &buffer) { return reinterpret_cast<char *>(buffer.address); }
    static bool is_read_only(const pk_buffer &buffer) {
        return (buffer.flags & PK_BUFFER_CONSTANT) != 0 && (buffer.flags & PK_BUFFER_DOWN) == 0;
    }

    bool overlaps(const pk_buffer &a) const {
        return std::any_of(run_.buffers.begin(), run_.buffers.end(), [&](const pk_buffer &b) {
            return &a != &b && b.address != 0 && a.address < b.address + uint64_t(b.bytes) &&
                   b.address < a.address + uint64_t(a.bytes) && !(is_read_only(a) && is_read_only(b));
        });
    }

    char *place(int64_t index, bool checked) {
        const pk_buffer &buffer = run_.buffers[index];
        const std::string label(buffer.label, strnlen(buffer.label, sizeof(buffer.label)));
        if (checked) return static_cast<char *>(arena_.take(buffer.bytes, buffer.item, label));
        constexpr uint64_t ALIGNED = 16;  // as vector types want it
        const bool in_place =
            (buffer.flags & PK_BUFFER_DOWN) != 0 ||
            (buffer.flags & (PK_BUFFER_UP | PK_BUFFER_CONSTANT)) == (PK_BUFFER_UP | PK_BUFFER_CONSTANT);
        if (in_place && buffer.address % ALIGNED == 0 && !overlaps(buffer)) return host(buffer);
        const auto bytes = size_t(std::max<int64_t>(buffer.bytes, 1));
        void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            fail(PK_OUT_OF_MEMORY,
                 "no memory for the " + std::to_string(bytes) + " bytes of the buffer '" + label + "'");
        }
        mapped_.push_back({memory, bytes});
        return static_cast<char *>(memory);
    }

    void fill(int64_t index, Call &call) {
        const pk_buffer &buffer = run_.buffers[index];
        char *const to = places_[size_t(index)];
        const bool is_host = to == host(buffer);
        if ((buffer.flags & PK_BUFFER_UP) != 0) {
            if (is_host) return;
            in_parts(call, buffer.bytes, [&](int64_t first, int64_t count) {
                std::memcpy(to + first, host(buffer) + first, size_t(count));
            });
        } else if (is_host || (buffer.flags & PK_BUFFER_POISON) != 0) {
            const int byte = (buffer.flags & PK_BUFFER_POISON) != 0 ? PK_POISON : 0;
            in_parts(call, buffer.bytes,
                     [&](int64_t first, int64_t count) { std::memset(to + first, byte, size_t(count)); });
        }
    }

    struct Mapped {
        void *memory;
        size_t bytes;
    };
    const Run &run_;
    Arena arena_;
    std::vector<Mapped> mapped_;
    std::vector<char *> places_;
};

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

void release() {
    release_workers();
    release_modules();
}

}  // namespace pk::kernels

int32_t pk_run_kernels(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length,
                       const pk_options *options, pk_report *report) {
    return pk::guarded([&] {
        pk::require(length != nullptr, "length is a null pointer");
        pk::require(capacity >= 0 && (capacity == 0 || text != nullptr), "text has no room for its capacity");
        *length = 0;
        pk::kernels::Printed printed(text, capacity);
        const pk::kernels::Run checked(run);
        try {
            pk::run_call(options, report, checked.launches, [&](pk::Call &call) {
                pk::kernels::Runner runner(checked, printed, call);
                runner();
            });
        } catch (...) {
            *length = printed.length();
            throw;
        }
        *length = printed.length();
    });
}

int32_t pk_kernel_info(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes, int64_t,
                       pk_kernel_limits *limits) {
    return pk::guarded([&] {
        pk::require(image != nullptr && image->address != 0 && image->bytes > 0, "an image has no bytes");
        pk::require(symbol != nullptr && symbol_bytes > 0, "symbol is empty");
        pk::require(limits != nullptr, "limits is a null pointer");
        const auto loaded = pk::kernels::load_module(*image);
        *limits = pk::kernels::limits_of(
            loaded->kernel({reinterpret_cast<const char *>(symbol), size_t(symbol_bytes)}));
    });
}
