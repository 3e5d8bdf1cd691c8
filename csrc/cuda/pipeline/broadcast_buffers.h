// Broadcast buffers: operands and tables that every chunk of a call reads, uploaded once to each device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "common/portable.h"
#include "cuda/runtime/execution_context.h"
#include "staging_slots.h"

namespace pk {

// A broadcast operand: one that has stride 0 along some of the call's dimensions. On the device it is a table
// of shapes and strides, then its distinct elements, contiguous:
//   dims | shape and stride of each dimension, from the last | at elements_offset(dims), the elements
// Element i of the call uses the distinct element whose index is a sum over the table's dimensions in order:
// add i % shape[d] * stride[d], then go on with i / shape[d].
PK_HD int64_t elements_offset(int64_t dims) { return ((1 + 2 * dims) * 8 + 255) / 256 * 256; }

struct BroadcastOperand {
    std::vector<int64_t> table;  // dims, shape, stride, shape, stride, ...
    Layout distinct;             // layout of the distinct elements on the host
    int64_t size;                // number of distinct elements

    BroadcastOperand(const Layout &layout, const View &view);
    int64_t table_bytes() const { return int64_t(table.size() * sizeof(int64_t)); }
};

// Collects pieces of host data, uploads them to a buffer on each device of the call, and gives their offsets.
class BroadcastBuffers {
   public:
    // Each add() returns the offset of the data in the device buffer.
    int64_t add(const void *bytes, int64_t count);
    // For tables that the library computed: if there is nothing else, upload() can be asynchronous.
    int64_t add_inline(const void *bytes, int64_t count);
    int64_t add(BroadcastOperand broadcast);
    int64_t add(const Layout &layout, const View &view, int64_t start, int64_t count);  // elements

    // Upload all pieces. Return false if the memory budget is exhausted.
    bool upload(Call &call, const ExecutionContext &context);

    char *d_data(int device_index) const {
        return device_buffers_.empty() ? nullptr : device_buffers_[size_t(device_index)].d_memory();
    }

   private:
    // A part of the data, which `write` puts into staging memory.
    struct Piece {
        int64_t offset, bytes;
        std::function<void(char *)> write;
    };
    bool upload_on_stream(const StreamScope &stream_scope);

    int64_t reserve(int64_t bytes);

    int64_t bytes_ = 0;
    bool is_inline_ = true;  // all pieces were added by add_inline()
    std::vector<Piece> pieces_;
    std::vector<DeviceBuffer> device_buffers_;  // one for each device
};

}  // namespace pk
