// User kernels on the CPU: the entries; cpu/kernels/ runs the kernels.
#include "common/kernels.h"

#include "cpu/kernels/block_executor.h"
#include "cpu/kernels/launcher.h"
#include "cpu/kernels/module_cache.h"

namespace pk::kernels {

namespace {

void launch(const Request &request, Call &call) {
    for (const pk_buffer &buffer : request.run.buffers) {
        if ((buffer.flags & PK_ON_DEVICE) != 0)
            fail(PK_UNSUPPORTED, "the CPU library has no devices: copy the array to the host first");
    }
    PrintBuffer print_buffer(request.text, request.capacity);
    // Sets *length to the length of the printed text, after a failure, too.
    struct SetLengthOnExit {
        ~SetLengthOnExit() { *length = print_buffer.length(); }
        const PrintBuffer &print_buffer;
        int64_t *const length;
    } const set_length{print_buffer, request.length};
    run(request.run, print_buffer, call);
}

}  // namespace

}  // namespace pk::kernels

extern "C" int32_t pk_run_kernels(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length,
                                  const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::kernels::Request(run, text, capacity, length); },
        pk::kernels::launch);
}

extern "C" int32_t pk_kernel_info(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes, int64_t,
                                  pk_kernel_limits *limits) {
    return pk::guarded([&] {
        const pk::kernels::InfoRequest request(image, symbol, symbol_bytes, limits);
        const auto module = pk::kernels::load_module(request.image);
        request.limits = pk::kernels::limits_of(module->kernel(request.symbol));
    });
}

extern "C" int32_t pk_kernel_launcher(uint64_t *launcher) {
    return pk::guarded([&] {
        pk::require(launcher != nullptr, "launcher is a null pointer");
        *launcher = reinterpret_cast<uint64_t>(&pk::kernels::launch_from_host);
    });
}
