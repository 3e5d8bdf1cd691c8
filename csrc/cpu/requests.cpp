// Lists of requests in the CPU library: buffers are used in place.
#include "common/requests.h"

namespace pk {

class RequestBuffers::OnDevice {};

RequestBuffers::RequestBuffers(const RequestList &, Call &) {}
RequestBuffers::~RequestBuffers() = default;
void RequestBuffers::enqueued(const pk_request &) {}
void RequestBuffers::finish() {}

}  // namespace pk
