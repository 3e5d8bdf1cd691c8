// Argument checks of the pk_residency_* entries.
#pragma once

#include <cstdint>

#include "common/call/call.h"
#include "common/call/status.h"

namespace pk::residency {

inline void run(pk_residency_body body, void *context) {
    const int32_t answer = called_back([&] { return body(context); });
    if (answer != 0) fail(PK_INTERRUPTED, "the body of the residency scope returned " + std::to_string(answer));
}

inline void require_body(pk_residency_body body) { require(body != nullptr, "body is a null pointer"); }

inline void require_scope(bool is_one) { require(is_one, "no residency scope runs on this thread"); }

inline void require_range(uint64_t address, int64_t bytes, int32_t intent, const int32_t *is_resident) {
    require(is_resident != nullptr, "is_resident is a null pointer");
    require(address != 0, "address is a null pointer");
    require(bytes > 0, "bytes is not positive");
    require(address + uint64_t(bytes) > address, "the range goes beyond the end of memory");
    require(intent >= PK_RESIDENT_INPUT && intent <= PK_RESIDENT_OUTPUT,
            "intent is not one of PK_RESIDENT_...");
}

inline void require_jit_source(const uint8_t *source, int64_t size, const int64_t *bytes,
                               const uint64_t *kernel) {
    require(size >= 0, "size is negative");
    require(source != nullptr || size == 0, "source is a null pointer");
    require(bytes != nullptr, "bytes is a null pointer");
    require(kernel != nullptr, "kernel is a null pointer");
}

inline void require_jit_image(const uint8_t *image, int64_t bytes) {
    require(bytes >= 0, "bytes is negative");
    require(image != nullptr || bytes == 0, "image is a null pointer");
}

inline void require_import(uint64_t address, int64_t bytes, uint64_t device_address, int32_t valid,
                           const int32_t *device) {
    require(device != nullptr, "device is a null pointer");
    require(address != 0, "address is a null pointer");
    require(device_address != 0, "device_address is a null pointer");
    require(bytes > 0, "bytes is not positive");
    require(address + uint64_t(bytes) > address && device_address + uint64_t(bytes) > device_address,
            "the range goes beyond the end of memory");
    require(valid == PK_IMPORT_HOST_VALID || valid == PK_IMPORT_DEVICE_VALID,
            "valid is not one of PK_IMPORT_...");
}

// The arguments of pk_residency_download or pk_residency_upload.
struct TransferRequest {
    uint64_t address;
    int64_t bytes;
    int64_t elements() const { return bytes; }
};

}  // namespace pk::residency
