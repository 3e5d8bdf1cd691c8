// Lists of requests in the CUDA library: their buffers are on a device while the requests run, which are
// enqueued in one stream.
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

// A list of at most this many requests reads and writes small buffers in pinned memory: two copies take more
// time than the accesses over the link.
constexpr int64_t MAX_MAPPED_REQUESTS = 4;
// The host waits whenever so many operations are enqueued, some 20 ms of work, so that a list can be stopped.
constexpr double SLICE_OPERATIONS = 8e9;

// The parts of a request's arguments that tell how much work it is.
struct Work {
    int64_t instructions;
    const int64_t *shape;
    int64_t dims;

    double operations() const {
        double elements = 1;
        for (int64_t i = 0; i < dims; ++i) elements *= double(shape[i]);
        return elements * double(instructions);
    }
};

Work work_of(const pk_request &request) {
    const uint64_t *a = request.arguments;
    const auto work = [a](int64_t instructions, int shape) {
        return Work{instructions, reinterpret_cast<const int64_t *>(a[shape]), int64_t(a[shape + 1])};
    };
    switch (request.entry) {
        case PK_REQUEST_EVALUATE: return work(int64_t(a[1]), 4);
        case PK_REQUEST_REDUCE: return work(int64_t(a[2]), 5);
        case PK_REQUEST_REDUCE_SEVERAL: return work(int64_t(a[3]), 6);
        default: return work(1, 3);
    }
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
          on_device_({buffers_.data(), int64_t(buffers_.size())}, call, device_),
          run_stream_(kernels::acquire_run_stream(device_)) {
        const int64_t staging = tuned(Tune::in_place_bytes);
        const bool is_small = on_device_.staging_bytes() <= staging;
        if (is_small) run_stream_->obtain_staging(staging);
        if (on_device_.bytes() <= staging && list.length <= MAX_MAPPED_REQUESTS) {
            on_device_.set_mapped_memory(run_stream_->d_staging(), run_stream_->staging());
            has_memory_ = true;
            return;
        }
        const StreamOrder order = is_small ? StreamOrder(stream()) : std::nullopt;
        memory_ = DevicePool::of(device_).allocate_if_possible(on_device_.bytes(), order, Account::plan);
        has_memory_ = memory_.d_memory() != nullptr;
        on_device_.set_memory(memory_.d_memory(), is_small ? run_stream_->staging() : nullptr);
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

    // Upload the buffers, and let later calls of the thread use them.
    void begin() {
        scope_.emplace();
        scope_->set_device(device_);
        scope_->set_stream(stream(), {on_device_.address(0), buffers_.front().bytes});
        on_device_.upload(stream());
        for (size_t i = 1; i < buffers_.size(); ++i) {
            const pk_buffer &each = buffers_[i];
            if (each.bytes == 0) continue;
            plan::ResidentBuffer range{};
            range.host = reinterpret_cast<char *>(each.address);
            range.bytes = each.bytes;
            range.intent = PK_RESIDENT_TEMPORARY;
            range.host_valid = (each.flags & PK_BUFFER_UPLOAD) != 0;
            range.device_valid = true;
            range.device = device_;
            range.d_imported = on_device_.address(int64_t(i));
            scope_->add(std::move(range));
        }
    }

    // Wait if much is enqueued.
    void enqueued(const pk_request &request) {
        operations_ += work_of(request).operations();
        if (operations_ < SLICE_OPERATIONS) return;
        PK_CUDA(cudaStreamSynchronize(stream()));
        operations_ = 0;
    }

    void finish() {
        // A request that cannot run on a device leaves its results in host memory.
        for (const pk_buffer &each : buffers_) {
            plan::ResidentBuffer *const range = plan::ResidencyScope::find(each.address);
            if (range != nullptr && (each.flags & PK_BUFFER_DOWNLOAD) != 0) range->sync_to_device(call_);
        }
        on_device_.queue_download(stream());
        PK_CUDA(cudaStreamSynchronize(stream()));
        on_device_.download();
        call_.report.bytes_down -= buffers_.front().bytes;  // the words are not the caller's
        for (const unsigned word : status_words_) call_.report.exceptions |= int32_t(word);
    }

   private:
    // Return as many words as any request needs: one for each instruction.
    static std::vector<unsigned> status_words_of(const RequestList &list) {
        int64_t words = 1;
        for (int64_t i = 0; i < list.request_count; ++i)
            words = std::max(words, work_of(list.requests[i]).instructions);
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
    kernels::Buffers on_device_;
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

void RequestBuffers::enqueued(const pk_request &request) {
    if (on_device_ != nullptr) on_device_->enqueued(request);
}

void RequestBuffers::finish() {
    if (on_device_ != nullptr) on_device_->finish();
}

}  // namespace pk
