// Where a call runs: its devices, its stream, and whether it waits. StreamScope is the asynchronous mode of
// the calling thread.
#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "common/call/call.h"
#include "common/layout.h"
#include "cuda.h"

namespace pk {

// Return true if a stream of the current device is being captured in a CUDA graph. (The legacy default stream
// never is.)
bool is_capturing(cudaStream_t stream);

// Device memory that gathers the status words of all calls in a StreamScope.
struct StatusWords {
    char *d_words = nullptr;
    int64_t bytes = 0;
};

// While a StreamScope is alive, calls of this thread whose operands are all device-resident are enqueued on
// the caller's stream and return without synchronizing. Scopes nest; the innermost is current.
class StreamScope {
   public:
    StreamScope(int device, cudaStream_t stream, StatusWords status = {})
        : device(device), stream(stream), status(status), outer_(current_) {
        current_ = this;
    }
    ~StreamScope() { current_ = outer_; }
    StreamScope(const StreamScope &) = delete;
    StreamScope &operator=(const StreamScope &) = delete;

    // Return this thread's innermost scope, or null.
    static const StreamScope *current() { return current_; }
    // Return the current scope if it is on `device`, or on the only one of `devices`; else null.
    static const StreamScope *current_on(int device) {
        return current_ != nullptr && current_->device == device ? current_ : nullptr;
    }
    static const StreamScope *current_on(const std::vector<int> &devices) {
        return devices.size() == 1 ? current_on(devices[0]) : nullptr;
    }
    // Synchronize the streams of all of this thread's scopes.
    static void synchronize();
    // Make this scope's stream wait for the work that is enqueued on another one now.
    void wait_for(const StreamScope &earlier) const;
    const StreamScope *outer() const { return outer_; }
    // Throw if the current stream is being captured in a CUDA graph: a captured stream cannot be
    // synchronized, and a graph must not hold pooled memory that later calls reuse.
    static void refuse_capture();

    const int device;
    const cudaStream_t stream;
    const StatusWords status;

   private:
    static thread_local const StreamScope *current_;
    const StreamScope *const outer_;
};

// Return the stream of a scope, if there is a scope.
inline std::optional<cudaStream_t> stream_of(const StreamScope *stream_scope) {
    return stream_scope != nullptr ? std::optional<cudaStream_t>(stream_scope->stream) : std::nullopt;
}

// Return the devices of options.devices, by default device 0. Throw if CUDA cannot be used.
std::vector<int> devices_of(const Call &call);

// Return the device of the layout's views that are on a device, or -1 if there are none. Throw if a view's
// pointer is not device memory, or if the views are on several GPUs.
int device_of(const Layout &layout);
// Return the device of these arrays, with the same checks.
int device_of(std::initializer_list<const void *> arrays);

// A request whose arrays may be on a device: which one, found and checked by device_of(request) while nothing
// is written yet; -1 for host memory.
template <class Request>
struct Located : Request {
    template <class... Args>
    explicit Located(Args &&...args)
        : Request(std::forward<Args>(args)...), device(device_of(static_cast<const Request &>(*this))) {}
    const int device = -1;
};

// Where a call runs: its devices; the stream in which it is enqueued if all of its operands are on the
// device; and whether it waits until its outputs are complete.
class ExecutionContext {
   public:
    // `device` is the one that the operands are on, in memory of the caller's: then the stream is
    // options.stream, which is the thread's current one while this lives, unless it is 0. It is -1 for
    // operands in host memory, resident or not: then the stream is that of the thread's StreamScope, if it
    // has one on the only device.
    explicit ExecutionContext(const Call &call, int device = -1);
    // For operands in host memory, and an algorithm that runs on the first of options.devices alone.
    static ExecutionContext on_first_device(const Call &call) {
        return ExecutionContext(std::vector<int>{devices_of(call).front()});
    }
    ExecutionContext(const ExecutionContext &) = delete;
    ExecutionContext &operator=(const ExecutionContext &) = delete;

    int device() const { return devices.front(); }
    // Return null if there is no stream of the caller's: the call then has one of the library's, and waits.
    const StreamScope *stream_scope() const { return StreamScope::current_on(devices); }
    // Return whether anything reads the call's status words: the call itself, or the list that it is in.
    bool reports_exceptions() const {
        return is_synchronous || (stream_scope() != nullptr && stream_scope()->status.d_words != nullptr);
    }

    const std::vector<int> devices;
    const bool is_on_device;  // the operands are in device memory of the caller's
    bool is_synchronous;

   private:
    explicit ExecutionContext(std::vector<int> devices)
        : devices(std::move(devices)), is_on_device(false), is_synchronous(stream_scope() == nullptr) {}

    std::optional<CurrentDevice> current_;
    std::optional<StreamScope> caller_;
};

}  // namespace pk
