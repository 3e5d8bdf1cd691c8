// pk_gray, pk_lookup and pk_resize on the CPU.
#include <algorithm>
#include <vector>

#include "common/call/parallel_for.h"
#include "common/image.h"
#include "loops.h"

namespace pk::image {

namespace {

// The minimum of bytes for which a thread is woken, and the bytes of results that a thread takes at once.
// With smaller shares, two threads would wait for each other's first touch of a huge page.
constexpr int64_t WORTH_A_THREAD = 128 << 10;
constexpr int64_t SHARE_BYTES = 4 << 20;
constexpr int64_t BLOCK = 4096;  // pixels that are gathered at once

// Computes `count` items, of given elements and bytes each: each thread calls make_worker(), and its result
// as worker(first, count).
template <class MakeWorker>
void compute_items(Call &call, int64_t count, int64_t elements, int64_t read_bytes, int64_t written_bytes,
                   const MakeWorker &make_worker) {
    const double work = double(count) * double(read_bytes + written_bytes) / WORTH_A_THREAD;
    const int64_t threads = std::clamp<int64_t>(int64_t(std::min(work, 1e6)), 1, thread_count());
    const int64_t fair = ceil_div(count, threads);
    const int64_t share = std::clamp<int64_t>(SHARE_BYTES / written_bytes, 1, fair);
    parallel_for(call, count, share, threads, make_worker, [&](auto &worker, int64_t first, int64_t own) {
        worker(first, own);
        return own * elements;
    });
}

// Dense elements of a view, in place or gathered into a buffer.
class Gathered {
   public:
    Gathered(const Layout &layout, int64_t view, int64_t most)
        : layout_(layout), view_(layout.views[size_t(view)]) {
        if (view_.access != Access::contiguous) memory_.resize(size_t(most * view_.item));
    }
    bool is_in_place() const { return view_.access == Access::contiguous; }
    char *room(int64_t start) { return is_in_place() ? view_.base + start * view_.item : memory_.data(); }
    const char *take(int64_t start, int64_t count) {
        if (!is_in_place()) layout_.gather(view_, start, count, memory_.data());
        return room(start);
    }
    void give(int64_t start, int64_t count) {
        if (!is_in_place()) layout_.scatter(view_, start, count, memory_.data());
    }

   private:
    const Layout &layout_;
    const View &view_;
    std::vector<char> memory_;
};

// Computes new rows, one after the other. It caches the weighted sums of the last two old rows, because
// several new rows may lie between the same two.
class Resizer {
   public:
    Resizer(const Resize &request, const Taps &down, const Taps &across, bool picks, Call &call)
        : request_(request),
          down_(down.view()),
          across_(across.view()),
          divisor_(down.divisor * across.divisor),
          picks_(picks),
          call_(call),
          source_(request.layout, 0, request.row_elements()) {
        if (picks) return;
        for (Row &row : rows_) row.sums.resize(size_t(request.new_row_elements()));
        total_.resize(size_t(request.new_row_elements()));
    }

    void operator()(int64_t first, int64_t count) {
        const int64_t elements = request_.new_row_elements(), item = request_.layout.views[0].item;
        for (int64_t row = first; row < first + count; ++row) {
            make(row, request_.out + row * elements * item);
            call_.advance(elements);
        }
    }

   private:
    struct Row {
        int64_t index = -1;
        std::vector<double> sums;
    };

    void make(int64_t row, char *out) {
        const int64_t i = row % request_.new_height;
        const int64_t first = row / request_.new_height * request_.height + down_.first[i];
        if (picks_) {
            loops().pixels.pick[request_.type](old_row(first), out, request_.channels, across_);
            return;
        }
        for (int64_t k = 0; k < down_.count(i); ++k) {
            loops().pixels.add_row(down_.weights[down_.begin[i] + k], sums_along(first + k), total_.data(),
                                   request_.new_row_elements(), k == 0);
            call_.check_interrupt();
        }
        loops().pixels.round_row[request_.type](total_.data(), divisor_, out, request_.new_row_elements());
    }

    const char *old_row(int64_t row) {
        return source_.take(row * request_.row_elements(), request_.row_elements());
    }

    const double *sums_along(int64_t row) {
        if (rows_[latest_].index != row) {
            latest_ = 1 - latest_;
            Row &other = rows_[latest_];
            if (other.index != row) {
                loops().pixels.along_row[request_.type](old_row(row), other.sums.data(), request_.channels,
                                                        across_);
                other.index = row;
            }
        }
        return rows_[latest_].sums.data();
    }

    const Resize &request_;
    const pixels::Taps down_, across_;
    const double divisor_;
    const bool picks_;
    Call &call_;
    Gathered source_;
    Row rows_[2];
    int latest_ = 0;
    std::vector<double> total_;
};

}  // namespace

void make_gray(const Gray &request, Call &call) {
    if (request.size == 0) return;
    const int64_t channels = request.weights.channels, item = request.layout.views[0].item;
    compute_items(call, request.pixel_count(), channels, channels * item, item, [&] {
        return [&, pixels = Gathered(request.layout, 0, BLOCK * channels)](int64_t first,
                                                                           int64_t count) mutable {
            for (int64_t done = 0; done < count; done += BLOCK) {
                const int64_t now = std::min(BLOCK, count - done), at = first + done;
                loops().pixels.gray[request.type](pixels.take(at * channels, now * channels),
                                                  request.out + at * item, now, request.weights);
                call.advance(now * channels);
            }
        };
    });
}

void look_up(const Lookup &request, Call &call) {
    if (request.size == 0) return;
    const View &view = request.layout.views[0];
    compute_items(call, request.size, 1, view.item, view.item, [&] {
        return [&, in = Gathered(request.layout, 0, BLOCK), out = Gathered(request.layout, 1, BLOCK)](
                   int64_t first, int64_t count) mutable {
            for (int64_t done = 0; done < count; done += BLOCK) {
                const int64_t now = std::min(BLOCK, count - done), at = first + done;
                loops().pixels.lookup[view.type](in.take(at, now), out.room(at), now, request.table);
                out.give(at, now);
                call.advance(now);
            }
        };
    });
}

void resize(const Resize &request, Call &call) {
    if (request.size == 0) return;
    const Taps down(request.method, request.height, request.new_height);
    const Taps across(request.method, request.width, request.new_width);
    const int64_t item = request.layout.views[0].item;
    const int64_t written = request.new_row_elements() * item;
    const int64_t read = std::max(written, request.size / request.new_rows() * item);
    compute_items(call, request.new_rows(), request.new_row_elements(), read, written,
                  [&] { return Resizer(request, down, across, request.method == PK_RESIZE_NEAREST, call); });
}

}  // namespace pk::image
