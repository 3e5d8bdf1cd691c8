// Resizing of images on a GPU: separable resampling, along the rows and then down the columns, with sums in
// float64.
#include <algorithm>

#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"
#include "pixels.cuh"

namespace pk::image {

namespace {

// The most old rows that are added between two checks for an interrupt.
constexpr int64_t MAX_OLD_ROWS = 1 << 20;

namespace device {

// Compute the weighted sums along old rows, an element of a new row each.
template <class T>
__global__ void add_along(const T *rows, int64_t row_elements, int64_t channels, pixels::Taps across,
                          int64_t count, double *along) {
    const int64_t i = global_index(), elements = across.size * channels;
    if (i >= count) return;
    const T *row = rows + i / elements * row_elements + i % channels;
    along[i] = pixels::along_row(row, channels, across, i % elements / channels);
}

// Parameters of add_down(): the new rows from `first` on, and the old rows from `old_first` on.
struct Sums {
    int64_t first, elements, height, new_height;
    int64_t old_first, old_rows;
    const double *along;
    pixels::Taps down;
};

// Add the weighted sums of some old rows to new rows; an earlier launch has added the rows before them.
__global__ void add_down(Sums params, int64_t count, double *sums) {
    const int64_t i = global_index();
    if (i >= count) return;
    const int64_t row = params.first + i / params.elements, place = row % params.new_height;
    // `base` is the index of the new row's first old row, relative to old_first; taps begin to end are
    // present.
    const int64_t base =
        row / params.new_height * params.height + params.down.first[place] - params.old_first;
    const int64_t begin = base < 0 ? -base : 0, left = params.old_rows - base;
    const int64_t end = left < params.down.count(place) ? left : params.down.count(place);
    const double *weights = params.down.weights + params.down.begin[place];
    const double *column = params.along + i % params.elements;
    double sum = begin == 0 ? 0 : sums[i];
    for (int64_t k = begin; k < end; ++k) {
        const double value = weights[k] * column[(base + k) * params.elements];
        sum = k == 0 ? value : sum + value;
    }
    if (begin < end) sums[i] = sum;
}

// Divide and round sums to the result's type.
template <class T>
__global__ void round_sums(const double *sums, double divisor, int64_t count, T *out) {
    const int64_t i = global_index();
    if (i < count) out[i] = pixels::rounded<T>(sums[i], divisor);
}

}  // namespace device

// Rounds sums on the device, of elements from `first` on, and downloads the results.
class RoundAlgorithm : public DeviceAlgorithm {
   public:
    RoundAlgorithm(const Layout &layout, const Operands &operands, const double *sums, int64_t first,
                   double divisor)
        : DeviceAlgorithm(layout, {}, operands.stores(0), 0, 0),
          operands_(operands),
          sums_(sums),
          first_(first),
          divisor_(divisor) {
        can_run_async = true;
    }
    void enqueue(const Chunk &chunk) override {
        visit_image_type(layout.views[0].type, [&](auto of_type) {
            using T = decltype(of_type);
            launch_for(chunk.count, chunk.stream, device::round_sums<T>, sums_ + (chunk.start - first_),
                       divisor_, chunk.count, reinterpret_cast<T *>(operands_.d_data(*this, chunk, 0)));
        });
    }
    void collect(const void *) override {}

   private:
    const Operands &operands_;
    const double *const sums_;
    const int64_t first_;
    const double divisor_;
};

// The resampling weights (taps) along one axis, on the device.
class DeviceTaps {
   public:
    DeviceTaps(const Taps &taps, Call &call, const ExecutionContext &context) {
        auto add = [&](const auto &values) {
            return broadcasts_.add_inline(values.data(), int64_t(values.size() * sizeof(values[0])));
        };
        const int64_t first = add(taps.first), begin = add(taps.begin), weights = add(taps.weights);
        if (!broadcasts_.upload(call, context)) fail_device_budget("a row of the image");
        const char *at = broadcasts_.d_data(0);
        view = {int64_t(taps.first.size()), taps.max_count, reinterpret_cast<const int64_t *>(at + first),
                reinterpret_cast<const int64_t *>(at + begin),
                reinterpret_cast<const double *>(at + weights)};
    }
    pixels::Taps view{};

   private:
    BroadcastBuffers broadcasts_;
};

// Adds the weighted sums of old rows, which are on the device, to those of a band of new rows.
class AddRowsAlgorithm : public DeviceAlgorithm {
   public:
    AddRowsAlgorithm(const Resize &request, const char *d_rows, const device::Sums &params,
                     const pixels::Taps &across, double *along, int64_t rows, double *sums)
        : request_(request),
          d_rows_(d_rows),
          params_(params),
          across_(across),
          along_(along),
          rows_(rows),
          sums_(sums) {
        counts_progress = false;  // rounding counts
    }

    void enqueue(const Chunk &chunk) override {
        visit_image_type(request_.type, [&](auto of_type) {
            using T = decltype(of_type);
            const int64_t count = params_.old_rows * params_.elements;
            launch_for(count, chunk.stream, device::add_along<T>, reinterpret_cast<const T *>(d_rows_),
                       request_.row_elements(), request_.channels, across_, count, along_);
        });
        const int64_t count = rows_ * params_.elements;
        launch_for(count, chunk.stream, device::add_down, params_, count, sums_);
    }
    void collect(const void *) override {}

