// Lists of requests in the CPU library: buffers are used in place, and requests that are called again are
// prepared.
#include "common/requests.h"

#include "prepared_requests.h"

namespace pk {

std::unique_ptr<PreparedRequest> prepare(const pk_request &request) {
    switch (request.entry) {
        case PK_REQUEST_EVALUATE: return elementwise::prepare(request);
        case PK_REQUEST_REDUCE:
        case PK_REQUEST_REDUCE_SEVERAL: return reduction::prepare(request);
        default: return nullptr;
    }
}

class RequestBuffers::OnDevice {};

RequestBuffers::RequestBuffers(const RequestList &list, Call &call) : list_(list), call_(call) {}
RequestBuffers::~RequestBuffers() = default;
void RequestBuffers::after_call(const pk_request &) {}
const char *RequestBuffers::value_of(const pk_stop &stop) {
    return reinterpret_cast<const char *>(list_.buffers[stop.buffer].address + uint64_t(stop.offset));
}
void RequestBuffers::finish() {}

}  // namespace pk
