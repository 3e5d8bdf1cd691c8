// Device buffers of a run: layout, upload, fill and download.
#include "buffers.h"

#include <algorithm>
#include <cstring>

#include "cuda/pipeline/staged_copy.h"
#include "cuda/runtime/launch.h"

namespace pk::kernels {

namespace {

constexpr int64_t MAX_BYTES = int64_t(1) << 50;
// Zeroed buffers of fewer bytes are uploaded with the others instead of being filled by cudaMemset.
constexpr int64_t WORTH_A_MEMSET = 32 << 10;

char *host_address(const pk_buffer &buffer) { return reinterpret_cast<char *>(buffer.address); }
bool begins_as_passed(const pk_buffer &buffer) { return (buffer.flags & PK_BUFFER_UPLOAD) != 0; }
bool goes_up(const pk_buffer &buffer) { return begins_as_passed(buffer) && !is_on_device(buffer); }
bool comes_down(const pk_buffer &buffer) {
    return (buffer.flags & PK_BUFFER_DOWNLOAD) != 0 && !is_on_device(buffer);
}
int first_byte(const pk_buffer &buffer) {
    return (buffer.flags & PK_BUFFER_POISON) != 0 ? PK_BUFFER_POISON_BYTE : 0;
}

}  // namespace

Buffers::Buffers(Table<pk_buffer> buffers, Call &call, int device)
    : buffers_(buffers), call_(call), device_(device) {
    lay_out();
}

void Buffers::set_memory(char *d_memory, char *pinned) {
    d_memory_ = d_memory;
    pinned_ = pinned;
}

void Buffers::set_mapped_memory(char *d_memory, char *pinned) {
    set_memory(d_memory, pinned);
    is_mapped_ = true;
}

// Pack the buffers in this order: uploaded only, uploaded and downloaded, downloaded only, and the rest.
void Buffers::lay_out() {
    offsets_.resize(size_t(buffers_.size));
    auto place = [&](bool up, bool down) {
        for (int64_t i = 0; i < buffers_.size; ++i) {
            const pk_buffer &buffer = buffers_[i];
            if (is_in_place(buffer) || goes_up(buffer) != up || comes_down(buffer) != down) continue;
            if (buffer.bytes > MAX_BYTES - all_)
                fail(PK_OUT_OF_MEMORY, "the buffers of this run have more than " + std::to_string(MAX_BYTES) +
                                           " bytes: no GPU has so much memory");
            offsets_[size_t(i)] = all_;
            all_ += align_up(buffer.bytes, DEVICE_ALIGNMENT);
            if (up) bytes_up_ += buffer.bytes;
            if (down) bytes_down_ += buffer.bytes;
        }
    };
    place(true, false);
    down_begin_ = all_;
    place(true, true);
    up_end_ = all_;
    place(false, true);
    down_end_ = all_;
    place(false, false);
    if (all_ - up_end_ <= WORTH_A_MEMSET) up_end_ = all_;
}

char *Buffers::address(int64_t index) const {
    const pk_buffer &buffer = buffers_[index];
    return is_in_place(buffer) ? host_address(buffer) : d_memory_ + offsets_[size_t(index)];
}

void Buffers::fill(int64_t index, cudaStream_t stream) {
    const pk_buffer &buffer = buffers_[index];
    PK_CUDA(cudaMemsetAsync(address(index), first_byte(buffer), size_t(buffer.bytes), stream));
}

void Buffers::upload(cudaStream_t stream) {
    if (has_pinned_memory()) {
        upload_through_pinned(stream);
        call_.report.bytes_up += bytes_up_;
    } else {
        for (int64_t i = 0; i < buffers_.size; ++i) {
            const pk_buffer &buffer = buffers_[i];
            if (!begins_as_passed(buffer) && !is_on_device(buffer) && buffer.bytes != 0) fill(i, stream);
        }
        StagedCopy copy(call_, device_, StagedCopy::up);
        each(PK_BUFFER_UPLOAD,
             [&](int64_t i, auto &buffer) { copy.add(host_address(buffer), address(i), buffer.bytes); });
        copy.run();
    }
    initialize_on_device(stream);
}

void Buffers::upload_through_pinned(cudaStream_t stream) {
    const int64_t end = is_mapped_ ? all_ : up_end_;
    for (int64_t i = 0; i < buffers_.size; ++i) {
        const pk_buffer &buffer = buffers_[i];
        char *const to = pinned_ + offsets_[size_t(i)];
        if (buffer.bytes == 0 || is_on_device(buffer)) continue;
        if (offsets_[size_t(i)] >= end) {
            fill(i, stream);
        } else if (goes_up(buffer)) {
            std::memcpy(to, host_address(buffer), size_t(buffer.bytes));
        } else {
            std::memset(to, first_byte(buffer), size_t(buffer.bytes));
        }
    }
    if (is_mapped_ || end == 0) return;
    PK_CUDA(cudaMemcpyAsync(d_memory_, pinned_, size_t(end), cudaMemcpyHostToDevice, stream));
    call_.report.chunks += 1;
}

// Initialize the buffers that are device arrays: copied, or filled. Copies come first, since they may read
// an array that is filled.
void Buffers::initialize_on_device(cudaStream_t stream) {
    each_on_device(true, [&](int64_t i, auto &buffer) {
        if (is_in_place(buffer)) return;
        PK_CUDA(cudaMemcpyAsync(address(i), host_address(buffer), size_t(buffer.bytes),
                                cudaMemcpyDeviceToDevice, stream));
    });
    each_on_device(false, [&](int64_t i, auto &) { fill(i, stream); });
}

void Buffers::enqueue_download(cudaStream_t stream) {
    if (!has_pinned_memory() || is_mapped_ || down_begin_ == down_end_) return;
    PK_CUDA(cudaMemcpyAsync(pinned_ + down_begin_, d_memory_ + down_begin_, size_t(down_end_ - down_begin_),
                            cudaMemcpyDeviceToHost, stream));
    call_.report.chunks += 1;
}

void Buffers::download() {
    if (has_pinned_memory()) {
        call_.report.bytes_down += bytes_down_;
        each(PK_BUFFER_DOWNLOAD, [&](int64_t i, auto &buffer) {
            std::memcpy(host_address(buffer), pinned_ + offsets_[size_t(i)], size_t(buffer.bytes));
        });
    } else {
        StagedCopy copy(call_, device_, StagedCopy::down);
        each(PK_BUFFER_DOWNLOAD,
             [&](int64_t i, auto &buffer) { copy.add(host_address(buffer), address(i), buffer.bytes); });
        copy.run();
    }
}

}  // namespace pk::kernels
