// Strided copies to dense operands: row by row, or as a blocked transposition.
#include "elementwise_copy.h"

#include <cstdlib>

#include "common/call/parallel_for.h"

namespace pk {

namespace {

constexpr int64_t UNCACHED_BYTES = 8 << 20;   // bytes that no cache holds
constexpr int64_t WORTH_A_THREAD = 32 << 10;  // elements
constexpr int64_t GRAIN_BYTES = 256 << 10;    // bytes that a thread copies at once

// The dimensions of a transposing copy: planes of rows and columns. The target is dense along columns, and
// the source is dense, or nearly, along rows.
class Planes {
   public:
    Planes(const Layout &layout, const View &from, const View &to) : layout_(layout), from_(from), to_(to) {
        const size_t last = layout.shape.size() - 1;
        rows_ = last;
        for (size_t d = 0; d < last; ++d) {
            const int64_t stride = std::abs(from.strides[d]);
            if (stride != 0 && stride < std::abs(from.strides[rows_])) rows_ = d;
        }
        if (rows_ == last) return;
        for (size_t d = 0; d < last; ++d) {
            if (d != rows_) outer_.push_back(d);
        }
        const int64_t tile_rows = 256 / from.item;  // of gather_plane(): four cache lines
        band_ = std::max<int64_t>(1, GRAIN_BYTES / (from.item * layout.shape[last]) / tile_rows) * tile_rows;
        bands_ = ceil_div(layout.shape[rows_], band_);
        count_ = layout.size / layout.shape[rows_] / layout.shape[last] * bands_;
    }

    int64_t count() const { return count_; }  // 0: copying row by row is as good

    // Copies a part; returns its number of elements.
    int64_t copy(int64_t part) const {
        const size_t last = layout_.shape.size() - 1;
        const int64_t row = part % bands_ * band_, columns = layout_.shape[last];
        const int64_t rows = std::min(band_, layout_.shape[rows_] - row);
        const char *from = from_.base + row * from_.strides[rows_];
        char *to = to_.base + row * to_.strides[rows_];
        int64_t remaining = part / bands_;
        for (size_t d : outer_) {
            const int64_t at = remaining % layout_.shape[d];
            remaining /= layout_.shape[d];
            from += at * from_.strides[d];
            to += at * to_.strides[d];
        }
        gather_plane(from_, from, from_.strides[rows_], from_.strides[last], rows, columns, to,
                     to_.strides[rows_] / to_.item, layout_.size * to_.item > UNCACHED_BYTES);
        return rows * columns;
    }

   private:
    const Layout &layout_;
    const View &from_, &to_;
    size_t rows_ = 0;
    std::vector<size_t> outer_;
    int64_t band_ = 1, bands_ = 1, count_ = 0;
};

// Calls part(index) on threads for each of `parts` parts, of `elements` elements in all; part() returns its
// number of elements.
template <class Part>
void copy_parts(Call &call, int64_t parts, int64_t elements, Part part) {
    parallel_for(
        call, parts, 1, std::min(parts, threads_for(elements, WORTH_A_THREAD)), [] { return 0; },
        [&](int, int64_t index, int64_t) {
            const int64_t count = part(index);
            call.advance(count);
            return count;
        });
}

}  // namespace

bool copy(const Evaluation &evaluation, Call &call, pk_range range) {
    const std::vector<Step> &steps = evaluation.program.steps;
    const Layout &layout = evaluation.layout;
    const bool copies = steps.size() == 2 && steps[0].op == PK_OP_LOAD && steps[1].op == PK_OP_STORE;
    if (!copies || range.start != 0 || range.count != layout.size) return false;
    View from = layout.views[size_t(steps[0].a)], to = layout.views[size_t(steps[1].target)];
    if (from.type != to.type || from.access != Access::strided) return false;
    from.swapped = from.swapped != to.swapped;
    const bool is_dense = to.strides.back() == to.item && reinterpret_cast<uintptr_t>(to.base) % 8 == 0;
    if (!is_dense) return false;
    for (int64_t stride : to.strides) {
        if (stride % to.item != 0) return false;
    }
    const Planes planes(layout, from, to);
    if (planes.count() != 0) {
        copy_parts(call, planes.count(), range.count, [&](int64_t part) { return planes.copy(part); });
        return true;
    }
    if (to.strides.size() != 1 && to.access != Access::contiguous) return false;
    const int64_t grain = std::max<int64_t>(1, GRAIN_BYTES / to.item);
    copy_parts(call, ceil_div(range.count, grain), range.count, [&](int64_t part) {
        const int64_t start = part * grain, count = std::min(grain, range.count - start);
        layout.gather(from, start, count, to.base + start * to.item);
        return count;
    });
    return true;
}

}  // namespace pk
