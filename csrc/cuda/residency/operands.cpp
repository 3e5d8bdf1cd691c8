// Resolves the operands of a call against the residency map, and keeps the map's coherence state.
#include "operands.h"

#include <algorithm>
#include <cstring>

namespace pk {

namespace {

// The half-open range of host addresses that a strided operand reaches.
struct Extent {
    const char *low, *high;

    Extent(const Layout &layout, const View &view) : low(view.base), high(view.base + view.item) {
        for (size_t d = 0; d < layout.shape.size(); ++d) {
            const int64_t reach = (layout.shape[d] - 1) * view.strides[d];
            (reach < 0 ? low : high) += reach;
        }
    }
};

bool is_dense(const Layout &layout, const View &view) {
    int64_t stride = view.item;
    for (size_t d = layout.shape.size(); d-- > 0; stride *= layout.shape[d]) {
        if (view.strides[d] != stride) return false;
    }
    return true;
}

// Return the resident buffer on the call's device that contains all of [low, high), or null.
ResidentBuffer *buffer_containing(const char *low, const char *high, const std::vector<int> &devices) {
    const std::vector<ResidentBuffer *> buffers = ResidencyScope::overlapping(low, high);
    const bool is_contained = buffers.size() == 1 && buffers[0]->contains(low, high) && devices.size() == 1 &&
                              buffers[0]->device == devices[0];
    return is_contained ? buffers[0] : nullptr;
}

// Return the resident buffer that contains all of an operand, or null. Kernels do not swap bytes and need
// aligned elements: other operands are staged.
ResidentBuffer *resident_buffer_of(const Layout &layout, const View &view, const std::vector<int> &devices) {
    const Extent extent(layout, view);
    ResidentBuffer *const buffer = buffer_containing(extent.low, extent.high, devices);
    if (buffer == nullptr || view.swapped) return nullptr;
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(buffer->device_address(view.base)) % uintptr_t(view.item) == 0 &&
        std::all_of(view.strides.begin(), view.strides.end(), [&](int64_t s) { return s % view.item == 0; });
    return is_aligned ? buffer : nullptr;
}

// Return the resident buffer that contains a memory range and is aligned to its item, or null.
ResidentBuffer *resident_buffer_of(const MemoryRange &memory_range, const std::vector<int> &devices) {
    ResidentBuffer *const buffer = buffer_containing(memory_range.low, memory_range.high, devices);
    if (buffer == nullptr || !memory_range.may_be_resident) return nullptr;
    const auto at = reinterpret_cast<uintptr_t>(buffer->device_address(memory_range.low));
    return at % uintptr_t(memory_range.item) == 0 ? buffer : nullptr;
}

bool contains(const std::vector<ResidentBuffer *> &group, const ResidentBuffer *buffer) {
    return std::find(group.begin(), group.end(), buffer) != group.end();
}

}  // namespace

MemoryRange::MemoryRange(const Layout &layout, const View &view, bool stored)
    : MemoryRange(view.base, 0, view.item, stored, is_dense(layout, view) && !view.swapped) {
    const Extent extent(layout, view);
    low = extent.low;
    high = extent.high;
    is_on_device = view.on_device;
}

std::vector<MemoryRange> on_host(std::vector<MemoryRange> memory_ranges) {
    for (MemoryRange &memory_range : memory_ranges) memory_range.may_be_resident = false;
    return memory_ranges;
}

bool all_resident(const std::vector<MemoryRange> &memory_ranges, const ExecutionContext &context) {
    return ResidencyScope::current() != nullptr &&
           std::all_of(memory_ranges.begin(), memory_ranges.end(), [&](auto &memory_range) {
               return resident_buffer_of(memory_range, context.devices) != nullptr;
           });
}

void upload_loads(const Layout &layout, const Program &program, Call &call, const ExecutionContext &context) {
    if (ResidencyScope::current() == nullptr) return;
    for (const Step &step : program.steps) {
        if (step.op != PK_OP_LOAD) continue;
        ResidentBuffer *const buffer =
            resident_buffer_of(layout, layout.views[size_t(step.a)], context.devices);
        if (buffer != nullptr && buffer->host_valid && !buffer->device_valid) buffer->sync_to_device(call);
    }
}

bool loads_are_on_device(const Layout &layout, const Program &program, const ExecutionContext &context) {
    return std::all_of(program.steps.begin(), program.steps.end(), [&](const Step &step) {
        if (step.op != PK_OP_LOAD) return true;
        const View &view = layout.views[size_t(step.a)];
        if (view.on_device || view.access == Access::constant || layout.size == 1) return true;
        const ResidentBuffer *const buffer = resident_buffer_of(layout, view, context.devices);
        return buffer != nullptr && buffer->device_valid;
    });
}

void sync_to_host(const std::vector<MemoryRange> &memory_ranges, Call &call) {
    for (const MemoryRange &memory_range : memory_ranges) {
        for (ResidentBuffer *buffer : ResidencyScope::overlapping(memory_range.low, memory_range.high))
            buffer->sync_to_host(call);
    }
}

Operands::Operands(const Layout &layout, const Program &program, Call &call, const ExecutionContext &context)
    : call_(call), context_(context), launches_before_(call.launches()) {
    const std::vector<View> &views = layout.views;
    for (size_t i = 0; i < views.size() && context.is_on_device; ++i) {
        operands_.emplace_back();
        if (views[i].on_device) operands_.back() = {views[i].base, is_dense(layout, views[i])};
        require(views[i].on_device || views[i].base == nullptr || views[i].access == Access::constant ||
                    layout.size == 1,
                "some operands are on a device, and others are on the host");
    }
    if (context.is_on_device || ResidencyScope::current() == nullptr) return;
    const bool is_whole = call.ranges().size() == 1 && call.ranges()[0].count >= layout.size;
    std::vector<bool> loaded(views.size(), false);
    for (const Step &step : program.steps) {
        if (step.op == PK_OP_LOAD) loaded[size_t(step.a)] = true;
    }
    operands_.resize(views.size());
    std::vector<ResidentBuffer *> buffers(views.size(), nullptr);
    for (size_t i = 0; i < views.size(); ++i) {
        const View &view = views[i];
        const bool stored = program.stored[i];
        if (view.base == nullptr || (!loaded[i] && !stored)) continue;
        ResidentBuffer *const buffer = resident_buffer_of(layout, view, context.devices);
        // A constant's value is uploaded with the program.
        if (buffer == nullptr || (view.access == Access::constant && buffer->host_valid)) {
            use_host(layout, view, stored);
            continue;
        }
        const bool covers = is_whole && is_dense(layout, view) && layout.size * view.item == buffer->bytes;
        const bool overwrites = !loaded[i] && (covers || !buffer->host_valid);
        if (loaded[i]) buffer->sync_to_device_async(call);
        if (!buffer->device_valid && !overwrites && !(loaded[i] && covers)) buffer->sync_to_device(call);
        buffers[i] = buffer;
    }
    for (size_t i = 0; i < views.size(); ++i) {
        if (buffers[i] == nullptr) continue;
        Operand &resident = operands_[i];
        resident.d_data = buffers[i]->device_address(views[i].base);
        resident.contiguous = is_dense(layout, views[i]);
        // If two operands share a buffer, only the first uploads it.
        if (loaded[i] && !buffers[i]->device_valid && !contains(uploading_, buffers[i])) {
            resident.upload_first_use = true;
            uploading_.push_back(buffers[i]);
        }
        if (program.stored[i]) {
            resident.copy_back = buffers[i]->intent == PK_RESIDENT_OUTPUT;
            written_.push_back(buffers[i]);
        }
    }
    launches_before_ = call.launches();
}

Operands::Operands(std::vector<MemoryRange> memory_ranges, Call &call, const ExecutionContext &context)
    : call_(call),
      context_(context),
      memory_ranges_(std::move(memory_ranges)),
      launches_before_(call.launches()) {
    if (!context.is_on_device && ResidencyScope::current() == nullptr) return;
    operands_.resize(memory_ranges_.size());
    for (size_t i = 0; i < memory_ranges_.size(); ++i) {
        const MemoryRange &memory_range = memory_ranges_[i];
        if (memory_range.low == memory_range.high) continue;
        if (memory_range.is_on_device) {
            if (memory_range.may_be_resident) operands_[i] = {const_cast<char *>(memory_range.low), true};
            continue;
        }
        ResidentBuffer *const buffer = resident_buffer_of(memory_range, context.devices);
        if (buffer == nullptr) {
            use_host(memory_range.low, memory_range.high, memory_range.stored);
            continue;
        }
        const bool covers = memory_range.high - memory_range.low == buffer->bytes;
        const bool overwrites = memory_range.stored && (covers || !buffer->host_valid);
        if (!memory_range.stored) buffer->sync_to_device_async(call);
        const bool upload_first_use =
            !memory_range.stored && memory_range.may_upload_by_chunk && covers && !buffer->device_valid;
        if (upload_first_use) {
            operands_[i].upload_first_use = true;
            uploading_.push_back(buffer);
        } else if (buffer->host_valid && !buffer->device_valid && !overwrites) {
            buffer->sync_to_device(call);
        }
        operands_[i].d_data = buffer->device_address(memory_range.low);
        operands_[i].contiguous = true;
        if (!memory_range.stored) continue;
        operands_[i].copy_back = buffer->intent == PK_RESIDENT_OUTPUT;
        written_.push_back(buffer);
    }
    launches_before_ = call.launches();
}

void Operands::use_host(const Layout &layout, const View &view, bool stored) {
    const Extent extent(layout, view);
    use_host(extent.low, extent.high, stored);
}

void Operands::use_host(const char *low, const char *high, bool stored) {
    for (ResidentBuffer *buffer : ResidencyScope::overlapping(low, high)) {
        buffer->sync_to_host(call_);
        if (stored) written_on_host_.push_back(buffer);
    }
}

std::vector<StreamedOperand> Operands::loads(const std::vector<int> &operands) const {
    std::vector<StreamedOperand> streamed;
    for (int operand : operands) {
        const Operand resident = of(operand);
        if (resident.d_data != nullptr && !resident.upload_first_use) continue;
        streamed.push_back({operand, 0});
        streamed.back().d_resident = resident.d_data;
    }
    return streamed;
}

std::vector<StreamedOperand> Operands::stores(int operand) const {
    const Operand resident = of(operand);
    if (resident.d_data != nullptr && !resident.copy_back) return {};
    StreamedOperand streamed{operand, 0};
    streamed.d_resident = resident.d_data;
    return {streamed};
}

char *Operands::d_data(const DeviceAlgorithm &algorithm, const Chunk &chunk, int operand) const {
    const Operand resident = of(operand);
    if (resident.d_data != nullptr)
        return resident.d_data + chunk.start * algorithm.layout.views[size_t(operand)].item;
    for (const std::vector<StreamedOperand> *group : {&algorithm.loads, &algorithm.stores}) {
        for (const StreamedOperand &streamed : *group) {
            if (streamed.operand == operand) return chunk.d_memory + chunk.operand(streamed);
        }
    }
    return nullptr;
}

char *Operands::d_result(int operand, const Layout *layout) {
    const MemoryRange &range = memory_ranges_[size_t(operand)];
    const int64_t bytes = layout != nullptr ? layout->size * range.item : range.high - range.low;
    if (layout != nullptr && layout->views[0].access == Access::contiguous && !layout->views[0].swapped)
        layout = nullptr;
    const Operand resident = of(operand);
    char *d_data = resident.d_data;
    // A download waits for the stream. A graph must not have begun to capture the call then.
    if (d_data == nullptr || resident.copy_back) StreamScope::refuse_capture();
    if (d_data == nullptr) {
        try {
            result_memory_.emplace_back(context_.device(), stream_of(context_.stream_scope()), bytes);
        } catch (const Failure &failure) {
            if (failure.status() != PK_OUT_OF_MEMORY) throw;
            return nullptr;
        }
        d_data = result_memory_.back().get();
    } else if (!resident.copy_back) {
        return d_data;
    }
    downloads_.push_back({context_.device(), d_data, const_cast<char *>(range.low), bytes, layout});
    return d_data;
}

void Operands::download_results() {
    for (Download &result : downloads_) {
        if (result.is_stored) continue;
        std::vector<char> staged(result.layout != nullptr ? size_t(result.bytes) : 0);
        char *const to = result.layout != nullptr ? staged.data() : result.host;
        download(result.device, result.d_data, to, result.bytes, call_);
        if (result.layout != nullptr) result.store(to);
        result.is_stored = true;
    }
}

void Download::store(const char *from) {
    if (layout != nullptr)
        layout->scatter(layout->views[0], 0, layout->size, from);
    else
        std::memcpy(host, from, size_t(bytes));
    is_stored = true;
}

void Operands::commit() {
    is_committed_ = true;
    for (ResidentBuffer *buffer : uploading_) buffer->device_valid = true;
    for (ResidentBuffer *buffer : written_) {
        buffer->device_valid = buffer->was_written = true;
        buffer->host_valid = buffer->intent == PK_RESIDENT_OUTPUT;
    }
    for (ResidentBuffer *buffer : written_on_host_) buffer->invalidate_device();
}

void Operands::poison() {
    is_committed_ = true;
    call_.report_undelivered(call_.ranges());
    std::sort(written_.begin(), written_.end());
    written_.erase(std::unique(written_.begin(), written_.end()), written_.end());
    for (ResidentBuffer *buffer : written_) {
        buffer->owned.leak();
        ResidencyScope::drop(*buffer);
    }
}

Operands::~Operands() {
    if (is_committed_) return;
    const bool has_launched = call_.launches() != launches_before_;
    for (ResidentBuffer *buffer : uploading_) buffer->device_valid = false;
    for (ResidentBuffer *buffer : written_on_host_) buffer->device_valid = false;
    if (!has_launched) return;
    for (ResidentBuffer *buffer : written_) buffer->device_valid = false;
    // Chunks that were stored on the device alone are lost: another engine must compute the whole call again.
    if (!written_.empty()) call_.report_undelivered(call_.ranges());
}

}  // namespace pk
