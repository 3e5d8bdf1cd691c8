// pk_sort, pk_argsort, pk_searchsorted and pk_unique on the CUDA engine. Values on the device are sorted in
// core there; others go through common/sort.cpp to the out-of-core sort in cuda/sort/.
#include "common/sort.h"

#include "cuda/residency/execute.h"
#include "cuda/sort/device_sort.h"

namespace pk {

// Return the device of arrays, unless these are empty.
static int device_of(const Rows &rows, const void *out) {
    return rows.is_on_device && rows.elements() != 0 ? device_of({rows.in, out}) : -1;
}
static int device_of(const SortRequest &request) { return device_of(request, request.out); }
static int device_of(const ArgsortRequest &request) { return device_of(request, request.order); }

namespace {

MemoryRange values_of(const Rows &rows) {
    return {rows.in, rows.elements() * rows.type.bytes, rows.type.bytes, false};
}
MemoryRange results_of(const SortRequest &request) {
    return {request.out, request.elements() * request.type.bytes, request.type.bytes, true};
}
MemoryRange results_of(const ArgsortRequest &request) {
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

// The in-core sort of values on the device.
template <class Request>
class SortAlgorithm : public DeviceAlgorithm {
   public:
    SortAlgorithm(const Request &request, char *in, char *out) : request_(on_device(request, in, out)) {}

    int64_t start(int64_t unit) const override { return unit * request_.elements(); }
    int64_t temporary_bytes(int64_t) const override { return pk::temporary_bytes(request_); }
    void enqueue(const Chunk &chunk) override {
        sort_on_device(request_, chunk.d_memory + chunk.scratch, chunk.stream);
    }
    void collect(const void *) override {}

   private:
    const Request request_;
};

// Sort values that are on the device. Return false if they are not, or if there is no temporary storage.
template <class Request>
bool sort_in_core(const Request &request, Call &call, const ExecutionContext &context) {
    MemoryRange in = values_of(request), out = results_of(request);
    in.is_on_device = out.is_on_device = request.is_on_device;
    if (!request.is_on_device && (request.elements() > MAX_DEVICE_ELEMENTS || !all_resident({in}, context)))
        return false;
    Operands operands({in, out}, call, context);
    char *const d_out = operands.d_result(1);
    if (d_out == nullptr) return false;
    SortAlgorithm<Request> algorithm(request, operands.of(0).d_data, d_out);
    if (request.is_on_device)
        execute(algorithm, operands, call, context);
    else if (!try_execute(algorithm, operands, call, context))
        return false;
    operands.commit();
    return true;
}

// Sort in core if possible, else by sort_on_host(): the out-of-core sort, which streams values in host memory
// through the GPU.
template <class Request, void (*sort_on_host)(const Request &, Call &)>
void run(const Request &request, int device, Call &call) {
    const MemoryRange in = values_of(request), out = results_of(request);
    const bool is_empty = out.low == out.high;
    if (!request.is_on_device && (is_empty || ResidencyScope::current() == nullptr))
        return sort_on_host(request, call);
    if (is_empty) return;
    const ExecutionContext context(call, device);
    if (sort_in_core(request, call, context)) return;
    Operands operands(on_host({in, out}), call, context);
    sort_on_host(request, call);
    operands.commit();
}

// Find the distinct values of an array, which streams values in host memory through the GPU.
void unique(const UniqueRequest &request, Call &call) {
    if (request.columns == 0 || ResidencyScope::current() == nullptr) return find_unique(request, call);
    const int64_t item = request.type.bytes, bytes = request.columns * item;
    std::vector<MemoryRange> ranges{{request.in, bytes, item, false}, {request.values, bytes, item, true}};
    const auto add = [&](int64_t flag, int64_t *indices) {
        if (request.wants(flag)) ranges.emplace_back(indices, request.columns * 8, 8, true);
    };
    add(PK_UNIQUE_INDEX, request.index);
    add(PK_UNIQUE_INVERSE, request.inverse);
    add(PK_UNIQUE_COUNTS, request.counts);
    const ExecutionContext context(call);
    Operands operands(on_host(std::move(ranges)), call, context);
    find_unique(request, call);
    operands.commit();
}

// Launch the entries of a dtype, whose arrays are in host memory, and those that take operands.
template <class Request, void (*on_host)(const Request &, Call &)>
void launch(const Request &request, Call &call) {
    run<Request, on_host>(request, -1, call);
}
template <class Request, void (*on_host)(const Request &, Call &)>
void launch_located(const Located<Request> &request, Call &call) {
    run<Request, on_host>(request, request.device, call);
}

}  // namespace

}  // namespace pk

// The entries of each dtype: pk_sort_f32, pk_argsort_f32 and so on.
#define PK_ENTRY(t, T, encoding)                                                                             \
    extern "C" int32_t pk_sort_##t(const T *in, T *out, int64_t rows, int64_t columns,                       \
                                   const pk_options *options, pk_report *report) {                           \
        const auto check = [&] {                                                                             \
            return pk::SortRequest({{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, out);           \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::launch<pk::SortRequest, pk::sort>);                 \
    }                                                                                                        \
    extern "C" int32_t pk_argsort_##t(const T *in, int64_t *order, int64_t rows, int64_t columns,            \
                                      int64_t kept, int64_t descending, const pk_options *options,           \
                                      pk_report *report) {                                                   \
        const auto check = [&] {                                                                             \
            return pk::ArgsortRequest({{sizeof(T), pk::Encoding::encoding}, in, rows, columns}, order, kept, \
                                      descending != 0);                                                      \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::launch<pk::ArgsortRequest, pk::argsort>);           \
    }                                                                                                        \
    extern "C" int32_t pk_searchsorted_##t(const T *sorted, int64_t size, const T *values, int64_t *places,  \
                                           int64_t count, int64_t right, const pk_options *options,          \
                                           pk_report *report) {                                              \
        const auto check = [&] {                                                                             \
            return pk::SearchRequest({sizeof(T), pk::Encoding::encoding}, sorted, size, values, places,      \
                                     count, right != 0);                                                     \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::search);                                            \
    }                                                                                                        \
    extern "C" int32_t pk_unique_##t(const T *in, int64_t size, int64_t wanted, T *values, int64_t *index,   \
                                     int64_t *inverse, int64_t *counts, int64_t *found,                      \
                                     const pk_options *options, pk_report *report) {                         \
        const auto check = [&] {                                                                             \
            return pk::UniqueRequest({{sizeof(T), pk::Encoding::encoding}, in, 1, size}, wanted, values,     \
                                     index, inverse, counts, found);                                         \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::unique);                                            \
    }
PK_SORTABLE_TYPES(PK_ENTRY)
#undef PK_ENTRY

extern "C" int32_t pk_sort(const pk_operand *operands, int64_t rows, int64_t columns,
                           const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] { return pk::Located<pk::SortRequest>(pk::sort_request(operands, rows, columns, PK_ON_DEVICE)); },
        pk::launch_located<pk::SortRequest, pk::sort>);
}

extern "C" int32_t pk_argsort(const pk_operand *operands, int64_t rows, int64_t columns, int64_t limit,
                              int64_t descending, const pk_options *options, pk_report *report) {
    return pk::run_entry(
        options, report,
        [&] {
            return pk::Located<pk::ArgsortRequest>(
                pk::argsort_request(operands, rows, columns, limit, descending != 0, PK_ON_DEVICE));
        },
        pk::launch_located<pk::ArgsortRequest, pk::argsort>);
}
