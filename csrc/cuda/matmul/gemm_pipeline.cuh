// The GEMM pipeline: an out-of-core matrix product on one GPU.
//
// Host threads stage and upload panels of both factors, double-buffered, while earlier panels are multiplied;
// finished tiles of the result are downloaded meanwhile. Device-resident operands are used in place, with the
// same tiling, so that results have the same bits.
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
constexpr int64_t BYTES_PER_THREAD = 1 << 20;
// Bytes of the result that a prefault task touches, page by page.
constexpr int64_t PREFAULT_BYTES = 2 << 20, PAGE = 4096;
// A task of a host thread: upload or download some rows, or prefault pages of the result, which may be new
// memory, while there is little else to do.
struct Task {
    enum Kind { up_a, up_b, prefault, down } kind;
    int64_t of;  // the index of the panel, or of the tile
    int64_t first, rows;
};

// The device addresses of a product's resident operands (null for others), and whether the result is also
// copied back to the host.
struct ResidentProduct {
    Product operands;
    bool copy_back;
};

// One product on one GPU.
template <class Kind>
class GemmPipeline {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;

   public:
    GemmPipeline(const Product &product, const ResidentProduct &resident, Call &call, int device,
                 GemmAlgorithm algorithm)
        : stream_scope_(stream_scope_for(resident, device)),
          product_(product),
          resident_(resident.operands),
          downloads_result_(resident_.c == nullptr || resident.copy_back),
          call_(call),
          device_(device),
          algorithm_(algorithm),
          element_bytes_{int64_t(sizeof(Element)), int64_t(sizeof(Total)),
                         algorithm == GemmAlgorithm::split            ? 4
                         : algorithm == GemmAlgorithm::float64_cublas ? 8
                                                                      : 0},
          budget_(streaming_memory().device_budget) {
        if (stream_scope_ == nullptr) events_.emplace();
        take_memory();
        make_tasks();
        accumulates_in_place_ = can_accumulate_in_place();
    }

