// Entry points of user kernels on a GPU; the launcher is in cuda/kernels/.
#include "common/device.h"
#include "common/kernels.h"
#include "cuda/kernels/launcher.h"
#include "cuda/kernels/module_cache.h"
#include "cuda/kernels/residency_adapter.h"
#include "cuda/pipeline/pipeline.h"

namespace pk::kernels {

namespace {

void launch(const Request &request, Call &call) {
    const int device = devices_of(call).front();
    const CurrentDevice current(device);
    if (ResidencyScope::current() == nullptr) {
        run(request, call, device);
    } else {
        run_in_residency_scope(request, call, device);
    }
}

}  // namespace

}  // namespace pk::kernels

extern "C" int32_t pk_run_kernels(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length,
                                  const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::kernels::Request(run, text, capacity, length); },
        pk::kernels::launch);
}

extern "C" int32_t pk_kernel_info(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes,
                                  int64_t device, pk_kernel_limits *limits) {
    return pk::guarded([&] {
        const pk::kernels::InfoRequest request(image, symbol, symbol_bytes, limits);
        pk::require_index(device, pk::device_count(), "device");
        const pk::CurrentDevice current(static_cast<int>(device));
        const auto module = pk::kernels::load_module(request.image);
        request.limits = module->kernel(request.symbol, "kernel '" + request.symbol + "'").limits;
    });
}

extern "C" int32_t pk_kernel_launcher(uint64_t *launcher) {
    return pk::guarded([&] {
        pk::require(launcher != nullptr, "launcher is a null pointer");
        pk::fail(PK_UNSUPPORTED, "CUDA's runtime launches the kernels of host code");
    });
}
