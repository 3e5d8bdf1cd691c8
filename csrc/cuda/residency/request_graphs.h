// CUDA graphs of a list of requests with a key (pk_run_requests): the calls of a list that has run before are
// captured, and launched together.
//
// A graph has the device addresses of the list's buffers. So the memory and the stream of such a list stay
// with its graphs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/requests.h"
#include "cuda/elementwise/jit_kernel.h"
#include "cuda/kernels/run_resources.h"
#include "cuda/runtime/device_pool.h"

namespace pk {

// The graph of consecutive calls.
struct CallGraph {
    int64_t begin, end;       // of the calls, as indices of the list's order
    pk_report report;         // the sum of those of the calls
    FusedKernelUses kernels;  // outlive the graph
    Owned<cudaGraphExec_t, cudaGraphExecDestroy> executable;
};

// The graphs of a list, with the resources of the device that they need. A run of the list takes them from
// the cache, and returns them with new graphs.
class RequestGraphs {
   public:
    // The most bytes of the buffers of a list: with larger ones, kernels take longer than launches.
    static constexpr int64_t MAX_BYTES = 32 << 20;
    // The most calls of a list that are captured, since graphs take memory for each, and the most in one
    // graph.
    static constexpr int64_t MAX_CALLS = 32 << 10, MAX_CALLS_OF_GRAPH = 4096;
    // The fewest calls that are worth the resources, and some 3 ms for the first graph of a stream.
    static constexpr int64_t MIN_CALLS = 8;

    using Key = std::pair<uint64_t, uint64_t>;
    // Calls a request of the list, and adds its report. Returns false if the call cannot be captured, and
    // throws if the capture is to end.
    using Capture = std::function<bool(int64_t call, pk_report *sum)>;

    explicit RequestGraphs(int device);
    ~RequestGraphs();
    RequestGraphs(const RequestGraphs &) = delete;
    RequestGraphs &operator=(const RequestGraphs &) = delete;

    // Take the graphs of a list from the cache, or make an object without any.
    static std::unique_ptr<RequestGraphs> take(const Key &key, int device);
    static void put(const Key &key, std::unique_ptr<RequestGraphs> graphs);
    // Drop all that are cached; those in use are not cached again.
    static void release();

    // Drop the graphs if they were made for other requests or other addresses of the buffers, or interpret a
    // program of which there is a compiled kernel by now.
    void validate(const RequestList &list, const std::vector<const char *> &addresses);
    // Return the graph that begins with a call, or null.
    const CallGraph *find(int64_t call) const;
    // Capture those of the calls [captured(), end) that can be captured, in graphs that end where
    // `ends_after` is true; `end` is at most MAX_CALLS. Nothing is executed.
    void capture(int64_t end, cudaStream_t stream, const std::function<bool(int64_t call)> &can_be_captured,
                 const std::function<bool(int64_t call)> &ends_after, const Capture &call_request);
    // Return how many calls are in graphs, or cannot be captured.
    int64_t captured() const { return captured_; }
    bool has_graphs() const { return !graphs_.empty(); }
    int64_t bytes() const;

    const int device;
    int64_t runs = 0;
    // Empty unless there are graphs.
    std::unique_ptr<kernels::RunStream> run_stream;
    DeviceBuffer memory;
    int64_t memory_bytes = 0;
    // For each buffer: whether calls write to it.
    std::vector<char> is_written;

   private:
    // Drop all that are cached, for an allocation; return true if there were graphs.
    static bool drop_cached();

    // Capture the calls [begin, end) in a graph, and return `end`. If a call cannot be captured, return that:
    // then there is no new graph.
    int64_t capture_graph(int64_t begin, int64_t end, cudaStream_t stream, const Capture &call_request);

    std::string list_;                     // the bytes of the list that was captured
    std::vector<const char *> addresses_;  // of the buffers, which the graphs have
    std::vector<CallGraph> graphs_;
    int64_t captured_ = 0;
    const int64_t releases_;  // the calls of release() before this was made
};

}  // namespace pk
