#include "common/take.h"

#include <algorithm>
#include <cstring>

#include "common/call/parallel_for.h"

namespace pk::take {

namespace {

constexpr int64_t WORTH_A_THREAD = 1 << 16;  // bytes, below which a thread is not woken for more
constexpr int64_t SHARE = 1 << 18;           // bytes between two looks at whether the call is to stop

// Elements from `first` on of what is taken. WIDTH is that of an element, or 0 where it is none of the usual.
template <int64_t WIDTH>
void take(const Request &given, int64_t first, int64_t size) {
    const int64_t width = WIDTH == 0 ? given.in.width : WIDTH;
    int64_t array = first / given.picked, item = first % given.picked;
    char *to = given.out + first * width;
    for (const char *const end = to + size * width; to != end; ++array, item = 0) {
        const char *const from = given.in.elements + array * given.in.count * width;
        const int64_t *const indices = given.indices + (given.each ? array * given.picked : 0);
        const int64_t count = given.in.count, many = std::min(given.picked - item, (end - to) / width);
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

void launch(const Request &given, Call &call) {
    if (given.elements() == 0) return;
    if (!given.are_known) require_places(given.in.count, range_of(given.indices, given.index_count(), call));
    const Loop loop = loop_for(given.in.width);
    const int64_t threads = std::clamp<int64_t>(given.out_bytes() / WORTH_A_THREAD, 1, thread_count());
    const int64_t share =
        std::max<int64_t>(1, std::min(SHARE / given.in.width, (given.elements() + threads - 1) / threads));
    share_out(
        call, given.elements(), share, threads, [] { return 0; },
        [&](int, int64_t first, int64_t size) {
            loop(given, first, size);
            call.advance(size);
            return size;
        });
}

void launch_put(const Put &given, Call &call) {
    require_places(given.count, range_of(given.indices, given.put, call));
    put_on_host(given, call);
}

}  // namespace

}  // namespace pk::take

extern "C" int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices, int64_t put,
                          const uint8_t *values, int64_t value_count, const pk_options *options,
                          pk_report *report) {
    return pk::called(
        options, report,
        [&] { return pk::take::Put(array, count, width, indices, put, values, value_count); },
        pk::take::launch_put);
}

extern "C" int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width,
                           const int64_t *indices, int64_t picked, int64_t flags, uint8_t *out,
                           const pk_options *options, pk_report *report) {
    return pk::called(
        options, report,
        [&] {
            return pk::take::Request({reinterpret_cast<const char *>(in), outer, count, width}, indices,
                                     picked, flags, out);
        },
        pk::take::launch);
}
