// Memory that outlives a call: the checked arguments of pk_device_memory_*, for both engines.
#pragma once

#include <cstdint>
#include <string>

#include "common/call/status.h"
#include "pycudakit.h"

namespace pk::device_memory {

// A range of addresses.
struct Range {
    uint64_t begin = 0;
    int64_t bytes = 0;
    uint64_t end() const { return begin + uint64_t(bytes); }
};

// One end of a copy or a fill: rows with a pitch, in layers.
struct Extent {
    uint64_t address;
    int64_t pitch, height, width, rows, layers;

    bool is_empty() const { return width == 0 || rows == 0 || layers == 0; }
    bool is_dense() const {
        return rows * layers == 1 || (pitch == width && (layers == 1 || height == rows));
    }
    int64_t bytes() const { return width * rows * layers; }
    uint64_t row(int64_t layer, int64_t row) const {
        return address + uint64_t((layer * height + row) * pitch);
    }
    // From the first byte to the last.
    Range range() const;
};

struct Copy {
    explicit Copy(const pk_copy &copy);
    Extent destination, source;
    bool from_device, to_device;
};

// A fill; its extent's width is in bytes.
struct Fill {
    Fill(uint64_t address, int64_t pitch, uint32_t value, int64_t item_bytes, int64_t width, int64_t rows);
    Extent extent;
    uint32_t value;
    int64_t item_bytes;
};

void require_copies(const pk_copy *copies, int64_t count);
void require_allocation(int64_t bytes, int32_t flags, const uint64_t *address);

// Throws: the range is not inside of the allocation. `operation` is "a copy" or "a fill".
[[noreturn]] void fail_outside(const char *operation, const Range &range, const Range &allocation);
// Throws: no allocation has the address.
[[noreturn]] void fail_unknown(const char *operation, uint64_t address);
// Throws: memory is short.
[[noreturn]] void fail_no_memory(int64_t wanted, int64_t free, int64_t total);

std::string hexadecimal(uint64_t address);

}  // namespace pk::device_memory
