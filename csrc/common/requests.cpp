// pk_run_requests: calls of entries that are data, one after the other.
#include "common/requests.h"

#include <algorithm>
#include <cfenv>

#include "common/call/status.h"

namespace pk {

namespace {

template <class T>
const T *table(uint64_t argument) {
    return reinterpret_cast<const T *>(argument);
}

int32_t call_loop(const uint64_t *arguments, pk_report *report) {
    return guarded([&] {
        const auto loop = reinterpret_cast<pk_loop>(arguments[0]);
        const auto *operands = table<pk_operand>(arguments[1]);
        const auto count = int64_t(arguments[2]);
        require(loop != nullptr && operands != nullptr, "a loop, or its operands, is a null pointer");
        require(count >= 1 && count <= PK_MAX_LOOP_OPERANDS, "a loop has too many operands, or none");
        char *addresses[PK_MAX_LOOP_OPERANDS];
        for (int64_t i = 0; i < count; ++i) addresses[i] = reinterpret_cast<char *>(operands[i].address);
        std::feclearexcept(FE_ALL_EXCEPT);
        loop(addresses, table<intptr_t>(arguments[3]), table<intptr_t>(arguments[4]),
             reinterpret_cast<void *>(arguments[5]));
        report->exceptions = (std::fetestexcept(FE_DIVBYZERO) != 0 ? PK_FPE_DIVIDE_BY_ZERO : 0) |
                             (std::fetestexcept(FE_OVERFLOW) != 0 ? PK_FPE_OVERFLOW : 0) |
                             (std::fetestexcept(FE_INVALID) != 0 ? PK_FPE_INVALID : 0);
        std::feclearexcept(FE_ALL_EXCEPT);
    });
}

int32_t call(const pk_request &request, const pk_options *options, pk_report *report) {
    const uint64_t *a = request.arguments;
    const auto exceptions = [a](int index) { return reinterpret_cast<uint8_t *>(a[index]); };
    switch (request.entry) {
        case PK_REQUEST_EVALUATE:
            return pk_evaluate(table<pk_instruction>(a[0]), int64_t(a[1]), table<pk_operand>(a[2]),
                               int64_t(a[3]), table<int64_t>(a[4]), int64_t(a[5]), options, exceptions(6),
                               report);
        case PK_REQUEST_REDUCE:
            return pk_reduce(table<pk_reduction>(a[0]), table<pk_instruction>(a[1]), int64_t(a[2]),
                             table<pk_operand>(a[3]), int64_t(a[4]), table<int64_t>(a[5]), int64_t(a[6]),
                             exceptions(7), options, report);
        case PK_REQUEST_SCAN:
            return pk_scan(int64_t(a[0]), int64_t(a[1]), table<pk_operand>(a[2]), table<int64_t>(a[3]),
                           int64_t(a[4]), int64_t(a[5]), int64_t(a[6]), options, report);
        case PK_REQUEST_LOOP: return call_loop(a, report);
        default:
            return pk_reduce_several(table<pk_reduction>(a[0]), int64_t(a[1]), table<pk_instruction>(a[2]),
                                     int64_t(a[3]), table<pk_operand>(a[4]), int64_t(a[5]),
                                     table<int64_t>(a[6]), int64_t(a[7]), exceptions(8), options, report);
    }
}

void add(pk_report &sum, const pk_report &report) {
    sum.bytes_up += report.bytes_up;
    sum.bytes_down += report.bytes_down;
    sum.chunks += report.chunks;
    sum.threads = std::max(sum.threads, report.threads);
    sum.exceptions |= report.exceptions;
    sum.overlap_seconds += report.overlap_seconds;
    for (int stage = 0; stage < PK_STAGE_COUNT; ++stage)
        sum.stage_seconds[stage] += report.stage_seconds[stage];
}

void check(const pk_request *requests, int64_t request_count, const int32_t *order, int64_t length,
           const pk_binding *bindings, int64_t binding_count, const pk_buffer *buffers, int64_t buffer_count,
           const int64_t *completed, const pk_options *options, const pk_report *report) {
    require(request_count >= 0 && length >= 0 && binding_count >= 0 && buffer_count >= 0,
            "a count is negative");
    require_array(requests, request_count, alignof(pk_request), "requests");
    require_array(order, length, alignof(int32_t), "order");
    require_array(bindings, binding_count, alignof(pk_binding), "bindings");
    require_array(buffers, buffer_count, alignof(pk_buffer), "buffers");
    require(completed != nullptr, "completed is a null pointer");
    require(report != nullptr, "report is a null pointer");
    require(options == nullptr || (options->rest == 0 && options->spans == 0),
            "options.rest and options.spans are for single calls");
    for (int64_t i = 0; i < request_count; ++i) {
        require(requests[i].entry >= PK_REQUEST_EVALUATE && requests[i].entry <= PK_REQUEST_LOOP,
                "a request names no entry");
    }
    for (int64_t i = 0; i < buffer_count; ++i) {
        require(buffers[i].bytes >= 0, "the size of a buffer is negative");
        require(buffers[i].address != 0 || buffers[i].bytes == 0, "a buffer is a null pointer");
        require(buffers[i].address + uint64_t(buffers[i].bytes) >= buffers[i].address,
                "a buffer goes beyond the end of memory");
        require((buffers[i].flags & ~(PK_BUFFER_UPLOAD | PK_BUFFER_DOWNLOAD)) == 0,
                "a buffer of requests has other flags than PK_BUFFER_UPLOAD and PK_BUFFER_DOWNLOAD");
    }
    for (int64_t i = 0; i < length; ++i)
        require(order[i] >= 0 && order[i] < request_count, "order names a request that there is not");
    for (int64_t i = 0; i < binding_count; ++i) {
        require(bindings[i].word != 0, "the word of a binding is a null pointer");
        require(bindings[i].buffer >= 0 && bindings[i].buffer < buffer_count,
                "a binding names a buffer that there is not");
    }
}

}  // namespace
}  // namespace pk

extern "C" int32_t pk_run_requests(const pk_request *requests, int64_t request_count, const int32_t *order,
                                   int64_t length, const pk_binding *bindings, int64_t binding_count,
                                   const pk_buffer *buffers, int64_t buffer_count, int64_t *completed,
                                   const pk_options *options, pk_report *report) {
    int32_t status = PK_OK;  // of the call that fails
    const int32_t whole = pk::guarded([&] {
        pk::check(requests, request_count, order, length, bindings, binding_count, buffers, buffer_count,
                  completed, options, report);
        *completed = 0;
        for (const pk_binding *binding = bindings; binding != bindings + binding_count; ++binding) {
            *reinterpret_cast<uint64_t *>(binding->word) =
                buffers[binding->buffer].address + uint64_t(binding->offset);
        }
        pk::Call whole(options, report);
        whole.begin(length);
        pk::RequestBuffers in_use(requests, request_count, buffers, buffer_count, whole);
        pk_report sum{};
        for (int64_t i = 0; i < length; ++i) {
            pk_report own{};
            status = pk::call(requests[order[i]], options, &own);
            if (status != PK_OK) return;
            pk::add(sum, own);
            ++*completed;
            whole.advance(1);
        }
        in_use.finish();
        whole.end();
        pk::add(*report, sum);
    });
    return status != PK_OK ? status : whole;
}
