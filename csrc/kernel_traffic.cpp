#include "kernel_traffic.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/thread_pool.h"
#include "stream/pinned.h"
#include "stream/slots.h"
#include "stream/tuning.h"

namespace pk::kernels {

// Smaller arrays are staged, pinned or not: asking the driver takes longer.
static constexpr int64_t WORTH_ASKING = 256 << 10;
static constexpr int64_t SMALLEST_PIECE = 128 << 10;

void Traffic::add(char *host, char *device, int64_t bytes) {
    if (bytes == 0) return;
    const bool direct = bytes >= WORTH_ASKING && is_pinned(host, bytes);
    (direct ? pinned_ : arrays_).push_back({host, device, bytes});
    if (!direct) bytes_ += bytes;
}

// One thread's share: of its slot, one half is on its way while the other is filled or emptied.
class Traffic::Thread {
   public:
    Thread(const Traffic &traffic, const Slot &slot)
        : traffic_(traffic),
          call_(traffic.call_),
          slot_(slot),
          lane_(call_),
          queue_((traffic.is_up_ ? slot.queues.up : slot.queues.down).get()),
          halves_{{slot.host(), slot.uploaded.get()},
                  {slot.host() + slot.host_bytes / 512 * 256, slot.computed.get()}} {}

    void take(const Array &piece) {
        Half &half = halves_[turn_];
        turn_ ^= 1;
        finish(half);
        begin(half, piece);
        call_.look();
    }
    void finish_all() {
        for (int i = 0; i < 2; ++i, turn_ ^= 1) finish(halves_[turn_]);
    }

   private:
    struct Half {
        char *memory;
        cudaEvent_t done;
        Array piece{};
        double queued = 0;
    };

    void begin(Half &half, const Array &piece) {
        const bool up = traffic_.is_up_;
        if (up) {
            const double begin = call_.seconds();
            std::memcpy(half.memory, piece.host, size_t(piece.bytes));
            lane_.add(PK_STAGE, begin, call_.seconds(), piece.bytes, 0);
        }
        half.queued = call_.seconds();
        PK_CUDA(cudaMemcpyAsync(up ? piece.device : half.memory, up ? half.memory : piece.device,
                                size_t(piece.bytes), up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                queue_));
        PK_CUDA(cudaEventRecord(half.done, queue_));
        half.piece = piece;
    }

    void finish(Half &half) {
        const Array piece = half.piece;
        half.piece = {};
        if (piece.bytes == 0) return;
        PK_CUDA(cudaEventSynchronize(half.done));
        const bool up = traffic_.is_up_;
        const double now = call_.seconds();
        lane_.add(up ? PK_UPLOAD : PK_DOWNLOAD, std::max(half.queued, free_since_), now, piece.bytes, 0,
                  slot_.device, slot_.number);
        free_since_ = now;
        if (!up) {
            std::memcpy(piece.host, half.memory, size_t(piece.bytes));
            lane_.add(PK_UNSTAGE, now, call_.seconds(), piece.bytes, 0);
        }
        const std::lock_guard<std::mutex> lock(call_.mutex);
        call_.report.chunks += 1;
    }

    const Traffic &traffic_;
    Call &call_;
    const Slot &slot_;
    Lane lane_;
    const cudaStream_t queue_;
    Half halves_[2];
    size_t turn_ = 0;
    double free_since_ = call_.seconds();
};

void Traffic::run(cudaStream_t queue) {
    run_pinned(queue);
    run_staged();
}

// They may be freed when the call ends, and so it waits for them in any case.
void Traffic::run_pinned(cudaStream_t queue) {
    if (pinned_.empty()) return;
    Lane lane(call_);
    const double begin = call_.seconds();
    int64_t bytes = 0;
    for (const Array &array : pinned_) {
        PK_CUDA(cudaMemcpyAsync(is_up_ ? array.device : array.host, is_up_ ? array.host : array.device,
                                size_t(array.bytes), is_up_ ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                queue));
        call_.report.chunks += 1;
        bytes += array.bytes;
    }
    PK_CUDA(cudaStreamSynchronize(queue));
    lane.add(is_up_ ? PK_UPLOAD : PK_DOWNLOAD, begin, call_.seconds(), bytes, 0);
}

void Traffic::run_staged() {
    if (arrays_.empty()) return;
    const int64_t threads = std::clamp<int64_t>(bytes_ / tuned(Tune::worth_a_thread), 1,
                                                std::min(tuned(Tune::threads), thread_count()));
    const int64_t most = Lease::usual(Lease::staged).host / 512 * 256;
    const int64_t usual = bytes_ / (4 * threads) / 256 * 256;
    const int64_t piece_bytes = std::min(most, std::max(usual, SMALLEST_PIECE));
    std::vector<Array> pieces;
    for (const Array &array : arrays_) {
        for (int64_t done = 0; done < array.bytes; done += piece_bytes)
            pieces.push_back(
                {array.host + done, array.device + done, std::min(piece_bytes, array.bytes - done)});
    }
    std::atomic<size_t> next{0};
    run_on_threads(threads, call_, [&] {
        if (next >= pieces.size()) return;
        const CurrentDevice current(device_);
        const Lease lease(Lease::usual(Lease::staged), {0, 0}, device_, 1, call_);
        const Slot &slot = *lease.slots().front();
        try {
            Thread thread(*this, slot);
            for (size_t i = next++; i < pieces.size(); i = next++) thread.take(pieces[i]);
            thread.finish_all();
        } catch (...) {
            next = pieces.size();
            slot.drain();
            throw;
        }
    });
}

}  // namespace pk::kernels
