// Checks the arguments of pk_take and pk_put, and scatters values on the host.
#include "take.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/call/parallel_for.h"
#include "common/call/status.h"

namespace pk::take {

static constexpr int64_t SHARE = 65536;  // indices between two checks for cancellation

Request::Request(const Source &in, const int64_t *indices, int64_t taken, int64_t flags, uint8_t *out)
    : in(in),
      indices(indices),
      taken(taken),
      own_indices((flags & PK_TAKE_BATCHED_INDICES) != 0),
      indices_in_bounds((flags & PK_TAKE_INDICES_IN_BOUNDS) != 0),
      out(reinterpret_cast<char *>(out)) {
    require(in.outer >= 0, "outer is negative");
    require(in.count >= 0, "count is negative");
    require(in.width > 0, "width is not positive");
    require(taken >= 0, "index_count is negative");
    require((flags & ~(PK_TAKE_BATCHED_INDICES | PK_TAKE_INDICES_IN_BOUNDS)) == 0,
            "flags has an unknown bit");
    const char *const large = "the arrays have too many elements";
    const int64_t request = checked_product(checked_product(in.outer, in.count, large), in.width, large);
    const int64_t wanted = checked_product(checked_product(in.outer, taken, large), in.width, large);
    checked_product(checked_product(in.outer, taken, large), sizeof(int64_t), large);
    checked_product(taken, sizeof(int64_t), large);
    require_array(in.elements, request, 1, "in");
    require_array(indices, index_count(), sizeof(int64_t), "indices");
    require_array(out, wanted, 1, "out");
    require(wanted == 0 || request != 0, "there is nothing to take from");
}

Range index_range(const int64_t *indices, int64_t count, Call &call) {
    Range all;
    const int64_t threads = threads_for(count, SHARE);
    parallel_for(
        call, count, SHARE, threads, [] { return Range(); },
        [&](Range &range, int64_t first, int64_t size) {
            Range own = range;  // a local copy, which stays in registers
            for (int64_t i = first; i < first + size; ++i) {
                own.least = std::min(own.least, indices[i]);
                own.greatest = std::max(own.greatest, indices[i]);
            }
            range = own;
            return int64_t(0);
        },
        [&](const Range &range) {
            all.least = std::min(all.least, range.least);
            all.greatest = std::max(all.greatest, range.greatest);
        });
    return all;
}

void require_in_bounds(int64_t elements, const Range &indices) {
    const bool is_below = indices.least < -elements;
    if (indices.least > indices.greatest || (!is_below && indices.greatest < elements)) return;
    const std::string wrong = std::to_string(is_below ? indices.least : indices.greatest);
    fail(PK_INVALID_ARGUMENT,
         "index " + wrong + " is out of bounds for " + std::to_string(elements) + " elements");
}

PutRequest::PutRequest(uint8_t *array, int64_t count, int64_t width, const int64_t *indices,
                       int64_t index_count, const uint8_t *values, int64_t value_count)
    : array(reinterpret_cast<char *>(array)),
      count(count),
      width(width),
      indices(indices),
      index_count(index_count),
      values(reinterpret_cast<const char *>(values)),
      value_count(value_count) {
    require(count >= 0, "count is negative");
    require(width > 0, "width is not positive");
    require(index_count >= 0, "index_count is negative");
    require(value_count >= 0, "value_count is negative");
    const char *const large = "the arrays have too many elements";
    require_array(array, checked_product(count, width, large), 1, "array");
    require_array(indices, index_count, sizeof(int64_t), "indices");
    checked_product(index_count, std::max<int64_t>(width, sizeof(int64_t)), large);
    checked_product(count, sizeof(int64_t), large);
    require_array(values, checked_product(value_count, width, large), 1, "values");
    require(index_count == 0 || count != 0, "there is nothing to put into");
    require(index_count == 0 || value_count != 0, "there is nothing to put");
}

void put_on_host(const PutRequest &request, Call &call) {
    // By one thread, so that the last of several equal indices counts.
    parallel_for(
        call, request.index_count, SHARE, 1, [] { return 0; },
        [&](int, int64_t first, int64_t size) {
            const auto width = size_t(request.width);
            int64_t value = first % request.value_count;
            for (int64_t i = first; i < first + size; ++i) {
                char *const to = request.array + place_of(request.indices[i], request.count) * request.width;
                std::memcpy(to, request.values + value * request.width, width);
                if (++value == request.value_count) value = 0;
            }
            call.advance(size);
            return size;
        });
}

}  // namespace pk::take
