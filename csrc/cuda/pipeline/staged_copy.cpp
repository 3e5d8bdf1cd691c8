// Bulk copies of whole arrays: pieces are staged through slots, double-buffered in each host thread.
#include "staged_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/call/thread_pool.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/pinned_memory.h"
#include "cuda/runtime/tuning.h"

namespace pk::kernels {

static constexpr int64_t SMALLEST_PIECE = 128 << 10;

void StagedCopy::add(char *host, char *device, int64_t bytes) {
    if (bytes == 0) return;
    const bool direct = is_pinned(host, bytes);
    (direct ? pinned_ : arrays_).push_back({host, device, bytes});
    if (!direct) bytes_ += bytes;
}

// A host thread: while one of its slots is being copied, another is filled or emptied.
class StagedCopy::Thread {
   public:
    Thread(const StagedCopy &copy, const Lease &lease) : copy_(copy), call_(copy.call_), lane_(call_) {
        for (const auto &slot : lease.slots()) pieces_in_flight_.push_back({*slot});
    }

    void take(const Array &piece) {
        PieceInFlight &piece_in_flight = next();
        finish(piece_in_flight);
        begin(piece_in_flight, piece);
        call_.check_interrupt();
    }
    void finish_all() {
        for (size_t i = 0; i < pieces_in_flight_.size(); ++i) finish(next());
    }

   private:
    // A slot, and the piece that is being copied through it.
    struct PieceInFlight {
        const Slot &slot;
        Array piece{};
        double enqueued_at = 0;
    };

    PieceInFlight &next() { return pieces_in_flight_[turn_++ % pieces_in_flight_.size()]; }

    void begin(PieceInFlight &piece_in_flight, const Array &piece) {
        const Slot &slot = piece_in_flight.slot;
        const bool up = copy_.is_up_;
        if (up) {
            const double begin = call_.seconds();
            std::memcpy(slot.host(), piece.host, size_t(piece.bytes));
            lane_.add(PK_STAGE_STAGE, begin, call_.seconds(), piece.bytes, 0);
        }
        const cudaStream_t stream = (up ? slot.streams.upload : slot.streams.download).get();
        piece_in_flight.enqueued_at = call_.seconds();
        PK_CUDA(cudaMemcpyAsync(up ? piece.device : slot.host(), up ? slot.host() : piece.device,
                                size_t(piece.bytes), up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                stream));
        PK_CUDA(cudaEventRecord(slot.uploaded.get(), stream));
        piece_in_flight.piece = piece;
    }

    void finish(PieceInFlight &piece_in_flight) {
        const Slot &slot = piece_in_flight.slot;
        const Array piece = piece_in_flight.piece;
        piece_in_flight.piece = {};
        if (piece.bytes == 0) return;
        PK_CUDA(cudaEventSynchronize(slot.uploaded.get()));
        const bool up = copy_.is_up_;
        const double now = call_.seconds();
        lane_.add(up ? PK_STAGE_UPLOAD : PK_STAGE_DOWNLOAD,
                  std::max(piece_in_flight.enqueued_at, free_since_), now, piece.bytes, 0, slot.device,
                  slot.number);
        free_since_ = now;
        if (!up) {
            std::memcpy(piece.host, slot.host(), size_t(piece.bytes));
            lane_.add(PK_STAGE_UNSTAGE, now, call_.seconds(), piece.bytes, 0);
        }
        const std::lock_guard<std::mutex> lock(call_.mutex);
        call_.report.chunks += 1;
    }

    const StagedCopy &copy_;
    Call &call_;
    TraceLane lane_;
    std::vector<PieceInFlight> pieces_in_flight_;
    size_t turn_ = 0;
    double free_since_ = call_.seconds();
};

void StagedCopy::run(cudaStream_t stream) {
    run_pinned(stream);
    run_staged();
}

// The caller may free the arrays when the call ends, and so this always waits for the copies.
void StagedCopy::run_pinned(cudaStream_t stream) {
    if (pinned_.empty()) return;
    TraceLane lane(call_);
    const double begin = call_.seconds();
    int64_t bytes = 0;
    for (const Array &array : pinned_) {
        PK_CUDA(cudaMemcpyAsync(is_up_ ? array.device : array.host, is_up_ ? array.host : array.device,
                                size_t(array.bytes), is_up_ ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                stream));
        call_.report.chunks += 1;
        bytes += array.bytes;
    }
    PK_CUDA(cudaStreamSynchronize(stream));
    lane.add(is_up_ ? PK_STAGE_UPLOAD : PK_STAGE_DOWNLOAD, begin, call_.seconds(), bytes, 0);
}

// Cut the arrays into pieces. Uploads begin with small pieces, so that the link is busy soon; downloads end
// with small ones, since no copy hides the unstaging of the last.
std::vector<StagedCopy::Array> StagedCopy::cut(int64_t threads) const {
    const int64_t most =
        std::clamp(bytes_ / (4 * threads), SMALLEST_PIECE, Lease::default_size(Lease::staged).host) / 256 *
        256;
    std::vector<Array> pieces;
    int64_t all_done = 0;
    for (const Array &array : arrays_) {
        for (int64_t done = 0; done < array.bytes;) {
            const int64_t share = (is_up_ ? all_done : bytes_ - all_done) / threads / 256 * 256;
            const int64_t bytes = std::min(std::clamp(share, SMALLEST_PIECE, most), array.bytes - done);
            pieces.push_back({array.host + done, array.device + done, bytes});
            done += bytes;
            all_done += bytes;
        }
    }
    return pieces;
}

void StagedCopy::run_staged() {
    if (arrays_.empty()) return;
    const int64_t threads = std::clamp<int64_t>(bytes_ / tuned(Tune::worth_a_thread), 1,
                                                std::min(tuned(Tune::threads), thread_count()));
    const std::vector<Array> pieces = cut(threads);
    std::atomic<size_t> next{0};
    run_on_threads(threads, call_, [&] {
        if (next >= pieces.size()) return;
        const CurrentDevice current(device_);
        const Lease lease(Lease::default_size(Lease::staged), {0, 0}, device_, tuned(Tune::slots), call_);
        try {
            Thread thread(*this, lease);
            for (size_t i = next++; i < pieces.size(); i = next++) thread.take(pieces[i]);
            thread.finish_all();
        } catch (...) {
            next = pieces.size();
            for (const auto &slot : lease.slots()) slot->drain();
            throw;
        }
    });
}

}  // namespace pk::kernels
