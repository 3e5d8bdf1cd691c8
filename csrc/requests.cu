// Lists of requests (pk_run_requests) in the CUDA library. The buffers of a list are copied to a device and
// made resident there, in a residency scope of the list's. Inside it each request is an ordinary call, which
// finds its operands resident and is only enqueued, in the scope's stream. Then the results are copied back.
// Buffers that are resident already, in a scope of the caller's, stay on the device. At the end of the second
// run of a list with a key, its calls are captured in CUDA graphs, which later runs launch.
#include "common/requests.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/call/status.h"
#include "common/types.h"
#include "cuda/kernels/buffers.h"
#include "cuda/kernels/run_resources.h"
#include "cuda/residency/request_graphs.h"
#include "cuda/residency/residency_map.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/tuning.h"

namespace pk {

namespace {

// A list of at most this many calls reads and writes small buffers in pinned memory: two copies take more
// time than the accesses over the link.
constexpr int64_t MAX_MAPPED_CALLS = 4;
// The host waits whenever so many operations are enqueued, some 20 ms of work, so that a list can be stopped.
constexpr double SLICE_OPERATIONS = 8e9;
// The most bytes of a buffer that is in pinned memory because a stop reads it; of others, values are copied.
constexpr int64_t MAX_FOR_STOPS = 64 << 10;

// The operations of a request; of entries that do not say it, the bytes of all buffers.
double operations_of(const pk_request &request, double bytes) {
    const RequestArguments arguments(request);
    if (arguments.dimensions == 0 && arguments.shape == nullptr) return bytes;
    double operations = double(std::max<int64_t>(arguments.instruction_count, 1));
    for (int64_t i = 0; i < arguments.dimensions; ++i) operations *= double(arguments.shape[i]);
    return operations;
}

// Return true for entries that read addresses in memory of their own, and not from operands.
bool uses_host_memory(const pk_request &request) {
    return request.entry == PK_REQUEST_LOOP || request.entry == PK_REQUEST_RUN_KERNELS;
}

// Return true for entries whose calls a graph can have: they read nothing that the host computes.
bool may_be_captured(const pk_request &request) {
    switch (request.entry) {
        case PK_REQUEST_EVALUATE:
        case PK_REQUEST_REDUCE:
        case PK_REQUEST_REDUCE_SEVERAL:
        case PK_REQUEST_SCAN: return true;
        default: return false;
    }
}

bool has_stop(const RequestList &list, int64_t buffer) {
    return std::any_of(list.stops, list.stops + list.stop_count,
                       [&](const pk_stop &stop) { return stop.buffer == buffer; });
}

// Return true unless only a part of a buffer is resident, or another device has it.
bool can_be_used_on(int device, const pk_buffer &buffer) {
    const auto *const begin = reinterpret_cast<const char *>(buffer.address);
    const auto *const end = begin + buffer.bytes;
    const std::vector<ResidentBuffer *> resident = ResidencyScope::overlapping(begin, end);
    return resident.empty() ||
           (resident.size() == 1 && resident[0]->device == device && resident[0]->contains(begin, end));
}

}  // namespace

// Nothing is prepared on a GPU: the checks that this would save are short beside a launch.
std::unique_ptr<PreparedRequest> prepare(const pk_request &) { return nullptr; }

class RequestBuffers::OnDevice {
   public:
    OnDevice(const RequestList &list, Call &call)
        : list_(list),
          call_(call),
          device_(devices_of(call).front()),
          current_(device_),
          status_words_(status_words_of(list)),
          buffers_(with_status_words(list)),
          device_buffers_({buffers_.data(), int64_t(buffers_.size())}, call, device_),
          mapped_buffers_({for_stops_.data(), int64_t(for_stops_.size())}, call, device_),
          graphs_(graphs_of(list)),
          run_stream_(graphs_ != nullptr && graphs_->run_stream != nullptr
                          ? std::move(graphs_->run_stream)
                          : kernels::acquire_run_stream(device_)) {
        const int64_t max_small = tuned(Tune::in_place_bytes);
        const bool is_small = device_buffers_.pinned_bytes() <= max_small;
        if (is_small || !for_stops_.empty()) {
            run_stream_->obtain_pinned(max_small + mapped_buffers_.bytes());
            mapped_buffers_.set_mapped_memory(run_stream_->d_pinned() + max_small,
                                              run_stream_->pinned() + max_small);
        }
        if (device_buffers_.bytes() <= max_small && list.call_count <= MAX_MAPPED_CALLS) {
            device_buffers_.set_mapped_memory(run_stream_->d_pinned(), run_stream_->pinned());
            has_memory_ = true;
            return;
        }
        if (graphs_ != nullptr && graphs_->memory_bytes == device_buffers_.bytes())
            memory_ = std::move(graphs_->memory);
        if (memory_.d_memory() == nullptr) {
            const StreamOrder order = is_small ? StreamOrder(stream()) : std::nullopt;
            memory_ = DevicePool::of(device_).allocate_if_possible(device_buffers_.bytes(), order,
                                                                   Account::resident);
        }
        has_memory_ = memory_.d_memory() != nullptr;
        device_buffers_.set_memory(memory_.d_memory(), is_small ? run_stream_->pinned() : nullptr);
    }

