// The user's kernels on a GPU: buffers go up, the steps run in one stream, and the outputs come home.
#include <algorithm>
#include <cstring>
#include <list>
#include <thread>

#include "common/kernels.h"
#include "kernel.h"
#include "kernel_images.h"
#include "kernel_printed.h"
#include "kernel_traffic.h"
#include "stream/slots.h"
#include "stream/stream.h"
#include "stream/tuning.h"

namespace pk::kernels {

namespace {

constexpr int64_t ALIGNMENT = 256;
constexpr int64_t MOST_BYTES = int64_t(1) << 50;
// What begins as zeros goes up with what is staged, as long as it is small.
constexpr int64_t WORTH_A_MEMSET = 32 << 10;
// In a profile, kernels have a lane of their own, beside those of the slots.
constexpr int KERNELS_LANE = 1 << 20;
constexpr int64_t LEAST_ROOM = 64 << 10, MOST_ROOM = 16 << 20;  // for what is printed

// What a run's steps go through, kept for the next.
struct Track {
    explicit Track(int device) : device(device) {}

    const int device;
    Stream queue = stream();
    Event begun = event(), ended = event(), paces[2] = {event(), event()};
};

// All that a run has of a device until its last kernel is done.
struct Holdings {
    std::vector<Use> uses;
    std::optional<Lease> lease;
    std::optional<Block> block, printed_block;
    DeviceMemory memory, printed_memory;
    std::unique_ptr<Track> track;  // last, and so destroyed before the memory
};

// Never destroyed, as the images' shelf.
struct Depot {
    std::mutex mutex;
    std::vector<std::unique_ptr<Track>> tracks;
    std::list<Holdings> abandoned;  // by calls that were stopped while a kernel ran

    // Frees what was abandoned and is done with. The mutex is held.
    void reap() {
        abandoned.remove_if([](const Holdings &held) {
            return cudaStreamQuery(held.track->queue.get()) != cudaErrorNotReady;
        });
    }
    std::unique_ptr<Track> take(int device) {
        const std::lock_guard<std::mutex> lock(mutex);
        reap();
        const auto kept =
            std::find_if(tracks.begin(), tracks.end(), [&](auto &track) { return track->device == device; });
        if (kept == tracks.end()) return nullptr;
        std::unique_ptr<Track> track = std::move(*kept);
        tracks.erase(kept);
        return track;
    }
    void give_back(std::unique_ptr<Track> track) {
        const std::lock_guard<std::mutex> lock(mutex);
        tracks.push_back(std::move(track));
    }
};

Depot &depot() {
    static Depot *const depot = new Depot;
    return *depot;
}

// Memory of the current device; of the engine's if that has room, else its own.
char *take_memory(int device, int64_t bytes, std::optional<Block> &block, DeviceMemory &memory) {
    auto take = [&] {
        block.emplace(device, bytes);
        if (block->memory() == nullptr) memory = device_memory(bytes);
    };
    try {
        take();
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
        release_streaming_memory();
        take();
    }
    return block->memory() != nullptr ? block->memory() : static_cast<char *>(memory.get());
}

class Runner {
   public:
    // What is printed has so much room, in bytes of records.
    Runner(const Run &run, Call &call, int device, int64_t room)
        : run_(run), call_(call), device_(device), room_(room) {}

    void run() {
        take_images();
        prepare();
        held_.track = depot().take(device_);
        if (held_.track == nullptr) held_.track = std::make_unique<Track>(device_);
        queue_ = held_.track->queue.get();
        try {
            lay_out();
            begin_printing();
            set_symbols();
            upload();
            launch_all();
            download();
            restore_symbols();
            read_printed();
        } catch (const Failure &failure) {
            give_up();
            explain(failure);
        } catch (...) {
            give_up();
            throw;
        }
        depot().give_back(std::move(held_.track));
    }

    double kernel_seconds() const { return kernel_seconds_; }
    const std::string &text() const { return text_; }

   private:
    // ---- Before -------------------------------------------------------------------------------------

