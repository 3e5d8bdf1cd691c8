// Checks the arguments of pk_device_memory_*.
#include "device_memory.h"

#include <cstdio>

namespace pk::device_memory {

static constexpr int64_t MAX_BYTES = int64_t(1) << 50;
static constexpr const char *TOO_LARGE = "a copy or fill spans more bytes than memory has";

std::string hexadecimal(uint64_t address) {
    char text[24];
    std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
    return text;
}

Range Extent::range() const {
    if (is_empty()) return {address, 0};
    const int64_t earlier_rows = (layers - 1) * height + rows - 1;
    return {address, earlier_rows * pitch + width};
}

static Extent checked_extent(uint64_t address, int64_t pitch, int64_t height, int64_t width, int64_t rows,
                             int64_t layers) {
    require(width >= 0 && rows >= 0 && layers >= 0, "a copy or fill has a negative width, rows or layers");
    Extent extent{address, rows * layers == 1 ? width : pitch, layers == 1 ? rows : height, width, rows,
                  layers};
    if (extent.is_empty()) return extent;
    require(address != 0, "the address of a copy or fill is a null pointer");
    if (extent.pitch < width)
        fail(PK_INVALID_ARGUMENT, "a pitch of " + std::to_string(extent.pitch) +
                                      " bytes is less than a row's " + std::to_string(width));
    if (extent.height < rows)
        fail(PK_INVALID_ARGUMENT, "a height of " + std::to_string(extent.height) +
                                      " rows is less than a layer's " + std::to_string(rows));
    const int64_t all_rows = checked_product(extent.height, layers, TOO_LARGE);
    require(checked_product(extent.pitch, all_rows, TOO_LARGE) <= MAX_BYTES, TOO_LARGE);
    return extent;
}

static void require_bounded(int64_t rows, int64_t layers) {
    require(rows <= MAX_BYTES && layers <= MAX_BYTES, TOO_LARGE);
    (void)checked_product(rows < 0 ? 0 : rows, layers < 0 ? 0 : layers, TOO_LARGE);
}

static Extent end_of(const pk_copy &copy, bool is_destination) {
    require_bounded(copy.rows, copy.layers);
    return is_destination ? checked_extent(copy.destination, copy.destination_pitch, copy.destination_height,
                                           copy.width, copy.rows, copy.layers)
                          : checked_extent(copy.source, copy.source_pitch, copy.source_height, copy.width,
                                           copy.rows, copy.layers);
}

Copy::Copy(const pk_copy &copy)
    : destination(end_of(copy, true)),
      source(end_of(copy, false)),
      from_device((copy.flags & PK_COPY_FROM_DEVICE) != 0),
      to_device((copy.flags & PK_COPY_TO_DEVICE) != 0) {
    require((copy.flags & ~int64_t(PK_COPY_FROM_DEVICE | PK_COPY_TO_DEVICE)) == 0,
            "a copy has unknown flags");
}

static Extent filled(uint64_t address, int64_t pitch, int64_t item_bytes, int64_t width, int64_t rows) {
    require(item_bytes == 1 || item_bytes == 2 || item_bytes == 4,
            "the items of a fill have 1, 2 or 4 bytes");
    require_bounded(rows, 1);
    require(width >= 0, "a copy or fill has a negative width, rows or layers");
    const Extent extent =
        checked_extent(address, pitch, rows, checked_product(width, item_bytes, TOO_LARGE), rows, 1);
    require(extent.is_empty() ||
                (address % uint64_t(item_bytes) == 0 && extent.pitch % (rows == 1 ? 1 : item_bytes) == 0),
            "the address or the pitch of a fill is not a multiple of its items' size");
    return extent;
}

Fill::Fill(uint64_t address, int64_t pitch, uint32_t value, int64_t item_bytes, int64_t width, int64_t rows)
    : extent(filled(address, pitch, item_bytes, width, rows)), value(value), item_bytes(item_bytes) {}

void require_copies(const pk_copy *copies, int64_t count) {
    require(count >= 0, "count is negative");
    require(count == 0 || copies != nullptr, "copies is a null pointer");
}

void require_allocation(int64_t bytes, int32_t flags, const uint64_t *address) {
    require(address != nullptr, "address is a null pointer");
    require((flags & ~(PK_MEMORY_ZEROS | PK_MEMORY_MANAGED)) == 0, "flags has unknown bits");
    if (bytes <= 0)
        fail(PK_INVALID_ARGUMENT,
             "an allocation has at least 1 byte, and " + std::to_string(bytes) + " were asked for");
}

void fail_outside(const char *operation, const Range &range, const Range &allocation) {
    fail(PK_INVALID_ARGUMENT, std::string(operation) + " of " + std::to_string(range.bytes) +
                                  " bytes begins at byte " + std::to_string(range.begin - allocation.begin) +
                                  " of an allocation of " + std::to_string(allocation.bytes) +
                                  " bytes, and goes beyond its end");
}

void fail_unknown(const char *operation, uint64_t address) {
    fail(PK_INVALID_ARGUMENT, std::string(operation) + ": no allocation of the device has the address " +
                                  hexadecimal(address) + "; it may have been freed");
}

void fail_no_memory(int64_t wanted, int64_t free, int64_t total) {
    fail(PK_OUT_OF_MEMORY, "out of device memory: asked for " + std::to_string(wanted) + " bytes; " +
                               std::to_string(free) + " of the device's " + std::to_string(total) +
                               " are free");
}

}  // namespace pk::device_memory
