// Elements of an array by their indices: what is asked for, checked, and which element an index means.
#pragma once

#include <cstdint>
#include <limits>

#include "common/call/call.h"
#include "portable.h"

namespace pk::take {

// Of `outer` arrays, one after the other, each of `count` elements of `width` bytes.
struct Source {
    const char *elements;
    int64_t outer, count, width;
};

struct Request {
    Source in;
    const int64_t *indices;
    int64_t picked;
    bool each;  // each of the arrays has indices of its own
    char *out;

    Request(const Source &in, const int64_t *indices, int64_t picked, int64_t each, uint8_t *out);
    int64_t elements() const { return in.outer * picked; }
    int64_t index_count() const { return each ? elements() : picked; }
    int64_t in_bytes() const { return in.outer * in.count * in.width; }
    int64_t out_bytes() const { return elements() * in.width; }
};

// The place of an element. Another thread may change indices while a call runs: what has no place then is the
// first element.
PK_HD int64_t place_of(int64_t index, int64_t count) {
    const int64_t place = index < 0 ? index + count : index;
    return place >= 0 && place < count ? place : 0;
}

// The least of all indices and the greatest.
struct Range {
    int64_t least = std::numeric_limits<int64_t>::max(), greatest = std::numeric_limits<int64_t>::min();
};
Range range_of_indices(const Request &given, Call &call);

// Refuses indices that have no place, before anything is written.
void require_places(const Request &given, const Range &indices);

}  // namespace pk::take
