// Argument checks of the entries for devices, pinned memory and tuning constants.
#pragma once

#include <cstdint>
#include <string>

#include "common/call/status.h"

namespace pk {

inline void require_index(int64_t index, int64_t count, const std::string &kind) {
    if (index >= 0 && index < count) return;
    fail(PK_INVALID_ARGUMENT, "there is no " + kind + " of that index: the library has " +
                                  (count == 0 ? "none" : std::to_string(count)));
}

inline void require_pinned(int64_t bytes, const uint64_t *address) {
    constexpr int64_t MAX_BYTES = int64_t(1) << 50;
    require(address != nullptr, "address is a null pointer");
    require(bytes > 0, "bytes is not positive");
    if (bytes > MAX_BYTES)
        fail(PK_OUT_OF_MEMORY, "out of host memory: no machine has " + std::to_string(bytes) + " bytes");
}

inline void require_taken(bool is_taken) { require(is_taken, "address is not one of pk_pinned_take"); }

}  // namespace pk
