// The CPU library has no devices, and says so in the same words to everyone.
#include <cstdlib>

#include "common/call/result_memory.h"
#include "common/call/status.h"
#include "cpu/kernels/release.h"

[[noreturn]] static void no_device() {
    pk::fail(PK_INVALID_ARGUMENT, "there is no device of that index: the CPU library has none");
}

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
        pk::add_result_memory(*memory);
    });
}

int32_t pk_release(void) {
    return pk::guarded([] {
        pk::kernels::release();
        pk::release_result_memory();
    });
}

int32_t pk_device_info(int64_t, pk_device *device) {
    return pk::guarded([&] {
        pk::require(device != nullptr, "device is a null pointer");
        no_device();
    });
}

int32_t pk_link_speed(int64_t, pk_link *link) {
    return pk::guarded([&] {
        pk::require(link != nullptr, "link is a null pointer");
        no_device();
    });
}

int32_t pk_pinned_take(int64_t bytes, uint64_t *address) {
    return pk::guarded([&] {
        pk::require(address != nullptr, "address is a null pointer");
        pk::require(bytes > 0, "bytes is not positive");
        void *memory = nullptr;
        if (posix_memalign(&memory, 4096, size_t(bytes)) != 0) throw std::bad_alloc();
        *address = reinterpret_cast<uint64_t>(memory);
    });
}

int32_t pk_pinned_return(uint64_t address) {
    std::free(reinterpret_cast<void *>(address));
    return PK_OK;
}

int32_t pk_tuning_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = 0;
    });
}

int32_t pk_tuning_info(int64_t, pk_tuning *tuning) {
    return pk::guarded([&] {
        pk::require(tuning != nullptr, "tuning is a null pointer");
        pk::fail(PK_INVALID_ARGUMENT, "there is no constant of that index: the CPU library has none");
    });
}

int32_t pk_tune(int64_t, int64_t) {
    return pk::guarded([] {
        pk::fail(PK_INVALID_ARGUMENT, "there is no constant of that index: the CPU library has none");
    });
}
