// pk_take and pk_put on the CPU.
#include "common/take.h"

#include <algorithm>
#include <cstring>

#include "common/call/parallel_for.h"

namespace pk::take {

namespace {

constexpr int64_t WORTH_A_THREAD = 1 << 16;  // bytes, below which no thread is woken
constexpr int64_t SHARE = 1 << 18;           // bytes between two checks for cancellation

// Gathers elements from `first` on. WIDTH is the size of an element, or 0 for an unusual size.
template <int64_t WIDTH>
void take(const Request &request, int64_t first, int64_t size) {
    const int64_t width = WIDTH == 0 ? request.in.width : WIDTH;
    int64_t array = first / request.taken, item = first % request.taken;
    char *to = request.out + first * width;
    for (const char *const end = to + size * width; to != end; ++array, item = 0) {
        const char *const from = request.in.elements + array * request.in.count * width;
        const int64_t *const indices = request.indices + (request.own_indices ? array * request.taken : 0);
        const int64_t count = request.in.count, many = std::min(request.taken - item, (end - to) / width);
        for (int64_t i = 0; i < many; ++i)
            std::memcpy(to + i * width, from + place_of(indices[item + i], count) * width, size_t(width));
        to += many * width;
    }
}

using Loop = void (*)(const Request &, int64_t, int64_t);

Loop loop_for(int64_t width) {
    switch (width) {
        case 1: return take<1>;
        case 2: return take<2>;
        case 4: return take<4>;
        case 8: return take<8>;
        default: return take<0>;
    }
}

void launch(const Request &request, Call &call) {
    if (request.elements() == 0) return;
    if (!request.indices_in_bounds)
        require_in_bounds(request.in.count, index_range(request.indices, request.index_count(), call));
    const Loop loop = loop_for(request.in.width);
    const int64_t threads = threads_for(request.out_bytes(), WORTH_A_THREAD);
    const int64_t share =
        std::max<int64_t>(1, std::min(SHARE / request.in.width, ceil_div(request.elements(), threads)));
    parallel_for(
        call, request.elements(), share, threads, [] { return 0; },
        [&](int, int64_t first, int64_t size) {
            loop(request, first, size);
            call.advance(size);
            return size;
        });
}

void launch_put(const PutRequest &request, Call &call) {
    require_in_bounds(request.count, index_range(request.indices, request.index_count, call));
    put_on_host(request, call);
}

}  // namespace

}  // namespace pk::take

extern "C" int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices,
                          int64_t index_count, const uint8_t *values, int64_t value_count,
                          const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::take::PutRequest(array, count, width, indices, index_count, values, value_count); },
        pk::take::launch_put);
}

extern "C" int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width,
                           const int64_t *indices, int64_t index_count, int64_t flags, uint8_t *out,
                           const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::take::Request({reinterpret_cast<const char *>(in), outer, count, width}, indices,
                                     index_count, flags, out);
        },
        pk::take::launch);
}