    // Run the product. Return false if factors that were split are not all finite: the result is invalid
    // then.
    bool run() {
        if (stream_scope_ != nullptr) return run_async();
        StreamScope::synchronize();
        const SyncOnExit compute(
            streams().compute);  // after a failure, no kernel still uses resident buffers
        PK_CUDA(cudaMemsetAsync(d_status(), 0, GemmTiling::STATUS_BYTES, compute.get()));
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            launch_ready_panels();  // all factors may be resident
        }
        std::atomic<size_t> arrived{0};
        run_on_threads(int64_t(lease_->slots().size()), call_, [&] {
            const size_t index = arrived++;
            if (index >= lease_->slots().size() || next_ >= tasks_.size()) return;
            work(*lease_->slots()[index]);
        });
        const auto last = size_t((int64_t(tiles_.size()) - 1) % tiling_.totals);
        PK_CUDA(cudaEventSynchronize(events_->finished[last].get()));
        const double end = call_.seconds();
        if (!downloads_result_) {
            call_.report.chunks += int64_t(tiles_.size());
            call_.advance(product_.elements());
        }
        unsigned status[2] = {0, 0};  // FP exception flags, and whether a split factor is not finite
        PK_CUDA(cudaMemcpyAsync(status, d_status(), sizeof(status), cudaMemcpyDeviceToHost,
                                streams().download.get()));
        PK_CUDA(cudaStreamSynchronize(streams().download.get()));
        // All kernels are traced as one: they run back to back, and their waits show in the other stages.
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, events_->began.get(), events_->finished[last].get()));
        TraceLane(call_).add(PK_STAGE_KERNEL, first_launch_,
                             std::min(end, first_launch_ + milliseconds * 1e-3), 0, product_.elements(),
                             device_, KERNELS_LANE);
        if (algorithm_ == GemmAlgorithm::split && status[1] != 0) return false;
        call_.report.exceptions |= status[0];
        return true;
    }

   private:
    // Return the current stream if all operands are resident, so that the product can be asynchronous.
    static const StreamScope *stream_scope_for(const ResidentProduct &resident, int device) {
        const Product &at = resident.operands;
        const bool all_resident =
            at.a != nullptr && at.b != nullptr && at.c != nullptr && !resident.copy_back;
        return all_resident ? StreamScope::current_on(device) : nullptr;
    }

    bool run_async() {
        const std::lock_guard<std::mutex> lock(mutex_);
        const bool splits = algorithm_ == GemmAlgorithm::split;
        if (splits) PK_CUDA(cudaMemsetAsync(d_status(), 0, GemmTiling::STATUS_BYTES, stream_scope_->stream));
        launch_ready_panels();
        if (splits) {
            // An infinity cannot be split: a product that has any is computed again without splitting. Only
            // the device knows, and so the second product is enqueued under a predicate.
            algorithm_ = GemmAlgorithm::kernel;
            d_run_if_ = d_status() + 1;
            launched_ = 0;
            launch_ready_panels();
        }
        call_.advance(product_.elements());
        return true;
    }

    // ---- Preparation --------------------------------------------------------------------------------

    // The number of slots, one for each host thread, that the budget has to have room for. Slots take at most
    // half of it.
    int64_t slots_reserved() const {
        const double bytes =
            double(sizeof(Element)) * double(product_.batch) *
            (double(product_.m) * double(product_.k) + double(product_.k) * double(product_.n) +
             double(product_.m) * double(product_.n));
        const auto most = int64_t(std::min(bytes / double(BYTES_PER_THREAD), 1e6)) + 1;
        const int64_t fitting = budget_ / 2 / Lease::default_size(Lease::staged).device;
        return std::min({most, tuned(Tune::threads), std::max<int64_t>(1, fitting)});
    }

    // Choose the tiling, and take slots and a buffer for panels and sums. The tiling, and so the bits, depend
    // on the sizes and the configured budget alone. If other calls have the memory, this waits for it; the
    // slots are returned before the next try, since those calls may need them.
    void take_memory() {
        const SlotBytes slot_bytes = Lease::default_size(Lease::staged);
        half_bytes_ = slot_bytes.host / 512 * 256;
        const int64_t longest = half_bytes_ / int64_t(sizeof(double));
        const int64_t available = budget_ - slots_reserved() * slot_bytes.device;
        if (!GemmTiling::best(product_, element_bytes_, available, longest, tiling_))
            fail_device_budget("a matrix product");
        for (;;) {
            lease_.emplace(slot_bytes, SlotBytes{0, 0}, device_,
                           std::min<int64_t>(slots_reserved(), thread_count()), call_);
            device_buffer_.emplace(device_, tiling_.bytes(), Account::large_call, stream_of(stream_scope_));
            if (device_buffer_->d_memory() != nullptr) return;
            device_buffer_.reset();
            lease_.reset();
            std::this_thread::sleep_for(Call::POLL_INTERVAL / 5);
            call_.check_interrupt();
        }
    }

    void make_tasks() {
        const int64_t depths = tiling_.panels(product_);
        for (int64_t pair = 0; pair < product_.batch; pair += tiling_.pairs) {
            for (int64_t row = 0; row < product_.m; row += tiling_.rows) {
                for (int64_t column = 0; column < product_.n; column += tiling_.columns) {
                    tiles_.push_back({pair, std::min(tiling_.pairs, product_.batch - pair), row,
                                      std::min(tiling_.rows, product_.m - row), column,
                                      std::min(tiling_.columns, product_.n - column)});
                }
            }
        }
        for (int64_t tile = 0; tile < int64_t(tiles_.size()); ++tile) {
            for (int64_t d = 0; d < depths; ++d) {
                const int64_t start = d * tiling_.depth;
                panels_.push_back({tile, start, std::min(tiling_.depth, product_.k - start)});
                const auto panel = int64_t(panels_.size()) - 1;
                if (resident_.a == nullptr) add_tasks(Task::up_a, panel);
                if (resident_.b == nullptr) add_tasks(Task::up_b, panel);
                if (!downloads_result_) continue;
                add_prefaults(tile, d, depths);
                // The previous tile is downloaded while this one's panels are uploaded.
                if (d == 0 && tile > 0) add_tasks(Task::down, tile - 1);
            }
        }
        const auto last = int64_t(tiles_.size()) - 1;
        if (downloads_result_) add_tasks(Task::down, last);
        uploads_left_.resize(panels_.size());
        downloads_left_.resize(tiles_.size());
        for (const Task &task : tasks_) {
            if (task.kind != Task::prefault) ++remaining_of(task);
        }
    }

    HostMatrixView host_matrix_of(const Task &task) const {
        const HostOperands<Kind> matrices{product_};
        if (task.kind == Task::down || task.kind == Task::prefault)
            return matrices.of_c(tiles_[size_t(task.of)]);
        const Panel &panel = panels_[size_t(task.of)];
        const OutputTile &tile = tiles_[size_t(panel.tile)];
        return task.kind == Task::up_a ? matrices.of_a(tile, panel) : matrices.of_b(tile, panel);
    }

    int64_t &remaining_of(const Task &task) {
        return task.kind == Task::down ? downloads_left_[size_t(task.of)] : uploads_left_[size_t(task.of)];
    }

    void add_tasks(typename Task::Kind kind, int64_t of) {
        const HostMatrixView host = host_matrix_of({kind, of, 0, 0});
        const int64_t all = host.all_rows(), rows = std::max<int64_t>(1, half_bytes_ / host.run);
        for (int64_t first = 0; first < all; first += rows)
            tasks_.push_back({kind, of, first, std::min(rows, all - first)});
    }

    // Add prefault tasks for a share of the tile's rows: they are divided equally among its panels, to spread
    // the work over the uploads.
    void add_prefaults(int64_t tile, int64_t panel, int64_t panels) {
        const HostMatrixView host = host_matrix_of({Task::prefault, tile, 0, 0});
        const int64_t all = host.all_rows(), first = all * panel / panels;
        const int64_t end = all * (panel + 1) / panels;
        const int64_t rows = std::max<int64_t>(1, PREFAULT_BYTES / (host.run + 1));
        for (int64_t row = first; row < end; row += rows)
            tasks_.push_back({Task::prefault, tile, row, std::min(rows, end - row)});
    }

    // ---- On the device --------------------------------------------------------------------------------

    const DeviceStreams &streams() const { return lease_->slots().front()->streams; }
    unsigned *d_status() const { return reinterpret_cast<unsigned *>(device_buffer_->d_memory()); }
    char *totals(int64_t tile) const {
        return accumulates_in_place_ ? resident_result(tile) : staging_totals(tile);
    }
    char *staging_totals(int64_t tile) const {
        return device_buffer_->d_memory() + GemmTiling::STATUS_BYTES +
               tile % tiling_.totals * tiling_.total_bytes();
    }
    char *factors(int64_t panel) const {
        return device_buffer_->d_memory() + GemmTiling::STATUS_BYTES +
               tiling_.totals * tiling_.total_bytes() + panel % GemmTiling::PANELS * tiling_.panel_bytes();
    }
    // cuBLAS picks kernels by pointer alignment. A resident operand is used in place only if it has the
    // alignment of the staged copy, so that both select the same kernel and give the same bits.
    static bool same_alignment(const char *resident, const char *staged) {
        return (resident - staged) % DEVICE_ALIGNMENT == 0;
    }

    char *resident_result(int64_t tile) const {
        return HostOperands<Kind>{resident_}.of_c(tiles_[size_t(tile)]).base;
    }
    bool can_accumulate_in_place() const {
        bool can =
            resident_.c != nullptr && std::is_same<Element, Total>::value && tiling_.columns >= product_.n;
        for (int64_t tile = 0; can && tile < int64_t(tiles_.size()); ++tile)
            can = same_alignment(resident_result(tile), staging_totals(tile));
        return can;
    }
    // Return the address of a resident factor of a panel: in place, or gathered to `to`, the staged copy's
    // address.
    char *factor_on_device(const HostMatrixView &resident, char *to, cudaStream_t stream) const {
        if (algorithm_ != GemmAlgorithm::split && resident.are_dense() && same_alignment(resident.row(0), to))
            return resident.row(0);
        constexpr auto item = int64_t(sizeof(Element));
        const int64_t columns = resident.run / item;
        auto copy = [&](int64_t first, int64_t rows) {
            device::gather<<<grid_for(rows * columns, device::THREADS), device::THREADS, 0, stream>>>(
                reinterpret_cast<const Element *>(resident.row(first)), resident.pitch / item,
                reinterpret_cast<Element *>(to + first * resident.run), columns, rows * columns, d_run_if_);
            PK_CUDA(cudaGetLastError());
        };
        if (resident.are_dense()) {
            copy(0, resident.all_rows());
        } else {
            for (int64_t pair = 0; pair < resident.pairs; ++pair) copy(pair * resident.rows, resident.rows);
        }
        return to;
    }
    char *scratch() const { return factors(0) + GemmTiling::PANELS * tiling_.panel_bytes(); }

    bool is_first(int64_t panel) const { return panels_[size_t(panel)].start == 0; }
    bool is_last(int64_t panel) const {
        const Panel &current = panels_[size_t(panel)];
        return current.start + current.depth == product_.k;
    }

    // Enqueue the GEMM of each panel whose uploads have all been enqueued, in order. Called with the mutex
    // held.
    void launch_ready_panels() {
        while (launched_ < int64_t(panels_.size()) && uploads_left_[size_t(launched_)] == 0) {
            const int64_t tile = panels_[size_t(launched_)].tile, before = tile - tiling_.totals;
            if (is_first(launched_) && before >= 0 && downloads_left_[size_t(before)] != 0) return;
            launch(launched_, tile);
            ++launched_;
            changed_.notify_all();
        }
    }

    void launch(int64_t index, int64_t tile) {
        call_.count_launch();
        const cudaStream_t compute =
            stream_scope_ != nullptr ? stream_scope_->stream : streams().compute.get();
        const auto turn = size_t(index % GemmTiling::PANELS), slot = size_t(tile % tiling_.totals);
        if (events_) {
            PK_CUDA(cudaEventRecord(events_->uploaded[turn].get(), streams().upload.get()));
            PK_CUDA(cudaStreamWaitEvent(compute, events_->uploaded[turn].get()));
        }
        if (events_ && is_first(index) && tile >= tiling_.totals)
            PK_CUDA(cudaStreamWaitEvent(compute, events_->downloaded[slot].get()));
        if (events_ && index == 0) {
            first_launch_ = call_.seconds();
            PK_CUDA(cudaEventRecord(events_->began.get(), compute));
        }
        const PanelGemm<Kind> product{product_, algorithm_, device_, scratch(), d_status() + 1, d_run_if_};
        const HostOperands<Kind> resident{resident_};
        const OutputTile &output = tiles_[size_t(tile)];
        const Panel &panel = panels_[size_t(index)];
        char *a = factors(index), *b = a + output.pairs * output.rows * panel.depth * element_bytes_.factor;
        if (resident_.a != nullptr) a = factor_on_device(resident.of_a(output, panel), a, compute);
        if (resident_.b != nullptr) b = factor_on_device(resident.of_b(output, panel), b, compute);
        product.enqueue(compute, output, panel, a, b, totals(tile));
        if (events_) PK_CUDA(cudaEventRecord(events_->computed[turn].get(), compute));
        if (!is_last(index)) return;
        const int64_t count = output.pairs * output.rows * output.columns;
        const auto *const sums = reinterpret_cast<const Total *>(totals(tile));
        if constexpr (is_float_kind<Kind>) {
            if (stream_scope_ == nullptr) {
                device::flag_exceptions<Kind>
                    <<<grid_for(count, device::THREADS), device::THREADS, 0, compute>>>(sums, count,
                                                                                        d_status());
                PK_CUDA(cudaGetLastError());
            }
        }
        if (resident_.c != nullptr && !accumulates_in_place_) {
            device::store<Kind><<<grid_for(count, device::THREADS), device::THREADS, 0, compute>>>(
                sums, reinterpret_cast<Element *>(resident_result(tile)), product_.n, output.columns, count,
                d_run_if_);
            PK_CUDA(cudaGetLastError());
        }
        if (events_) PK_CUDA(cudaEventRecord(events_->finished[slot].get(), compute));
    }

    // ---- The host's threads -----------------------------------------------------------------------------

    // One half of a slot's double-buffered pinned memory, and the task that uses it.
    struct StagingHalf {
        char *memory;
        cudaEvent_t done;
        const Task *task = nullptr;
        double enqueued_at = 0;
    };

    void work(const Slot &slot) {
        const CurrentDevice current(device_);
        TraceLane lane(call_);
        StagingHalf halves[2] = {{slot.host(), slot.uploaded.get()},
                                 {slot.host() + half_bytes_, slot.computed.get()}};
        double free_since = call_.seconds();
        size_t turn = 0;
        try {
            for (size_t index = next_++; index < tasks_.size() && !is_aborted_; index = next_++) {
                const Task &task = tasks_[index];
                if (task.kind == Task::prefault) {
                    prefault(task);
                } else {
                    finish(halves[turn], slot, lane, free_since);
                    begin(task, halves[turn], lane);
                    turn ^= 1;
                }
                call_.check_interrupt();
            }
            for (int i = 0; i < 2; ++i, turn ^= 1) finish(halves[turn], slot, lane, free_since);
        } catch (const PipelineAborted &) {
            slot.drain();
        } catch (...) {
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                is_aborted_ = true;
                changed_.notify_all();
            }
            slot.drain();
            throw;
        }
    }

    void prefault(const Task &task) const {
        const HostMatrixView host = host_matrix_of(task);
        for (int64_t row = task.first; row < task.first + task.rows; ++row) {
            char *const at = host.row(row);
            const int64_t bytes = host.run / int64_t(sizeof(Total)) * int64_t(sizeof(Element));
            // Adding 0 atomically keeps the value, even if another thread stores a result at the same time.
            for (int64_t i = 0; i < bytes; i += PAGE) __atomic_fetch_add(at + i, char(0), __ATOMIC_RELAXED);
        }
    }

    // Wait until the GEMM of a panel has been enqueued.
    void wait_for(int64_t panel) {
        std::unique_lock<std::mutex> lock(mutex_);
        while (
            !changed_.wait_for(lock, Call::POLL_INTERVAL, [&] { return is_aborted_ || launched_ > panel; })) {
            lock.unlock();
            call_.check_interrupt();
            lock.lock();
        }
        if (is_aborted_) throw PipelineAborted();
    }

    void begin(const Task &task, StagingHalf &half, TraceLane &lane) {
        const HostMatrixView host = host_matrix_of(task);
        const int64_t bytes = task.rows * host.run;
        if (task.kind == Task::down) {
            wait_for((task.of + 1) * tiling_.panels(product_) - 1);
            const cudaStream_t down = streams().download.get();
            half.enqueued_at = call_.seconds();
            PK_CUDA(cudaStreamWaitEvent(down, events_->finished[size_t(task.of % tiling_.totals)].get()));
            PK_CUDA(cudaMemcpyAsync(half.memory, totals(task.of) + task.first * host.run, size_t(bytes),
                                    cudaMemcpyDeviceToHost, down));
            PK_CUDA(cudaEventRecord(half.done, down));
        } else {
            const double begin = call_.seconds();
            host.each(task.first, task.rows, [&](const char *from, int64_t offset, int64_t count) {
                std::memcpy(half.memory + offset, from, size_t(count));
            });
            lane.add(PK_STAGE_STAGE, begin, call_.seconds(), bytes, bytes / element_bytes_.factor);
            char *to = factors(task.of) + task.first * host.run;
            if (task.kind == Task::up_b) {
                const Panel &panel = panels_[size_t(task.of)];
                const OutputTile &tile = tiles_[size_t(panel.tile)];
                to += tile.pairs * tile.rows * panel.depth * element_bytes_.factor;
            }
            const cudaStream_t up = streams().upload.get();
            // The panel that used this buffer before must have been multiplied.
            if (task.of >= GemmTiling::PANELS) {
                wait_for(task.of - GemmTiling::PANELS);
                PK_CUDA(
                    cudaStreamWaitEvent(up, events_->computed[size_t(task.of % GemmTiling::PANELS)].get()));
            }
            half.enqueued_at = call_.seconds();
            PK_CUDA(cudaMemcpyAsync(to, half.memory, size_t(bytes), cudaMemcpyHostToDevice, up));
            PK_CUDA(cudaEventRecord(half.done, up));
        }
        half.task = &task;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (--remaining_of(task) == 0 && task.kind == Task::down)
            PK_CUDA(cudaEventRecord(events_->downloaded[size_t(task.of % tiling_.totals)].get(),
                                    streams().download.get()));
        launch_ready_panels();
    }

    // Wait for the copy of a half, and store the results of a download.
    void finish(StagingHalf &half, const Slot &slot, TraceLane &lane, double &free_since) {
        if (half.task == nullptr) return;
        const Task &task = *half.task;
        half.task = nullptr;
        const HostMatrixView host = host_matrix_of(task);
        const int64_t bytes = task.rows * host.run;
        PK_CUDA(cudaEventSynchronize(half.done));
        const double now = call_.seconds();
        const bool down = task.kind == Task::down;
        lane.add(down ? PK_STAGE_DOWNLOAD : PK_STAGE_UPLOAD, std::max(half.enqueued_at, free_since), now,
                 bytes, bytes / (down ? element_bytes_.total : element_bytes_.factor), slot.device,
                 slot.number);
        free_since = now;
        if (down) store(task, host, half.memory, lane);
        const std::lock_guard<std::mutex> lock(call_.mutex);
        (down ? call_.report.bytes_down : call_.report.bytes_up) += bytes;
        call_.report.chunks += down;
    }

    void store(const Task &task, const HostMatrixView &host, const char *memory, TraceLane &lane) {
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
        lane.add(PK_STAGE_UNSTAGE, begin, call_.seconds(), task.rows * columns * int64_t(sizeof(Element)),
                 task.rows * columns);
        call_.advance(task.rows * columns);
    }

    const StreamScope *const stream_scope_;  // null: the product is synchronous
    const Product &product_, &resident_;
    const bool downloads_result_;
    bool accumulates_in_place_ = false;  // sums are in the resident result itself
    Call &call_;
    const int device_;
    GemmAlgorithm algorithm_;
    const ElementBytes element_bytes_;
    const int64_t budget_;
    std::optional<Lease> lease_;
    int64_t half_bytes_ = 0;
    GemmTiling tiling_{};
    std::optional<DeviceBuffer> device_buffer_;
    const unsigned *d_run_if_ = nullptr;  // predicate of the kernels, if not null
    std::vector<OutputTile> tiles_;
    std::vector<Panel> panels_;
    std::vector<Task> tasks_;
    std::atomic<size_t> next_{0};

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::vector<int64_t> uploads_left_, downloads_left_;  // tasks not enqueued yet, of each panel or tile
    int64_t launched_ = 0;                                // panels
    std::atomic<bool> is_aborted_{false};

    // Events of the panels and tiles that are on the device. An asynchronous product needs none.
    struct Events {
        Event uploaded[GemmTiling::PANELS] = {make_event(), make_event()},
              computed[GemmTiling::PANELS] = {make_event(), make_event()};
        Event began = make_timing_event(), finished[2] = {make_timing_event(), make_timing_event()},
              downloaded[2] = {make_event(), make_event()};
    };
    std::optional<Events> events_;
    double first_launch_ = 0;
};

}  // namespace pk::matmul
