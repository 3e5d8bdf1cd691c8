// Uploads data that every chunk of a call reads: by several host threads, or through kernel parameters.
#include "broadcast_buffers.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cuda/runtime/inline_upload.h"
#include "cuda/runtime/launch.h"
#include "staged_copy.h"

namespace pk {

static constexpr int64_t PIECE = StagedCopy::MAX_MOVED;

// Return the layout without its broadcast dimensions, those of stride 0.
static Layout distinct_elements(const Layout &layout, const View &view) {
    Layout distinct = layout;
    distinct.views = {view};
    distinct.shape.clear();
    distinct.views[0].strides.clear();
    for (size_t d = 0; d < layout.shape.size(); ++d) {
        if (view.strides[d] == 0) continue;
        distinct.shape.push_back(layout.shape[d]);
        distinct.views[0].strides.push_back(view.strides[d]);
    }
    distinct.size = 1;
    for (int64_t n : distinct.shape) distinct.size *= n;
    return distinct;
}

BroadcastOperand::BroadcastOperand(const Layout &layout, const View &view)
    : distinct(distinct_elements(layout, view)), size(distinct.size) {
    struct Dimension {
        int64_t shape, stride;
    };
    std::vector<Dimension> dimensions;  // from the last; adjacent ones are merged if both or neither repeat
    int64_t stride = 1;
    for (size_t d = layout.shape.size(); d-- > 0;) {
        const bool repeats = view.strides[d] == 0;
        if (!dimensions.empty() && (dimensions.back().stride == 0) == repeats) {
            dimensions.back().shape *= layout.shape[d];
        } else {
            dimensions.push_back({layout.shape[d], repeats ? 0 : stride});
        }
        if (!repeats) stride *= layout.shape[d];
    }
    if (dimensions.back().stride == 0) dimensions.pop_back();
    table.push_back(int64_t(dimensions.size()));
    for (const Dimension &dimension : dimensions) {
        table.push_back(dimension.shape);
        table.push_back(dimension.stride);
    }
}

int64_t BroadcastBuffers::reserve(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += align_up(bytes, DEVICE_ALIGNMENT);
    return offset;
}

int64_t BroadcastBuffers::add(const void *bytes, int64_t count) {
    is_inline_ = false;
    return add_inline(bytes, count);
}

int64_t BroadcastBuffers::add_inline(const void *bytes, int64_t count) {
    const int64_t offset = reserve(count);
    const auto *from = static_cast<const char *>(bytes);
    for (int64_t done = 0; done < count; done += PIECE) {
        const int64_t part = std::min(PIECE, count - done);
        pieces_.push_back(
            {offset + done, part, [=](char *to) { std::memcpy(to, from + done, size_t(part)); }});
    }
    return offset;
}

int64_t BroadcastBuffers::add(BroadcastOperand broadcast) {
    is_inline_ = false;
    const auto operand = std::make_shared<const BroadcastOperand>(std::move(broadcast));
    const int64_t offset = reserve(operand->table_bytes());
    pieces_.push_back({offset, operand->table_bytes(), [=](char *to) {
                           std::memcpy(to, operand->table.data(), size_t(operand->table_bytes()));
                       }});
    const View &view = operand->distinct.views[0];
    const int64_t data = reserve(operand->size * view.item);
    for (int64_t done = 0; done < operand->size; done += PIECE / view.item) {
        const int64_t part = std::min(PIECE / view.item, operand->size - done);
        pieces_.push_back({data + done * view.item, part * view.item, [=](char *to) {
                               operand->distinct.gather(operand->distinct.views[0], done, part, to);
                           }});
    }
    return offset;
}

int64_t BroadcastBuffers::add(const Layout &layout, const View &view, int64_t start, int64_t count) {
    is_inline_ = false;
    const int64_t offset = reserve(count * view.item), most = PIECE / view.item;
    for (int64_t done = 0; done < count; done += most) {
        const int64_t part = std::min(most, count - done);
        pieces_.push_back({offset + done * view.item, part * view.item,
                           [=, &layout, &view](char *to) { layout.gather(view, start + done, part, to); }});
    }
    return offset;
}

bool BroadcastBuffers::upload(Call &call, const ExecutionContext &context) {
    if (bytes_ == 0) return true;
    const StreamScope *const stream_scope = context.stream_scope();
    if (stream_scope != nullptr && is_inline_ && bytes_ <= MAX_INLINE_UPLOAD)
        return upload_on_stream(*stream_scope);
    StreamScope::refuse_capture();  // before anything is allocated
    for (int device : context.devices) {
        const CurrentDevice current(device);
        device_buffers_.emplace_back(device, bytes_);
        if (device_buffers_.back().d_memory() == nullptr) {
            device_buffers_.clear();
            return false;
        }
    }
    for (size_t i = 0; i < context.devices.size(); ++i) {
        StagedCopy copy(call, context.devices[i], StagedCopy::up);
        for (const Piece &piece : pieces_)
            copy.add(device_buffers_[i].d_memory() + piece.offset, piece.bytes, piece.write);
        copy.run();
    }
    return true;
}

bool BroadcastBuffers::upload_on_stream(const StreamScope &stream_scope) {
    const CurrentDevice current(stream_scope.device);
    DeviceBuffer block(stream_scope.device, bytes_, Account::call, stream_scope.stream);
    if (block.d_memory() == nullptr) return false;
    std::vector<char> staged;
    for (const Piece &piece : pieces_) {
        staged.resize(size_t(piece.bytes));
        piece.write(staged.data());
        upload_inline(staged.data(), piece.bytes, block.d_memory() + piece.offset, stream_scope.stream);
    }
    device_buffers_.push_back(std::move(block));
    return true;
}

}  // namespace pk
