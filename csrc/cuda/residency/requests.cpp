// Lists of requests on the CUDA engine: their buffers are resident on a device while the requests run, which
// are enqueued in the thread's stream.
#include "common/requests.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/pipeline/staged_copy.h"
#include "cuda/residency/residency_map.h"
#include "cuda/runtime/device_pool.h"
#include "cuda/runtime/launch.h"

namespace pk {

namespace {

// Results that are together smaller are downloaded by one copy, with the status words; and buffers that are
// smaller are uploaded in the stream.
constexpr int64_t SMALL = 64 << 10;

// Return how many status words a request has: one for each instruction.
int64_t status_words(const pk_request &request) {
    switch (request.entry) {
        case PK_REQUEST_EVALUATE: return int64_t(request.arguments[1]);
        case PK_REQUEST_REDUCE: return int64_t(request.arguments[2]);
        case PK_REQUEST_REDUCE_SEVERAL: return int64_t(request.arguments[3]);
        default: return 1;
    }
}

bool is_loop(const pk_request &request) { return request.entry == PK_REQUEST_LOOP; }

}  // namespace

// The device memory of a list: status words | buffers, those that are downloaded first, by their sizes.
class RequestBuffers::OnDevice {
   public:
    OnDevice(const pk_request *requests, int64_t request_count, const pk_buffer *buffers,
             int64_t buffer_count, Call &call)
        : call_(call), device_(devices_of(call).front()), current_(device_) {
        int64_t words = 0;
        for (int64_t i = 0; i < request_count; ++i) words = std::max(words, status_words(requests[i]));
        words = std::clamp<int64_t>(words, 1, PK_MAX_INSTRUCTIONS);
        status_bytes_ = align_up(words * int64_t(sizeof(unsigned)), DEVICE_ALIGNMENT);
        std::vector<const pk_buffer *> order;
        for (const pk_buffer *each = buffers; each != buffers + buffer_count; ++each) {
            if (each->bytes != 0) order.push_back(each);
        }
        const auto is_kept = [](const pk_buffer *each) { return (each->flags & PK_BUFFER_DOWNLOAD) == 0; };
        std::stable_sort(order.begin(), order.end(), [&](auto *one, auto *other) {
            return std::pair(is_kept(one), one->bytes) < std::pair(is_kept(other), other->bytes);
        });
        int64_t end = status_bytes_;
        for (const pk_buffer *each : order) {
            buffers_.push_back({reinterpret_cast<char *>(each->address), each->bytes, each->flags, end});
            end += align_up(each->bytes, DEVICE_ALIGNMENT);
            if (!is_kept(each) && end <= SMALL) small_end_ = end;
        }
        small_end_ = std::max(small_end_, status_bytes_);
        memory_ = DevicePool::of(device_).allocate_if_possible(end, STREAM, Account::plan);
    }

    ~OnDevice() {
        if (!scope_) return;
        (void)cudaStreamSynchronize(STREAM);  // an error follows one that is reported
        scope_.reset();
        memory_.free(STREAM);
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;

    bool has_memory() const { return memory_.d_memory() != nullptr; }

    // Upload the buffers, and let later calls of the thread use them.
    void begin() {
        scope_.emplace();
        scope_->set_device(device_);
        scope_->set_stream(STREAM, {memory_.d_memory(), status_bytes_});
        PK_CUDA(cudaMemsetAsync(memory_.d_memory(), 0, size_t(status_bytes_), STREAM));
        StagedCopy large(call_, device_, StagedCopy::up);
        bool has_large = false;
        for (const Buffer &each : buffers_) {
            require(plan::ResidencyScope::overlapping(each.host, each.host + each.bytes).empty(),
                    "two buffers overlap");
            const bool is_input = (each.flags & PK_BUFFER_UPLOAD) != 0;
            scope_->add({each.host, each.bytes, PK_RESIDENT_TEMPORARY, DeviceBuffer(), is_input, true,
                         device_, d_data(each)});
            if (!is_input) continue;
            if (each.bytes > SMALL) {
                large.add(each.host, d_data(each), each.bytes);
                has_large = true;
                continue;
            }
            PK_CUDA(
                cudaMemcpyAsync(d_data(each), each.host, size_t(each.bytes), cudaMemcpyHostToDevice, STREAM));
            call_.report.bytes_up += each.bytes;
        }
        if (!has_large) return;
        StreamScope::synchronize();  // the memory may have been freed in this stream
        large.run();
    }

    void finish() {
        std::vector<char> small(static_cast<size_t>(small_end_));
        PK_CUDA(
            cudaMemcpyAsync(small.data(), memory_.d_memory(), small.size(), cudaMemcpyDeviceToHost, STREAM));
        PK_CUDA(cudaStreamSynchronize(STREAM));
        call_.report.bytes_down += small_end_ - status_bytes_;
        StagedCopy large(call_, device_, StagedCopy::down);
        for (const Buffer &each : buffers_) {
            const bool is_result = (each.flags & PK_BUFFER_DOWNLOAD) != 0;
            // The host's copy is the newest if a request ran there.
            if (!is_result || plan::ResidencyScope::find(uint64_t(each.host))->host_valid) continue;
            if (each.offset + align_up(each.bytes, DEVICE_ALIGNMENT) <= small_end_)
                std::memcpy(each.host, small.data() + each.offset, size_t(each.bytes));
            else
                large.add(each.host, d_data(each), each.bytes);
        }
        large.run();
        const auto *const words = reinterpret_cast<const unsigned *>(small.data());
        const int64_t count = status_bytes_ / int64_t(sizeof(unsigned));
        for (int64_t i = 0; i < count; ++i) call_.report.exceptions |= words[i];
    }

   private:
    struct Buffer {
        char *host;
        int64_t bytes;
        int32_t flags;
        int64_t offset;  // in the memory
    };

    static inline const cudaStream_t STREAM = cudaStreamPerThread;

    char *d_data(const Buffer &buffer) const { return memory_.d_memory() + buffer.offset; }

    Call &call_;
    const int device_;
    const CurrentDevice current_;
    int64_t status_bytes_ = 0;
    int64_t small_end_ = 0;  // of the status words and the small results
    std::vector<Buffer> buffers_;
    DeviceBuffer memory_;
    std::optional<plan::ResidencyScope> scope_;
};

RequestBuffers::RequestBuffers(const pk_request *requests, int64_t request_count, const pk_buffer *buffers,
                               int64_t buffer_count, Call &call) {
    if (call.options().device_count > 1 || buffer_count == 0 || plan::ResidencyScope::current() != nullptr ||
        std::any_of(requests, requests + request_count, is_loop))
        return;
    on_device_ = std::make_unique<OnDevice>(requests, request_count, buffers, buffer_count, call);
    if (on_device_->has_memory())
        on_device_->begin();
    else
        on_device_.reset();
}

RequestBuffers::~RequestBuffers() = default;

void RequestBuffers::finish() {
    if (on_device_ != nullptr) on_device_->finish();
}

}  // namespace pk
