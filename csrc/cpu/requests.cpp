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
int64_t RequestBuffers::launch_graph(int64_t, pk_report *) { return 0; }
void RequestBuffers::after_call(int64_t) {}
const char *RequestBuffers::value_of(const pk_stop &stop) {
    return reinterpret_cast<const char *>(list_.buffers[stop.buffer].address + uint64_t(stop.offset));
}
void RequestBuffers::finish() {}
void RequestBuffers::capture(int64_t, const std::function<bool(int64_t, pk_report *)> &) {}

}  // namespace pk
