// The GEMM pipeline: an out-of-core matrix product on one GPU.
//
// Host threads stage and upload panels of both factors, double-buffered, while earlier panels are multiplied;
// finished tiles of the result are downloaded meanwhile.
#pragma once

#include <condition_variable>
#include <cstring>
#include <optional>
#include <thread>

#include "cuda/pipeline/pipeline.h"
#include "cuda/pipeline/staging_thread.h"
#include "gemm_on_device.cuh"

namespace pk::matmul {

// Bytes of the result that a prefault task touches, page by page.
constexpr int64_t PREFAULT_BYTES = 2 << 20, PAGE = 4096;
// A task of a host thread: upload or download some rows, or prefault pages of the result, which may be new
// memory, while there is little else to do.
struct Task {
    enum Kind { up_a, up_b, prefault, down } kind;
    int64_t of;  // the index of the panel, or of the tile
    int64_t first, rows;
};

// One product on one GPU.
template <class Kind>
class GemmPipeline : private StagedTransfer {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;

   public:
    // `resident` has the device addresses of the operands that are on the device, and null for the others.
    // With `downloads_result`, the result is also, or only, in host memory.
    GemmPipeline(const Product &product, const Product &resident, bool downloads_result, Call &call,
                 int device, GemmAlgorithm algorithm)
        : product_(product),
          resident_(resident),
          downloads_result_(downloads_result),
          call_(call),
          device_(device),
          algorithm_(algorithm),
          gemm_(product, resident, device, algorithm) {
        take_memory();
        make_tasks();
    }

    // Run the product. Return false if factors that were split are not all finite: the result is invalid
    // then.
    bool run() {
        StreamScope::synchronize();
        const SyncOnExit compute(
            streams().compute);  // after a failure, no kernel still uses resident buffers
        PK_CUDA(cudaMemsetAsync(gemm_.d_status(), 0, GemmTiling::STATUS_BYTES, compute.get()));
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
        const auto last = size_t((int64_t(gemm_.tiles.size()) - 1) % gemm_.tiling.totals);
        PK_CUDA(cudaEventSynchronize(events_.finished[last].get()));
        const double end = call_.seconds();
        if (!downloads_result_) {
            call_.report.chunks += int64_t(gemm_.tiles.size());
            call_.advance(product_.elements());
        }
        unsigned status[2] = {0, 0};  // FP exception flags, and whether a split factor is not finite
        PK_CUDA(cudaMemcpyAsync(status, gemm_.d_status(), sizeof(status), cudaMemcpyDeviceToHost,
                                streams().download.get()));
        PK_CUDA(cudaStreamSynchronize(streams().download.get()));
        // All kernels are traced as one: they run back to back, and their waits show in the other stages.
        float milliseconds = 0;
        PK_CUDA(cudaEventElapsedTime(&milliseconds, events_.began.get(), events_.finished[last].get()));
        TraceLane(call_).add(PK_STAGE_KERNEL, first_launch_,
                             std::min(end, first_launch_ + milliseconds * 1e-3), 0, product_.elements(),
                             device_, KERNELS_LANE);
        if (algorithm_ == GemmAlgorithm::split && status[1] != 0) return false;
        call_.report.exceptions |= status[0];
        return true;
    }

   private:
    // ---- Preparation --------------------------------------------------------------------------------

    // Take slots, and a buffer for panels and sums. If other calls have the memory, this waits for it; the
    // slots are returned before the next try, since those calls may need them.
    void take_memory() {
        const SlotBytes slot_bytes = Lease::default_size(Lease::staged);
        const int64_t slots = std::min<int64_t>(slots_reserved<Kind>(product_), thread_count());
        for (;;) {
            lease_.emplace(slot_bytes, SlotBytes{0, 0}, device_, slots, call_);
            device_buffer_.emplace(device_, gemm_.tiling.bytes(), Account::large_call);
            if (device_buffer_->d_memory() != nullptr) return gemm_.set_memory(device_buffer_->d_memory());
            device_buffer_.reset();
            lease_.reset();
            std::this_thread::sleep_for(Call::POLL_INTERVAL / 5);
            call_.check_interrupt();
        }
    }

