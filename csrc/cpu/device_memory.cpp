// Entry points of device memory on the CPU, which is host memory.
#include "common/device_memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/call/call.h"
#include "common/device.h"
#include "cpu/device_arena.h"
#include "cpu/kernels/buffers.h"
#include "cpu/stream.h"

namespace pk::device_memory {

namespace {

void require_inside(const char *operation, const Extent &extent) {
    if (extent.is_empty()) return;
    const Range range = extent.range(), allocation = find_near(range.begin);
    if (allocation.bytes == 0 || range.begin < allocation.begin) fail_unknown(operation, range.begin);
    if (range.end() > allocation.end()) fail_outside(operation, range, allocation);
}

void copy_bytes(Call &call, uint64_t destination, uint64_t source, int64_t bytes) {
    constexpr int64_t WORTH_THREADS = int64_t(1) << 20;
    auto *const to = reinterpret_cast<char *>(destination);
    const auto *const from = reinterpret_cast<const char *>(source);
    const auto size = uint64_t(bytes);
    const bool overlaps = destination - source < size || source - destination < size;
    if (bytes < WORTH_THREADS || overlaps) {
        std::memmove(to, from, size);
        return;
    }
    parallel_for_pieces(call, bytes, kernels::COPY_PIECE, [&](int64_t, int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, size_t(end - begin));
    });
}

void copy(const Copy &copy) {
    if (copy.destination.is_empty()) return;
    pk_report report{};
    Call call(nullptr, &report);
    if (copy.destination.is_dense() && copy.source.is_dense())
        return copy_bytes(call, copy.destination.address, copy.source.address, copy.source.bytes());
    for (int64_t layer = 0; layer < copy.source.layers; ++layer) {
        for (int64_t row = 0; row < copy.source.rows; ++row)
            std::memmove(reinterpret_cast<char *>(copy.destination.row(layer, row)),
                         reinterpret_cast<const char *>(copy.source.row(layer, row)),
                         size_t(copy.source.width));
    }
}

template <class Item>
void fill_row(uint64_t address, uint32_t value, int64_t bytes) {
    auto *const items = reinterpret_cast<Item *>(address);
    std::fill(items, items + bytes / int64_t(sizeof(Item)), Item(value));
}

void fill(const Fill &fill) {
    for (int64_t row = 0; row < fill.extent.rows; ++row) {
        const uint64_t address = fill.extent.row(0, row);
        if (fill.item_bytes == 1) fill_row<uint8_t>(address, fill.value, fill.extent.width);
        if (fill.item_bytes == 2) fill_row<uint16_t>(address, fill.value, fill.extent.width);
        if (fill.item_bytes == 4) fill_row<uint32_t>(address, fill.value, fill.extent.width);
    }
}

}  // namespace

}  // namespace pk::device_memory

using namespace pk::device_memory;

extern "C" int32_t pk_device_memory_allocate(int64_t device, int64_t bytes, int32_t flags,
                                             uint64_t *address) {
    return pk::guarded([&] {
        require_allocation(bytes, flags, address);
        pk::streams::require_device(device);
        *address = allocate(bytes, (flags & PK_MEMORY_ZEROS) != 0);
    });
}

extern "C" int32_t pk_device_memory_free(uint64_t address) {
    return pk::guarded([&] { pk::device_memory::free(address); });
}

extern "C" int32_t pk_device_memory_find(uint64_t address, uint64_t *begin, int64_t *bytes, int64_t *device) {
    return pk::guarded([&] {
        pk::require(begin != nullptr && bytes != nullptr && device != nullptr,
                    "begin, bytes or device is a null pointer");
        const Range range = find("an address", address);
        *begin = range.begin;
        *bytes = range.bytes;
        *device = 0;
    });
}

extern "C" int32_t pk_device_memory_info(int64_t device, int64_t *free_bytes, int64_t *bytes) {
    return pk::guarded([&] {
        pk::require(free_bytes != nullptr && bytes != nullptr, "free_bytes or bytes is a null pointer");
        pk::streams::require_device(device);
        const Usage now = usage();
        *free_bytes = now.free;
        *bytes = now.total;
    });
}

extern "C" int32_t pk_device_memory_copy(const pk_copy *copies, int64_t count, int64_t device,
                                         uint64_t stream, int64_t) {
    return pk::guarded([&] {
        require_copies(copies, count);
        pk::streams::require_device(device);
        pk::streams::require_stream(stream);
        std::vector<Copy> checked(copies, copies + count);
        for (const Copy &copy : checked) {
            if (copy.to_device) require_inside("a copy", copy.destination);
            if (copy.from_device) require_inside("a copy", copy.source);
        }
        for (const Copy &each : checked) copy(each);
    });
}

extern "C" int32_t pk_device_memory_fill(uint64_t address, int64_t pitch, uint32_t value, int64_t item_bytes,
                                         int64_t width, int64_t rows, int64_t device, uint64_t stream) {
    return pk::guarded([&] {
        const Fill checked(address, pitch, value, item_bytes, width, rows);
        pk::streams::require_device(device);
        pk::streams::require_stream(stream);
        require_inside("a fill", checked.extent);
        fill(checked);
    });
}

extern "C" int32_t pk_host_memory_register(uint64_t address, int64_t bytes) {
    return pk::guarded([&] {
        pk::require(address != 0 && bytes > 0, "the memory has no address or no bytes");
        add_range({address, bytes});
    });
}

extern "C" int32_t pk_host_memory_unregister(uint64_t address) {
    return pk::guarded([&] { remove_range(address); });
}

extern "C" int32_t pk_device_attribute(int64_t device, int32_t, int64_t *value) {
    return pk::guarded([&] {
        pk::require(value != nullptr, "value is a null pointer");
        pk::require_index(device, 0, "device");  // the attributes are those of GPUs
    });
}
