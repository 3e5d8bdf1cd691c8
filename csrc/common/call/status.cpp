// The calling thread's last error message.
#include "status.h"

#include <cstdio>

namespace pk {

namespace {

// The library has a copy of the unwinder of its own. An exception of a caller's callback passes through it by
// another copy, which finds the sizes of the registers here only if this copy has thrown before.
bool throw_once() noexcept {
    try {
        throw Failure(PK_OK, "");
    } catch (const Failure &) {
        return true;
    }
}
[[maybe_unused]] const bool has_thrown = throw_once();

}  // namespace

// A fixed buffer: reporting that memory ran out must not allocate.
static thread_local char message_buffer[2048] = "";

const char *last_error() noexcept { return message_buffer; }

pk_status set_last_error(pk_status status, const char *message) noexcept {
    std::snprintf(message_buffer, sizeof(message_buffer), "%s", message);
    return status;
}

}  // namespace pk
