// Argument checks of the entries for streams and events, for both engines.
#pragma once

#include <cstdint>
#include <string>

#include "common/call/status.h"
#include "pycudakit.h"

namespace pk::streams {

// 0 and 1 are the legacy default stream, 2 is the per-thread default stream.
inline bool is_default(uint64_t stream) { return stream <= 2; }

[[noreturn]] inline void fail_no_stream(uint64_t stream) {
    fail(PK_INVALID_ARGUMENT,
         "there is no stream " + std::to_string(stream) + "; it may have been destroyed");
}
[[noreturn]] inline void fail_no_event(uint64_t event) {
    fail(PK_INVALID_ARGUMENT, "there is no event " + std::to_string(event) + "; it may have been destroyed");
}

inline void require_stream_flags(int32_t flags, const uint64_t *stream) {
    require(stream != nullptr, "stream is a null pointer");
    require((flags & ~PK_STREAM_NON_BLOCKING) == 0, "flags has unknown bits");
}
inline void require_event_flags(int32_t flags, const uint64_t *event) {
    require(event != nullptr, "event is a null pointer");
    require((flags & ~(PK_EVENT_BLOCKING_SYNC | PK_EVENT_DISABLE_TIMING)) == 0, "flags has unknown bits");
}

inline void require_timed(bool are_timed) {
    require(are_timed, "an event was created without timing, and has no time");
}
inline void require_recorded(bool are_recorded) { require(are_recorded, "an event was not recorded"); }

}  // namespace pk::streams
