// pk_run_requests: calls of entries that are data, one after the other.
#include "common/requests.h"

#include <algorithm>
#include <cfenv>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/call/forks.h"
#include "common/call/status.h"

namespace pk {

namespace {

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

struct Slot {
    pk_request request{};  // the prepared one
    std::unique_ptr<PreparedRequest> prepared;

    bool is_for(const pk_request &other) const {
        return prepared != nullptr && request.entry == other.entry &&
               std::equal(std::begin(request.arguments), std::end(request.arguments), other.arguments);
    }
};

using PreparedRequests = std::vector<Slot>;

// The prepared requests of lists that have a key, the most recently used list first.
class KeptLists {
   public:
    static constexpr size_t MAX_REQUESTS = 32 << 10;  // of all lists; a request takes about 1 KiB

    // Returns the requests of a list, which no other call then has.
    static PreparedRequests take(const uint64_t *key) {
        const std::lock_guard<std::mutex> lock(mutex);
        List &all = list();
        const auto found = std::find_if(all.begin(), all.end(),
                                        [&](const Entry &entry) { return entry.first == key_of(key); });
        if (found == all.end()) return {};
        PreparedRequests taken = std::move(found->second);
        all.erase(found);
        return taken;
    }

    static void put(const uint64_t *key, PreparedRequests requests) {
        List dropped;  // destroyed after the lock is released
        const std::lock_guard<std::mutex> lock(mutex);
        List &all = list();
        all.emplace_front(key_of(key), std::move(requests));
        size_t count = 0;
        auto at = all.begin();
        while (at != all.end() && (count += at->second.size()) <= MAX_REQUESTS) ++at;
        dropped.splice(dropped.end(), all, at, all.end());
    }

    static void release() {
        List dropped;
        const std::lock_guard<std::mutex> lock(mutex);
        dropped.swap(list());
    }

   private:
    using Key = std::pair<uint64_t, uint64_t>;
    using Entry = std::pair<Key, PreparedRequests>;
    using List = std::list<Entry>;

    static Key key_of(const uint64_t *key) { return {key[0], key[1]}; }

    static List &list() {
        hold_over_forks<mutex>();
        if (lists == nullptr) lists = new List;  // never destroyed: calls may outlive the exit
        return *lists;
    }

    static inline std::mutex mutex;
    static inline List *lists = nullptr;
};

// The requests of a list. Those that it calls several times, and all of a list with a key, are prepared at
// their first call.
class RequestCaller {
   public:
    explicit RequestCaller(const RequestList &list)
        : list_(list),
          is_kept_(list.key != nullptr && (list.key[0] | list.key[1]) != 0 &&
                   size_t(list.request_count) <= KeptLists::MAX_REQUESTS),
          is_prepared_(size_t(list.request_count), is_kept_) {
        if (is_kept_) {
            prepared_ = KeptLists::take(list.key);
        } else if (list.length > list.request_count) {
            std::vector<char> is_called(is_prepared_.size(), 0);
            for (int64_t i = 0; i < list.length; ++i) {
                const auto index = size_t(list.order[i]);
                is_prepared_[index] |= is_called[index];
                is_called[index] = 1;
            }
        }
        prepared_.resize(is_prepared_.size());
        for (size_t i = 0; i < prepared_.size(); ++i) {
            Slot &slot = prepared_[i];
            if (!slot.is_for(list.requests[i]) || !slot.prepared->rebind()) slot.prepared.reset();
        }
    }

    int32_t call_request(int32_t index, const pk_options *options, pk_report *report) {
        const pk_request &request = list_.requests[index];
        char &is_prepared = is_prepared_[size_t(index)];
        std::unique_ptr<PreparedRequest> &prepared = prepared_[size_t(index)].prepared;
        if (is_prepared != 0 && prepared == nullptr) {
            prepared_[size_t(index)].request = request;
            const int32_t status = guarded([&] { prepared = prepare(request); });
            if (status != PK_OK) return status;
            is_prepared = prepared != nullptr;
        }
        if (is_prepared == 0) return call(request, options, report);
        return guarded([&] {
            Call call(options, report);
            call.begin(prepared->elements());
            prepared->run(call);
            call.end();
        });
    }