    void make_tasks() {
        const int64_t depths = gemm_.tiling.panels(product_);
        for (int64_t tile = 0; tile < int64_t(gemm_.tiles.size()); ++tile) {
            for (int64_t d = 0; d < depths; ++d) {
                const int64_t panel = tile * depths + d;
                if (resident_.a == nullptr) add_tasks(Task::up_a, panel);
                if (resident_.b == nullptr) add_tasks(Task::up_b, panel);
                if (!downloads_result_) continue;
                add_prefaults(tile, d, depths);
                // The previous tile is downloaded while this one's panels are uploaded.
                if (d == 0 && tile > 0) add_tasks(Task::down, tile - 1);
            }
        }
        const auto last = int64_t(gemm_.tiles.size()) - 1;
        if (downloads_result_) add_tasks(Task::down, last);
        uploads_left_.resize(gemm_.panels.size());
        downloads_left_.resize(gemm_.tiles.size());
        for (const Task &task : tasks_) {
            if (task.kind != Task::prefault) ++remaining_of(task);
        }
    }

    HostMatrixView host_matrix_of(const Task &task) const {
        const HostOperands<Kind> matrices{product_};
        if (task.kind == Task::down || task.kind == Task::prefault)
            return matrices.of_c(gemm_.tiles[size_t(task.of)]);
        const Panel &panel = gemm_.panels[size_t(task.of)];
        const OutputTile &tile = gemm_.tiles[size_t(panel.tile)];
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

    // Enqueue the GEMM of each panel whose uploads have all been enqueued, in order. Called with the mutex
    // held.
    void launch_ready_panels() {
        while (launched_ < int64_t(gemm_.panels.size()) && uploads_left_[size_t(launched_)] == 0) {
            const int64_t tile = gemm_.panels[size_t(launched_)].tile, before = tile - gemm_.tiling.totals;
            if (gemm_.is_first(launched_) && before >= 0 && downloads_left_[size_t(before)] != 0) return;
            launch(launched_, tile);
            ++launched_;
            changed_.notify_all();
        }
    }

    void launch(int64_t index, int64_t tile) {
        call_.count_launch();
        const cudaStream_t compute = streams().compute.get();
        const auto turn = size_t(index % GemmTiling::PANELS), slot = size_t(tile % gemm_.tiling.totals);
        PK_CUDA(cudaEventRecord(events_.uploaded[turn].get(), streams().upload.get()));
        PK_CUDA(cudaStreamWaitEvent(compute, events_.uploaded[turn].get()));
        if (gemm_.is_first(index) && tile >= gemm_.tiling.totals)
            PK_CUDA(cudaStreamWaitEvent(compute, events_.downloaded[slot].get()));
        if (index == 0) {
            first_launch_ = call_.seconds();
            PK_CUDA(cudaEventRecord(events_.began.get(), compute));
        }
        gemm_.enqueue_panel(index, compute);
        PK_CUDA(cudaEventRecord(events_.computed[turn].get(), compute));
        if (!gemm_.is_last(index)) return;
        gemm_.enqueue_result(tile, true, compute);
        PK_CUDA(cudaEventRecord(events_.finished[slot].get(), compute));
    }

    // ---- The host's threads -----------------------------------------------------------------------------

    // Do tasks, with a copy in flight in each half of the slot's pinned memory.
    void work(const Slot &slot) {
        const CurrentDevice current(device_);
        try {
            StagingThread thread(*this, call_,
                                 {{&slot, slot.host(), slot.uploaded.get()},
                                  {&slot, slot.host() + half_bytes_, slot.computed.get()}});
            for (size_t index = next_++; index < tasks_.size() && !is_aborted_; index = next_++) {
                if (tasks_[index].kind == Task::prefault) {
                    prefault(tasks_[index]);
                    call_.check_interrupt();
                } else {
                    thread.take(index);
                }
            }
            thread.finish();
        } catch (const Aborted &) {
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
        if (is_aborted_) throw Aborted();
    }

    StagedPiece piece(size_t index) override {
        const Task &task = tasks_[index];
        const HostMatrixView host = host_matrix_of(task);
        StagedPiece piece{task.kind != Task::down, nullptr, task.rows * host.run};
        piece.is_chunk = !piece.is_up;
        if (!piece.is_up) {
            piece.d_data = gemm_.totals(task.of) + task.first * host.run;
            piece.elements = piece.progress = piece.bytes / gemm_.element_bytes.total;
            piece.host_bytes = piece.elements * int64_t(sizeof(Element));
            return piece;
        }
        piece.d_data = gemm_.factors(task.of) + task.first * host.run;
        piece.elements = piece.bytes / gemm_.element_bytes.factor;
        if (task.kind == Task::up_b) {
            const Panel &panel = gemm_.panels[size_t(task.of)];
            const OutputTile &tile = gemm_.tiles[size_t(panel.tile)];
            piece.d_data += tile.pairs * tile.rows * panel.depth * gemm_.element_bytes.factor;
        }
        return piece;
    }

    void stage(size_t index, char *staged) override {
        const Task &task = tasks_[index];
        host_matrix_of(task).each(task.first, task.rows,
                                  [&](const char *from, int64_t offset, int64_t count) {
                                      std::memcpy(staged + offset, from, size_t(count));
                                  });
    }

    void order(size_t index, cudaStream_t stream) override {
        const Task &task = tasks_[index];
        if (task.kind == Task::down) {
            wait_for((task.of + 1) * gemm_.tiling.panels(product_) - 1);
            PK_CUDA(
                cudaStreamWaitEvent(stream, events_.finished[size_t(task.of % gemm_.tiling.totals)].get()));
        } else if (task.of >= GemmTiling::PANELS) {
            // The panel that used this buffer before must have been multiplied.
            wait_for(task.of - GemmTiling::PANELS);
            PK_CUDA(
                cudaStreamWaitEvent(stream, events_.computed[size_t(task.of % GemmTiling::PANELS)].get()));
        }
    }

    void enqueued(size_t index) override {
        const Task &task = tasks_[index];
        const std::lock_guard<std::mutex> lock(mutex_);
        if (--remaining_of(task) == 0 && task.kind == Task::down)
            PK_CUDA(cudaEventRecord(events_.downloaded[size_t(task.of % gemm_.tiling.totals)].get(),
                                    streams().download.get()));
        launch_ready_panels();
    }

    void deliver(size_t index, const char *staged) override {
        const Task &task = tasks_[index];
        const HostMatrixView host = host_matrix_of(task);
        const int64_t columns = host.run / int64_t(sizeof(Total));
        for (int64_t i = 0; i < task.rows; ++i) {
            auto *const to = reinterpret_cast<Element *>(host.row(task.first + i));
            const auto *const from = reinterpret_cast<const Total *>(staged + i * host.run);
            if constexpr (std::is_same<Element, Total>::value) {
                std::memcpy(to, from, size_t(host.run));
            } else {
                for (int64_t j = 0; j < columns; ++j) to[j] = Kind::store(from[j]);
            }
        }
    }

    const Product &product_, &resident_;
    const bool downloads_result_;
    Call &call_;
    const int device_;
    const GemmAlgorithm algorithm_;
    GemmOnDevice<Kind> gemm_;
    std::optional<Lease> lease_;
    const int64_t half_bytes_ = half_slot_bytes();
    std::optional<DeviceBuffer> device_buffer_;
    std::vector<Task> tasks_;
    std::atomic<size_t> next_{0};

    std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    std::vector<int64_t> uploads_left_, downloads_left_;  // tasks not enqueued yet, of each panel or tile
    int64_t launched_ = 0;                                // panels
    std::atomic<bool> is_aborted_{false};

    // Events of the panels and tiles that are on the device.
    struct Events {
        Event uploaded[GemmTiling::PANELS] = {make_event(), make_event()},
              computed[GemmTiling::PANELS] = {make_event(), make_event()};
        Event began = make_timing_event(), finished[2] = {make_timing_event(), make_timing_event()},
              downloaded[2] = {make_event(), make_event()};
    };
    const Events events_;
    double first_launch_ = 0;
};

}  // namespace pk::matmul
