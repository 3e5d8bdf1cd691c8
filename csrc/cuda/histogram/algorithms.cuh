// The pipeline algorithms of the histogram family: count, digitize, and copy with minimum and maximum.
#pragma once

#include <algorithm>
#include <vector>

#include "common/histogram.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"
#include "kernels.cuh"

namespace pk::histogram {

constexpr int THREADS = 256;

inline unsigned blocks_for(int64_t count) {
    constexpr int64_t ELEMENTS_PER_THREAD = 8, MAX_BLOCKS = 512;  // each block adds its table in the end
    return unsigned(std::clamp<int64_t>(count / (THREADS * ELEMENTS_PER_THREAD), 1, MAX_BLOCKS));
}

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

// The host ranges of a call: its values, its edges if it has any, and its results.
struct HostRanges {
    std::vector<plan::HostRange> all;
    int edges[2] = {-1, -1};

    // Values may always be device-resident; edges and results only if the whole call is (`is_resident`).
    HostRanges(const Layout &layout, int64_t values, const pk_bins *bins, int64_t axes, bool is_resident);
    int add_results(const void *results, int64_t count, bool is_resident) {
        all.emplace_back(results, count * 8, 8, true, is_resident);
        return int(all.size()) - 1;
    }
};

inline HostRanges::HostRanges(const Layout &layout, int64_t values, const pk_bins *bins, int64_t axes,
                              bool is_resident) {
    for (int64_t i = 0; i < values && layout.size != 0; ++i) {
        all.emplace_back(layout, layout.views[size_t(i)], false);
        all.back().item = std::max<int64_t>(all.back().item, 4);  // bytes are read as words
    }
    for (int64_t i = 0; i < axes; ++i) {
        if (bins[i].kind == PK_BINS_INDEX) continue;
        const auto *const at = reinterpret_cast<const void *>(bins[i].edges);
        edges[i] = int(all.size());
        all.emplace_back(at, edges_bytes(bins[i]), 8, false, is_resident);
    }
}

// Return the offset of a chunk's elements of an operand from the chunk's memory; they may be device-resident.
inline int64_t offset_of(const DeviceAlgorithm &work, const plan::Operands &operands, int operand,
                         const Chunk &chunk) {
    const auto at = reinterpret_cast<uintptr_t>(operands.d_data(work, chunk, operand));
    return int64_t(at - reinterpret_cast<uintptr_t>(chunk.d_memory));
}

// The device-resident edges and table of a call.
struct ResidentHistogram {
    const HostRanges *host_ranges = nullptr;
    char *table = nullptr;
};

// Counts the elements of a layout in bins. The table of counts must be zero. It is uploaded, and downloaded
// by finish(), unless it is device-resident.
class HistogramAlgorithm : public DeviceAlgorithm {
   public:
    HistogramAlgorithm(const Layout &layout, const pk_bins *bins, int64_t axes, const int *types,
                       int64_t total, int64_t *table, const plan::Operands &operands, Call &call,
                       const std::vector<int> &devices, ResidentHistogram resident = {})
        : DeviceAlgorithm(layout, operands.loads(axes == 2 ? std::vector<int>{0, 1} : std::vector<int>{0}),
                          {}, 0, 0),
          bins_(bins),
          types_(types, types + axes),
          total_(total),
          table_(table),
          operands_(operands),
          call_(call),
          devices_(devices),
          d_table_(resident.table) {
        can_run_async = resident.table != nullptr;
        for (int64_t i = 0; i < axes; ++i) {
            const char *const d_resident =
                can_run_async ? operands.of(resident.host_ranges->edges[i]).d_data : nullptr;
            edges_.emplace_back(bins[i], d_resident, broadcasts_);
        }
        if (!can_run_async) table_at_ = broadcasts_.add(table, table_bytes());
        has_memory = broadcasts_.upload(call, devices);
        counts_bytes_ = axes == 1 && types_[0] == PK_UINT8 && bins[0].kind == PK_BINS_INDEX && total == 256;
        single_pass_coalesced = (counts_bytes_ && !loads.empty()) || is_coalesced();
        while (copies_ != 0 && copies_ * (total + 1) > SHARED) copies_ /= 2;
    }

    void enqueue(const Chunk &chunk) override {
        int64_t offsets[2] = {};
        for (size_t i = 0; i < types_.size(); ++i) offsets[i] = offset_of(*this, operands_, int(i), chunk);
        launch_on(broadcasts_.d_data(chunk.device_index), chunk.d_memory, offsets, chunk.count, chunk.stream);
    }

    // Count all elements of one axis, which are on the first device.
    void launch_all(const char *elements, cudaStream_t stream) const {
        const int64_t offset = 0;
        launch_on(broadcasts_.d_data(0), elements, &offset, layout.size, stream);
    }

    void collect(const void *) override {}

