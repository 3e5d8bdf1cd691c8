// Lists of requests on the CPU engine: buffers are used in place.
#include "common/requests.h"

namespace pk {

class RequestBuffers::OnDevice {};

RequestBuffers::RequestBuffers(const pk_request *, int64_t, const pk_buffer *, int64_t, Call &) {}
RequestBuffers::~RequestBuffers() = default;
void RequestBuffers::finish() {}

}  // namespace pk
