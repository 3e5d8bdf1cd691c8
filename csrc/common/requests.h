// Lists of requests (pk_run_requests): their arguments, and the parts that each library defines. Prepared
// requests matter on the CPU, buffers on a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/call/call.h"
#include "pycudakit.h"

namespace pk {

// The arguments of pk_run_requests.
struct RequestList {
    const pk_request *requests;
    int64_t request_count;
    const int32_t *order;  // the index of the request that each call calls
    int64_t call_count;
    const pk_binding *bindings;
    int64_t binding_count;
    const pk_buffer *buffers;
    int64_t buffer_count;
    const pk_stop *stops;
    int64_t stop_count;
    const uint64_t *key;  // two words; null, or {0, 0}: the list is not cached

    bool has_key() const { return key != nullptr && (key[0] | key[1]) != 0; }
};

// The arguments of a request by name: of programs, reductions, scans and loops. Those that its entry does not
// take are null or 0, but for the reduction_count of PK_REQUEST_REDUCE, which is 1.
struct RequestArguments {
    explicit RequestArguments(const pk_request &request);

    const pk_reduction *reductions = nullptr;
    int64_t reduction_count = 0;
    const pk_instruction *program = nullptr;
    int64_t instruction_count = 0;
    const pk_operand *operands = nullptr;
    int64_t operand_count = 0;
    const int64_t *shape = nullptr;
    int64_t dimensions = 0;
    uint8_t *exceptions = nullptr;

    int64_t operation = 0, flags = 0, outer = 0, rows = 0;  // of a scan

    pk_loop loop = nullptr;
    const intptr_t *sizes = nullptr, *strides = nullptr;
    void *data = nullptr;
};

// Adds the report of a call to that of its list.
void add(pk_report &sum, const pk_report &report);

// Calls the entry of a request; returns its status.
int32_t call_entry(const pk_request &request, const pk_options *options, pk_report *report);

// A request whose arguments are checked and whose program is compiled, to be called several times.
class PreparedRequest {
   public:
    virtual ~PreparedRequest() = default;
    virtual int64_t elements() const = 0;
    virtual void run(Call &call) = 0;
    // Adopts the present addresses of the operands. Returns false if the request must be prepared again: this
    // one, which may have adopted some of them, is then of no use.
    virtual bool rebind() = 0;
    // Fetches the memory that this points to, and that rebind() and run() read, into the cache.
    virtual void prefetch() const {}
};

// Fetches memory into the cache, in the background.
inline void fetch_into_cache(const void *memory, size_t bytes) {
    constexpr size_t CACHE_LINE = 64;
    for (size_t i = 0; i < bytes; i += CACHE_LINE) __builtin_prefetch(static_cast<const char *>(memory) + i);
}

template <class T>
void fetch_into_cache(const std::vector<T> &elements) {
    fetch_into_cache(elements.data(), elements.size() * sizeof(T));
}

// The addresses of a request's operands for which it was prepared.
class OperandAddresses {
   public:
    OperandAddresses(const pk_operand *operands, int64_t count) : operands_(operands) {
        for (int64_t i = 0; i < count; ++i) addresses_.push_back(operands[i].address);
    }

    // Calls move(operand, bytes) for each operand whose address has changed. Returns false if a new address
    // is null, or has another alignment.
    template <class Move>
    bool rebind(Move move) {
        for (size_t i = 0; i < addresses_.size(); ++i) {
            const uint64_t address = operands_[i].address, before = std::exchange(addresses_[i], address);
            if (address == before) continue;
            if (address == 0 || address % ALIGNMENT != before % ALIGNMENT) return false;
            move(i, int64_t(address - before));
        }
        return true;
    }

    void prefetch() const {
        fetch_into_cache(addresses_);
        for (size_t i = 0; i < addresses_.size(); ++i) fetch_into_cache(&operands_[i].address, 1);
    }

   private:
    static constexpr uint64_t ALIGNMENT = 8;  // the largest alignment of an element type
    const pk_operand *const operands_;
    std::vector<uint64_t> addresses_;
};

// Returns null if the engine has nothing to prepare for this entry.
std::unique_ptr<PreparedRequest> prepare(const pk_request &request);

// Drops the prepared requests that are cached for lists with a key.
void release_prepared_requests();

// The buffers of a list, ready for its requests while this lives: the CUDA library copies them to a device
// and enqueues the requests in a stream there, if that is possible; the CPU library uses them in place.
class RequestBuffers {
   public:
    RequestBuffers(const RequestList &list, Call &call);
    ~RequestBuffers();
    RequestBuffers(const RequestBuffers &) = delete;
    RequestBuffers &operator=(const RequestBuffers &) = delete;

    // Enqueues the calls from `first` on that a former run of the list has captured in a CUDA graph; returns
    // their number, 0 if there is no graph, and adds their reports.
    int64_t launch_graph(int64_t first, pk_report *sum);
    // To be called after each call of a request. It waits for the device now and then, so that long lists can
    // be interrupted.
    void after_call(int64_t call);
    // Returns the value of a stop as the calls so far have left it, after waiting for them.
    const char *value_of(const pk_stop &stop);
    // Waits for the requests, copies their results to the host, and adds the exceptions that the requests did
    // not report themselves to the call's report.
    void finish();
    // After finish(), captures the calls of the list before `end` for its next run, if it has a key. Nothing
    // is executed. `call_request` calls one, adds its report, and returns false if it has failed; it throws
    // if the list is to stop.
    void capture(int64_t end, const std::function<bool(int64_t call, pk_report *sum)> &call_request);

   private:
    class OnDevice;
    const RequestList &list_;
    Call &call_;
    std::unique_ptr<OnDevice> on_device_;  // null: in place
};

}  // namespace pk
