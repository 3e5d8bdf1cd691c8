// The CPU library has no devices, and says so in the same words to everyone.
#include "../common/status.h"

int32_t pk_device_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = 0;
    });
}

int32_t pk_memory_info(pk_memory *memory) {
    return pk::guarded([&] {
        pk::require(memory != nullptr, "memory is a null pointer");
        *memory = pk_memory{};
    });
}

int32_t pk_release(void) { return PK_OK; }

int32_t pk_device_info(int64_t, pk_device *device) {
    return pk::guarded([&] {
        pk::require(device != nullptr, "device is a null pointer");
        pk::fail(PK_INVALID_ARGUMENT, "there is no device of that index: the CPU library has none");
    });
}
