// The pipeline algorithms of the histogram family: count, digitize, and copy with minimum and maximum.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/histogram.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"
#include "cuda/runtime/inline_upload.h"
#include "kernels.cuh"

namespace pk::histogram {

constexpr int THREADS = 256;

// Return the blocks for `count` elements: few, since each adds its table in the end.
inline unsigned table_grid(int64_t count) { return grid_for(count, THREADS * 8, 512); }

inline int64_t edges_bytes(const pk_bins &bins) {
    const int64_t item = bins.type == PK_FLOAT16 || bins.type == PK_FLOAT32 ? 4 : 8;
    return item * (bins.count + 1);
}

// The device address of an axis's edges, if its bins have any: device-resident, or uploaded for the call.
class Edges {
   public:
    Edges() = default;
    Edges(const pk_bins &bins, const char *d_resident, BroadcastBuffers &broadcasts)
        : d_resident_(d_resident) {
        if (bins.kind == PK_BINS_INDEX || d_resident != nullptr) return;
        at_ = broadcasts.add(reinterpret_cast<const void *>(bins.edges), edges_bytes(bins));
    }
    uint64_t d_address(const char *broadcasts) const {
        const char *const edges = at_ < 0 ? d_resident_ : broadcasts + at_;
        return reinterpret_cast<uint64_t>(edges);
    }

   private:
    const char *d_resident_ = nullptr;
    int64_t at_ = -1;
};

// Return the kernels' description of an axis.
inline device::Axis axis_on(const char *broadcasts, const pk_bins &bins, const Edges &edges, int64_t offset,
                            int type) {
    device::Axis axis{bins, offset, type, int32_t(size_of(type))};
    axis.bins.edges = edges.d_address(broadcasts);
    return axis;
}

// The memory ranges of a call: its values, its edges if it has any, and its results.
struct MemoryRanges {
    std::vector<MemoryRange> all;
    int edges[2] = {-1, -1};

    // Edges and results may be device-resident if the call is computed on the device (`is_on_device`).
    MemoryRanges(const Layout &layout, int64_t values, const pk_bins *bins, int64_t axes, bool is_on_device);
    // Return the operand of the results.
    int add_results(const void *results, int64_t count, bool may_be_resident) {
        all.emplace_back(results, count * 8, 8, true, may_be_resident);
        return int(all.size()) - 1;
    }
};

// Return the memory ranges of a call's values. Bytes are read as words.
inline std::vector<MemoryRange> ranges_of_values(const Layout &layout, int64_t values) {
    std::vector<MemoryRange> ranges;
    for (int64_t i = 0; i < values && layout.size != 0; ++i) {
        ranges.emplace_back(layout, layout.views[size_t(i)], false);
        ranges.back().item = std::max<int64_t>(ranges.back().item, 4);
    }
    return ranges;
}

inline MemoryRanges::MemoryRanges(const Layout &layout, int64_t values, const pk_bins *bins, int64_t axes,
                                  bool is_on_device)
    : all(ranges_of_values(layout, values)) {
    for (int64_t i = 0; i < axes; ++i) {
        if (bins[i].kind == PK_BINS_INDEX) continue;
        const auto *const at = reinterpret_cast<const void *>(bins[i].edges);
        edges[i] = int(all.size());
        all.emplace_back(at, edges_bytes(bins[i]), 8, false, is_on_device);
    }
}

// Return the bytes from one device address to another, which may be in different memory.
inline int64_t distance(const char *from, const char *to) {
    return int64_t(reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from));
}

// Return the offset of a chunk's elements of an operand from the chunk's memory; they may be device-resident.
inline int64_t offset_of(const DeviceAlgorithm &work, const Operands &operands, int operand,
                         const Chunk &chunk) {
    return distance(chunk.d_memory, operands.d_data(work, chunk, operand));
}

// Counts the elements of a layout in bins.
class HistogramAlgorithm : public DeviceAlgorithm {
   public:
    // The counts of the bins and of the elements out of range, and a flag: an element is beyond the bins.
    // They are written to device memory or, if that is null, added to a table on the host.
    struct Table {
        int64_t *host;
        char *d_data = nullptr;
    };

    // `edges` are the operands of the axes' edges. The values are at `d_values` or, if that is null, are
    // operand 0 and, of two axes, operand 1.
    HistogramAlgorithm(const Layout &layout, const pk_bins *bins, const std::vector<int> &types,
                       int64_t total, Table table, const int *edges, const Operands &operands, Call &call,
                       const ExecutionContext &context, char *d_values = nullptr)
        : DeviceAlgorithm(layout, loads_of(operands, types.size(), d_values), {}, 0, 0),
          bins_(bins),
          types_(types),
          total_(total),
          table_(table),
          operands_(operands),
          d_values_(d_values) {
        returns_state = table.d_data == nullptr;
        can_run_async = true;
        for (size_t i = 0; i < types.size(); ++i)
            edges_.emplace_back(bins[i], operands.of(edges[i]).d_data, broadcasts_);
        has_memory = broadcasts_.upload(call, context);
        counts_bytes_ =
            types.size() == 1 && types_[0] == PK_UINT8 && bins[0].kind == PK_BINS_INDEX && total == 256;
        single_pass_coalesced = (counts_bytes_ && !loads.empty()) || is_coalesced();
        while (copies_ != 0 && copies_ * (total + 1) > SHARED) copies_ /= 2;
    }

    int64_t state_bytes() const override { return returns_state ? table_bytes() : 0; }
    void begin(char *d_state, cudaStream_t stream) override {
        PK_CUDA(cudaMemsetAsync(d_table(d_state), 0, size_t(table_bytes()), stream));
    }

