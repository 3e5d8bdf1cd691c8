// pk_run_requests: calls of the library's functions that are described by data, one after the other.
#include "common/requests.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/call/status.h"
#include "common/half.h"
#include "common/lru_cache.h"
#include "common/types.h"

namespace pk {

namespace {

// A prepared request, if there is one, and the request that it was prepared from.
struct Preparation {
    pk_request request{};
    std::unique_ptr<PreparedRequest> prepared;

    bool was_prepared_from(const pk_request &other) const {
        return prepared != nullptr && request.entry == other.entry &&
               std::equal(std::begin(request.arguments), std::end(request.arguments), other.arguments);
    }
};

using Preparations = std::vector<Preparation>;

struct CountRequests {
    size_t operator()(const Preparations &list) const { return list.size(); }
};

// The most requests of all lists in the cache. Each takes about 1 KiB.
constexpr size_t MAX_CACHED_REQUESTS = 32 << 10;

// The prepared requests of lists with a key. A call takes them out, and puts them back when it has succeeded.
using ListCache = LruCache<std::pair<uint64_t, uint64_t>, Preparations, MAX_CACHED_REQUESTS, CountRequests>;

// A prepared request is fetched into the cache twice this many calls ahead, and the memory that it points to
// this many.
constexpr int64_t PREFETCH_DISTANCE = 2;
constexpr size_t PREPARED_BYTES = 512;  // of a prepared request, that are fetched

bool is_finite(int type, const char *value) {
    const auto read = [&](auto number) {
        std::memcpy(&number, value, sizeof(number));
        return number;
    };
    if (type == PK_FLOAT16) return std::isfinite(half::to_float(read(uint16_t())));
    return type == PK_FLOAT32 ? std::isfinite(read(float())) : std::isfinite(read(double()));
}

bool is_met(const pk_stop &stop, const char *value) {
    if (stop.kind == PK_STOP_IF_NOT_FINITE) return !is_finite(stop.type, value);
    return (*value != 0) == (stop.kind == PK_STOP_IF_TRUE);
}

// Calls the requests of a list. Those that it calls several times, and all of a list with a key, are prepared
// at their first call.
class RequestCaller {
   public:
    RequestCaller(const RequestList &list, const pk_options *options)
        : list_(list),
          options_(options),
          call_(options, &report_),
          is_cached_(list.has_key() && size_t(list.request_count) <= MAX_CACHED_REQUESTS),
          shall_prepare_(size_t(list.request_count), is_cached_),
          is_bound_(size_t(list.request_count), 0) {
        if (is_cached_) {
            preparations_ = ListCache::take({list.key[0], list.key[1]});
        } else {
            std::vector<char> is_called(shall_prepare_.size(), 0);
            for (int64_t i = 0; i < list.call_count; ++i) {
                const auto index = size_t(list.order[i]);
                if (is_called[index] != 0) shall_prepare_[index] = 1;
                is_called[index] = 1;
            }
        }
        preparations_.resize(shall_prepare_.size());
    }

    // Fetches the memory of requests that are called soon: long lists exceed the cache.
    void prefetch(int64_t call) const {
        if (const PreparedRequest *request = prepared_for(call + PREFETCH_DISTANCE)) request->prefetch();
        if (const PreparedRequest *request = prepared_for(call + 2 * PREFETCH_DISTANCE))
            fetch_into_cache(request, PREPARED_BYTES);
    }

    int32_t call_request(int32_t index) {
        const pk_request &request = list_.requests[index];
        char &shall_prepare = shall_prepare_[size_t(index)];
        Preparation &preparation = preparations_[size_t(index)];
        std::unique_ptr<PreparedRequest> &prepared = preparation.prepared;
        if (is_bound_[size_t(index)] == 0) {
            if (!preparation.was_prepared_from(request) || !prepared->rebind()) prepared.reset();
            is_bound_[size_t(index)] = 1;
        }
        if (shall_prepare != 0 && prepared == nullptr) {
            preparation.request = request;
            const int32_t status = guarded([&] { prepared = prepare(request); });
            if (status != PK_OK) return status;
            shall_prepare = prepared != nullptr;  // unless the engine has nothing to prepare
        }
        if (prepared == nullptr) {
            report_ = pk_report{};
            return call_entry(request, options_, &report_);
        }
        return guarded([&] {
            call_.begin_next(prepared->elements());
            prepared->run(call_);
            call_.end();
        });
    }

    // The report of the last request.
    const pk_report &report() const { return report_; }

