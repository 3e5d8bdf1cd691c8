// Sorting, and searching in what is sorted, on a GPU: cuda/sort/ has what these launch by way of
// common/sort.cpp.
#include "common/sort.h"

#include "cuda/residency/operands.h"
#include "cuda/residency/workspace.h"
#include "cuda/runtime/stream_memory.h"
#include "cuda/sort/device_sort.h"

namespace pk {

namespace {

// A request, and the device that its arrays lie on if options.stream says so; else -1, the host.
template <class Request>
struct Located : Request {
    Located(const Request &request, const pk_options *options, std::initializer_list<const void *> arrays)
        : Request(request),
          device(options == nullptr || options->stream == 0 || request.elements() == 0 ? -1
                                                                                       : device_of(arrays)) {}
    const int device;
};

// ---- In plans: what is at home is sorted there ----

plan::Span values_of(const Rows &rows) {
    return {rows.in, rows.elements() * rows.type.bytes, rows.type.bytes, false};
}
plan::Span results_of(const SortRequest &request) {
    return {request.out, request.elements() * request.type.bytes, request.type.bytes, true};
}
plan::Span results_of(const ArgsortRequest &request) {
    const int64_t word = sizeof(int64_t);
    return {request.order, request.count * request.kept * word, word, true};
}

// The request with its arrays on a device.
SortRequest there(const SortRequest &request, char *in, char *out) {
    return {{request.type, in, request.count, request.columns}, out};
}
ArgsortRequest there(const ArgsortRequest &request, char *in, char *out) {
    return {{request.type, in, request.count, request.columns},
            reinterpret_cast<int64_t *>(out),
            request.kept,
            request.descending};
}

// In this thread's line, if results stay where they are made; false if there is no room.
template <class Request>
bool sort_in_line(const Request &request, const Line &line, Call &call) {
    const plan::Span in = values_of(request), out = results_of(request);
    try {
        const plan::Workspace memory(line, bytes_there(request));
        plan::Homes homes({in, out}, call, {line.device}, true);
        sort_there(there(request, homes.of(0).at, homes.of(1).at), memory.get(), line.stream);
        homes.settle();
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
        return false;
    }
    call.advance(request.elements());
    return true;
}

// False if the values have no home, or there is no room to sort there.
template <class Request>
bool sort_at_home(const Request &request, Call &call, const std::vector<int> &devices) {
    constexpr int64_t ALIGNMENT = 256;
    const plan::Span in = values_of(request), out = results_of(request);
    if (request.elements() > MOST_THERE || !plan::have_homes({in}, devices)) return false;
    const CurrentDevice current(devices[0]);
    const bool stays = plan::have_homes({out}, devices);
    const Line *const line = Line::on(devices);
    if (line != nullptr && stays) return sort_in_line(request, *line, call);
    const int64_t bytes = (bytes_there(request) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const int64_t out_bytes = out.high - out.low;
    const plan::Memory memory(devices[0], bytes + (stays ? 0 : out_bytes));
    if (memory.get() == nullptr) return false;
    plan::Homes homes({in, out}, call, devices);
    char *const to = stays ? homes.of(1).at : memory.get() + bytes;
    {
        const Stream stream = pk::stream();
        const Queue queue(stream);
        Lane lane(call);
        const double begin = call.seconds();
        sort_there(there(request, homes.of(0).at, to), memory.get(), queue.get());
        PK_CUDA(cudaStreamSynchronize(queue.get()));
        lane.add(PK_KERNEL, begin, call.seconds(), 0, request.elements());
    }
    ++call.report.chunks;
    if (!stays || homes.of(1).leaves)
        plan::bring_down(devices[0], to, const_cast<char *>(out.low), out_bytes, call);
    homes.settle();
    call.advance(request.elements());
    return true;
}

template <class Request, void (*on_host)(const Request &, Call &)>
void sort_in_plan(const Request &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (sort_at_home(request, call, devices)) return;
    plan::Span in = values_of(request), out = results_of(request);
    in.may_be_home = out.may_be_home = false;
    plan::Homes homes({in, out}, call, devices);
    on_host(request, call);
    homes.settle();
}

template <class Request>
void sort_queued(const Request &request, const Queued &queued) {
    const plan::Span out = results_of(request);
    if (out.low == out.high) return;
    const plan::Workspace memory(queued, bytes_there(request));
    sort_there(request, memory.get(), queued.stream);
    queued.end();
}

template <class Request, void (*on_host)(const Request &, Call &)>
void launch(const Located<Request> &request, Call &call) {
    const plan::Span out = results_of(request);
    if (request.device >= 0) {
        sort_queued<Request>(request, Queued(request.device, call));
    } else if (plan::Plan::innermost() != nullptr && out.low != out.high) {
        sort_in_plan<Request, on_host>(request, call);
    } else {
        on_host(request, call);
    }
}

}  // namespace

}  // namespace pk

// Of each type the entries: pk_sort_f32, pk_argsort_f32 and so on.
#define PK_ENTRY(t, T, encoding)                                                                            \
    extern "C" int32_t pk_sort_##t(const T *in, T *out, int64_t rows, int64_t columns,                      \
                                   const pk_options *options, pk_report *report) {                          \
        const auto check = [&] {                                                                            \
            return pk::Located<pk::SortRequest>(                                                            \
                {{{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, out}, options, {in, out});       \
        };                                                                                                  \
        return pk::called(options, report, check, pk::launch<pk::SortRequest, pk::sort>);                   \
    }                                                                                                       \
    extern "C" int32_t pk_argsort_##t(const T *in, int64_t *order, int64_t rows, int64_t columns,           \
                                      int64_t kept, int64_t descending, const pk_options *options,          \
                                      pk_report *report) {                                                  \
        const auto check = [&] {                                                                            \
            return pk::Located<pk::ArgsortRequest>(                                                         \
                {{{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, order, kept, descending != 0},   \
                options, {in, order});                                                                      \
        };                                                                                                  \
        return pk::called(options, report, check, pk::launch<pk::ArgsortRequest, pk::argsort>);             \
    }                                                                                                       \
    extern "C" int32_t pk_searchsorted_##t(const T *sorted, int64_t size, const T *values, int64_t *places, \
                                           int64_t count, int64_t right, const pk_options *options,         \
                                           pk_report *report) {                                             \
        const auto check = [&] {                                                                            \
            return pk::SearchRequest({sizeof(T), pk::Encoding::encoding}, sorted, size, values, places,     \
                                     count, right != 0);                                                    \
        };                                                                                                  \
        return pk::called(options, report, check, pk::search);                                              \
    }                                                                                                       \
    extern "C" int32_t pk_unique_##t(const T *in, int64_t size, int64_t wanted, T *values, int64_t *index,  \
                                     int64_t *inverse, int64_t *counts, int64_t *found,                     \
                                     const pk_options *options, pk_report *report) {                        \
        const auto check = [&] {                                                                            \
            return pk::UniqueRequest({{sizeof(T), pk::Encoding::encoding}, in, 1, size}, wanted, values,    \
                                     index, inverse, counts, found);                                        \
        };                                                                                                  \
        return pk::called(options, report, check, pk::find_unique);                                         \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY
