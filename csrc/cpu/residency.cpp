// The pk_residency_* entries of the CPU library: nothing is resident, and calls read and write host memory.
#include "common/residency.h"

#include "common/device.h"

extern "C" int32_t pk_run_in_residency_scope(pk_residency_body body, void *context) {
    return pk::guarded([&] {
        pk::residency::require_body(body);
        pk::residency::run(body, context);
    });
}

extern "C" int32_t pk_residency_set_device(int64_t device) {
    return pk::guarded([&] { pk::require_index(device, 0, "device"); });
}

extern "C" int32_t pk_residency_add(uint64_t address, int64_t bytes, int32_t intent, int32_t *is_resident) {
    return pk::guarded([&] {
        pk::residency::require_range(address, bytes, intent, is_resident);
        *is_resident = 0;
    });
}

extern "C" int32_t pk_residency_import(uint64_t address, int64_t bytes, uint64_t device_address, uint64_t,
                                       int32_t valid, int32_t *device) {
    return pk::guarded([&] {
        pk::residency::require_import(address, bytes, device_address, valid, device);
        pk::fail(PK_UNSUPPORTED, "the CPU library has no devices: copy the array to the host first");
    });
}

extern "C" int32_t pk_residency_set_stream(uint64_t) {
    return pk::guarded([] {});
}

extern "C" int32_t pk_residency_upload(uint64_t address, const pk_options *options, pk_report *report) {
    return pk_residency_download(address, options, report);
}

extern "C" int32_t pk_residency_download(uint64_t address, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report, [&] { return pk::residency::TransferRequest{address, 0}; },
        [](const pk::residency::TransferRequest &, pk::Call &) {});
}

extern "C" int32_t pk_residency_invalidate(uint64_t) {
    return pk::guarded([] {});
}

extern "C" int32_t pk_residency_drop(uint64_t) {
    return pk::guarded([] {});
}

extern "C" int32_t pk_jit_request(uint8_t *source, int64_t size, int64_t *bytes, uint64_t *kernel) {
    return pk::guarded([&] {
        pk::residency::require_jit_source(source, size, bytes, kernel);
        *bytes = 0;
    });
}

extern "C" int32_t pk_jit_install(uint64_t, const uint8_t *image, int64_t bytes) {
    return pk::guarded([&] { pk::residency::require_jit_image(image, bytes); });
}