    void take_images() {
        std::vector<char> has_symbols(size_t(run_.images.size), 0);
        for (const pk_symbol &symbol : run_.symbols) has_symbols[size_t(symbol.image)] = 1;
        struct Wanted {
            Image *image;
            bool alone;
            std::shared_ptr<Image> owner;
        };
        std::vector<Wanted> wanted;
        for (int64_t i = 0; i < run_.images.size; ++i) {
            images_.push_back(loaded(run_.images[i]));
            const bool prints = images_.back()->printed().has_value();
            prints_ |= prints;
            wanted.push_back({images_.back().get(), prints || has_symbols[size_t(i)] != 0, images_.back()});
        }
        // In one order in all calls, so that they cannot wait for each other in a circle.
        std::sort(wanted.begin(), wanted.end(), [](auto &a, auto &b) {
            return a.image != b.image ? a.image < b.image : a.alone > b.alone;
        });
        const Image *last = nullptr;
        for (const Wanted &one : wanted) {
            if (one.image != last) held_.uses.emplace_back(one.owner, one.alone, call_);
            last = one.image;
        }
    }

    struct Prepared {
        const void *function = nullptr;
        cudaLaunchConfig_t config{};
        std::vector<void *> arguments;
    };

    // Checks all, before anything runs.
    void prepare() {
        prepared_.resize(size_t(run_.steps.size));
        for (int64_t i = 0; i < run_.steps.size; ++i) {
            const pk_step &step = run_.steps[i];
            if (step.kernel == PK_REPEAT) continue;
            const pk_kernel &kernel = run_.kernels[step.kernel];
            const Loaded &found = images_[size_t(kernel.image)]->kernel(
                text_of(kernel.symbol, kernel.symbol_bytes), named(kernel));
            require_allowed(run_, step, found.limits);
            const Shape shape = shape_of(step, found.limits);
            Prepared &prepared = prepared_[size_t(i)];
            prepared.function = found.function;
            prepared.config.gridDim =
                dim3(unsigned(shape.grid[0]), unsigned(shape.grid[1]), unsigned(shape.grid[2]));
            prepared.config.blockDim =
                dim3(unsigned(shape.block[0]), unsigned(shape.block[1]), unsigned(shape.block[2]));
            prepared.config.dynamicSmemBytes = size_t(step.shared);
        }
        for (const pk_symbol &symbol : run_.symbols) {
            const std::string name(text_of(symbol.name, symbol.name_bytes));
            const std::optional<Variable> variable = images_[size_t(symbol.image)]->variable(name);
            if (!variable)
                fail(PK_INVALID_ARGUMENT,
                     "symbols: the source has no __constant__ or __device__ variable '" + name + "'");
            if (symbol.bytes > variable->bytes)
                fail(PK_INVALID_ARGUMENT, "symbols: '" + name + "' has " + std::to_string(variable->bytes) +
                                              " bytes, and its value " + std::to_string(symbol.bytes));
            variables_.push_back(*variable);
        }
    }

    // ---- Memory -------------------------------------------------------------------------------------

    static bool goes_up(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_UP) != 0; }
    static bool comes_down(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_DOWN) != 0; }
    static int first_byte(const pk_buffer &buffer) {
        return (buffer.flags & PK_BUFFER_POISON) != 0 ? PK_POISON : 0;
    }

