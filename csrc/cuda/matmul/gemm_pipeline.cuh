// Takes a product through a GPU: panels of the factors are staged and go up while others are multiplied, by
// cuBLAS where there is one, and parts of the result come down. What is at home is multiplied there, or stays
// there, cut up alike.
#pragma once

#include <condition_variable>
#include <cstring>
#include <optional>
#include <thread>

#include "common/call/thread_pool.h"
#include "cublas.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/tuning.h"
#include "gemm_backends.cuh"
#include "host_matrix.h"

namespace pk::matmul {

// Bytes of a product for each host thread that it wakes.
constexpr int64_t WORTH_A_THREAD = 1 << 20;
// In a profile, kernels have a lane of their own, beside those of the slots.
constexpr int KERNELS_LANE = 1 << 20;
// Bytes of a result that are touched at once, each page of them.
constexpr int64_t TOUCHED = 2 << 20, PAGE = 4096;
// Bytes that all memory of a device is aligned to.
constexpr int64_t ALIGNED = 256;
// What a thread does next: some rows of a matrix on the host, up or down; or it touches the memory that some
// of the result will go to, which may be new, while there is little else to do.
struct Task {
    enum Kind { up_a, up_b, touch, down } kind;
    int64_t of;  // the panel, or the part
    int64_t first, rows;
};

// The operands of a product as far as they are at home, else null, and whether the result goes down, too.
struct AtHome {
    Product operands;
    bool leaves;
};

template <class Kind>
class Multiplier {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;

   public:
    Multiplier(const Product &given, const AtHome &home, Call &call, int device, Way way)
        : line_(line_for(home, device)),
          given_(given),
          home_(home.operands),
          goes_down_(home_.c == nullptr || home.leaves),
          call_(call),
          device_(device),
          way_(way),
          items_{int64_t(sizeof(Element)), int64_t(sizeof(Total)),
                 way == Way::split          ? 4
                 : way == Way::exact_cublas ? 8
                                            : 0},
          budget_(streaming_memory().device_budget) {
        if (line_ == nullptr) events_.emplace();
        take_memory();
        cut_up();
        adds_at_home_ = can_add_at_home();
    }

