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

// The pieces of the arrays.
class StagedCopy::Pieces : public StagedTransfer {
   public:
    Pieces(const StagedCopy &copy, int64_t threads, int64_t slot_bytes)
        : pieces_(copy.cut(threads, slot_bytes)), is_up_(copy.is_up_), item_(copy.item_) {}

    int64_t size() const { return int64_t(pieces_.size()); }

    StagedPiece piece(size_t index) override {
        const Array &of = pieces_[index];
        StagedPiece piece{is_up_, of.d_data, of.bytes};
        if (of.is_pinned) piece.pinned = of.host;
        if (item_ != 0) piece.elements = piece.progress = of.bytes / item_;
        piece.is_chunk = of.host != nullptr;
        return piece;
    }
    void stage(size_t index, char *staged) override {
        const Array &of = pieces_[index];
        if (of.move) return of.move(staged);
        std::memcpy(staged, of.host, size_t(of.bytes));
    }
    void deliver(size_t index, const char *staged) override {
        const Array &of = pieces_[index];
        if (of.move) return of.move(const_cast<char *>(staged));
        std::memcpy(of.host, staged, size_t(of.bytes));
    }

   private:
    const std::vector<Array> pieces_;
    const bool is_up_;
    const int64_t item_;
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

// Copy pieces, from `next` on, through slots of this thread's.
void StagedCopy::copy(Pieces &pieces, std::atomic<int64_t> &next, const std::vector<const Slot *> &slots) {
    std::vector<StagingThread::Buffer> buffers;
    buffers.reserve(slots.size());
    for (const Slot *slot : slots) buffers.push_back({slot, slot->host(), slot->uploaded.get()});
    try {
        StagingThread thread(pieces, call_, buffers);
        for (int64_t i = next++; i < pieces.size(); i = next++) thread.take(size_t(i));
        thread.finish();
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
    Pieces pieces(*this, threads, size.host);
    const int64_t slots = std::min(tuned(Tune::slots), ceil_div(pieces.size(), threads));
    std::atomic<int64_t> next{0};
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
    Pieces pieces(*this, count, lease.slots().front()->host_bytes);
    std::atomic<int64_t> next{0}, arrived{0};
    run_on_threads(std::min(count, pieces.size()), call_, [&] {
        const int64_t index = arrived++;
        if (index >= count) return;
        const CurrentDevice current(device_);
        copy(pieces, next, {lease.slots()[size_t(index)].get()});
    });
}

}  // namespace pk
