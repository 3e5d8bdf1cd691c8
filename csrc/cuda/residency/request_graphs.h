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
    // The most bytes of a list's buffers, and the most calls that are captured, of a list and in one graph.
    // In longer lists the graphs take much memory, and with larger buffers kernels take longer than launches.
    static constexpr int64_t MAX_BYTES = 32 << 20, MAX_CALLS = 32 << 10;
    static constexpr int64_t MAX_CALLS_OF_GRAPH = 4096;
    // The fewest calls that are worth a capture, which takes up to 3 ms.
    static constexpr int64_t MIN_CALLS = 8;

    using Key = std::pair<uint64_t, uint64_t>;
    // Calls a request of the list, and adds its report; returns false if it did not succeed.
    using Capture = std::function<bool(int64_t call, pk_report *sum)>;

    explicit RequestGraphs(int device) : device(device) {}
    ~RequestGraphs();
    RequestGraphs(const RequestGraphs &) = delete;
    RequestGraphs &operator=(const RequestGraphs &) = delete;

    // Take the graphs of a list from the cache, or make an object without any.
    static std::unique_ptr<RequestGraphs> take(const Key &key, int device);
    static void put(const Key &key, std::unique_ptr<RequestGraphs> graphs);
    // Drop all that are cached.
    static void release();

    // Drop the graphs if they were made for other requests or other addresses of the buffers, or interpret a
    // program of which there is a compiled kernel by now.
    void validate(const RequestList &list, const std::vector<const char *> &addresses);
    // Return the graph that begins with a call, or null.
    const CallGraph *find(int64_t call) const;
    // Capture those of the calls [captured(), end) that can be captured, in graphs that end where
    // `ends_after` is true. Nothing is executed.
    void capture(int64_t end, cudaStream_t stream, const std::function<bool(int64_t call)> &can_be_captured,
                 const std::function<bool(int64_t call)> &ends_after, const Capture &call_request);
    int64_t captured() const { return captured_; }
    int64_t bytes() const;

    const int device;
    int64_t runs = 0;
    // Empty unless there are graphs.
    std::unique_ptr<kernels::RunStream> run_stream;
    DeviceBuffer memory;
    int64_t memory_bytes = 0;

   private:
    // Capture the calls [begin, end) in a graph; return the first that could not be captured, or `end`. Then
    // there is no graph.
    int64_t capture_graph(int64_t begin, int64_t end, cudaStream_t stream, const Capture &call_request);

    std::string identity_;  // of the list and the addresses that the graphs were made for
    std::vector<CallGraph> graphs_;
    int64_t captured_ = 0;  // the calls that are in graphs or cannot be
};

}  // namespace pk