    // Caches the prepared requests for the next call of the list, after all requests have succeeded.
    void cache() {
        const bool has_any = std::any_of(preparations_.begin(), preparations_.end(),
                                         [](const Preparation &each) { return each.prepared != nullptr; });
        if (is_cached_ && has_any) ListCache::put({list_.key[0], list_.key[1]}, std::move(preparations_));
    }

   private:
    // The prepared request of a call of the list; null if there is none.
    const PreparedRequest *prepared_for(int64_t call) const {
        return call < list_.call_count ? preparations_[size_t(list_.order[call])].prepared.get() : nullptr;
    }

    const RequestList &list_;
    const pk_options *const options_;
    pk_report report_{};
    Call call_;  // of the prepared requests, one after the other
    const bool is_cached_;
    // For each request: whether it is to be prepared, whether its preparation has the addresses of this run,
    // and the preparation.
    std::vector<char> shall_prepare_, is_bound_;
    Preparations preparations_;
};

void check_buffers(const RequestList &list) {
    std::vector<const pk_buffer *> by_address;
    for (int64_t i = 0; i < list.buffer_count; ++i) {
        const pk_buffer &buffer = list.buffers[i];
        require(buffer.bytes >= 0, "the size of a buffer is negative");
        require(buffer.address != 0 || buffer.bytes == 0, "a buffer is a null pointer");
        require(buffer.address + uint64_t(buffer.bytes) >= buffer.address,
                "a buffer goes beyond the end of memory");
        require((buffer.flags & ~(PK_BUFFER_UPLOAD | PK_BUFFER_DOWNLOAD)) == 0,
                "a buffer of requests has other flags than PK_BUFFER_UPLOAD and PK_BUFFER_DOWNLOAD");
        if (buffer.bytes != 0) by_address.push_back(&buffer);
    }
    std::sort(by_address.begin(), by_address.end(),
              [](auto *one, auto *other) { return one->address < other->address; });
    for (size_t i = 1; i < by_address.size(); ++i) {
        const pk_buffer &before = *by_address[i - 1];
        require(before.address + uint64_t(before.bytes) <= by_address[i]->address, "two buffers overlap");
    }
}

void check_stop(const pk_stop &stop, int64_t earlier_call, const RequestList &list) {
    require(stop.call >= earlier_call && stop.call < list.call_count,
            "the call of a stop is not in the list, or before that of an earlier stop");
    require(stop.kind >= PK_STOP_IF_FALSE && stop.kind <= PK_STOP_IF_NOT_FINITE,
            "the kind of a stop is unknown");
    const bool is_float = stop.type >= PK_FLOAT16 && stop.type <= PK_FLOAT64;
    require(stop.kind == PK_STOP_IF_NOT_FINITE ? is_float : stop.type == PK_BOOL,
            "the value of a stop must be a PK_BOOL, or a float if it is to be finite");
    require(stop.buffer >= 0 && stop.buffer < list.buffer_count, "a stop names a buffer that does not exist");
    const int64_t last_offset = list.buffers[stop.buffer].bytes - size_of(stop.type);
    require(stop.offset >= 0 && stop.offset <= last_offset, "the value of a stop is not in its buffer");
}

void check(const RequestList &list, const int64_t *completed, const pk_options *options,
           const pk_report *report) {
    require(std::min({list.request_count, list.call_count, list.binding_count, list.buffer_count,
                      list.stop_count}) >= 0,
            "a count is negative");
    require_array(list.requests, list.request_count, alignof(pk_request), "requests");
    require_array(list.order, list.call_count, alignof(int32_t), "order");
    require_array(list.bindings, list.binding_count, alignof(pk_binding), "bindings");
    require_array(list.buffers, list.buffer_count, alignof(pk_buffer), "buffers");
    require_array(list.stops, list.stop_count, alignof(pk_stop), "stops");
    require_array(list.key, list.key == nullptr ? 0 : 2, alignof(uint64_t), "key");
    require(completed != nullptr, "completed is a null pointer");
    require(report != nullptr, "report is a null pointer");
    require(options == nullptr || (options->rest == 0 && options->spans == 0),
            "options.rest and options.spans are for single calls");
    for (int64_t i = 0; i < list.request_count; ++i) {
        require(list.requests[i].entry >= PK_REQUEST_EVALUATE && list.requests[i].entry < PK_REQUEST_COUNT,
                "a request names no entry");
    }
    check_buffers(list);
    for (int64_t i = 0; i < list.call_count; ++i) {
        require(list.order[i] >= 0 && list.order[i] < list.request_count,
                "order names a request that there is not");
    }
    for (int64_t i = 0; i < list.stop_count; ++i)
        check_stop(list.stops[i], i == 0 ? 0 : list.stops[i - 1].call, list);
    for (int64_t i = 0; i < list.binding_count; ++i) {
        const pk_binding &binding = list.bindings[i];
        require(binding.word != 0, "the word of a binding is a null pointer");
        require(binding.word % alignof(uint64_t) == 0, "the word of a binding is not aligned");
        require(binding.buffer >= 0 && binding.buffer < list.buffer_count,
                "a binding names a buffer that there is not");
    }
}

}  // namespace

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

RequestArguments::RequestArguments(const pk_request &request) {
    const uint64_t *next = request.arguments;
    const auto read_one = [&](auto &argument) {
        using Argument = std::remove_reference_t<decltype(argument)>;
        if constexpr (std::is_pointer_v<Argument>)
            argument = reinterpret_cast<Argument>(*next++);
        else
            argument = Argument(*next++);
    };
    const auto read = [&](auto &...arguments) { (read_one(arguments), ...); };
    const auto read_program = [&] {
        read(program, instruction_count, operands, operand_count, shape, dimensions, exceptions);
    };
    switch (request.entry) {
        case PK_REQUEST_EVALUATE: read_program(); break;
        case PK_REQUEST_REDUCE:
            read(reductions);
            reduction_count = 1;
            read_program();
            break;
        case PK_REQUEST_REDUCE_SEVERAL:
            read(reductions, reduction_count);
            read_program();
            break;
        case PK_REQUEST_SCAN: read(operation, flags, operands, shape, dimensions, outer, rows); break;
        case PK_REQUEST_LOOP: read(loop, operands, operand_count, sizes, strides, data); break;
        default: break;
    }
}

void release_prepared_requests() {
    ListCache::drop_if([](const Preparations &) { return true; });
}

}  // namespace pk

