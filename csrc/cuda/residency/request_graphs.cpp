// Captures, caches and finds the CUDA graphs of lists of requests.
#include "request_graphs.h"

#include <algorithm>
#include <atomic>

#include "common/call/status.h"
#include "common/lru_cache.h"

namespace pk {

namespace {

// The most bytes of all lists in the cache, and the least that one counts for: it has a stream.
constexpr size_t MAX_CACHED_BYTES = 512 << 20;
constexpr int64_t MIN_BYTES = 2 << 20;
constexpr int64_t BYTES_OF_CALL = 8 << 10;  // on the host and on the device

struct CountBytes {
    size_t operator()(const std::unique_ptr<RequestGraphs> &graphs) const { return size_t(graphs->bytes()); }
};

using GraphCache = LruCache<RequestGraphs::Key, std::unique_ptr<RequestGraphs>, MAX_CACHED_BYTES, CountBytes>;

// The calls of RequestGraphs::release().
std::atomic<int64_t> releases{0};

// Return the bytes of a list's requests, order and stops, with words that are bound replaced by their buffers
// and offsets.
std::string bytes_of(const RequestList &list) {
    std::vector<pk_request> requests(list.requests, list.requests + list.request_count);
    const auto first = reinterpret_cast<uint64_t>(list.requests);
    auto *const words = reinterpret_cast<uint64_t *>(requests.data());
    for (int64_t i = 0; i < list.binding_count; ++i) {
        const pk_binding &binding = list.bindings[i];
        const uint64_t word = (binding.word - first) / sizeof(uint64_t);
        if (binding.word >= first && word < requests.size() * sizeof(pk_request) / sizeof(uint64_t))
            words[word] = uint64_t(binding.buffer) << 48 ^ uint64_t(binding.offset);
    }
    std::string bytes;
    const auto append = [&](const auto *elements, size_t count) {
        bytes.append(reinterpret_cast<const char *>(elements), count * sizeof(*elements));
    };
    append(requests.data(), requests.size());
    append(list.order, size_t(list.call_count));
    append(list.stops, size_t(list.stop_count));
    return bytes;
}

// A capture of a stream, which ends with this.
class StreamCapture {
   public:
    explicit StreamCapture(cudaStream_t stream) : stream_(stream) {
        // Relaxed, since calls may load kernels.
        PK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    }
    ~StreamCapture() {
        if (stream_ != nullptr) (void)end();
    }
    StreamCapture(const StreamCapture &) = delete;
    StreamCapture &operator=(const StreamCapture &) = delete;

    // Return an executable graph of the captured calls; null if the capture failed.
    cudaGraphExec_t executable() {
        const Graph graph = end();
        cudaGraphExec_t executable = nullptr;
        if (graph.get() != nullptr && cudaGraphInstantiate(&executable, graph.get(), 0) != cudaSuccess)
            executable = nullptr;
        (void)cudaGetLastError();  // without a graph, the calls are made one by one
        return executable;
    }

   private:
    using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;

    // End the capture; return the graph, or none if the capture failed.
    Graph end() {
        cudaGraph_t graph = nullptr;
        const cudaError_t error = cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph);
        (void)cudaGetLastError();
        return Graph(error == cudaSuccess ? graph : nullptr);
    }

    const CaptureScope scope_;
    cudaStream_t stream_;
};

}  // namespace

RequestGraphs::RequestGraphs(int device) : device(device), releases_(releases) {}

RequestGraphs::~RequestGraphs() {
    graphs_.clear();
    if (run_stream == nullptr) return;
    memory.free(run_stream->stream.get());
    kernels::give_back(std::move(run_stream));
}

std::unique_ptr<RequestGraphs> RequestGraphs::take(const Key &key, int device) {
    std::unique_ptr<RequestGraphs> graphs = GraphCache::take(key);
    if (graphs != nullptr && graphs->device == device) return graphs;
    return std::make_unique<RequestGraphs>(device);
}

void RequestGraphs::put(const Key &key, std::unique_ptr<RequestGraphs> graphs) {
    static const bool is_registered = (DevicePool::on_shortage(drop_cached), true);
    (void)is_registered;
    if (graphs->releases_ == releases) GraphCache::put(key, std::move(graphs));
}

void RequestGraphs::release() {
    ++releases;
    (void)drop_cached();
}

bool RequestGraphs::drop_cached() {
    bool had_graphs = false;
    GraphCache::drop_if([&](const auto &graphs) {
        had_graphs |= graphs->has_graphs();
        return true;
    });
    return had_graphs;
}

int64_t RequestGraphs::bytes() const {
    if (run_stream == nullptr) return 1;
    return std::max(MIN_BYTES, memory_bytes + run_stream->pinned_bytes() + captured_ * BYTES_OF_CALL);
}

void RequestGraphs::validate(const RequestList &list, const std::vector<const char *> &addresses) {
    std::string bytes = bytes_of(list);
    const bool is_stale = std::any_of(graphs_.begin(), graphs_.end(),
                                      [](const CallGraph &graph) { return graph.kernels.is_stale(); });
    const bool has_moved = has_graphs() && addresses != addresses_;
    addresses_ = addresses;
    if (bytes == list_ && !has_moved && !is_stale) return;
    graphs_.clear();
    captured_ = 0;
    is_written.assign(addresses.size(), 0);
    list_ = std::move(bytes);
}

const CallGraph *RequestGraphs::find(int64_t call) const {
    const auto graph =
        std::lower_bound(graphs_.begin(), graphs_.end(), call,
                         [](const CallGraph &one, int64_t begin) { return one.begin < begin; });
    return graph != graphs_.end() && graph->begin == call ? &*graph : nullptr;
}

void RequestGraphs::capture(int64_t end, cudaStream_t stream,
                            const std::function<bool(int64_t)> &can_be_captured,
                            const std::function<bool(int64_t)> &ends_after, const Capture &call_request) {
    while (captured_ < end) {
        const int64_t begin = captured_;
        int64_t last = begin;
        const int64_t most = std::min(end, begin + MAX_CALLS_OF_GRAPH);
        while (last < most && can_be_captured(last)) {
            if (ends_after(last++)) break;
        }
        const int64_t captured = last > begin ? capture_graph(begin, last, stream, call_request) : begin;
        // A call that cannot be captured after all ends the graph before it.
        if (begin < captured && captured < last) (void)capture_graph(begin, captured, stream, call_request);
        captured_ = std::max(captured, begin + 1);
    }
}

int64_t RequestGraphs::capture_graph(int64_t begin, int64_t end, cudaStream_t stream,
                                     const Capture &call_request) {
    CallGraph graph{begin, end, {}, {}, {}};
    int64_t call = begin;
    {
        StreamCapture capture(stream);
        const FusedKernelUses::Scope scope(graph.kernels);
        while (call < end && call_request(call, &graph.report)) ++call;
        if (call == end) graph.executable = decltype(graph.executable)(capture.executable());
    }
    if (graph.executable.get() != nullptr) graphs_.push_back(std::move(graph));
    return call;
}

}  // namespace pk
