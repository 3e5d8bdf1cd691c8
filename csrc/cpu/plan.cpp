// The CPU library keeps nothing: its calls go over the host's memory as ever.
#include "common/plan.h"

#include "common/device.h"

extern "C" int32_t pk_run_plan(pk_plan_body body, void *context) {
    return pk::guarded([&] {
        pk::plan::require_body(body);
        pk::plan::run(body, context);
    });
}

extern "C" int32_t pk_plan_device(int64_t device) {
    return pk::guarded([&] { pk::require_index(device, 0, "device"); });
}

extern "C" int32_t pk_plan_keep(uint64_t address, int64_t bytes, int32_t what, int32_t *kept) {
    return pk::guarded([&] {
        pk::plan::require_range(address, bytes, what, kept);
        *kept = 0;
    });
}

extern "C" int32_t pk_plan_lend(uint64_t address, int64_t bytes, uint64_t home, uint64_t, int32_t valid,
                                int32_t *device) {
    return pk::guarded([&] {
        pk::plan::require_lent(address, bytes, home, valid, device);
        pk::fail(PK_UNSUPPORTED, "the CPU library has no devices: bring the array home first");
    });
}

extern "C" int32_t pk_plan_queue(uint64_t) {
    return pk::guarded([] {});
}

extern "C" int32_t pk_plan_send(uint64_t address, const pk_options *options, pk_report *report) {
    return pk_plan_fetch(address, options, report);
}

extern "C" int32_t pk_plan_fetch(uint64_t address, const pk_options *options, pk_report *report) {
    return pk::called(
        options, report, [&] { return pk::plan::Moved{address, 0}; },
        [](const pk::plan::Moved &, pk::Call &) {});
}

extern "C" int32_t pk_plan_changed(uint64_t) {
    return pk::guarded([] {});
}

extern "C" int32_t pk_plan_drop(uint64_t) {
    return pk::guarded([] {});
}

extern "C" int32_t pk_plan_wanted(uint8_t *source, int64_t size, int64_t *bytes, uint64_t *pass) {
    return pk::guarded([&] {
        pk::plan::require_source(source, size, bytes, pass);
        *bytes = 0;
    });
}

extern "C" int32_t pk_plan_compiled(uint64_t, const uint8_t *image, int64_t bytes) {
    return pk::guarded([&] { pk::plan::require_image(image, bytes); });
}