   private:
    const Resize &request_;
    const char *const d_rows_;
    const device::Sums params_;
    const pixels::Taps across_;
    double *const along_;
    const int64_t rows_;
    double *const sums_;
};

// Resizes in bands of new rows. For each band, the old rows that it needs are uploaded, unless they are on
// the device, in parts if they do not fit; their sums are accumulated in float64, and then rounded and
// downloaded.
class Resizer {
   public:
    Resizer(const Resize &request, Call &call, const ExecutionContext &context, const Layout &result,
            Operands &operands)
        : request_(request),
          call_(call),
          context_(context),
          result_(result),
          operands_(operands),
          down_(request.method, request.height, request.new_height),
          across_(request.method, request.width, request.new_width),
          d_down_taps_(down_, call, context),
          d_across_taps_(across_, call, context),
          item_(request.layout.views[0].item),
          elements_(request.new_row_elements()) {
        const int64_t budget = DevicePool::staging_budget() / 2;
        const int64_t sums = elements_ * int64_t(sizeof(double));
        band_ = std::min(budget / 4 / sums, request.new_rows());
        part_ = std::min({budget / 2 / (request.row_elements() * item_ + sums), MAX_OLD_ROWS,
                          request.images * request.height});
    }

    void run() {
        for (;; band_ /= 2, part_ /= 2) {
            if (band_ == 0 || part_ == 0) fail_device_budget("a row of the image");
            const DeviceBuffer sums = buffer_of(band_), along = buffer_of(part_);
            if (sums.d_memory() == nullptr || along.d_memory() == nullptr) continue;
            sums_ = reinterpret_cast<double *>(sums.d_memory());
            along_ = reinterpret_cast<double *>(along.d_memory());
            for (int64_t row = 0; row < request_.new_rows(); row += band_) {
                make(row, std::min(band_, request_.new_rows() - row));
            }
            return;
        }
    }

   private:
    DeviceBuffer buffer_of(int64_t rows) const {
        return DeviceBuffer(context_.device(), rows * elements_ * int64_t(sizeof(double)), Account::call,
                            stream_of(context_.stream_scope()));
    }

    // Return the first old row of a new row's image.
    int64_t image(int64_t row) const { return row / request_.new_height * request_.height; }

    // Compute new rows.
    void make(int64_t first, int64_t rows) {
        const pixels::Taps down = down_.view();
        const int64_t last = first + rows - 1;
        const int64_t end = image(last) + down.end(last % request_.new_height);
        for (int64_t old = image(first) + down.first[first % request_.new_height]; old < end;) {
            old += add(first, rows, old, end);
        }
        RoundAlgorithm algorithm(result_, operands_, sums_, first * elements_,
                                 down_.divisor * across_.divisor);
        execute(algorithm, operands_, call_, context_, {{first * elements_, rows * elements_}});
    }

    // Add old rows from `old` on to the sums, and return how many.
    int64_t add(int64_t first, int64_t rows, int64_t old, int64_t end) {
        for (; part_ != 0; part_ /= 2) {
            const int64_t old_rows = std::min(part_, end - old), row_elements = request_.row_elements();
            BroadcastBuffers source;
            const char *from = operands_.of(1).d_data;
            if (from != nullptr) {
                from += old * row_elements * item_;
            } else {
                const int64_t offset = source.add(request_.layout, request_.layout.views[0],
                                                  old * row_elements, old_rows * row_elements);
                if (!source.upload(call_, context_)) continue;
                from = source.d_data(0) + offset;
            }
            const device::Sums sums{first, elements_, request_.height, request_.new_height,
                                    old,   old_rows,  along_,          d_down_taps_.view};
            AddRowsAlgorithm algorithm(request_, from, sums, d_across_taps_.view, along_, rows, sums_);
            execute(algorithm, operands_, call_, context_);
            return old_rows;
        }
        fail_device_budget("a row of the image");
    }

    const Resize &request_;
    Call &call_;
    const ExecutionContext &context_;
    const Layout &result_;
    Operands &operands_;  // the result, and the old elements
    const Taps down_, across_;
    const DeviceTaps d_down_taps_, d_across_taps_;
    const int64_t item_, elements_;  // of a new row
    int64_t band_, part_;            // new and old rows that are processed at once
    double *sums_ = nullptr, *along_ = nullptr;
};

}  // namespace

void resize(const Resize &request, Call &call) {
    const ExecutionContext context = ExecutionContext::on_first_device(call);
    if (request.size == 0) return;
    const Layout result = Layout::contiguous({{request.out, request.type}}, request.elements());
    Operands operands({{result, result.views[0], true}, {request.layout, request.layout.views[0], false}},
                      call, context);
    const CurrentDevice current(context.device());
    Resizer(request, call, context, result, operands).run();
    operands.commit();
}

}  // namespace pk::image
