// The device entries of the CPU library, which has no devices and no tuning constants. Its pinned memory is
// ordinary memory.
#include "common/device.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "common/call/forks.h"
#include "common/call/result_memory.h"
#include "common/requests.h"
#include "cpu/kernels/cache_flush.h"
#include "loops.h"

namespace pk {

namespace {

constexpr int64_t DEVICES = 0, CONSTANTS = 0;
constexpr size_t PAGE = 4096;

std::mutex taken_mutex;

// The addresses of pinned arrays; the mutex is held. Never destroyed, because arrays may be returned until
// the process ends.
std::unordered_set<uint64_t> &taken() {
    static auto *const addresses = new std::unordered_set<uint64_t>;
    hold_over_forks<taken_mutex>();
    return *addresses;
}

}  // namespace

}  // namespace pk

extern "C" int32_t pk_device_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::DEVICES;
    });
}

extern "C" int32_t pk_device_info(int64_t index, pk_device *device) {
    return pk::guarded([&] {
        pk::require(device != nullptr, "device is a null pointer");
        pk::require_index(index, pk::DEVICES, "device");
    });
}

extern "C" int32_t pk_link_speed(int64_t device, pk_link *link) {
    return pk::guarded([&] {
        pk::require(link != nullptr, "link is a null pointer");
        pk::require_index(device, pk::DEVICES, "device");
    });
}

extern "C" int32_t pk_memory_info(pk_memory *memory) {
    return pk::guarded([&] {
        pk::require(memory != nullptr, "memory is a null pointer");
        *memory = pk_memory{};
        pk::report_result_memory(*memory);
    });
}

extern "C" int32_t pk_release(void) {
    return pk::guarded([] {
        pk::kernels::release();
        pk::release_prepared_requests();
        pk::release_result_memory();
    });
}

extern "C" int32_t pk_instruction_set(const char **name) {
    return pk::guarded([&] {
        pk::require(name != nullptr, "name is a null pointer");
        *name = pk::loops().name;
    });
}

extern "C" int32_t pk_pinned_take(int64_t bytes, uint64_t *address) {
    return pk::guarded([&] {
        pk::require_pinned(bytes, address);
        void *memory = nullptr;
        if (posix_memalign(&memory, pk::PAGE, size_t(bytes)) != 0) throw std::bad_alloc();
        std::unique_ptr<void, decltype(&std::free)> owned(memory, std::free);
        const std::lock_guard<std::mutex> lock(pk::taken_mutex);
        pk::taken().insert(reinterpret_cast<uint64_t>(memory));
        *address = reinterpret_cast<uint64_t>(owned.release());
    });
}

extern "C" int32_t pk_pinned_return(uint64_t address) {
    return pk::guarded([&] {
        {
            const std::lock_guard<std::mutex> lock(pk::taken_mutex);
            pk::require_taken(pk::taken().erase(address) != 0);
        }
        std::free(reinterpret_cast<void *>(address));
    });
}

extern "C" int32_t pk_tuning_count(int64_t *count) {
    return pk::guarded([&] {
        pk::require(count != nullptr, "count is a null pointer");
        *count = pk::CONSTANTS;
    });
}

extern "C" int32_t pk_tuning_info(int64_t index, pk_tuning *tuning) {
    return pk::guarded([&] {
        pk::require(tuning != nullptr, "tuning is a null pointer");
        pk::require_index(index, pk::CONSTANTS, "constant");
    });
}

extern "C" int32_t pk_tune(int64_t index, int64_t) {
    return pk::guarded([&] { pk::require_index(index, pk::CONSTANTS, "constant"); });
}
