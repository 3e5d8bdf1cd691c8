// Lists of requests (pk_run_requests) in the CUDA library. The buffers of a list are copied to a device and
// made resident there, in a residency scope of the list's. Inside it each request is an ordinary call, which
// finds its operands resident and is only enqueued, in the scope's stream. Then the results are copied back.
#include "common/requests.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/kernels/buffers.h"
#include "cuda/kernels/run_resources.h"
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

double operations_of(const pk_request &request) {
    const RequestArguments arguments(request);
    double operations = double(std::max<int64_t>(arguments.instruction_count, 1));
    for (int64_t i = 0; i < arguments.dimensions; ++i) operations *= double(arguments.shape[i]);
    return operations;
}

bool is_loop(const pk_request &request) { return request.entry == PK_REQUEST_LOOP; }

}  // namespace

// Enqueuing a launch takes longer than checking its arguments.
std::unique_ptr<PreparedRequest> prepare(const pk_request &) { return nullptr; }

class RequestBuffers::OnDevice {
   public:
    OnDevice(const RequestList &list, Call &call)
        : call_(call),
          device_(devices_of(call).front()),
          current_(device_),
          status_words_(status_words_of(list)),
          buffers_(with_status_words(list)),
          device_buffers_({buffers_.data(), int64_t(buffers_.size())}, call, device_),
          run_stream_(kernels::acquire_run_stream(device_)) {
        const int64_t max_small = tuned(Tune::in_place_bytes);
        const bool is_small = device_buffers_.pinned_bytes() <= max_small;
        if (is_small) run_stream_->obtain_pinned(max_small);
        if (device_buffers_.bytes() <= max_small && list.call_count <= MAX_MAPPED_CALLS) {
            device_buffers_.set_mapped_memory(run_stream_->d_pinned(), run_stream_->pinned());
            has_memory_ = true;
            return;
        }
        const StreamOrder order = is_small ? StreamOrder(stream()) : std::nullopt;
        memory_ = DevicePool::of(device_).allocate_if_possible(device_buffers_.bytes(), order, Account::plan);
        has_memory_ = memory_.d_memory() != nullptr;
        device_buffers_.set_memory(memory_.d_memory(), is_small ? run_stream_->pinned() : nullptr);
    }

    ~OnDevice() {
        if (scope_) {
            (void)cudaStreamSynchronize(stream());  // an error follows one that is reported
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
        scope_.emplace();
        scope_->set_device(device_);
        scope_->set_stream(stream(), {device_buffers_.address(0), buffers_.front().bytes});
        device_buffers_.upload(stream());
        for (size_t i = 1; i < buffers_.size(); ++i) {
            const pk_buffer &each = buffers_[i];
            if (each.bytes == 0) continue;
            plan::ResidentBuffer resident{};
            resident.host = reinterpret_cast<char *>(each.address);
            resident.bytes = each.bytes;
            resident.intent = PK_RESIDENT_TEMPORARY;
            resident.host_valid = (each.flags & PK_BUFFER_UPLOAD) != 0;
            resident.device_valid = true;
            resident.device = device_;
            resident.d_imported = device_buffers_.address(int64_t(i));
            scope_->add(std::move(resident));
        }
    }

    // Wait if much is enqueued.
    void after_call(const pk_request &request) {
        operations_ += operations_of(request);
        if (operations_ < SLICE_OPERATIONS) return;
        PK_CUDA(cudaStreamSynchronize(stream()));
        operations_ = 0;
    }

    void finish() {
        // A request that cannot run on a device leaves its results in host memory.
        for (const pk_buffer &each : buffers_) {
            plan::ResidentBuffer *const resident = plan::ResidencyScope::find(each.address);
            if (resident != nullptr && (each.flags & PK_BUFFER_DOWNLOAD) != 0)
                resident->sync_to_device(call_);
        }
        device_buffers_.enqueue_download(stream());
        PK_CUDA(cudaStreamSynchronize(stream()));
        device_buffers_.download();
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

    // Return the list's buffers behind one for the status words.
    std::vector<pk_buffer> with_status_words(const RequestList &list) {
        std::vector<pk_buffer> buffers(1);
        buffers[0].address = reinterpret_cast<uint64_t>(status_words_.data());
        buffers[0].bytes = int64_t(status_words_.size() * sizeof(unsigned));
        buffers[0].flags = PK_BUFFER_DOWNLOAD;
        buffers.insert(buffers.end(), list.buffers, list.buffers + list.buffer_count);
        return buffers;
    }

    cudaStream_t stream() const { return run_stream_->stream.get(); }

    Call &call_;
    const int device_;
    const CurrentDevice current_;
    std::vector<unsigned> status_words_;
    const std::vector<pk_buffer> buffers_;
    kernels::Buffers device_buffers_;
    std::unique_ptr<kernels::RunStream> run_stream_;
    DeviceBuffer memory_;
    bool has_memory_ = false;
    std::optional<plan::ResidencyScope> scope_;
    double operations_ = 0;  // enqueued since the host last waited
};

RequestBuffers::RequestBuffers(const RequestList &list, Call &call) {
    if (call.options().device_count > 1 || list.buffer_count == 0 ||
        plan::ResidencyScope::current() != nullptr ||
        std::any_of(list.requests, list.requests + list.request_count, is_loop))
        return;
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

void RequestBuffers::after_call(const pk_request &request) {
    if (on_device_ != nullptr) on_device_->after_call(request);
}

void RequestBuffers::finish() {
    if (on_device_ != nullptr) on_device_->finish();
}

}  // namespace pk
