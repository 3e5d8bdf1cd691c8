// pk_sort, pk_argsort, pk_searchsorted and pk_unique on the CUDA engine. Device-resident arrays are sorted in
// core, on the current stream; others go through common/sort.cpp to the out-of-core sort in cuda/sort/.
#include "common/sort.h"

#include "cuda/residency/operands.h"
#include "cuda/residency/workspace.h"
#include "cuda/runtime/stream_memory.h"
#include "cuda/sort/device_sort.h"

namespace pk {

namespace {

// A request, and the device that its arrays are on if options.stream is set; else -1, the host.
template <class Request>
struct Located : Request {
    Located(const Request &request, const pk_options *options, std::initializer_list<const void *> arrays)
        : Request(request),
          device(options == nullptr || options->stream == 0 || request.elements() == 0 ? -1
                                                                                       : device_of(arrays)) {}
    const int device;
};

// ---- In residency scopes: device-resident arrays are sorted in core ----

plan::HostRange values_of(const Rows &rows) {
    return {rows.in, rows.elements() * rows.type.bytes, rows.type.bytes, false};
}
plan::HostRange results_of(const SortRequest &request) {
    return {request.out, request.elements() * request.type.bytes, request.type.bytes, true};
}
plan::HostRange results_of(const ArgsortRequest &request) {
    const int64_t word = sizeof(int64_t);
    return {request.order, request.count * request.kept * word, word, true};
}

// Return the request with device addresses for its arrays.
SortRequest on_device(const SortRequest &request, char *in, char *out) {
    return {{request.type, in, request.count, request.columns}, out};
}
ArgsortRequest on_device(const ArgsortRequest &request, char *in, char *out) {
    return {{request.type, in, request.count, request.columns},
            reinterpret_cast<int64_t *>(out),
            request.kept,
            request.descending};
}

// Enqueue the sort of device-resident arrays on the thread's stream. Return false if there is no temporary
// storage.
template <class Request>
bool sort_async(const Request &request, const StreamScope &stream_scope, Call &call) {
    const plan::HostRange in = values_of(request), out = results_of(request);
    try {
        const plan::Workspace memory(stream_scope, temporary_bytes(request));
        plan::Operands operands({in, out}, call, {stream_scope.device}, true);
        call.count_launch();
        sort_on_device(on_device(request, operands.of(0).d_data, operands.of(1).d_data), memory.get(),
                       stream_scope.stream);
        operands.commit();
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
        return false;
    }
    call.advance(request.elements());
    return true;
}

// Sort device-resident values in core. Return false if they are not resident, or there is no temporary
// storage.
template <class Request>
bool sort_resident(const Request &request, Call &call, const std::vector<int> &devices) {
    constexpr int64_t ALIGNMENT = 256;
    const plan::HostRange in = values_of(request), out = results_of(request);
    if (request.elements() > MAX_DEVICE_ELEMENTS || !plan::all_resident({in}, devices)) return false;
    const CurrentDevice current(devices[0]);
    const bool is_output_resident = plan::all_resident({out}, devices);
    const StreamScope *const stream_scope = StreamScope::current_on(devices);
    if (stream_scope != nullptr && is_output_resident) return sort_async(request, *stream_scope, call);
    const int64_t bytes = (temporary_bytes(request) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const int64_t out_bytes = out.high - out.low;
    const plan::PooledBuffer memory(devices[0], bytes + (is_output_resident ? 0 : out_bytes));
    if (memory.get() == nullptr) return false;
    plan::Operands operands({in, out}, call, devices);
    char *const to = is_output_resident ? operands.of(1).d_data : memory.get() + bytes;
    {
        const Stream own_stream = make_stream();
        const SyncOnExit stream(own_stream);
        TraceLane lane(call);
        const double begin = call.seconds();
        call.count_launch();
        sort_on_device(on_device(request, operands.of(0).d_data, to), memory.get(), stream.get());
        PK_CUDA(cudaStreamSynchronize(stream.get()));
        lane.add(PK_STAGE_KERNEL, begin, call.seconds(), 0, request.elements());
    }
    ++call.report.chunks;
    if (!is_output_resident || operands.of(1).copy_back)
        plan::download(devices[0], to, const_cast<char *>(out.low), out_bytes, call);
    operands.commit();
    call.advance(request.elements());
    return true;
}

// Sort in core or, if that is not possible, from host memory.
template <class Request, void (*on_host)(const Request &, Call &)>
void sort_in_residency_scope(const Request &request, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (sort_resident(request, call, devices)) return;
    plan::HostRange in = values_of(request), out = results_of(request);
    in.may_be_resident = out.may_be_resident = false;
    plan::Operands operands({in, out}, call, devices);
    on_host(request, call);
    operands.commit();
}

// Enqueue the sort of the caller's device arrays on their stream.
template <class Request>
void launch_async(const Request &request, const ExecutionContext &context) {
    const plan::HostRange out = results_of(request);
    if (out.low == out.high) return;
    const StreamScope &stream_scope = *context.stream_scope();
    const plan::Workspace memory(stream_scope, temporary_bytes(request));
    sort_on_device(request, memory.get(), stream_scope.stream);
    if (context.is_synchronous) PK_CUDA(cudaStreamSynchronize(stream_scope.stream));
}

template <class Request, void (*on_host)(const Request &, Call &)>
void launch(const Located<Request> &request, Call &call) {
    const plan::HostRange out = results_of(request);
    if (request.device >= 0) {
        launch_async<Request>(request, ExecutionContext(call, request.device));
    } else if (plan::ResidencyScope::current() != nullptr && out.low != out.high) {
        sort_in_residency_scope<Request, on_host>(request, call);
    } else {
        on_host(request, call);
    }
}

}  // namespace

}  // namespace pk

// The entries of each dtype: pk_sort_f32, pk_argsort_f32 and so on.
#define PK_ENTRY(t, T, encoding)                                                                            \
    extern "C" int32_t pk_sort_##t(const T *in, T *out, int64_t rows, int64_t columns,                      \
                                   const pk_options *options, pk_report *report) {                          \
        const auto check = [&] {                                                                            \
            return pk::Located<pk::SortRequest>(                                                            \
                {{{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, out}, options, {in, out});       \
        };                                                                                                  \
        return pk::run_entry(options, report, check, pk::launch<pk::SortRequest, pk::sort>);                \
    }                                                                                                       \
    extern "C" int32_t pk_argsort_##t(const T *in, int64_t *order, int64_t rows, int64_t columns,           \
                                      int64_t kept, int64_t descending, const pk_options *options,          \
                                      pk_report *report) {                                                  \
        const auto check = [&] {                                                                            \
            return pk::Located<pk::ArgsortRequest>(                                                         \
                {{{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, order, kept, descending != 0},   \
                options, {in, order});                                                                      \
        };                                                                                                  \
        return pk::run_entry(options, report, check, pk::launch<pk::ArgsortRequest, pk::argsort>);          \
    }                                                                                                       \
    extern "C" int32_t pk_searchsorted_##t(const T *sorted, int64_t size, const T *values, int64_t *places, \
                                           int64_t count, int64_t right, const pk_options *options,         \
                                           pk_report *report) {                                             \
        const auto check = [&] {                                                                            \
            return pk::SearchRequest({sizeof(T), pk::Encoding::encoding}, sorted, size, values, places,     \
                                     count, right != 0);                                                    \
        };                                                                                                  \
        return pk::run_entry(options, report, check, pk::search);                                           \
    }                                                                                                       \
    extern "C" int32_t pk_unique_##t(const T *in, int64_t size, int64_t wanted, T *values, int64_t *index,  \
                                     int64_t *inverse, int64_t *counts, int64_t *found,                     \
                                     const pk_options *options, pk_report *report) {                        \
        const auto check = [&] {                                                                            \
            return pk::UniqueRequest({{sizeof(T), pk::Encoding::encoding}, in, 1, size}, wanted, values,    \
                                     index, inverse, counts, found);                                        \
        };                                                                                                  \
        return pk::run_entry(options, report, check, pk::find_unique);                                      \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY
