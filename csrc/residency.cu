// Entry points of residency scopes (pk_residency_...), of JIT compilation of fused kernels, and of
// pk_run_blocks.
#include "common/residency.h"

#include <cstring>

#include "common/blocks.h"
#include "common/device.h"
#include "cuda/elementwise/jit_kernel.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/residency_map.h"

extern "C" int32_t pk_run_in_residency_scope(pk_residency_body body, void *context) {
    return pk::guarded([&] {
        pk::residency::require_body(body);
        const pk::ResidencyScope scope;
        pk::residency::run(body, context);
    });
}

extern "C" int32_t pk_residency_set_device(int64_t device) {
    return pk::guarded([&] {
        using pk::ResidencyScope;
        pk::residency::require_scope(ResidencyScope::current() != nullptr);
        pk::require_index(device, pk::device_count(), "device");
        ResidencyScope::current()->set_device(int(device));
    });
}

extern "C" int32_t pk_residency_add(uint64_t address, int64_t bytes, int32_t intent, int32_t *is_resident) {
    return pk::guarded([&] {
        using pk::ResidencyScope;
        pk::residency::require_range(address, bytes, intent, is_resident);
        *is_resident = 0;
        if (ResidencyScope::current() == nullptr) return;
        auto *const host = reinterpret_cast<char *>(address);
        pk::require(ResidencyScope::overlapping(host, host + bytes).empty(),
                    "the range overlaps one that is already resident");
        const int device = ResidencyScope::current()->device();
        pk::DeviceBuffer memory = pk::DevicePool::of(device).allocate_if_possible(
            bytes, pk::stream_of(pk::StreamScope::current_on(device)), pk::Account::resident);
        if (memory.d_memory() == nullptr) return;
        pk::ResidentBuffer buffer{};
        buffer.host = host;
        buffer.bytes = bytes;
        buffer.intent = intent;
        buffer.owned = std::move(memory);
        buffer.host_valid = intent == PK_RESIDENT_INPUT;
        buffer.device = device;
        ResidencyScope::current()->add(std::move(buffer));
        *is_resident = 1;
    });
}

extern "C" int32_t pk_residency_import(uint64_t address, int64_t bytes, uint64_t device_address,
                                       uint64_t stream, int32_t valid, int32_t *device) {
    return pk::guarded([&] {
        using pk::ResidencyScope;
        pk::residency::require_import(address, bytes, device_address, valid, device);
        pk::residency::require_scope(ResidencyScope::current() != nullptr);
        auto *const host = reinterpret_cast<char *>(address);
        pk::require(ResidencyScope::overlapping(host, host + bytes).empty(),
                    "the range overlaps one that is already resident");
        *device = pk::device_of_imported(device_address, bytes, stream);
        pk::ResidentBuffer buffer{};
        buffer.host = host;
        buffer.bytes = bytes;
        buffer.intent = PK_RESIDENT_TEMPORARY;
        buffer.host_valid = valid == PK_IMPORT_HOST_VALID;
        buffer.device_valid = !buffer.host_valid;
        buffer.device = *device;
        buffer.d_imported = reinterpret_cast<char *>(device_address);
        ResidencyScope::current()->add(std::move(buffer));
    });
}

extern "C" int32_t pk_residency_set_stream(uint64_t stream) {
    return pk::guarded([&] {
        using pk::ResidencyScope;
        pk::residency::require_scope(ResidencyScope::current() != nullptr);
        pk::require_cuda();
        ResidencyScope::current()->set_stream(reinterpret_cast<cudaStream_t>(stream));
    });
}

extern "C" int32_t pk_residency_upload(uint64_t address, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            const pk::ResidentBuffer *const buffer = pk::ResidencyScope::find(address);
            const bool is_stale = buffer != nullptr && buffer->host_valid && !buffer->device_valid;
            return pk::residency::TransferRequest{address, is_stale ? buffer->bytes : 0};
        },
        [](const pk::residency::TransferRequest &request, pk::Call &call) {
            if (request.bytes == 0) return;
            pk::devices_of(call);  // throws if CUDA cannot be used
            pk::ResidencyScope::find(request.address)->sync_to_device(call);
        });
}

extern "C" int32_t pk_residency_download(uint64_t address, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            const pk::ResidentBuffer *const buffer = pk::ResidencyScope::find(address);
            const bool is_stale = buffer != nullptr && buffer->device_valid && !buffer->host_valid;
            return pk::residency::TransferRequest{address, is_stale ? buffer->bytes : 0};
        },
        [](const pk::residency::TransferRequest &request, pk::Call &call) {
            if (request.bytes == 0) return;
            pk::devices_of(call);  // throws if CUDA cannot be used
            pk::ResidencyScope::find(request.address)->sync_to_host(call);
        });
}

extern "C" int32_t pk_residency_invalidate(uint64_t address) {
    return pk::guarded([&] {
        if (pk::ResidentBuffer *const buffer = pk::ResidencyScope::find(address)) buffer->invalidate_device();
    });
}

extern "C" int32_t pk_residency_drop(uint64_t address) {
    return pk::guarded([&] {
        if (const pk::ResidentBuffer *const buffer = pk::ResidencyScope::find(address))
            pk::ResidencyScope::drop(*buffer);
    });
}

extern "C" int32_t pk_jit_request(uint8_t *source, int64_t size, int64_t *bytes, uint64_t *kernel) {
    return pk::guarded([&] {
        pk::residency::require_jit_source(source, size, bytes, kernel);
        *bytes = 0;
        const auto request = pk::next_jit_request();
        if (request == nullptr) return;
        const std::string text = request->source();
        *bytes = int64_t(text.size());
        *kernel = request->number;
        if (size >= *bytes) std::memcpy(source, text.data(), text.size());
    });
}

extern "C" int32_t pk_jit_install(uint64_t kernel, const uint8_t *image, int64_t bytes) {
    return pk::guarded([&] {
        pk::residency::require_jit_image(image, bytes);
        pk::finish_jit_request(kernel, std::vector<char>(image, image + bytes));
    });
}

extern "C" int32_t pk_run_blocks(pk_block_program *programs, int64_t program_count, int64_t blocks,
                                 int64_t scratch_bytes, const pk_options *, pk_report *report) {
    return pk::guarded([&] {
        const pk::blocks::Request checked(programs, program_count, blocks, scratch_bytes, report);
        pk::fail(PK_UNSUPPORTED,
                 "the CUDA library does not run blocks of programs (pk_run_blocks): run the programs one "
                 "after the other");
    });
}
