// Conversion to grey (pk_gray) and look-up tables (pk_lookup) on a GPU.
#include "pixels.cuh"

#include <cstring>

#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"

namespace pk::image {

namespace {

namespace device {

template <class T>
__global__ void make_gray(const T *in, T *out, int64_t count, pixels::GrayWeights gray_weights) {
    const int64_t i = global_index();
    if (i < count) out[i] = pixels::gray_value(in + i * gray_weights.channels, gray_weights);
}

template <class T>
__global__ void look_up(const T *in, T *out, int64_t count, const uint16_t *table) {
    const int64_t i = global_index();
    if (i < count) out[i] = T(table[in[i]]);
}

}  // namespace device

// Converts pixels to grey. A unit is a pixel; its elements are the channels.
class GrayAlgorithm : public DeviceAlgorithm {
   public:
    // Without device memory for the result, it is delivered chunk by chunk.
    GrayAlgorithm(const Gray &request, const Operands &operands, char *d_out)
        : DeviceAlgorithm(request.layout, operands.loads({0}), {}, 0, 0),
          request_(request),
          operands_(operands),
          d_out_(d_out),
          item_(request.layout.views[0].item) {
        unit_elements = request.weights.channels;
        result_bytes = d_out != nullptr ? 0 : item_;
        can_run_async = true;
    }
    int64_t units() const override { return request_.pixel_count(); }
    int64_t start(int64_t unit) const override { return unit * unit_elements; }
    void enqueue(const Chunk &chunk) override {
        visit_image_type(request_.type, [&](auto of_type) {
            using T = decltype(of_type);
            launch_for(chunk.units.count, chunk.stream, device::make_gray<T>,
                       reinterpret_cast<const T *>(operands_.d_data(*this, chunk, 0)),
                       reinterpret_cast<T *>(d_out_ != nullptr ? d_out_ + chunk.units.start * item_
                                                               : chunk.d_memory + chunk.results),
                       chunk.units.count, request_.weights);
        });
    }
    void deliver(const Chunk &chunk, const char *results) override {
        std::memcpy(request_.out + chunk.units.start * item_, results, size_t(chunk.units.count * item_));
    }
    void collect(const void *) override {}

   private:
    const Gray &request_;
    const Operands &operands_;
    char *const d_out_;
    const int64_t item_;
};

// Replaces each element by its entry in a table, which is uploaded once to each device.
class LookupAlgorithm : public DeviceAlgorithm {
   public:
    LookupAlgorithm(const Lookup &request, const Operands &operands, Call &call,
                    const ExecutionContext &context)
        : DeviceAlgorithm(request.layout, operands.loads({0}), operands.stores(1), 0, 0),
          operands_(operands),
          type_(request.layout.views[0].type) {
        can_run_async = true;
        offset_ = broadcasts_.add_inline(request.table, request.count * int64_t(sizeof(uint16_t)));
        if (!broadcasts_.upload(call, context)) fail_device_budget("a look-up table");
    }
    void enqueue(const Chunk &chunk) override {
        const auto *table =
            reinterpret_cast<const uint16_t *>(broadcasts_.d_data(chunk.device_index) + offset_);
        visit_image_type(type_, [&](auto of_type) {
            using T = decltype(of_type);
            if constexpr (!std::is_same<T, float>::value) {
                launch_for(chunk.count, chunk.stream, device::look_up<T>,
                           reinterpret_cast<const T *>(operands_.d_data(*this, chunk, 0)),
                           reinterpret_cast<T *>(operands_.d_data(*this, chunk, 1)), chunk.count, table);
            }
        });
    }
    void collect(const void *) override {}

   private:
    const Operands &operands_;
    const int type_;
    BroadcastBuffers broadcasts_;
    int64_t offset_ = 0;
};

}  // namespace

void make_gray(const Gray &request, Call &call) {
    const ExecutionContext context(call);
    if (request.size == 0) return;
    MemoryRange in(request.layout, request.layout.views[0], false);
    in.may_upload_by_chunk = true;
    const int64_t item = request.layout.views[0].item, bytes = request.pixel_count() * item;
    Operands operands({in, {request.out, bytes, item, true}}, call, context);
    const bool is_on_device = operands.loads({0}).empty() || operands.of(1).d_data != nullptr;
    GrayAlgorithm algorithm(request, operands, is_on_device ? operands.d_result(1) : nullptr);
    execute(algorithm, operands, call, context);
    operands.commit();
}

void look_up(const Lookup &request, Call &call) {
    const ExecutionContext context(call);
    if (request.size == 0) return;
    const Layout &layout = request.layout;
    MemoryRange in(layout, layout.views[0], false);
    in.may_upload_by_chunk = true;
    const MemoryRange out(layout, layout.views[1], true);
    // The table is always uploaded from the host.
    const MemoryRange table(request.table, request.count * int64_t(sizeof(uint16_t)), 2, false, false);
    Operands operands({in, out, table}, call, context);
    LookupAlgorithm algorithm(request, operands, call, context);
    execute(algorithm, operands, call, context);
    operands.commit();
}

}  // namespace pk::image
