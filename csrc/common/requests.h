// Lists of requests (pk_run_requests): the parts that differ between the engines.
#pragma once

#include <cstdint>
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
    const int32_t *order;
    int64_t length;  // of the order
    const pk_binding *bindings;
    int64_t binding_count;
    const pk_buffer *buffers;
    int64_t buffer_count;
    const uint64_t *key;  // null, or two words, which are 0 for none
};

// The table at an address among a request's arguments.
template <class T>
const T *table(uint64_t argument) {
    return reinterpret_cast<const T *>(argument);
}

// A request whose arguments are checked and whose program is compiled, to be called several times.
class PreparedRequest {
   public:
    virtual ~PreparedRequest() = default;
    virtual int64_t elements() const = 0;
    virtual void run(Call &call) = 0;
    // Adopts the present addresses of the operands. Returns false if the request must be prepared again.
    virtual bool rebind() = 0;
};

// The addresses of a request's operands for which it was prepared.
class OperandAddresses {
   public:
    OperandAddresses(const pk_operand *operands, int64_t count) : operands_(operands) {
        for (int64_t i = 0; i < count; ++i) addresses_.push_back(operands[i].address);
    }

    // Calls move(operand, bytes) for each operand whose address has changed. Returns false if one is null, or
    // is aligned otherwise.
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

   private:
    static constexpr uint64_t ALIGNMENT = 8;  // the largest of an element
    const pk_operand *const operands_;
    std::vector<uint64_t> addresses_;
};

// Returns null if the engine has nothing to prepare for this entry.
std::unique_ptr<PreparedRequest> prepare(const pk_request &request);

// Drops the prepared requests that are kept for lists with a key.
void release_prepared_requests();

// The buffers of a list, where its requests use them while this lives: on the CUDA engine on a device, if
// that is possible, and on the CPU engine in place.
class RequestBuffers {
   public:
    RequestBuffers(const RequestList &list, Call &call);
    ~RequestBuffers();
    RequestBuffers(const RequestBuffers &) = delete;
    RequestBuffers &operator=(const RequestBuffers &) = delete;

    // Note that a request was called: on a device it may be enqueued only.
    void enqueued(const pk_request &request);
    // Wait for the requests, copy their results to the host, and add the exceptions that the requests did not
    // report themselves to the call's report.
    void finish();

   private:
    class OnDevice;
    std::unique_ptr<OnDevice> on_device_;
};

}  // namespace pk