    // Add up the devices' tables, when all chunks have been counted.
    void finish() {
        std::vector<int64_t> device_table(size_t(total_ + 2));
        for (size_t index = 0; index < devices_.size(); ++index) {
            const CurrentDevice current(devices_[index]);
            const char *const from = broadcasts_.d_data(int(index)) + table_at_;
            PK_CUDA(cudaMemcpy(device_table.data(), from, size_t(table_bytes()), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < device_table.size(); ++i) table_[i] += device_table[i];
            call_.report.bytes_down += table_bytes();
        }
        table_[total_ + 1] = table_[total_ + 1] != 0;
    }

    bool has_memory = false;

   private:
    static constexpr int64_t SHARED = 10 << 10;  // most counts in a block's shared memory

    void launch_on(char *broadcasts, const char *memory, const int64_t *offsets, int64_t count,
                   cudaStream_t stream) const {
        device::HistogramParams params{};
        params.axis_count = int32_t(types_.size());
        for (size_t i = 0; i < types_.size(); ++i) {
            params.axes[i] = axis_on(broadcasts, bins_[i], edges_[i], offsets[i], types_[i]);
        }
        params.total = int32_t(total_);
        params.copies = int32_t(copies_);
        params.memory = memory;
        params.count = count;
        char *const table = can_run_async ? d_table_ : broadcasts + table_at_;
        params.table = reinterpret_cast<unsigned long long *>(table);
        const size_t shared_bytes = size_t(copies_ * (total_ + 1)) * sizeof(uint32_t);
        if (counts_bytes_) {
            device::count_bytes<<<blocks_for(count / 4), THREADS, shared_bytes, stream>>>(params);
        } else {
            device::count<<<blocks_for(count), THREADS, shared_bytes, stream>>>(params);
        }
        PK_CUDA(cudaGetLastError());
    }

    int64_t table_bytes() const { return (total_ + 2) * int64_t(sizeof(int64_t)); }

    const pk_bins *const bins_;
    const std::vector<int> types_;
    const int64_t total_;
    int64_t *const table_;
    const plan::Operands &operands_;
    Call &call_;
    const std::vector<int> &devices_;
    int64_t copies_ = 8;
    bool counts_bytes_ = false;
    BroadcastBuffers broadcasts_;
    std::vector<Edges> edges_;
    int64_t table_at_ = 0;
    char *const d_table_;
};

// Writes the index of each element's bin.
class DigitizeAlgorithm : public DeviceAlgorithm {
   public:
    // The edges are on the devices already.
    DigitizeAlgorithm(const DigitizeRequest &request, const plan::Operands &operands,
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
        device::digitize<<<blocks_for(chunk.count), THREADS, 0, chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

   private:
    const pk_bins &bins_;
    const bool right_, decreasing_;
    const plan::Operands &operands_;
    const BroadcastBuffers &broadcasts_;
    const Edges edges_;
};

// Uploads all elements to a device buffer, unless they are device-resident, and finds their minimum and
// maximum.
class CopyMinMaxAlgorithm : public DeviceAlgorithm {
   public:
    CopyMinMaxAlgorithm(const Layout &layout, const plan::Operands &operands, Call &call,
                        const std::vector<int> &devices)
        : DeviceAlgorithm(layout, operands.loads({0}), {}, 0, 0),
          operands_(operands),
          data_(buffer_on(devices[0], is_resident() ? 0 : layout.size * layout.views[0].item)) {
        if (data() == nullptr) return;
        single_pass_coalesced = is_coalesced();
        keys_at_ = broadcasts_.add(keys, sizeof(keys));
        has_memory = broadcasts_.upload(call, devices);
    }

    void enqueue(const Chunk &chunk) override {
        const View &view = layout.views[0];
        const device::CopyMinMaxParams params{
            axis_on(nullptr, pk_bins{}, Edges(), offset_of(*this, operands_, 0, chunk), view.type),
            chunk.d_memory,
            is_resident() ? nullptr : data() + chunk.start * view.item,
            chunk.count,
            reinterpret_cast<long long *>(broadcasts_.d_data(chunk.device_index) + keys_at_),
        };
        device::copy_min_max<<<blocks_for(chunk.count), THREADS, 0, chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    void collect(const void *) override {}

    // Download the keys of the minimum and maximum, when all chunks have been computed.
    void finish() {
        PK_CUDA(cudaMemcpy(keys, broadcasts_.d_data(0) + keys_at_, sizeof(keys), cudaMemcpyDeviceToHost));
    }

    char *data() const { return is_resident() ? operands_.of(0).d_data : data_.d_memory(); }

    bool has_memory = false;
    int64_t keys[2] = {INT64_MAX, INT64_MIN};

   private:
    static DeviceBuffer buffer_on(int device, int64_t bytes) {
        if (bytes == 0) return DeviceBuffer();
        const CurrentDevice current(device);
        return DeviceBuffer(device, bytes);
    }

    const plan::Operands &operands_;
    const DeviceBuffer data_;
    BroadcastBuffers broadcasts_;
    int64_t keys_at_ = 0;
};

// A stream that is synchronized when it is destroyed, even after an error.
struct OwnStream {
    Stream stream = make_stream();
    ~OwnStream() { (void)cudaStreamSynchronize(stream.get()); }
};

}  // namespace pk::histogram