    // Side by side: what goes up, what also comes down, what comes down, and the rest.
    void lay_out() {
        offsets_.resize(size_t(run_.buffers.size));
        int64_t offset = 0;
        auto place = [&](bool up, bool down) {
            for (int64_t i = 0; i < run_.buffers.size; ++i) {
                const pk_buffer &buffer = run_.buffers[i];
                if (goes_up(buffer) != up || comes_down(buffer) != down) continue;
                if (buffer.bytes > MOST_BYTES - offset)
                    fail(PK_OUT_OF_MEMORY, "the buffers of this run have more than " +
                                               std::to_string(MOST_BYTES) + " bytes: no GPU has that");
                offsets_[size_t(i)] = offset;
                offset += (buffer.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
                if (up) bytes_up_ += buffer.bytes;
                if (down) bytes_down_ += buffer.bytes;
            }
        };
        place(true, false);
        down_begin_ = offset;
        place(true, true);
        up_end_ = offset;
        place(false, true);
        down_end_ = offset;
        place(false, false);
        all_ = offset;
        if (all_ - up_end_ <= WORTH_A_MEMSET) up_end_ = all_;
        const SlotBytes slot = Lease::usual(Lease::staged);
        is_small_ = all_ <= slot.device &&
                    std::max(up_end_, down_end_) <= std::min(slot.host, tuned(Tune::in_place_bytes));
        if (is_small_) {
            held_.lease.emplace(slot, SlotBytes{0, 0}, device_, 1, call_);
            const Slot &own = *held_.lease->slots().front();
            // One that was made where memory is short may be too small.
            is_small_ = all_ <= own.device_bytes;
            if (is_small_) {
                memory_ = own.memory();
                staged_ = own.host();
            } else {
                held_.lease.reset();
            }
        }
        if (!is_small_) memory_ = take_memory(device_, std::max(all_, ALIGNMENT), held_.block, held_.memory);
        for (int64_t offset : offsets_) addresses_.push_back(memory_ + offset);
        bind();
    }

    // Each launch's arguments, now that there are addresses.
    void bind() {
        places_.reserve(size_t(run_.arguments.size));
        for (const pk_argument &argument : run_.arguments)
            places_.push_back(argument.buffer >= 0 ? addresses_[size_t(argument.buffer)] + argument.offset
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

    // ---- Up -----------------------------------------------------------------------------------------

    void upload() {
        began_ = call_.seconds();
        if (is_small_) {
            upload_small();
        } else {
            for (int64_t i = 0; i < run_.buffers.size; ++i) {
                if (!goes_up(run_.buffers[i])) fill(i);
            }
            Traffic traffic(call_, device_, true);
            for (int64_t i = 0; i < run_.buffers.size; ++i) {
                const pk_buffer &buffer = run_.buffers[i];
                if (goes_up(buffer)) traffic.add(host(buffer), addresses_[size_t(i)], buffer.bytes);
            }
            traffic.run(queue_);
        }
        call_.report.bytes_up += bytes_up_;
    }

    void upload_small() {
        bool any = false;
        for (int64_t i = 0; i < run_.buffers.size; ++i) {
            const pk_buffer &buffer = run_.buffers[i];
            const int64_t offset = offsets_[size_t(i)];
            if (buffer.bytes == 0) continue;
            if (offset >= up_end_) {
                fill(i);
                continue;
            }
            any = true;
            if (goes_up(buffer)) {
                std::memcpy(staged_ + offset, host(buffer), size_t(buffer.bytes));
            } else {
                std::memset(staged_ + offset, first_byte(buffer), size_t(buffer.bytes));
            }
        }
        if (!any) return;
        PK_CUDA(cudaMemcpyAsync(memory_, staged_, size_t(up_end_), cudaMemcpyHostToDevice, queue_));
        call_.report.chunks += 1;
    }

    void fill(int64_t index) {
        const pk_buffer &buffer = run_.buffers[index];
        if (buffer.bytes == 0) return;
        PK_CUDA(cudaMemsetAsync(addresses_[size_t(index)], first_byte(buffer), size_t(buffer.bytes), queue_));
    }

    static char *host(const pk_buffer &buffer) { return reinterpret_cast<char *>(buffer.address); }

    // ---- The steps ----------------------------------------------------------------------------------

    void launch_all() {
        const Track &track = *held_.track;
        launched_ = call_.seconds();
        PK_CUDA(cudaEventRecord(track.begun.get(), queue_));
        has_launched_ = true;
        run_.each([&](const pk_step &step) {
            Prepared &prepared = prepared_[size_t(&step - run_.steps.begin())];
            PK_CUDA(cudaLaunchKernelExC(&prepared.config, prepared.function, prepared.arguments.data()));
            pace();
        });
        PK_CUDA(cudaEventRecord(track.ended.get(), queue_));
        // On a small way home, all is queued at once.
        if (!is_small_) wait();
    }

    // Has at most two batches of launches under way, each of some milliseconds, so that a call can be
    // stopped.
    void pace() {
        if (run_.launches <= UNPACED || ++in_batch_ < batch_) return;
        call_.advance(in_batch_);
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

    // ---- Down ---------------------------------------------------------------------------------------

    void download() {
        if (is_small_) {
            if (bytes_down_ != 0) {
                PK_CUDA(cudaMemcpyAsync(staged_ + down_begin_, memory_ + down_begin_,
                                        size_t(down_end_ - down_begin_), cudaMemcpyDeviceToHost, queue_));
                call_.report.chunks += 1;
            }
            wait();
            const double end = call_.seconds();
            clock_kernels();
            report_small(end);
            const double begin = call_.seconds();
            each_down([&](const pk_buffer &buffer, int64_t i) {
                std::memcpy(host(buffer), staged_ + offsets_[size_t(i)], size_t(buffer.bytes));
            });
            if (bytes_down_ != 0) Lane(call_).add(PK_UNSTAGE, begin, call_.seconds(), bytes_down_, 0);
        } else {
            clock_kernels();
            Lane(call_).add(PK_KERNEL, launched_, launched_ + kernel_seconds_, 0, run_.launches, device_,
                            KERNELS_LANE);
            Traffic traffic(call_, device_, false);
            each_down([&](const pk_buffer &buffer, int64_t i) {
                traffic.add(host(buffer), addresses_[size_t(i)], buffer.bytes);
            });
            traffic.run(queue_);
        }
        call_.report.bytes_down += bytes_down_;
    }

    template <class Visit>
    void each_down(Visit visit) {
        for (int64_t i = 0; i < run_.buffers.size; ++i) {
            const pk_buffer &buffer = run_.buffers[i];
            if (comes_down(buffer) && buffer.bytes != 0) visit(buffer, i);
        }
    }

    void clock_kernels() {
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, held_.track->begun.get(), held_.track->ended.get()));
        kernel_seconds_ = double(milliseconds) * 1e-3;
    }

    // How long each copy took is not asked: events cost as much as they do.
    void report_small(double end) {
        Lane lane(call_);
        const int number = held_.lease->slots().front()->number;
        const double computed = std::min(end, launched_ + kernel_seconds_);
        if (bytes_up_ != 0) lane.add(PK_UPLOAD, began_, launched_, bytes_up_, 0, device_, number);
        lane.add(PK_KERNEL, launched_, computed, 0, run_.launches, device_, number);
        if (bytes_down_ != 0) lane.add(PK_DOWNLOAD, computed, end, bytes_down_, 0, device_, number);
    }

    // ---- Variables, and what is printed -------------------------------------------------------------------

    void set_symbols() {
        for (int64_t i = 0; i < run_.symbols.size; ++i) {
            const pk_symbol &symbol = run_.symbols[i];
            (void)images_[size_t(symbol.image)]->pristine(text_of(symbol.name, symbol.name_bytes),
                                                          run_.images[symbol.image]);
            PK_CUDA(cudaMemcpyAsync(variables_[size_t(i)].address,
                                    reinterpret_cast<const void *>(symbol.address), size_t(symbol.bytes),
                                    cudaMemcpyHostToDevice, queue_));
        }
    }

    void restore_symbols() {
        if (run_.symbols.size == 0) return;
        for (int64_t i = 0; i < run_.symbols.size; ++i) {
            const pk_symbol &symbol = run_.symbols[i];
            const std::vector<char> &bytes = images_[size_t(symbol.image)]->pristine(
                text_of(symbol.name, symbol.name_bytes), run_.images[symbol.image]);
            PK_CUDA(cudaMemcpyAsync(variables_[size_t(i)].address, bytes.data(), bytes.size(),
                                    cudaMemcpyHostToDevice, queue_));
        }
        wait();
    }

    void begin_printing() {
        if (!prints_) return;
        printed_.room = uint64_t(room_);
        printed_at_ =
            take_memory(device_, int64_t(sizeof(Printed)) + room_, held_.printed_block, held_.printed_memory);
        PK_CUDA(cudaMemcpyAsync(printed_at_, &printed_, sizeof(printed_), cudaMemcpyHostToDevice, queue_));
        for (const auto &image : images_) {
            const std::optional<Variable> variable = image->printed();
            if (variable)
                PK_CUDA(cudaMemcpyAsync(variable->address, &printed_at_, sizeof(printed_at_),
                                        cudaMemcpyHostToDevice, queue_));
        }
    }

    void read_printed() {
        if (!prints_) return;
        PK_CUDA(cudaMemcpyAsync(&printed_, printed_at_, sizeof(printed_), cudaMemcpyDeviceToHost, queue_));
        wait();
        if (printed_.used == 0) return;
        std::vector<char> records(std::min(printed_.used, printed_.room));
        PK_CUDA(cudaMemcpyAsync(records.data(), printed_at_ + sizeof(Printed), records.size(),
                                cudaMemcpyDeviceToHost, queue_));
        wait();
        text_ = text_of_records(records.data(), printed_);
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
                const std::lock_guard<std::mutex> lock(depot().mutex);
                for (const pk_image &image : run_.images) unload(image);
                depot().abandoned.splice(depot().abandoned.end(), holdings_);
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
        const bool alone = run_.steps.size == 1 && run_.steps[0].kernel != PK_REPEAT;
        if (alone) {
            const auto &config = prepared_[0].config;
            auto shape = [](const dim3 &of) {
                return "(" + std::to_string(of.x) + ", " + std::to_string(of.y) + ", " +
                       std::to_string(of.z) + ")";
            };
            who += " (block " + shape(config.blockDim) + ", grid " + shape(config.gridDim) + ")";
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
    std::vector<std::shared_ptr<Image>> images_;
    bool prints_ = false;
    std::vector<Prepared> prepared_;   // a step's each
    std::vector<Variable> variables_;  // a symbol's each
    std::list<Holdings> holdings_{1};  // of one, which can be abandoned without a new node
    Holdings &held_ = holdings_.front();
    cudaStream_t queue_ = nullptr;

    std::vector<int64_t> offsets_;   // a buffer's each
    std::vector<char *> addresses_;  // and these
    std::vector<char *> places_;     // an argument's each
    int64_t up_end_ = 0, down_begin_ = 0, down_end_ = 0, all_ = 0;
    int64_t bytes_up_ = 0, bytes_down_ = 0;
    bool is_small_ = false;
    char *memory_ = nullptr, *staged_ = nullptr;

    bool has_launched_ = false, is_lost_ = false;
    double began_ = 0, launched_ = 0, kernel_seconds_ = 0, paced_ = 0;
    int64_t batch_ = 1, in_batch_ = 0, batches_ = 0;

    Printed printed_;
    char *printed_at_ = nullptr;
    std::string text_;
};

// What was printed, as much of it as there is room for.
void give(const std::string &text, uint8_t *to, int64_t capacity, int64_t *length) {
    *length = int64_t(text.size());
    const auto bytes = size_t(std::min(*length, capacity));
    if (bytes != 0) std::memcpy(to, text.data(), bytes);
}

}  // namespace

void release() {
    {
        const std::lock_guard<std::mutex> lock(depot().mutex);
        depot().tracks.clear();
        depot().reap();
    }
    release_images();
}

}  // namespace pk::kernels

int32_t pk_run_kernels(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length,
                       const pk_options *options, pk_report *report) {
    return pk::guarded([&] {
        using namespace pk::kernels;
        pk::require(length != nullptr, "length is a null pointer");
        *length = 0;
        pk::require(capacity >= 0 && (capacity == 0 || text != nullptr), "text is a null pointer");
        const Run checked(run);
        double kernel_seconds = 0;
        pk::run_call(options, report, checked.launches, [&](pk::Call &call) {
            pk::arm_faults();
            pk::require_cuda();
            const int device = pk::devices_of(call).front();
            const pk::CurrentDevice current(device);
            Runner runner(checked, call, device, std::clamp(capacity, LEAST_ROOM / 8, MOST_ROOM / 8) * 8);
            runner.run();
            kernel_seconds = runner.kernel_seconds();
            give(runner.text(), text, capacity, length);
        });
        // The device's own clock is finer than a profile's.
        report->stage_seconds[PK_KERNEL] = kernel_seconds;
    });
}

int32_t pk_kernel_info(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes, int64_t device,
                       pk_kernel_limits *limits) {
    return pk::guarded([&] {
        using namespace pk::kernels;
        pk::require(image != nullptr && image->address != 0 && image->bytes > 0, "an image has no bytes");
        pk::require(symbol != nullptr && symbol_bytes > 0, "a kernel has no symbol");
        pk::require(limits != nullptr, "limits is a null pointer");
        pk::require(device >= 0 && device < pk::device_count(), "there is no device of that index");
        const pk::CurrentDevice current(static_cast<int>(device));
        const std::string name(reinterpret_cast<const char *>(symbol), size_t(symbol_bytes));
        *limits = loaded(*image)->kernel(name, "kernel '" + name + "'").limits;
    });
}
