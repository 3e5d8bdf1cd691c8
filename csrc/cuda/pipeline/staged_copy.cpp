// Bulk copies: pieces are staged through slots, double-buffered in each host thread.
#include "staged_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/call/thread_pool.h"
#include "cuda/runtime/launch.h"
#include "cuda/runtime/pinned_memory.h"
#include "cuda/runtime/tuning.h"

namespace pk {

static constexpr int64_t SMALLEST_PIECE = 128 << 10, PINNED_PIECE = 16 << 20;

void StagedCopy::add(char *host, char *d_data, int64_t bytes) {
    if (bytes == 0) return;
    const bool pinned = is_pinned(host, bytes);
    arrays_.push_back({host, d_data, bytes, pinned, {}});
    if (!pinned) staged_bytes_ += bytes;
}

void StagedCopy::add(char *d_data, int64_t bytes, Move move) {
    if (bytes == 0) return;
    arrays_.push_back({nullptr, d_data, bytes, false, std::move(move)});
    staged_bytes_ += bytes;
}

// A host thread: while one of its slots is being copied, another is filled or emptied.
class StagedCopy::Thread {
   public:
    Thread(const StagedCopy &copy, const std::vector<const Slot *> &slots)
        : copy_(copy), call_(copy.call_), lane_(call_) {
        for (const Slot *slot : slots) pieces_in_flight_.push_back({*slot});
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
        const Array *piece = nullptr;
        double enqueued_at = 0;
    };

    PieceInFlight &next() { return pieces_in_flight_[turn_++ % pieces_in_flight_.size()]; }
    int64_t elements(int64_t bytes) const { return copy_.item_ == 0 ? 0 : bytes / copy_.item_; }

    // Copy a piece from the host's memory to the slot's, or back.
    void move(const Array &piece, char *staged) {
        const double begin = call_.seconds();
        if (piece.move) {
            piece.move(staged);
        } else {
            std::memcpy(copy_.is_up_ ? staged : piece.host, copy_.is_up_ ? piece.host : staged,
                        size_t(piece.bytes));
        }
        lane_.add(copy_.is_up_ ? PK_STAGE_STAGE : PK_STAGE_UNSTAGE, begin, call_.seconds(), piece.bytes,
                  elements(piece.bytes));
    }

    void begin(PieceInFlight &piece_in_flight, const Array &piece) {
        const Slot &slot = piece_in_flight.slot;
        const bool up = copy_.is_up_;
        if (up && !piece.is_pinned) move(piece, slot.host());
        char *const host = piece.is_pinned ? piece.host : slot.host();
        const cudaStream_t stream = (up ? slot.streams.upload : slot.streams.download).get();
        piece_in_flight.enqueued_at = call_.seconds();
        PK_CUDA(cudaMemcpyAsync(up ? piece.d_data : host, up ? host : piece.d_data, size_t(piece.bytes),
                                up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
        PK_CUDA(cudaEventRecord(slot.uploaded.get(), stream));
        piece_in_flight.piece = &piece;
    }

    void finish(PieceInFlight &piece_in_flight) {
        if (piece_in_flight.piece == nullptr) return;
        const Slot &slot = piece_in_flight.slot;
        const Array &piece = *std::exchange(piece_in_flight.piece, nullptr);
        const bool up = copy_.is_up_;
        PK_CUDA(cudaEventSynchronize(slot.uploaded.get()));
        const double now = call_.seconds();
        lane_.add(up ? PK_STAGE_UPLOAD : PK_STAGE_DOWNLOAD,
                  std::max(piece_in_flight.enqueued_at, free_since_), now, piece.bytes, elements(piece.bytes),
                  slot.device, slot.number);
        free_since_ = now;
        if (!up && !piece.is_pinned) move(piece, slot.host());
        {
            const std::lock_guard<std::mutex> lock(call_.mutex);
            call_.report.chunks += piece.host != nullptr;
            (up ? call_.report.bytes_up : call_.report.bytes_down) += piece.bytes;
        }
        if (copy_.item_ != 0) call_.advance(elements(piece.bytes));
    }

    const StagedCopy &copy_;
    Call &call_;
    TraceLane lane_;
    std::vector<PieceInFlight> pieces_in_flight_;
    size_t turn_ = 0;
    double free_since_ = call_.seconds();
};

// Cut the arrays into pieces. Uploads begin with small pieces, so that the link is busy soon; downloads end
// with small ones, since no copy hides the unstaging of the last.
std::vector<StagedCopy::Array> StagedCopy::cut(int64_t threads, int64_t slot_bytes) const {
    const int64_t granule = item_ == 0 ? 256 : 256 * item_;
    const int64_t most =
        std::clamp(staged_bytes_ / (4 * threads), SMALLEST_PIECE, slot_bytes) / granule * granule;
    std::vector<Array> pieces;
    int64_t all_done = 0;
    for (const Array &array : arrays_) {
        if (array.move) {
            pieces.push_back(array);
            all_done += array.bytes;
            continue;
        }
        for (int64_t done = 0; done < array.bytes;) {
            const int64_t share =
                (is_up_ ? all_done : staged_bytes_ - all_done) / threads / granule * granule;
            const int64_t size = array.is_pinned ? PINNED_PIECE : std::clamp(share, SMALLEST_PIECE, most);
            const int64_t bytes = std::min(size, array.bytes - done);
            pieces.push_back({array.host + done, array.d_data + done, bytes, array.is_pinned, {}});
            done += bytes;
            if (!array.is_pinned) all_done += bytes;
        }
    }
    return pieces;
}

void StagedCopy::copy(const std::vector<Array> &pieces, std::atomic<size_t> &next,
                      const std::vector<const Slot *> &slots) {
    try {
        Thread thread(*this, slots);
        for (size_t i = next++; i < pieces.size(); i = next++) thread.take(pieces[i]);
        thread.finish_all();
    } catch (...) {
        next = pieces.size();
        for (const Slot *slot : slots) slot->drain();
        throw;
    }
}

void StagedCopy::run() {
    if (arrays_.empty()) return;
    const int64_t threads = std::clamp<int64_t>(staged_bytes_ / tuned(Tune::worth_a_thread), 1,
                                                std::min(tuned(Tune::threads), thread_count()));
    const SlotBytes size = Lease::default_size(staged_bytes_ == 0 ? Lease::pinned : Lease::staged);
    const std::vector<Array> pieces = cut(threads, size.host);
    const int64_t slots = std::min(tuned(Tune::slots), ceil_div(int64_t(pieces.size()), threads));
    std::atomic<size_t> next{0};
    run_on_threads(threads, call_, [&] {
        if (next >= pieces.size()) return;
        const CurrentDevice current(device_);
        const Lease lease(size, {0, 0}, device_, slots, call_);
        std::vector<const Slot *> own;
        for (const auto &slot : lease.slots()) own.push_back(slot.get());
        copy(pieces, next, own);
    });
}

void StagedCopy::run(const Lease &lease) {
    if (arrays_.empty()) return;
    const auto count = int64_t(lease.slots().size());
    const std::vector<Array> pieces = cut(count, lease.slots().front()->host_bytes);
    std::atomic<size_t> next{0};
    std::atomic<int64_t> arrived{0};
    run_on_threads(std::min(count, int64_t(pieces.size())), call_, [&] {
        const int64_t index = arrived++;
        if (index >= count) return;
        const CurrentDevice current(device_);
        copy(pieces, next, {lease.slots()[size_t(index)].get()});
    });
}

}  // namespace pk
