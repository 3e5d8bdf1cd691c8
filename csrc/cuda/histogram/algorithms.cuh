// What counting has the streaming engine do.
#pragma once

#include <algorithm>
#include <vector>

#include "common/histogram.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"
#include "kernels.cuh"

namespace pk::histogram {

constexpr int THREADS = 256;

inline unsigned blocks_for(int64_t count) {
    constexpr int64_t EACH = 8, MOST = 512;  // elements of a thread; blocks, each of which has a table to add
    return unsigned(std::clamp<int64_t>(count / (THREADS * EACH), 1, MOST));
}

inline int64_t edges_bytes(const pk_bins &given) {
    const int64_t item = given.type == PK_FLOAT16 || given.type == PK_FLOAT32 ? 4 : 8;
    return item * (given.count + 1);
}

// Where kernels find the edges of bins, if these have any: at home, or among what stays on the devices.
class Edges {
   public:
    Edges() = default;
    Edges(const pk_bins &given, const char *home, Resident &resident) : home_(home) {
        if (given.how == PK_BY_VALUE || home != nullptr) return;
        at_ = resident.add(reinterpret_cast<const void *>(given.edges), edges_bytes(given));
    }
    uint64_t on(const char *resident) const {
        const char *const found = at_ < 0 ? home_ : resident + at_;
        return reinterpret_cast<uint64_t>(found);
    }

   private:
    const char *home_ = nullptr;
    int64_t at_ = -1;
};

inline device::Axis axis_on(const char *resident, const pk_bins &given, const Edges &edges, int64_t offset,
                            int type) {
    device::Axis axis{given, offset, type, int32_t(size_of(type))};
    axis.bins.edges = edges.on(resident);
    return axis;
}

// What a call works on, as spans: its values, the edges that there are, and its results.
struct Spans {
    std::vector<plan::Span> all;
    int edges[2] = {-1, -1};

    // Kernels find the values at home; and, of what lies there altogether, the rest.
    Spans(const Layout &layout, int64_t values, const pk_bins *bins, int64_t axes, bool is_there);
    int add_results(const void *results, int64_t count, bool is_there) {
        all.emplace_back(results, count * 8, 8, true, is_there);
        return int(all.size()) - 1;
    }
};

inline Spans::Spans(const Layout &layout, int64_t values, const pk_bins *bins, int64_t axes, bool is_there) {
    for (int64_t i = 0; i < values && layout.size != 0; ++i) {
        all.emplace_back(layout, layout.views[size_t(i)], false);
        all.back().item = std::max<int64_t>(all.back().item, 4);  // bytes are read by words
    }
    for (int64_t i = 0; i < axes; ++i) {
        if (bins[i].how == PK_BY_VALUE) continue;
        const auto *const at = reinterpret_cast<const void *>(bins[i].edges);
        edges[i] = int(all.size());
        all.emplace_back(at, edges_bytes(bins[i]), 8, false, is_there);
    }
}

// Where a chunk's elements of an operand are, from the chunk's memory on: in it, or at home.
inline int64_t offset_of(const Work &work, const plan::Homes &homes, int operand, const Chunk &chunk) {
    const auto at = reinterpret_cast<uintptr_t>(homes.at(work, chunk, operand));
    return int64_t(at - reinterpret_cast<uintptr_t>(chunk.memory));
}

// Edges, as spans say, and a table that are at home.
struct CountedThere {
    const Spans *spans = nullptr;
    char *table = nullptr;
};

// Counts values of a layout; what is in the table, which is zero at first, comes back with finish(), unless
// it is at home.
class Counter : public Work {
   public:
    Counter(const Layout &layout, const pk_bins *bins, int64_t axes, const int *types, int64_t total,
            int64_t *table, const plan::Homes &homes, Call &call, const std::vector<int> &devices,
            CountedThere there = {})
        : Work(layout, homes.loads(axes == 2 ? std::vector<int>{0, 1} : std::vector<int>{0}), {}, 0, 0),
          bins_(bins),
          types_(types, types + axes),
          total_(total),
          table_(table),
          homes_(homes),
          call_(call),
          devices_(devices),
          table_there_(there.table) {
        may_queue = there.table != nullptr;
        for (int64_t i = 0; i < axes; ++i) {
            const char *const home = may_queue ? homes.of(there.spans->edges[i]).at : nullptr;
            edges_.emplace_back(bins[i], home, resident_);
        }
        if (!may_queue) table_at_ = resident_.add(table, table_bytes());
        has_room = resident_.upload(call, devices);
        counts_bytes_ = axes == 1 && types_[0] == PK_UINT8 && bins[0].how == PK_BY_VALUE && total == 256;
        walks = (counts_bytes_ && !loads.empty()) || takes_lines();
        while (copies_ != 0 && copies_ * (total + 1) > SHARED) copies_ /= 2;
    }

    void launch(const Chunk &chunk) override {
        int64_t offsets[2] = {};
        for (size_t i = 0; i < types_.size(); ++i) offsets[i] = offset_of(*this, homes_, int(i), chunk);
        launch_on(resident_.on(chunk.device), chunk.memory, offsets, chunk.count, chunk.queue);
    }

    // For all elements of one axis, which are on the first device.
    void launch_all(const char *elements, cudaStream_t queue) const {
        const int64_t offset = 0;
        launch_on(resident_.on(0), elements, &offset, layout.size, queue);
    }