    // Returns whether factors that were split were all finite.
    bool run() {
        if (line_ != nullptr) return stand_in_line();
        Line::wait();
        const Queue compute(queues().compute);  // what fails leaves nothing under way at home
        PK_CUDA(cudaMemsetAsync(notes(), 0, Cut::NOTES, compute.get()));
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            launch_what_is_ready();  // all factors may be at home
        }
        std::atomic<size_t> arrived{0};
        run_on_threads(int64_t(lease_->slots().size()), call_, [&] {
            const size_t index = arrived++;
            if (index >= lease_->slots().size() || next_ >= tasks_.size()) return;
            work(*lease_->slots()[index]);
        });
        const auto last = size_t((int64_t(parts_.size()) - 1) % cut_.totals);
        PK_CUDA(cudaEventSynchronize(events_->finished[last].get()));
        const double end = call_.seconds();
        if (!goes_down_) {
            call_.report.chunks += int64_t(parts_.size());
            call_.advance(given_.elements());
        }
        unsigned found[2] = {0, 0};
        PK_CUDA(cudaMemcpyAsync(found, notes(), sizeof(found), cudaMemcpyDeviceToHost, queues().down.get()));
        PK_CUDA(cudaStreamSynchronize(queues().down.get()));
        // All kernels as one: they follow each other, and what they wait for is told by the other stages.
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, events_->began.get(), events_->finished[last].get()));
        Lane(call_).add(PK_KERNEL, first_launch_, std::min(end, first_launch_ + milliseconds * 1e-3), 0,
                        given_.elements(), device_, KERNELS_LANE);
        if (way_ == Way::split && found[1] != 0) return false;
        call_.report.exceptions |= found[0];
        return true;
    }

   private:
    // This thread's line, if all is at home.
    static const Line *line_for(const AtHome &home, int device) {
        const Product &at = home.operands;
        const bool are_there = at.a != nullptr && at.b != nullptr && at.c != nullptr && !home.leaves;
        return are_there ? Line::on(device) : nullptr;
    }

    bool stand_in_line() {
        const std::lock_guard<std::mutex> lock(mutex_);
        const bool splits = way_ == Way::split;
        if (splits) PK_CUDA(cudaMemsetAsync(notes(), 0, Cut::NOTES, line_->stream));
        launch_what_is_ready();
        if (splits) {
            // An infinity has no parts: what has any is multiplied once more, as it is. Nobody here knows.
            way_ = Way::kernel;
            wanted_ = notes() + 1;
            launched_ = 0;
            launch_what_is_ready();
        }
        call_.advance(given_.elements());
        return true;
    }

    // ---- Before -------------------------------------------------------------------------------------

    // Threads, each with a slot; slots take half of the budget at most.
    int64_t wanted() const {
        const double bytes = double(sizeof(Element)) * double(given_.batch) *
                             (double(given_.m) * double(given_.k) + double(given_.k) * double(given_.n) +
                              double(given_.m) * double(given_.n));
        const auto most = int64_t(std::min(bytes / double(WORTH_A_THREAD), 1e6)) + 1;
        const int64_t fitting = budget_ / 2 / Lease::usual(Lease::staged).device;
        return std::min({most, tuned(Tune::threads), thread_count(), std::max<int64_t>(1, fitting)});
    }

    // Takes slots, and of what they leave of the budget memory for panels and sums. Where other calls have
    // that, the slots are given back before the next try, since those calls may need them.
    void take_memory() {
        for (;;) {
            lease_.emplace(Lease::usual(Lease::staged), SlotBytes{0, 0}, device_, wanted(), call_);
            int64_t slots = 0;
            half_bytes_ = INT64_MAX;
            for (const auto &slot : lease_->slots()) {
                slots += slot->device_bytes;
                half_bytes_ = std::min(half_bytes_, slot->host_bytes / 512 * 256);
            }
            const int64_t longest = half_bytes_ / int64_t(sizeof(double));
            if (!Cut::best(given_, items_, budget_ - slots, longest, cut_))
                fail(PK_OUT_OF_MEMORY, "a product has no room in PYCUDAKIT_DEVICE_MEMORY: raise it");
            for (int64_t room = budget_ - slots; Cut::best(given_, items_, room, longest, cut_);
                 room = std::min(room, cut_.bytes()) / 4 * 3) {
                memory_.emplace(device_, cut_.bytes(), true, line_ != nullptr);
                if (memory_->memory() != nullptr) return;
            }
            memory_.reset();
            lease_.reset();
            std::this_thread::sleep_for(Call::PATIENCE / 5);
            call_.look();
        }
    }

    void cut_up() {
        const int64_t depths = cut_.panels(given_);
        for (int64_t pair = 0; pair < given_.batch; pair += cut_.pairs) {
            for (int64_t row = 0; row < given_.m; row += cut_.rows) {
                for (int64_t column = 0; column < given_.n; column += cut_.columns) {
                    parts_.push_back({pair, std::min(cut_.pairs, given_.batch - pair), row,
                                      std::min(cut_.rows, given_.m - row), column,
                                      std::min(cut_.columns, given_.n - column)});
                }
            }
        }
        for (int64_t part = 0; part < int64_t(parts_.size()); ++part) {
            for (int64_t d = 0; d < depths; ++d) {
                const int64_t start = d * cut_.depth;
                panels_.push_back({part, start, std::min(cut_.depth, given_.k - start)});
                const auto panel = int64_t(panels_.size()) - 1;
                if (home_.a == nullptr) add_tasks(Task::up_a, panel);
                if (home_.b == nullptr) add_tasks(Task::up_b, panel);
                if (!goes_down_) continue;
                add_touches(part, d, depths);
                // Of the part before, so that this one's panels are on their way meanwhile.
                if (d == 0 && part > 0) add_tasks(Task::down, part - 1);
            }
        }
        const auto last = int64_t(parts_.size()) - 1;
        if (goes_down_) add_tasks(Task::down, last);
        uploads_left_.resize(panels_.size());
        downloads_left_.resize(parts_.size());
        for (const Task &task : tasks_) {
            if (task.kind != Task::touch) ++left_of(task);
        }
    }

    HostRows host_rows_of(const Task &task) const {
        const HostMatrices<Kind> matrices{given_};
        if (task.kind == Task::down || task.kind == Task::touch)
            return matrices.of_c(parts_[size_t(task.of)]);
        const Panel &panel = panels_[size_t(task.of)];
        const Part &part = parts_[size_t(panel.part)];
        return task.kind == Task::up_a ? matrices.of_a(part, panel) : matrices.of_b(part, panel);
    }

    int64_t &left_of(const Task &task) {
        return task.kind == Task::down ? downloads_left_[size_t(task.of)] : uploads_left_[size_t(task.of)];
    }

    void add_tasks(typename Task::Kind kind, int64_t of) {
        const HostRows host = host_rows_of({kind, of, 0, 0});
        const int64_t all = host.all_rows(), rows = std::max<int64_t>(1, half_bytes_ / host.run);
        for (int64_t first = 0; first < all; first += rows)
            tasks_.push_back({kind, of, first, std::min(rows, all - first)});
    }

    // A panel's share of its part of the result.
    void add_touches(int64_t part, int64_t panel, int64_t panels) {
        const HostRows host = host_rows_of({Task::touch, part, 0, 0});
        const int64_t all = host.all_rows(), first = all * panel / panels;
        const int64_t end = all * (panel + 1) / panels;
        const int64_t rows = std::max<int64_t>(1, TOUCHED / (host.run + 1));
        for (int64_t row = first; row < end; row += rows)
            tasks_.push_back({Task::touch, part, row, std::min(rows, end - row)});
    }

    // ---- On the device --------------------------------------------------------------------------------

    const Queues &queues() const { return lease_->slots().front()->queues; }
    unsigned *notes() const { return reinterpret_cast<unsigned *>(memory_->memory()); }
    char *totals(int64_t part) const { return adds_at_home_ ? result_at_home(part) : place(part); }
    char *place(int64_t part) const {
        return memory_->memory() + Cut::NOTES + part % cut_.totals * cut_.total_bytes();
    }
    char *factors(int64_t panel) const {
        return memory_->memory() + Cut::NOTES + cut_.totals * cut_.total_bytes() +
               panel % Cut::PANELS * cut_.panel_bytes();
    }
    // cuBLAS may choose by how its operands are aligned. Where they lie at home as they would elsewhere, they
    // are taken from there, and the same bits come out.
    static bool is_like(const char *home, const char *elsewhere) { return (home - elsewhere) % ALIGNED == 0; }

    char *result_at_home(int64_t part) const {
        return HostMatrices<Kind>{home_}.of_c(parts_[size_t(part)]).base;
    }
    bool can_add_at_home() const {
        bool can = home_.c != nullptr && std::is_same<Element, Total>::value && cut_.columns >= given_.n;
        for (int64_t part = 0; can && part < int64_t(parts_.size()); ++part)
            can = is_like(result_at_home(part), place(part));
        return can;
    }
    // Where a panel's factor is, if it is at home: there, or copied to where it would go up to.
    char *brought(const HostRows &home, char *to, cudaStream_t queue) const {
        if (way_ != Way::split && home.are_dense() && is_like(home.row(0), to)) return home.row(0);
        constexpr auto item = int64_t(sizeof(Element));
        const int64_t columns = home.run / item;
        auto copy = [&](int64_t first, int64_t rows) {
            device::gather<<<blocks_for(rows * columns), device::THREADS, 0, queue>>>(
                reinterpret_cast<const Element *>(home.row(first)), home.pitch / item,
                reinterpret_cast<Element *>(to + first * home.run), columns, rows * columns, wanted_);
            PK_CUDA(cudaGetLastError());
        };
        if (home.are_dense()) {
            copy(0, home.all_rows());
        } else {
            for (int64_t pair = 0; pair < home.pairs; ++pair) copy(pair * home.rows, home.rows);
        }
        return to;
    }
    char *scratch() const { return factors(0) + Cut::PANELS * cut_.panel_bytes(); }

    bool is_first(int64_t panel) const { return panels_[size_t(panel)].start == 0; }
    bool is_last(int64_t panel) const {
        const Panel &own = panels_[size_t(panel)];
        return own.start + own.depth == given_.k;
    }

    // Queues the work on each panel that has been queued to go up, in their order. The mutex is held.
    void launch_what_is_ready() {
        while (launched_ < int64_t(panels_.size()) && uploads_left_[size_t(launched_)] == 0) {
            const int64_t part = panels_[size_t(launched_)].part, before = part - cut_.totals;
            if (is_first(launched_) && before >= 0 && downloads_left_[size_t(before)] != 0) return;
            launch(launched_, part);
            ++launched_;
            changed_.notify_all();
        }
    }

    void launch(int64_t index, int64_t part) {
        const cudaStream_t compute = line_ != nullptr ? line_->stream : queues().compute.get();
        const auto turn = size_t(index % Cut::PANELS), place = size_t(part % cut_.totals);
        if (events_) {
            PK_CUDA(cudaEventRecord(events_->uploaded[turn].get(), queues().up.get()));
            PK_CUDA(cudaStreamWaitEvent(compute, events_->uploaded[turn].get()));
        }
        if (events_ && is_first(index) && part >= cut_.totals)
            PK_CUDA(cudaStreamWaitEvent(compute, events_->downloaded[place].get()));
        if (events_ && index == 0) {
            first_launch_ = call_.seconds();
            PK_CUDA(cudaEventRecord(events_->began.get(), compute));
        }
        const PanelProduct<Kind> product{given_, way_, device_, scratch(), notes() + 1, wanted_};
        const HostMatrices<Kind> home{home_};
        const Part &own = parts_[size_t(part)];
        const Panel &panel = panels_[size_t(index)];
        char *a = factors(index), *b = a + own.pairs * own.rows * panel.depth * items_.factor;
        if (home_.a != nullptr) a = brought(home.of_a(own, panel), a, compute);
        if (home_.b != nullptr) b = brought(home.of_b(own, panel), b, compute);
        product.queue_on(compute, own, panel, a, b, totals(part));
        if (events_) PK_CUDA(cudaEventRecord(events_->computed[turn].get(), compute));
        if (!is_last(index)) return;
        const int64_t count = own.pairs * own.rows * own.columns;
        const auto *const sums = reinterpret_cast<const Total *>(totals(part));
        if constexpr (is_float_kind<Kind>) {
            if (line_ == nullptr) {
                device::look_at<Kind>
                    <<<blocks_for(count), device::THREADS, 0, compute>>>(sums, count, notes());
                PK_CUDA(cudaGetLastError());
            }
        }
        if (home_.c != nullptr && !adds_at_home_) {
            device::store<Kind><<<blocks_for(count), device::THREADS, 0, compute>>>(
                sums, reinterpret_cast<Element *>(result_at_home(part)), given_.n, own.columns, count,
                wanted_);
            PK_CUDA(cudaGetLastError());
        }
        if (events_) PK_CUDA(cudaEventRecord(events_->finished[place].get(), compute));
    }

    // ---- The host's threads -----------------------------------------------------------------------------

    // One of the two halves of a slot's pinned memory, on its way up or down.
    struct Half {
        char *memory;
        cudaEvent_t done;
        const Task *task = nullptr;
        double queued = 0;
    };

    void work(const Slot &slot) {
        const CurrentDevice current(device_);
        Lane lane(call_);
        Half halves[2] = {{slot.host(), slot.uploaded.get()},
                          {slot.host() + half_bytes_, slot.computed.get()}};
        double free_since = call_.seconds();
        size_t turn = 0;
        try {
            for (size_t index = next_++; index < tasks_.size() && !is_over_; index = next_++) {
                const Task &task = tasks_[index];
                if (task.kind == Task::touch) {
                    touch(task);
                } else {
                    finish(halves[turn], slot, lane, free_since);
                    begin(task, halves[turn], lane);
                    turn ^= 1;
                }
                call_.look();
            }
            for (int i = 0; i < 2; ++i, turn ^= 1) finish(halves[turn], slot, lane, free_since);
        } catch (const Abandoned &) {
            slot.drain();
        } catch (...) {
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                is_over_ = true;
                changed_.notify_all();
            }
            slot.drain();
            throw;
        }
    }

    void touch(const Task &task) const {
        const HostRows host = host_rows_of(task);
        for (int64_t row = task.first; row < task.first + task.rows; ++row) {
            char *const at = host.row(row);
            const int64_t bytes = host.run / int64_t(sizeof(Total)) * int64_t(sizeof(Element));
            // It stays what it is, also if another thread stores a result there meanwhile.
            for (int64_t i = 0; i < bytes; i += PAGE) __atomic_fetch_add(at + i, char(0), __ATOMIC_RELAXED);
        }
    }

    // Waits until all work on a panel has been queued.
    void wait_for(int64_t panel) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!changed_.wait_for(lock, Call::PATIENCE, [&] { return is_over_ || launched_ > panel; })) {
            lock.unlock();
            call_.look();
            lock.lock();
        }
        if (is_over_) throw Abandoned();
    }

    void begin(const Task &task, Half &half, Lane &lane) {
        const HostRows host = host_rows_of(task);
        const int64_t bytes = task.rows * host.run;
        if (task.kind == Task::down) {
            wait_for((task.of + 1) * cut_.panels(given_) - 1);
            const cudaStream_t down = queues().down.get();
            half.queued = call_.seconds();
            PK_CUDA(cudaStreamWaitEvent(down, events_->finished[size_t(task.of % cut_.totals)].get()));
            PK_CUDA(cudaMemcpyAsync(half.memory, totals(task.of) + task.first * host.run, size_t(bytes),
                                    cudaMemcpyDeviceToHost, down));
            PK_CUDA(cudaEventRecord(half.done, down));
        } else {
            const double begin = call_.seconds();
            host.each(task.first, task.rows, [&](const char *from, int64_t offset, int64_t count) {
                std::memcpy(half.memory + offset, from, size_t(count));
            });
            lane.add(PK_STAGE, begin, call_.seconds(), bytes, bytes / items_.factor);
            char *to = factors(task.of) + task.first * host.run;
            if (task.kind == Task::up_b) {
                const Panel &panel = panels_[size_t(task.of)];
                const Part &part = parts_[size_t(panel.part)];
                to += part.pairs * part.rows * panel.depth * items_.factor;
            }
            const cudaStream_t up = queues().up.get();
            // The panel that was there before has to be done with.
            if (task.of >= Cut::PANELS) {
                wait_for(task.of - Cut::PANELS);
                PK_CUDA(cudaStreamWaitEvent(up, events_->computed[size_t(task.of % Cut::PANELS)].get()));
            }
            half.queued = call_.seconds();
            PK_CUDA(cudaMemcpyAsync(to, half.memory, size_t(bytes), cudaMemcpyHostToDevice, up));
            PK_CUDA(cudaEventRecord(half.done, up));
        }
        half.task = &task;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (--left_of(task) == 0 && task.kind == Task::down)
            PK_CUDA(cudaEventRecord(events_->downloaded[size_t(task.of % cut_.totals)].get(),
                                    queues().down.get()));
        launch_what_is_ready();
    }

    // Waits until a half has gone its way; results are stored then.
    void finish(Half &half, const Slot &slot, Lane &lane, double &free_since) {
        if (half.task == nullptr) return;
        const Task &task = *half.task;
        half.task = nullptr;
        const HostRows host = host_rows_of(task);
        const int64_t bytes = task.rows * host.run;
        PK_CUDA(cudaEventSynchronize(half.done));
        const double now = call_.seconds();
        const bool down = task.kind == Task::down;
        lane.add(down ? PK_DOWNLOAD : PK_UPLOAD, std::max(half.queued, free_since), now, bytes,
                 bytes / (down ? items_.total : items_.factor), slot.device, slot.number);
        free_since = now;
        if (down) store(task, host, half.memory, lane);
        const std::lock_guard<std::mutex> lock(call_.mutex);
        (down ? call_.report.bytes_down : call_.report.bytes_up) += bytes;
        call_.report.chunks += down;
    }

    void store(const Task &task, const HostRows &host, const char *memory, Lane &lane) {
        const double begin = call_.seconds();
        const int64_t columns = host.run / int64_t(sizeof(Total));
        for (int64_t i = 0; i < task.rows; ++i) {
            auto *const to = reinterpret_cast<Element *>(host.row(task.first + i));
            const auto *const from = reinterpret_cast<const Total *>(memory + i * host.run);
            if constexpr (std::is_same<Element, Total>::value) {
                std::memcpy(to, from, size_t(host.run));
            } else {
                for (int64_t j = 0; j < columns; ++j) to[j] = Kind::store(from[j]);
            }
        }
        lane.add(PK_UNSTAGE, begin, call_.seconds(), task.rows * columns * int64_t(sizeof(Element)),
                 task.rows * columns);
        call_.advance(task.rows * columns);
    }

    const Line *const line_;  // that the product stands in, if it does
    const Product &given_, &home_;
    const bool goes_down_;       // the result, to the host
    bool adds_at_home_ = false;  // it is added up in its home
    Call &call_;
    const int device_;
    Way way_;
    const Items items_;
    const int64_t budget_;
    std::optional<Lease> lease_;
    int64_t half_bytes_ = 0;
    Cut cut_{};
    std::optional<Block> memory_;
    const unsigned *wanted_ = nullptr;  // if given, kernels work only if this is set
    std::vector<Part> parts_;
    std::vector<Panel> panels_;
    std::vector<Task> tasks_;
    std::atomic<size_t> next_{0};

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::vector<int64_t> uploads_left_, downloads_left_;  // that were not queued yet
    int64_t launched_ = 0;                                // panels
    std::atomic<bool> is_over_{false};

    // Of panels, and of parts, by their places in the device's memory: none of what stands in a line.
    struct Events {
        Event uploaded[Cut::PANELS] = {event(), event()}, computed[Cut::PANELS] = {event(), event()};
        Event began = event(), finished[2] = {event(), event()}, downloaded[2] = {event(), event()};
    };
    std::optional<Events> events_;
    double first_launch_ = 0;
};

}  // namespace pk::matmul