extern "C" int32_t pk_run_requests(const pk_request *requests, int64_t request_count, const int32_t *order,
                                   int64_t call_count, const pk_binding *bindings, int64_t binding_count,
                                   const pk_buffer *buffers, int64_t buffer_count, const pk_stop *stops,
                                   int64_t stop_count, const uint64_t *key, int64_t *completed,
                                   const pk_options *options, pk_report *report) {
    int32_t status = PK_OK;  // of the request that fails
    const int32_t own_status = pk::guarded([&] {
        const pk::RequestList list{requests, request_count, order, call_count, bindings, binding_count,
                                   buffers,  buffer_count,  stops, stop_count, key};
        pk::check(list, completed, options, report);
        *completed = 0;
        for (const pk_binding *binding = bindings; binding != bindings + binding_count; ++binding) {
            *reinterpret_cast<uint64_t *>(binding->word) =
                buffers[binding->buffer].address + uint64_t(binding->offset);
        }
        pk::Call list_call(options, report);
        list_call.begin(call_count);
        if (call_count == 0) return list_call.end();
        pk::RequestBuffers request_buffers(list, list_call);
        pk::RequestCaller caller(list, options);
        pk_report sum{};
        const pk_stop *stop = stops, *const end = stops + stop_count;
        bool is_stopped = false;
        while (*completed < call_count && !is_stopped) {
            const int64_t first = *completed;
            int64_t count = request_buffers.launch_graph(first, &sum);
            if (count == 0) {
                caller.prefetch(first);
                status = caller.call_request(order[first]);
                if (status != PK_OK) return;
                request_buffers.after_call(first);
                pk::add(sum, caller.report());
                count = 1;
            }
            *completed += count;
            list_call.advance(count);
            for (; stop != end && stop->call < *completed && !is_stopped; ++stop)
                is_stopped = pk::is_met(*stop, request_buffers.value_of(*stop));
        }
        request_buffers.finish();
        request_buffers.capture(*completed, [&](int64_t call, pk_report *captured) {
            list_call.advance(0);  // throws if the list is to stop
            const int32_t called = caller.call_request(order[call]);
            if (called == PK_INTERRUPTED) pk::fail(PK_INTERRUPTED, "the call was stopped");
            pk::add(*captured, caller.report());
            return called == PK_OK;
        });
        list_call.end();
        caller.cache();
        pk::add(*report, sum);
    });
    return status != PK_OK ? status : own_status;
}