    void enqueue(const Chunk &chunk) override {
        device::HistogramParams params{};
        params.axis_count = int32_t(types_.size());
        for (size_t i = 0; i < types_.size(); ++i) {
            const int64_t offset = d_values_ != nullptr
                                       ? distance(chunk.d_memory, d_values_ + chunk.start * item(i))
                                       : offset_of(*this, operands_, int(i), chunk);
            params.axes[i] =
                axis_on(broadcasts_.d_data(chunk.device_index), bins_[i], edges_[i], offset, types_[i]);
        }
        params.total = int32_t(total_);
        params.copies = int32_t(copies_);
        params.memory = chunk.d_memory;
        params.count = chunk.count;
        params.table = reinterpret_cast<unsigned long long *>(d_table(chunk.d_state));
        const size_t shared_bytes = size_t(copies_ * (total_ + 1)) * sizeof(uint32_t);
        if (counts_bytes_) {
            device::count_bytes<<<table_grid(chunk.count / 4), THREADS, shared_bytes, chunk.stream>>>(params);
        } else {
            device::count<<<table_grid(chunk.count), THREADS, shared_bytes, chunk.stream>>>(params);
        }
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

    // Add a device's counts.
    void take_state(const char *table) override {
        const auto *const counts = reinterpret_cast<const int64_t *>(table);
        for (int64_t i = 0; i < total_ + 2; ++i) table_.host[i] += counts[i];
        table_.host[total_ + 1] = table_.host[total_ + 1] != 0;
    }

    bool has_memory = false;

   private:
    static constexpr int64_t SHARED = 10 << 10;  // most counts in a block's shared memory

    static std::vector<StreamedOperand> loads_of(const Operands &operands, size_t axes,
                                                 const char *d_values) {
        if (d_values != nullptr) return {};
        return operands.loads(axes == 2 ? std::vector<int>{0, 1} : std::vector<int>{0});
    }

    int64_t item(size_t axis) const { return layout.views[axis].item; }
    int64_t table_bytes() const { return (total_ + 2) * int64_t(sizeof(int64_t)); }
    char *d_table(char *d_state) const { return returns_state ? d_state : table_.d_data; }

    const pk_bins *const bins_;
    const std::vector<int> types_;
    const int64_t total_;
    const Table table_;
    const Operands &operands_;
    char *const d_values_;
    int64_t copies_ = 8;  // of the table in a block's shared memory; 0: there is none
    bool counts_bytes_ = false;
    BroadcastBuffers broadcasts_;
    std::vector<Edges> edges_;
};

// Writes the index of each element's bin.
class DigitizeAlgorithm : public DeviceAlgorithm {
   public:
    // The edges are on the devices already.
    DigitizeAlgorithm(const DigitizeRequest &request, const Operands &operands,
                      const BroadcastBuffers &broadcasts, const Edges &edges)
        : DeviceAlgorithm(request.layout, operands.loads({0}), operands.stores(1), 0, 0),
          bins_(*request.bins),
          right_(request.right),
          decreasing_(request.decreasing),
          operands_(operands),
          broadcasts_(broadcasts),
          edges_(edges) {
        can_run_async = true;
    }

    void enqueue(const Chunk &chunk) override {
        const int type = layout.views[0].type;
        const device::DigitizeParams params{
            axis_on(broadcasts_.d_data(chunk.device_index), bins_, edges_,
                    offset_of(*this, operands_, 0, chunk), type),
            !right_,
            decreasing_,
            chunk.d_memory,
            chunk.count,
            offset_of(*this, operands_, 1, chunk),
        };
        device::digitize<<<table_grid(chunk.count), THREADS, 0, chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

   private:
    const pk_bins &bins_;
    const bool right_, decreasing_;
    const Operands &operands_;
    const BroadcastBuffers &broadcasts_;
    const Edges edges_;
};

// Uploads all elements to a device buffer, unless they are on the device, and finds their minimum and
// maximum.
class CopyMinMaxAlgorithm : public DeviceAlgorithm {
   public:
    CopyMinMaxAlgorithm(const Layout &layout, const Operands &operands, const ExecutionContext &context)
        : DeviceAlgorithm(layout, operands.loads({0}), {}, 0, 0),
          operands_(operands),
          buffer_(buffer_on(context.device(), is_resident() ? 0 : layout.size * layout.views[0].item)) {
        single_pass_coalesced = is_coalesced();
        returns_state = true;
    }

    int64_t state_bytes() const override { return sizeof(keys); }
    void begin(char *d_state, cudaStream_t stream) override {
        upload_inline(reinterpret_cast<const char *>(keys), sizeof(keys), d_state, stream);
    }

    void enqueue(const Chunk &chunk) override {
        const View &view = layout.views[0];
        const device::CopyMinMaxParams params{
            axis_on(nullptr, pk_bins{}, Edges(), offset_of(*this, operands_, 0, chunk), view.type),
            chunk.d_memory,
            is_resident() ? nullptr : d_values() + chunk.start * view.item,
            chunk.count,
            reinterpret_cast<long long *>(chunk.d_state),
        };
        device::copy_min_max<<<table_grid(chunk.count), THREADS, 0, chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}
    void take_state(const char *state) override { std::memcpy(keys, state, sizeof(keys)); }

    // Return all elements on the device; null: there is no memory for them.
    char *d_values() const { return is_resident() ? operands_.of(0).d_data : buffer_.d_memory(); }

    int64_t keys[2] = {INT64_MAX, INT64_MIN};

   private:
    static DeviceBuffer buffer_on(int device, int64_t bytes) {
        if (bytes == 0) return DeviceBuffer();
        const CurrentDevice current(device);
        return DeviceBuffer(device, bytes);
    }

    const Operands &operands_;
    const DeviceBuffer buffer_;
};

}  // namespace pk::histogram