    void collect(const void *) override {}

    // Once every chunk was computed.
    void finish() {
        std::vector<int64_t> one(size_t(total_ + 2));
        for (size_t place = 0; place < devices_.size(); ++place) {
            const CurrentDevice current(devices_[place]);
            const char *const from = resident_.on(int(place)) + table_at_;
            PK_CUDA(cudaMemcpy(one.data(), from, size_t(table_bytes()), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < one.size(); ++i) table_[i] += one[i];
            call_.report.bytes_down += table_bytes();
        }
        table_[total_ + 1] = table_[total_ + 1] != 0;
    }

    bool has_room = false;

   private:
    static constexpr int64_t SHARED = 10 << 10;  // counts in a block's shared memory

    void launch_on(char *resident, const char *memory, const int64_t *offsets, int64_t count,
                   cudaStream_t queue) const {
        device::Tally given{};
        given.axis_count = int32_t(types_.size());
        for (size_t i = 0; i < types_.size(); ++i) {
            given.axes[i] = axis_on(resident, bins_[i], edges_[i], offsets[i], types_[i]);
        }
        given.total = int32_t(total_);
        given.copies = int32_t(copies_);
        given.memory = memory;
        given.count = count;
        char *const table = may_queue ? table_there_ : resident + table_at_;
        given.table = reinterpret_cast<unsigned long long *>(table);
        const size_t shared_bytes = size_t(copies_ * (total_ + 1)) * sizeof(uint32_t);
        if (counts_bytes_) {
            device::count_bytes<<<blocks_for(count / 4), THREADS, shared_bytes, queue>>>(given);
        } else {
            device::count<<<blocks_for(count), THREADS, shared_bytes, queue>>>(given);
        }
        PK_CUDA(cudaGetLastError());
    }

    int64_t table_bytes() const { return (total_ + 2) * int64_t(sizeof(int64_t)); }

    const pk_bins *const bins_;
    const std::vector<int> types_;
    const int64_t total_;
    int64_t *const table_;
    const plan::Homes &homes_;
    Call &call_;
    const std::vector<int> &devices_;
    int64_t copies_ = 8;
    bool counts_bytes_ = false;
    Resident resident_;
    std::vector<Edges> edges_;
    int64_t table_at_ = 0;
    char *const table_there_;
};

class Digitizer : public Work {
   public:
    // The edges are there already.
    Digitizer(const DigitizeRequest &request, const plan::Homes &homes, const Resident &resident,
              const Edges &edges)
        : Work(request.layout, homes.loads({0}), homes.stores(1), 0, 0),
          bins_(*request.bins),
          right_(request.right),
          decreasing_(request.decreasing),
          homes_(homes),
          resident_(resident),
          edges_(edges) {
        may_queue = true;
    }

    void launch(const Chunk &chunk) override {
        const int type = layout.views[0].type;
        const device::Search given{
            axis_on(resident_.on(chunk.device), bins_, edges_, offset_of(*this, homes_, 0, chunk), type),
            !right_,
            decreasing_,
            chunk.memory,
            chunk.count,
            offset_of(*this, homes_, 1, chunk),
        };
        device::digitize<<<blocks_for(chunk.count), THREADS, 0, chunk.queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

   private:
    const pk_bins &bins_;
    const bool right_, decreasing_;
    const plan::Homes &homes_;
    const Resident &resident_;
    const Edges edges_;
};

// Takes all elements to a device, where they stay, unless they are at home; and finds the extent.
class Keeper : public Work {
   public:
    Keeper(const Layout &layout, const plan::Homes &homes, Call &call, const std::vector<int> &devices)
        : Work(layout, homes.loads({0}), {}, 0, 0),
          homes_(homes),
          data_(block_on(devices[0], is_at_home() ? 0 : layout.size * layout.views[0].item)) {
        if (data() == nullptr) return;
        walks = takes_lines();
        keys_at_ = resident_.add(keys, sizeof(keys));
        has_room = resident_.upload(call, devices);
    }

    void launch(const Chunk &chunk) override {
        const View &view = layout.views[0];
        const device::Keep given{
            axis_on(nullptr, pk_bins{}, Edges(), offset_of(*this, homes_, 0, chunk), view.type),
            chunk.memory,
            is_at_home() ? nullptr : data() + chunk.start * view.item,
            chunk.count,
            reinterpret_cast<long long *>(resident_.on(chunk.device) + keys_at_),
        };
        device::keep<<<blocks_for(chunk.count), THREADS, 0, chunk.queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

    // Once every chunk was computed.
    void finish() {
        PK_CUDA(cudaMemcpy(keys, resident_.on(0) + keys_at_, sizeof(keys), cudaMemcpyDeviceToHost));
    }

    char *data() const { return is_at_home() ? homes_.of(0).at : data_.memory(); }

    bool has_room = false;
    int64_t keys[2] = {INT64_MAX, INT64_MIN};

   private:
    static Block block_on(int device, int64_t bytes) {
        if (bytes == 0) return Block();
        const CurrentDevice current(device);
        return Block(device, bytes);
    }

    const plan::Homes &homes_;
    const Block data_;
    Resident resident_;
    int64_t keys_at_ = 0;
};

// A queue whose work is done when it ends, whatever failed.
struct OwnQueue {
    Stream queue = stream();
    ~OwnQueue() { (void)cudaStreamSynchronize(queue.get()); }
};

}  // namespace pk::histogram
