// Linear interpolation (pk_interp) on a GPU: the points are uploaded once, unless they are resident, and the
// values are streamed past them in chunks. Each thread finds its interval by binary search.
#include "common/interp.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"

namespace pk::interp {

namespace {

constexpr int THREADS = 256;

__global__ void interpolate_chunk(Curve curve, const double *x, double *out, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    int64_t point = 0;
    if (i < count) out[i] = value_at(curve, x[i], point);
}

// Indices of the call's operands.
enum { X, OUT, XP, FP };

// Interpolates chunks of x, with the points in broadcast buffers.
class InterpAlgorithm : public DeviceAlgorithm {
   public:
    InterpAlgorithm(const Layout &layout, const Curve &curve, const Operands &operands, Call &call,
                    const ExecutionContext &context)
        : DeviceAlgorithm(layout, operands.loads({X}), operands.stores(OUT), 0, 0),
          curve_(curve),
          operands_(operands) {
        can_run_async = true;
        const int64_t bytes = curve.size * int64_t(sizeof(double));
        if (operands.of(XP).d_data == nullptr) xp_ = broadcasts_.add(curve.xp, bytes);
        if (operands.of(FP).d_data == nullptr) fp_ = broadcasts_.add(curve.fp, bytes);
        if (!broadcasts_.upload(call, context)) fail_device_budget("the points xp and fp");
    }

    void enqueue(const Chunk &chunk) override {
        auto points = [&](int operand, int64_t offset) {
            const char *const d_resident = operands_.of(operand).d_data;
            return reinterpret_cast<const double *>(
                d_resident != nullptr ? d_resident : broadcasts_.d_data(chunk.device_index) + offset);
        };
        Curve curve = curve_;
        curve.xp = points(XP, xp_);
        curve.fp = points(FP, fp_);
        auto at = [&](int operand) {
            return reinterpret_cast<double *>(operands_.d_data(*this, chunk, operand));
        };
        const auto blocks = grid_for(chunk.count, THREADS);
        interpolate_chunk<<<blocks, THREADS, 0, chunk.stream>>>(curve, at(X), at(OUT), chunk.count);
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}

   private:
    const Curve curve_;
    const Operands &operands_;
    BroadcastBuffers broadcasts_;
    int64_t xp_ = 0, fp_ = 0;
};

void launch(const Request &request, Call &call) {
    if (request.count == 0) return;
    const ExecutionContext context(call);
    const Layout layout =
        Layout::contiguous({{request.x, PK_FLOAT64}, {request.out, PK_FLOAT64}}, request.count);
    const int64_t item = sizeof(double);
    MemoryRange x(request.x, request.count * item, item, false);
    x.may_upload_by_chunk = true;
    const MemoryRange out(request.out, request.count * item, item, true);
    const Curve &curve = request.curve;
    Operands operands(
        {x, out, {curve.xp, curve.size * item, item, false}, {curve.fp, curve.size * item, item, false}},
        call, context);
    InterpAlgorithm algorithm(layout, curve, operands, call, context);
    execute(algorithm, operands, call, context);
    operands.commit();
}

}  // namespace

}  // namespace pk::interp

extern "C" int32_t pk_interp(const double *xp, const double *fp, int64_t size, double left, double right,
                             const double *x, double *out, int64_t count, const pk_options *options,
                             pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::interp::Request({xp, fp, size, left, right}, x, out, count); },
        pk::interp::launch);
}
