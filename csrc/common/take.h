// Gather and scatter by index: the checked arguments of pk_take and pk_put, and the resolution of an index.
#pragma once

#include <cstdint>
#include <limits>

#include "common/call/call.h"
#include "portable.h"

namespace pk::take {

// `outer` adjacent arrays of `count` elements of `width` bytes.
struct Source {
    const char *elements;
    int64_t outer, count, width;
};

struct Request {
    Source in;
    const int64_t *indices;
    int64_t taken;           // elements from each array
    bool own_indices;        // each of the arrays has its own indices
    bool indices_in_bounds;  // the caller has checked the indices
    char *out;

    Request(const Source &in, const int64_t *indices, int64_t taken, int64_t flags, uint8_t *out);
    int64_t elements() const { return in.outer * taken; }
    int64_t index_count() const { return own_indices ? elements() : taken; }
    int64_t in_bytes() const { return in.outer * in.count * in.width; }
    int64_t out_bytes() const { return elements() * in.width; }
};

// The position of an element. Another thread may change indices during the call: an index out of bounds then
// means the first element.
PK_HD int64_t place_of(int64_t index, int64_t count) {
    const int64_t place = index < 0 ? index + count : index;
    return place >= 0 && place < count ? place : 0;
}

// The least and the greatest index.
struct Range {
    int64_t least = std::numeric_limits<int64_t>::max(), greatest = std::numeric_limits<int64_t>::min();
};
Range index_range(const int64_t *indices, int64_t count, Call &call);

// Fails if an index is out of bounds for so many elements. Called before anything is written.
void require_in_bounds(int64_t elements, const Range &indices);

// The arguments of pk_put: an array of `count` elements of `width` bytes, indices and values.
struct PutRequest {
    char *array;
    int64_t count, width;
    const int64_t *indices;
    int64_t index_count;
    const char *values;
    int64_t value_count;

    PutRequest(uint8_t *array, int64_t count, int64_t width, const int64_t *indices, int64_t index_count,
               const uint8_t *values, int64_t value_count);
    int64_t elements() const { return index_count; }
    int64_t array_bytes() const { return count * width; }
    int64_t index_bytes() const { return index_count * int64_t(sizeof(int64_t)); }
    int64_t value_bytes() const { return value_count * width; }
};

// Scatters the values on the host. The indices are in bounds.
void put_on_host(const PutRequest &request, Call &call);

}  // namespace pk::take
