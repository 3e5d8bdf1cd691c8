// Interpolation on a GPU: the points go up once, unless they are there, and the values are streamed past
// them.
#include "common/interp.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"

namespace pk::interp {

namespace {

constexpr int THREADS = 256;

__global__ void interpolate_chunk(Curve curve, const double *x, double *out, int64_t count) {
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    int64_t point = 0;
    if (i < count) out[i] = value_at(curve, x[i], point);
}

enum Operand { X, OUT, XP, FP };

pk_operand operand_of(const double *array) {
    pk_operand operand{};
    operand.address = reinterpret_cast<uint64_t>(array);
    operand.type = PK_FLOAT64;
    operand.strides[0] = sizeof(double);
    return operand;
}

class Interpolating : public Work {
   public:
    Interpolating(const Layout &layout, const Curve &curve, const plan::Homes &homes, Call &call,
                  const std::vector<int> &devices)
        : Work(layout, homes.loads({X}), homes.stores(OUT), 0, 0), curve_(curve), homes_(homes) {
        may_queue = true;
        const int64_t bytes = curve.size * int64_t(sizeof(double));
        if (homes.of(XP).at == nullptr) xp_ = points_.add(curve.xp, bytes);
        if (homes.of(FP).at == nullptr) fp_ = points_.add(curve.fp, bytes);
        if (!points_.upload(call, devices)) {
            fail(PK_OUT_OF_MEMORY,
                 "PYCUDAKIT_DEVICE_MEMORY has no room for the points, or other calls have too much of it");
        }
    }

    void launch(const Chunk &chunk) override {
        auto points = [&](int operand, int64_t offset) {
            const char *const home = homes_.of(operand).at;
            return reinterpret_cast<const double *>(home != nullptr ? home
                                                                    : points_.on(chunk.device) + offset);
        };
        Curve curve = curve_;
        curve.xp = points(XP, xp_);
        curve.fp = points(FP, fp_);
        auto at = [&](int operand) { return reinterpret_cast<double *>(homes_.at(*this, chunk, operand)); };
        const auto blocks = unsigned((chunk.count + THREADS - 1) / THREADS);
        interpolate_chunk<<<blocks, THREADS, 0, chunk.queue>>>(curve, at(X), at(OUT), chunk.count);
        PK_CUDA(cudaGetLastError());
    }
    void collect(const void *) override {}

   private:
    const Curve curve_;
    const plan::Homes &homes_;
    Resident points_;
    int64_t xp_ = 0, fp_ = 0;
};

void launch(const Request &given, Call &call) {
    if (given.count == 0) return;
    const std::vector<int> devices = devices_of(call);
    const pk_operand operands[] = {operand_of(given.x), operand_of(given.out)};
    const Layout layout(operands, 2, &given.count, 1, {false, true});
    const int64_t item = sizeof(double);
    plan::Span x(given.x, given.count * item, item, false);
    x.may_arrive = true;
    const plan::Span out(given.out, given.count * item, item, true);
    const Curve &curve = given.curve;
    plan::Homes homes(
        {x, out, {curve.xp, curve.size * item, item, false}, {curve.fp, curve.size * item, item, false}},
        call, devices, true);
    Interpolating work(layout, curve, homes, call, devices);
    stream(work, call, devices, {{0, given.count}});
    homes.settle();
}

}  // namespace

}  // namespace pk::interp

extern "C" int32_t pk_interp(const double *xp, const double *fp, int64_t size, double left, double right,
                             const double *x, double *out, int64_t count, const pk_options *options,
                             pk_report *report) {
    return pk::called(
        options, report, [&] { return pk::interp::Request({xp, fp, size, left, right}, x, out, count); },
        pk::interp::launch);
}
