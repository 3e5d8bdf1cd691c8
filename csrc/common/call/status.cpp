// The calling thread's last error message.
#include "status.h"

#include <cstdio>

namespace pk {

// A fixed buffer: reporting that memory ran out must not allocate.
static thread_local char message_buffer[2048] = "";

const char *last_error() noexcept { return message_buffer; }

pk_status set_last_error(pk_status status, const char *message) noexcept {
    std::snprintf(message_buffer, sizeof(message_buffer), "%s", message);
    return status;
}

}  // namespace pk
