// Entry points of streams and events on the CPU: a stream is a number, and an event is a time.
#include "stream.h"

#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "common/call/call.h"
#include "common/call/forks.h"
#include "common/device.h"
#include "common/stream.h"

namespace pk::streams {

namespace {

constexpr int64_t DEVICES = 1;

struct EventTime {
    bool is_timed;
    std::optional<Clock::time_point> recorded;
};

// Never destroyed: streams and events are given back until the process ends.
struct Objects {
    uint64_t next = 0x1000;  // numbers that look like no default stream
    std::unordered_set<uint64_t> streams;
    std::unordered_map<uint64_t, EventTime> events;
};

std::mutex objects_mutex;

// The objects; the mutex is held.
Objects &objects() {
    hold_over_forks<objects_mutex>();
    static auto *const objects = new Objects;
    return *objects;
}

EventTime &event_of(uint64_t event) {
    const auto found = objects().events.find(event);
    if (found == objects().events.end()) fail_no_event(event);
    return found->second;
}

}  // namespace

void require_device(int64_t device) { require_index(device, DEVICES, "device"); }

void require_stream(uint64_t stream) {
    if (is_default(stream)) return;
    const std::lock_guard<std::mutex> lock(objects_mutex);
    if (objects().streams.count(stream) == 0) fail_no_stream(stream);
}

}  // namespace pk::streams

using namespace pk::streams;

extern "C" int32_t pk_device_synchronize(int64_t device) {
    return pk::guarded([&] { require_device(device); });
}

extern "C" int32_t pk_stream_create(int64_t device, int32_t flags, int64_t, uint64_t *stream) {
    return pk::guarded([&] {
        require_stream_flags(flags, stream);
        require_device(device);
        const std::lock_guard<std::mutex> lock(objects_mutex);
        objects().streams.insert(objects().next);
        *stream = objects().next++;
    });
}

extern "C" int32_t pk_stream_destroy(uint64_t stream) {
    return pk::guarded([&] {
        const std::lock_guard<std::mutex> lock(objects_mutex);
        if (objects().streams.erase(stream) == 0) fail_no_stream(stream);
    });
}

extern "C" int32_t pk_stream_synchronize(int64_t device, uint64_t stream) {
    return pk::guarded([&] {
        require_device(device);
        require_stream(stream);
    });
}

extern "C" int32_t pk_stream_query(int64_t device, uint64_t stream, int64_t *is_done) {
    return pk::guarded([&] {
        pk::require(is_done != nullptr, "is_done is a null pointer");
        require_device(device);
        require_stream(stream);
        *is_done = 1;
    });
}

extern "C" int32_t pk_stream_wait_event(int64_t device, uint64_t stream, uint64_t event) {
    return pk::guarded([&] {
        require_device(device);
        require_stream(stream);
        const std::lock_guard<std::mutex> lock(objects_mutex);
        (void)event_of(event);
    });
}

extern "C" int32_t pk_event_create(int64_t device, int32_t flags, uint64_t *event) {
    return pk::guarded([&] {
        require_event_flags(flags, event);
        require_device(device);
        const std::lock_guard<std::mutex> lock(objects_mutex);
        objects().events.emplace(objects().next, EventTime{(flags & PK_EVENT_DISABLE_TIMING) == 0, {}});
        *event = objects().next++;
    });
}

extern "C" int32_t pk_event_destroy(uint64_t event) {
    return pk::guarded([&] {
        const std::lock_guard<std::mutex> lock(objects_mutex);
        if (objects().events.erase(event) == 0) fail_no_event(event);
    });
}

extern "C" int32_t pk_event_record(uint64_t event, uint64_t stream) {
    return pk::guarded([&] {
        require_stream(stream);
        const std::lock_guard<std::mutex> lock(objects_mutex);
        event_of(event).recorded = pk::Clock::now();
    });
}

extern "C" int32_t pk_event_synchronize(uint64_t event) {
    return pk::guarded([&] {
        const std::lock_guard<std::mutex> lock(objects_mutex);
        (void)event_of(event);
    });
}

extern "C" int32_t pk_event_query(uint64_t event, int64_t *is_done) {
    return pk::guarded([&] {
        pk::require(is_done != nullptr, "is_done is a null pointer");
        const std::lock_guard<std::mutex> lock(objects_mutex);
        (void)event_of(event);
        *is_done = 1;
    });
}

extern "C" int32_t pk_event_elapsed(uint64_t begin, uint64_t end, double *milliseconds) {
    return pk::guarded([&] {
        pk::require(milliseconds != nullptr, "milliseconds is a null pointer");
        const std::lock_guard<std::mutex> lock(objects_mutex);
        const EventTime &first = event_of(begin), &last = event_of(end);
        require_timed(first.is_timed && last.is_timed);
        require_recorded(first.recorded && last.recorded);
        *milliseconds = std::chrono::duration<double, std::milli>(*last.recorded - *first.recorded).count();
    });
}
