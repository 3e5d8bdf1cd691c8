// Lists of requests (pk_run_requests): the parts that differ between the engines.
#pragma once

#include <cstdint>
#include <memory>

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
};

// The table at an address among a request's arguments.
template <class T>
const T *table(uint64_t argument) {
    return reinterpret_cast<const T *>(argument);
}

// A request whose arguments are checked and whose program is compiled, for requests that a list calls several
// times.
class PreparedRequest {
   public:
    virtual ~PreparedRequest() = default;
    virtual int64_t elements() const = 0;
    virtual void run(Call &call) = 0;
};

// Returns null if the engine has nothing to prepare for this entry.
std::unique_ptr<PreparedRequest> prepare(const pk_request &request);

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
