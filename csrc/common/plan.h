// What the entries of plans check of their arguments.
#pragma once

#include <cstdint>

#include "common/call/call.h"
#include "common/call/status.h"

namespace pk::plan {

inline void run(pk_plan_body body, void *context) {
    const int32_t answer = body(context);
    if (answer != 0) fail(PK_INTERRUPTED, "the plan's body returned " + std::to_string(answer));
}

inline void require_body(pk_plan_body body) { require(body != nullptr, "body is a null pointer"); }

inline void require_plan(bool is_one) { require(is_one, "no plan runs on this thread"); }

inline void require_range(uint64_t address, int64_t bytes, int32_t what, const int32_t *kept) {
    require(kept != nullptr, "kept is a null pointer");
    require(address != 0, "address is a null pointer");
    require(bytes > 0, "bytes is not positive");
    require(address + uint64_t(bytes) > address, "the range goes beyond the end of memory");
    require(what >= PK_KEEP_INPUT && what <= PK_KEEP_RESULT, "what is not one of PK_KEEP_...");
}

inline void require_source(const uint8_t *source, int64_t size, const int64_t *bytes, const uint64_t *pass) {
    require(size >= 0, "size is negative");
    require(source != nullptr || size == 0, "source is a null pointer");
    require(bytes != nullptr, "bytes is a null pointer");
    require(pass != nullptr, "pass is a null pointer");
}

inline void require_image(const uint8_t *image, int64_t bytes) {
    require(bytes >= 0, "bytes is negative");
    require(image != nullptr || bytes == 0, "image is a null pointer");
}

inline void require_lent(uint64_t address, int64_t bytes, uint64_t home, int32_t valid,
                         const int32_t *device) {
    require(device != nullptr, "device is a null pointer");
    require(address != 0, "address is a null pointer");
    require(home != 0, "home is a null pointer");
    require(bytes > 0, "bytes is not positive");
    require(address + uint64_t(bytes) > address && home + uint64_t(bytes) > home,
            "the range goes beyond the end of memory");
    require(valid == PK_LENT_HOST || valid == PK_LENT_DEVICE, "valid is not one of PK_LENT_...");
}

// A call of pk_plan_fetch or pk_plan_send.
struct Moved {
    uint64_t address;
    int64_t bytes;
    int64_t elements() const { return bytes; }
};

}  // namespace pk::plan
