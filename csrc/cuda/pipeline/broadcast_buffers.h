// What every chunk of a call reads: it goes up once to each device, and stays there while the call lasts.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "common/portable.h"
#include "staging_slots.h"

namespace pk {

// An operand that is the same along some of a call's dimensions, as the device finds it: its distinct
// elements side by side, and which of them belongs to element i of the call:
//   for each dimension d from the last: i % shape[d] * stride[d] of them, and on with i / shape[d]
// In memory: dims | shape and stride of each, in this order | after data_after(dims) bytes, the elements.
PK_HD int64_t elements_offset(int64_t dims) { return ((1 + 2 * dims) * 8 + 255) / 256 * 256; }

struct BroadcastOperand {
    std::vector<int64_t> table;  // dims, shape, stride, shape, stride, ...
    Layout distinct;             // of its elements
    int64_t size;                // of these

    BroadcastOperand(const Layout &layout, const View &view);
    int64_t table_bytes() const { return int64_t(table.size() * sizeof(int64_t)); }
};

class BroadcastBuffers {
   public:
    // Each returns the offset of what it adds.
    int64_t add(const void *bytes, int64_t count);
    // Of what the library makes of a call's parameters: if there is nothing else, it may come in the line.
    int64_t add_inline(const void *bytes, int64_t count);
    int64_t add(BroadcastOperand spread);
    int64_t add(const Layout &layout, const View &view, int64_t start, int64_t count);  // elements

    // False if the budget has no room for it.
    bool upload(Call &call, const std::vector<int> &devices);

    char *d_data(int device_index) const {
        return device_buffers_.empty() ? nullptr : device_buffers_[size_t(device_index)].d_memory();
    }

   private:
    struct Piece {
        int64_t offset, bytes;
        std::function<void(char *)> write;
    };
    bool upload_on_stream(const StreamScope &stream_scope);
    void upload_pieces(Call &call, int device, char *d_memory) const;

    int64_t reserve(int64_t bytes);

    int64_t bytes_ = 0;
    bool is_inline_ = true;  // all pieces
    std::vector<Piece> pieces_;
    std::vector<DeviceBuffer> device_buffers_;  // a device's each
};

}  // namespace pk