    // Keeps the prepared requests for the next call of the list, after all calls have succeeded.
    void keep() {
        const bool has_any = std::any_of(prepared_.begin(), prepared_.end(),
                                         [](auto &slot) { return slot.prepared != nullptr; });
        if (is_kept_ && has_any) KeptLists::put(list_.key, std::move(prepared_));
    }

   private:
    const RequestList &list_;
    const bool is_kept_;
    std::vector<char> is_prepared_;  // of each request, whether it is to be prepared
    PreparedRequests prepared_;
};

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

void check(const RequestList &list, const int64_t *completed, const pk_options *options,
           const pk_report *report) {
    require(list.request_count >= 0 && list.length >= 0 && list.binding_count >= 0 && list.buffer_count >= 0,
            "a count is negative");
    require_array(list.requests, list.request_count, alignof(pk_request), "requests");
    require_array(list.order, list.length, alignof(int32_t), "order");
    require_array(list.bindings, list.binding_count, alignof(pk_binding), "bindings");
    require_array(list.buffers, list.buffer_count, alignof(pk_buffer), "buffers");
    require_array(list.key, list.key == nullptr ? 0 : 2, alignof(uint64_t), "key");
    require(completed != nullptr, "completed is a null pointer");
    require(report != nullptr, "report is a null pointer");
    require(options == nullptr || (options->rest == 0 && options->spans == 0),
            "options.rest and options.spans are for single calls");
    for (int64_t i = 0; i < list.request_count; ++i) {
        require(list.requests[i].entry >= PK_REQUEST_EVALUATE && list.requests[i].entry <= PK_REQUEST_LOOP,
                "a request names no entry");
    }
    check_buffers(list);
    for (int64_t i = 0; i < list.length; ++i) {
        require(list.order[i] >= 0 && list.order[i] < list.request_count,
                "order names a request that there is not");
    }
    for (int64_t i = 0; i < list.binding_count; ++i) {
        const pk_binding &binding = list.bindings[i];
        require(binding.word != 0, "the word of a binding is a null pointer");
        require(binding.word % alignof(uint64_t) == 0, "the word of a binding is not aligned");
        require(binding.buffer >= 0 && binding.buffer < list.buffer_count,
                "a binding names a buffer that there is not");
    }
}

}  // namespace

void release_prepared_requests() { KeptLists::release(); }

}  // namespace pk

extern "C" int32_t pk_run_requests(const pk_request *requests, int64_t request_count, const int32_t *order,
                                   int64_t length, const pk_binding *bindings, int64_t binding_count,
                                   const pk_buffer *buffers, int64_t buffer_count, const uint64_t *key,
                                   int64_t *completed, const pk_options *options, pk_report *report) {
    int32_t status = PK_OK;  // of the request that fails
    const int32_t own_status = pk::guarded([&] {
        const pk::RequestList list{requests,      request_count, order,        length, bindings,
                                   binding_count, buffers,       buffer_count, key};
        pk::check(list, completed, options, report);
        *completed = 0;
        for (const pk_binding *binding = bindings; binding != bindings + binding_count; ++binding) {
            *reinterpret_cast<uint64_t *>(binding->word) =
                buffers[binding->buffer].address + uint64_t(binding->offset);
        }
        pk::Call list_call(options, report);
        list_call.begin(length);
        if (length == 0) return list_call.end();
        pk::RequestBuffers in_use(list, list_call);
        pk::RequestCaller caller(list);
        pk_report sum{};
        for (int64_t i = 0; i < length; ++i) {
            pk_report own{};
            status = caller.call_request(order[i], options, &own);
            if (status != PK_OK) return;
            in_use.enqueued(requests[order[i]]);
            pk::add(sum, own);
            ++*completed;
            list_call.advance(1);
        }
        in_use.finish();
        list_call.end();
        caller.keep();
        pk::add(*report, sum);
    });
    return status != PK_OK ? status : own_status;
}
