// Uploads and downloads of resident buffers, and the look-up of ranges in the thread's residency scopes.
#include "residency_map.h"

#include <utility>

#include "cuda/pipeline/staged_copy.h"
#include "cuda/runtime/inline_upload.h"

namespace pk {

// Copy after the work that the thread's streams hold.
static void copy(StagedCopy::Direction direction, int device, char *d_data, char *host, int64_t bytes,
                 Call &call) {
    if (bytes == 0) return;
    StreamScope::synchronize();
    StagedCopy staged(call, device, direction);
    staged.add(host, d_data, bytes);
    staged.run();
}

bool ResidentBuffer::sync_to_device_async(Call &call) {
    if (device_valid || !host_valid) return device_valid;
    const StreamScope *const stream_scope = StreamScope::current_on(device);
    if (stream_scope == nullptr || bytes > MAX_INLINE_UPLOAD) return false;
    const CurrentDevice current(device);
    upload_inline(host, bytes, d_data(), stream_scope->stream);
    call.report.bytes_up += bytes;
    device_valid = true;
    return true;
}

void ResidentBuffer::sync_to_device(Call &call) {
    if (sync_to_device_async(call)) return;
    copy(StagedCopy::up, device, d_data(), host, bytes, call);
    device_valid = true;
}

void ResidentBuffer::sync_to_host(Call &call) {
    if (host_valid || !device_valid) return;
    download(device, d_data(), host, bytes, call);
    host_valid = true;
}

void download(int device, char *d_data, char *host, int64_t bytes, Call &call) {
    copy(StagedCopy::down, device, d_data, host, bytes, call);
}

int device_of_imported(uint64_t d_data, int64_t bytes, uint64_t stream) {
    require_cuda();
    int device = -1;
    for (const uint64_t byte : {d_data, d_data + uint64_t(bytes) - 1}) {
        cudaPointerAttributes attributes{};
        PK_CUDA(cudaPointerGetAttributes(&attributes, reinterpret_cast<const void *>(byte)));
        require(attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged,
                "an array is not in memory of a device, or has been freed");
        require(device < 0 || attributes.device == device,
                "the range at device_address goes beyond the end of its allocation");
        device = attributes.device;
    }
    if (stream == 0) return device;
    const CurrentDevice current(device);
    PK_CUDA(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(stream)));
    return device;
}

thread_local ResidencyScope *ResidencyScope::current_ = nullptr;

void ResidencyScope::set_stream(cudaStream_t stream, StatusWords status) {
    if (stream_scope_) StreamScope::synchronize();
    stream_scope_.reset();
    if (stream == nullptr) return;
    stream_scope_.emplace(device_, stream, status);
    if (stream_scope_->outer() == nullptr) return;
    try {
        stream_scope_->wait_for(*stream_scope_->outer());
    } catch (...) {
        stream_scope_.reset();
        throw;
    }
}

ResidencyScope::~ResidencyScope() {
    current_ = outer_;
    if (!stream_scope_ || outer_ == nullptr) return;
    try {
        order_outer(*stream_scope_);
    } catch (const Failure &) {
        (void)cudaStreamSynchronize(stream_scope_->stream);  // the next call on the device reports the error
    }
}

void ResidencyScope::order_outer(const StreamScope &scope) {
    if (scope.outer() != nullptr) return scope.outer()->wait_for(scope);
    const CurrentDevice current(scope.device);
    PK_CUDA(cudaStreamSynchronize(scope.stream));
}

std::vector<ResidentBuffer *> ResidencyScope::overlapping(const char *low, const char *high) {
    std::vector<ResidentBuffer *> buffers;
    for (ResidencyScope *scope = current_; scope != nullptr; scope = scope->outer_) {
        auto next = scope->buffers_.upper_bound(low);
        if (next != scope->buffers_.begin() && std::prev(next)->second.end() > low) --next;
        for (; next != scope->buffers_.end() && next->first < high; ++next) buffers.push_back(&next->second);
    }
    return buffers;
}

ResidentBuffer *ResidencyScope::find(uint64_t address) {
    const auto *const at = reinterpret_cast<const char *>(address);
    const std::vector<ResidentBuffer *> buffers = overlapping(at, at + 1);
    return buffers.empty() ? nullptr : buffers.front();
}

void ResidencyScope::add(ResidentBuffer buffer) {
    const char *const host = buffer.host;
    buffers_.emplace(host, std::move(buffer));
}

void ResidencyScope::drop(const ResidentBuffer &buffer) {
    const char *const host = buffer.host;
    for (ResidencyScope *scope = current_; scope != nullptr; scope = scope->outer_) {
        const auto entry = scope->buffers_.find(host);
        if (entry == scope->buffers_.end()) continue;
        scope->buffers_.erase(entry);
        return;
    }
}

}  // namespace pk