    ~OnDevice() {
        if (run_stream_ == nullptr) return;  // it is cached with graphs
        if (scope_) {
            (void)cudaStreamSynchronize(stream());  // an earlier failure is being reported
            scope_.reset();
        }
        memory_.free(stream());
        kernels::give_back(std::move(run_stream_));
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;

    bool has_memory() const { return has_memory_; }

    // Upload the buffers and make them resident, for the thread's calls until the scope ends.
    void begin() {
        for (ResidentBuffer *const each : resident_) each->sync_to_device(call_);
        scope_.emplace();
        scope_->set_device(device_);
        scope_->set_stream(stream(), {device_buffers_.address(0), buffers_.front().bytes});
        device_buffers_.upload(stream());
        if (!for_stops_.empty()) mapped_buffers_.upload(stream());
        for (size_t i = 1; i < buffers_.size(); ++i) add(buffers_[i], device_buffers_.address(int64_t(i)));
        for (size_t i = 0; i < for_stops_.size(); ++i)
            add(for_stops_[i], mapped_buffers_.address(int64_t(i)));
        if (graphs_ == nullptr) return;
        std::vector<const char *> addresses;
        for (size_t i = 0; i < buffers_.size(); ++i) addresses.push_back(device_buffers_.address(int64_t(i)));
        for (size_t i = 0; i < for_stops_.size(); ++i)
            addresses.push_back(mapped_buffers_.address(int64_t(i)));
        graphs_->validate(list_, addresses);
    }

    // Launch the graph that begins with a call; return the number of its calls, or 0.
    int64_t launch_graph(int64_t first, pk_report *sum) {
        const CallGraph *const graph = graphs_ != nullptr ? graphs_->find(first) : nullptr;
        if (graph == nullptr) return 0;
        make_device_current(false);
        PK_CUDA(cudaGraphLaunch(graph->executable.get(), stream()));
        graph->kernels.count_launch();
        pk::add(*sum, graph->report);
        for (int64_t call = graph->begin; call < graph->end; ++call) after_call(call);
        return graph->end - graph->begin;
    }

    // Capture the calls that were made one by one, and cache the graphs with the device's resources.
    void capture(int64_t end, const RequestGraphs::Capture &call_request) {
        if (graphs_ == nullptr) return;
        const int64_t last = std::min(end, RequestGraphs::MAX_CALLS);
        if (++graphs_->runs > 1 && last - graphs_->captured() >= RequestGraphs::MIN_CALLS) {
            note_written();
            make_device_current(true);
            double operations = 0;
            const pk_stop *stop = list_.stops, *const last_stop = stop + list_.stop_count;
            const auto can_be_captured = [&](int64_t call) {
                return may_be_captured(list_.requests[list_.order[call]]);
            };
            const auto ends_after = [&](int64_t call) {
                operations += operations_of(list_.requests[list_.order[call]]);
                while (stop != last_stop && stop->call < call) ++stop;
                const bool ends = operations >= SLICE_OPERATIONS || (stop != last_stop && stop->call == call);
                if (ends) operations = 0;
                return ends;
            };
            graphs_->capture(last, stream(), can_be_captured, ends_after, call_request);
        }
        scope_.reset();
        if (graphs_->has_graphs()) {
            graphs_->run_stream = std::move(run_stream_);
            graphs_->memory = std::move(memory_);
            graphs_->memory_bytes = device_buffers_.bytes();
        }
        RequestGraphs::put({list_.key[0], list_.key[1]}, std::move(graphs_));
    }

    // Wait for the calls, and return a value in host memory that the device has computed.
    const char *value_at(const char *address, int type) {
        ResidentBuffer *const resident = ResidencyScope::find(reinterpret_cast<uint64_t>(address));
        if (resident == nullptr || !resident->device_valid) return address;  // the host has computed it
        const char *const d_value = resident->device_address(address);
        const int64_t offset = d_value - run_stream_->d_pinned();
        const bool is_mapped = offset >= 0 && offset < run_stream_->pinned_bytes();
        if (!is_mapped)
            PK_CUDA(
                cudaMemcpyAsync(value_, d_value, size_t(size_of(type)), cudaMemcpyDeviceToHost, stream()));
        PK_CUDA(cudaStreamSynchronize(stream()));
        operations_ = 0;
        return is_mapped ? run_stream_->pinned() + offset : value_;
    }

    // Wait if much is enqueued.
    void after_call(int64_t call) {
        operations_ += operations_of(list_.requests[list_.order[call]]);
        if (operations_ < SLICE_OPERATIONS) return;
        PK_CUDA(cudaStreamSynchronize(stream()));
        operations_ = 0;
    }

    void finish() {
        // A request that cannot run on a device leaves its results in host memory, which the download of the
        // device's copy would overwrite.
        const auto sync_to_device = [&](const pk_buffer &each) {
            ResidentBuffer *const resident = ResidencyScope::find(each.address);
            if (resident != nullptr && (each.flags & PK_BUFFER_DOWNLOAD) != 0)
                resident->sync_to_device(call_);
        };
        std::for_each(buffers_.begin(), buffers_.end(), sync_to_device);
        std::for_each(for_stops_.begin(), for_stops_.end(), sync_to_device);
        device_buffers_.enqueue_download(stream());
        PK_CUDA(cudaStreamSynchronize(stream()));
        device_buffers_.download();
        if (!for_stops_.empty()) mapped_buffers_.download();
        call_.report.bytes_down -= buffers_.front().bytes;  // the status words are not the caller's
        for (const unsigned word : status_words_) call_.report.exceptions |= int32_t(word);
    }

   private:
    // Return as many words as any request needs: one for each instruction.
    static std::vector<unsigned> status_words_of(const RequestList &list) {
        int64_t words = 1;
        for (int64_t i = 0; i < list.request_count; ++i)
            words = std::max(words, RequestArguments(list.requests[i]).instruction_count);
        return std::vector<unsigned>(size_t(align_up(std::min<int64_t>(words, PK_MAX_INSTRUCTIONS), 64)));
    }

    // Make a buffer resident.
    void add(const pk_buffer &buffer, char *d_data) {
        if (buffer.bytes == 0) return;
        ResidentBuffer resident{};
        resident.host = reinterpret_cast<char *>(buffer.address);
        resident.bytes = buffer.bytes;
        resident.intent = PK_RESIDENT_TEMPORARY;
        resident.host_valid = (buffer.flags & PK_BUFFER_UPLOAD) != 0;
        resident.device_valid = true;
        resident.device = device_;
        resident.d_imported = d_data;
        scope_->add(std::move(resident));
    }

    // Return the list's buffers that are not resident, behind one for the status words; but add small ones
    // with the values of stops to for_stops_.
    std::vector<pk_buffer> with_status_words(const RequestList &list) {
        std::vector<pk_buffer> buffers(1);
        buffers[0].address = reinterpret_cast<uint64_t>(status_words_.data());
        buffers[0].bytes = int64_t(status_words_.size() * sizeof(unsigned));
        buffers[0].flags = PK_BUFFER_DOWNLOAD;
        for (int64_t i = 0; i < list.buffer_count; ++i) {
            const pk_buffer &buffer = list.buffers[i];
            ResidentBuffer *const resident = ResidencyScope::find(buffer.address);
            if (resident == nullptr || buffer.bytes == 0) {
                (buffer.bytes <= MAX_FOR_STOPS && has_stop(list, i) ? for_stops_ : buffers).push_back(buffer);
            } else if (resident->host_valid && (buffer.flags & PK_BUFFER_UPLOAD) != 0) {
                resident_.push_back(resident);
            }
        }
        return buffers;
    }

    // Return the graphs of a list, or an object without any; null if the list has no key, or large buffers,
    // or some in a scope of the caller's, which may be elsewhere in the next run.
    std::unique_ptr<RequestGraphs> graphs_of(const RequestList &list) {
        const auto in_list = std::count_if(list.buffers, list.buffers + list.buffer_count,
                                           [](const pk_buffer &each) { return each.bytes != 0; });
        const auto own = std::count_if(buffers_.begin() + 1, buffers_.end(),
                                       [](const pk_buffer &each) { return each.bytes != 0; });
        const bool are_own = own + int64_t(for_stops_.size()) == in_list;
        if (!list.has_key() || !are_own || device_buffers_.bytes() > RequestGraphs::MAX_BYTES) return nullptr;
        return RequestGraphs::take({list.key[0], list.key[1]}, device_);
    }

    // Visit the buffers that are resident in the list's scope, with their numbers in graphs_->is_written.
    template <class Visit>
    void each_resident(Visit visit) const {
        size_t number = 0;
        for (const std::vector<pk_buffer> *group : {&buffers_, &for_stops_}) {
            for (const pk_buffer &buffer : *group) {
                ResidentBuffer *const resident = ResidencyScope::find(buffer.address);
                if (resident != nullptr) visit(number, *resident);
                ++number;
            }
        }
    }

    // Note the buffers that calls have written to on the device.
    void note_written() {
        each_resident([&](size_t number, const ResidentBuffer &resident) {
            if (resident.was_written) graphs_->is_written[number] = 1;
        });
    }

    // Upload values that only the host has. Mark the values on the host as old: those that graphs are about
    // to write, or `all`, so that calls which are captured read no constants on the host.
    void make_device_current(bool all) {
        each_resident([&](size_t number, ResidentBuffer &resident) {
            resident.sync_to_device(call_);
            if (all || graphs_->is_written[number] != 0) resident.host_valid = false;
        });
    }

    double operations_of(const pk_request &request) const {
        return pk::operations_of(request, double(device_buffers_.bytes()));
    }

    cudaStream_t stream() const { return run_stream_->stream.get(); }

    const RequestList &list_;
    Call &call_;
    const int device_;
    const CurrentDevice current_;
    std::vector<unsigned> status_words_;
    // The buffers that were resident before, whose values on the host the list reads.
    std::vector<ResidentBuffer *> resident_;
    // Those that stops read: they are in mapped memory, which the host reads without a copy.
    std::vector<pk_buffer> for_stops_;
    const std::vector<pk_buffer> buffers_;  // the status words, and all other buffers
    kernels::Buffers device_buffers_, mapped_buffers_;
    char value_[8];
    std::unique_ptr<RequestGraphs> graphs_;  // null: the list has none
    std::unique_ptr<kernels::RunStream> run_stream_;
    DeviceBuffer memory_;
    bool has_memory_ = false;
    std::optional<ResidencyScope> scope_;
    double operations_ = 0;  // enqueued since the host last waited
};

RequestBuffers::RequestBuffers(const RequestList &list, Call &call) : list_(list), call_(call) {
    const bool is_enqueued = StreamScope::current() != nullptr;  // in a stream of the caller's
    if (call.options().device_count > 1 || list.buffer_count == 0 || is_enqueued ||
        std::any_of(list.requests, list.requests + list.request_count, uses_host_memory))
        return;
    const int device = devices_of(call).front();
    const auto is_usable = [&](const pk_buffer &each) { return can_be_used_on(device, each); };
    if (!std::all_of(list.buffers, list.buffers + list.buffer_count, is_usable)) return;
    try {
        on_device_ = std::make_unique<OnDevice>(list, call);
    } catch (const Failure &failure) {
        if (failure.status() != PK_OUT_OF_MEMORY) throw;
        return;
    }
    if (on_device_->has_memory())
        on_device_->begin();
    else
        on_device_.reset();
}

RequestBuffers::~RequestBuffers() = default;

int64_t RequestBuffers::launch_graph(int64_t first, pk_report *sum) {
    return on_device_ != nullptr ? on_device_->launch_graph(first, sum) : 0;
}

void RequestBuffers::after_call(int64_t call) {
    if (on_device_ != nullptr) on_device_->after_call(call);
}

const char *RequestBuffers::value_of(const pk_stop &stop) {
    const uint64_t address = list_.buffers[stop.buffer].address + uint64_t(stop.offset);
    const auto *const value = reinterpret_cast<const char *>(address);
    if (on_device_ != nullptr) return on_device_->value_at(value, stop.type);
    if (ResidentBuffer *const resident = ResidencyScope::find(address)) resident->sync_to_host(call_);
    return value;
}

void RequestBuffers::finish() {
    if (on_device_ != nullptr) on_device_->finish();
}

void RequestBuffers::capture(int64_t end, const std::function<bool(int64_t, pk_report *)> &call_request) {
    if (on_device_ == nullptr) return;
    try {
        on_device_->capture(end, call_request);
    } catch (const Failure &failure) {  // the list itself has succeeded, and goes on without graphs
        if (failure.status() == PK_INTERRUPTED) throw;
    }
}

}  // namespace pk
