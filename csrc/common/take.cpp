#include "take.h"

#include <algorithm>
#include <string>

#include "common/call/share_out.h"
#include "common/call/status.h"

namespace pk::take {

static constexpr int64_t SHARE = 65536;  // indices between two looks at whether the call is to stop

Request::Request(const Source &in, const int64_t *indices, int64_t picked, int64_t each, uint8_t *out)
    : in(in), indices(indices), picked(picked), each(each != 0), out(reinterpret_cast<char *>(out)) {
    require(in.outer >= 0, "outer is negative");
    require(in.count >= 0, "count is negative");
    require(in.width > 0, "width is not positive");
    require(picked >= 0, "picked is negative");
    require(each == 0 || each == 1, "each is neither 0 nor 1");
    const char *const large = "the arrays have too many elements";
    const int64_t given = product(product(in.outer, in.count, large), in.width, large);
    const int64_t wanted = product(product(in.outer, picked, large), in.width, large);
    product(product(in.outer, picked, large), sizeof(int64_t), large);
    product(picked, sizeof(int64_t), large);
    require_array(in.elements, given, 1, "in");
    require_array(indices, index_count(), sizeof(int64_t), "indices");
    require_array(out, wanted, 1, "out");
    require(wanted == 0 || given != 0, "there is nothing to take from");
}

Range range_of_indices(const Request &given, Call &call) {
    Range all;
    const int64_t count = given.index_count();
    const int64_t threads = std::clamp<int64_t>(count / SHARE, 1, thread_count());
    share_out(
        call, count, SHARE, threads, [] { return Range(); },
        [&](Range &range, int64_t first, int64_t size) {
            for (int64_t i = first; i < first + size; ++i) {
                range.least = std::min(range.least, given.indices[i]);
                range.greatest = std::max(range.greatest, given.indices[i]);
            }
            return int64_t(0);
        },
        [&](const Range &range) {
            all.least = std::min(all.least, range.least);
            all.greatest = std::max(all.greatest, range.greatest);
        });
    return all;
}

void require_places(const Request &given, const Range &indices) {
    const bool is_below = indices.least < -given.in.count;
    if (given.index_count() == 0 || (!is_below && indices.greatest < given.in.count)) return;
    const std::string wrong = std::to_string(is_below ? indices.least : indices.greatest);
    fail(PK_INVALID_ARGUMENT,
         "index " + wrong + " is out of bounds for " + std::to_string(given.in.count) + " elements");
}

}  // namespace pk::take
