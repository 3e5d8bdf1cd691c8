#include <algorithm>

#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"
#include "pixels.cuh"

namespace pk::image {

namespace {

// Old rows that are added up between two looks at whether the call is to stop.
constexpr int64_t MOST_OLD_ROWS = 1 << 20;

namespace device {

// Sums along each of some old rows.
template <class T>
__global__ void add_along(const T *rows, int64_t row_elements, int64_t channels, pixels::Taps across,
                          int64_t count, double *along) {
    const int64_t i = own_index(), elements = across.size * channels;
    if (i >= count) return;
    const T *row = rows + i / elements * row_elements + i % channels;
    along[i] = pixels::along_row(row, channels, across, i % elements / channels);
}

// What is added up for new rows: those from `first` on, of old ones from `old_first` on.
struct Sums {
    int64_t first, elements, height, new_height;
    int64_t old_first, old_rows;
    const double *along;
    pixels::Taps down;
};

// Adds what some old rows give; an earlier launch has added those before them.
__global__ void add_down(Sums given, int64_t count, double *sums) {
    const int64_t i = own_index();
    if (i >= count) return;
    const int64_t row = given.first + i / given.elements, place = row % given.new_height;
    // The first of its old rows, counted from those that are there; and which of its own are.
    const int64_t base = row / given.new_height * given.height + given.down.first[place] - given.old_first;
    const int64_t begin = base < 0 ? -base : 0, left = given.old_rows - base;
    const int64_t end = left < given.down.count(place) ? left : given.down.count(place);
    const double *weights = given.down.weights + given.down.begin[place];
    const double *column = given.along + i % given.elements;
    double sum = begin == 0 ? 0 : sums[i];
    for (int64_t k = begin; k < end; ++k) {
        const double value = weights[k] * column[(base + k) * given.elements];
        sum = k == 0 ? value : sum + value;
    }
    if (begin < end) sums[i] = sum;
}

template <class T>
__global__ void round_sums(const double *sums, double divisor, int64_t count, T *out) {
    const int64_t i = own_index();
    if (i < count) out[i] = pixels::rounded<T>(sums[i], divisor);
}

}  // namespace device

// Sums that lie on the device, of elements from `first` on, rounded on their way down.
class RoundWork : public Work {
   public:
    RoundWork(const Layout &layout, const plan::Homes &homes, const double *sums, int64_t first,
              double divisor)
        : Work(layout, {}, homes.stores(0), 0, 0),
          homes_(homes),
          sums_(sums),
          first_(first),
          divisor_(divisor) {
        may_queue = true;
    }
    void launch(const Chunk &chunk) override {
        with_type(layout.views[0].type, [&](auto of_type) {
            using T = decltype(of_type);
            launch_for(chunk.count, chunk.queue, device::round_sums<T>, sums_ + (chunk.start - first_),
                       divisor_, chunk.count, reinterpret_cast<T *>(homes_.at(*this, chunk, 0)));
        });
    }
    void collect(const void *) override {}

   private:
    const plan::Homes &homes_;
    const double *const sums_;
    const int64_t first_;
    const double divisor_;
};

// The weights along one axis, on the device.
class DeviceTaps {
   public:
    DeviceTaps(const Taps &taps, Call &call, const std::vector<int> &device) {
        auto add = [&](const auto &values) {
            return memory_.add_parameters(values.data(), int64_t(values.size() * sizeof(values[0])));
        };
        const int64_t first = add(taps.first), begin = add(taps.begin), weights = add(taps.weights);
        if (!memory_.upload(call, device)) fail_for_room();
        const char *at = memory_.on(0);
        view = {int64_t(taps.first.size()), taps.most, reinterpret_cast<const int64_t *>(at + first),
                reinterpret_cast<const int64_t *>(at + begin),
                reinterpret_cast<const double *>(at + weights)};
    }
    pixels::Taps view{};

   private:
    Resident memory_;
};

// New rows in bands, and for each the old rows that it needs, in parts if there is no room for all: sums
// along these rows are added up to those of the new ones, which are rounded on their way down.
class Resizer {
   public:
    Resizer(const Resize &given, Call &call, int device, const Layout &result, const plan::Homes &homes)
        : given_(given),
          call_(call),
          device_{device},
          result_(result),
          homes_(homes),
          down_(given.method, given.height, given.new_height),
          across_(given.method, given.width, given.new_width),
          down_there_(down_, call, device_),
          across_there_(across_, call, device_),
          item_(given.layout.views[0].item),
          elements_(given.new_row_elements()),
          line_(line_for(homes, device)) {
        if (line_ == nullptr) Line::wait();
        const int64_t room = streaming_memory().device_budget / 2;
        const int64_t sums = elements_ * int64_t(sizeof(double));
        band_ = std::min(room / 4 / sums, given.new_rows());
        part_ = std::min(
            {room / 2 / (given.row_elements() * item_ + sums), MOST_OLD_ROWS, given.images * given.height});
    }

    void run() {
        for (;; band_ /= 2, part_ /= 2) {
            if (band_ == 0 || part_ == 0) fail_for_room();
            const bool in_line = line_ != nullptr;
            const Block sums(device_[0], band_ * elements_ * int64_t(sizeof(double)), false, in_line);
            const Block along(device_[0], part_ * elements_ * int64_t(sizeof(double)), false, in_line);
            if (sums.memory() == nullptr || along.memory() == nullptr) continue;
            sums_ = reinterpret_cast<double *>(sums.memory());
            along_ = reinterpret_cast<double *>(along.memory());
            for (int64_t row = 0; row < given_.new_rows(); row += band_) {
                make(row, std::min(band_, given_.new_rows() - row));
            }
            return;
        }
    }

   private:
    // This thread's line, if both the old elements and the new ones lie there.
    static const Line *line_for(const plan::Homes &homes, int device) {
        const bool are_there = homes.of(0).at != nullptr && homes.of(1).at != nullptr && !homes.of(0).leaves;
        return are_there ? Line::on(device) : nullptr;
    }

    int64_t image(int64_t row) const { return row / given_.new_height * given_.height; }

    void make(int64_t first, int64_t rows) {
        const pixels::Taps down = down_.view();
        const int64_t last = first + rows - 1;
        const int64_t end = image(last) + down.end(last % given_.new_height);
        for (int64_t old = image(first) + down.first[first % given_.new_height]; old < end;) {
            old += add(first, rows, old, end);
        }
        RoundWork work(result_, homes_, sums_, first * elements_, down_.divisor * across_.divisor);
        stream(work, call_, device_, {{first * elements_, rows * elements_}});
    }

    // Adds old rows from `old` on, and returns how many.
    int64_t add(int64_t first, int64_t rows, int64_t old, int64_t end) {
        for (; part_ != 0; part_ /= 2) {
            const int64_t old_rows = std::min(part_, end - old), row_elements = given_.row_elements();
            Resident source;
            const char *from = homes_.of(1).at;
            if (from != nullptr) {
                from += old * row_elements * item_;
            } else {
                const int64_t offset = source.add(given_.layout, given_.layout.views[0], old * row_elements,
                                                  old_rows * row_elements);
                if (!source.upload(call_, device_)) continue;
                from = source.on(0) + offset;
            }
            const cudaStream_t queue = line_ != nullptr ? line_->stream : stream_.get();
            const Queue own(stream_);
            const double begin = call_.seconds();
            with_type(given_.type, [&](auto of_type) {
                using T = decltype(of_type);
                launch_for(old_rows * elements_, queue, device::add_along<T>,
                           reinterpret_cast<const T *>(from), row_elements, given_.channels,
                           across_there_.view, old_rows * elements_, along_);
            });
            const device::Sums sums{first, elements_, given_.height, given_.new_height,
                                    old,   old_rows,  along_,        down_there_.view};
            launch_for(rows * elements_, queue, device::add_down, sums, rows * elements_, sums_);
            if (line_ == nullptr) {
                PK_CUDA(cudaStreamSynchronize(queue));
                lane_.add(PK_KERNEL, begin, call_.seconds(), 0, 0);
            }
            call_.look();
            return old_rows;
        }
        fail_for_room();
    }

    const Resize &given_;
    Call &call_;
    const std::vector<int> device_;
    const Layout &result_;
    const plan::Homes &homes_;  // of the result and of the old elements
    const Taps down_, across_;
    const DeviceTaps down_there_, across_there_;
    const int64_t item_, elements_;  // of a new row
    int64_t band_, part_;            // new and old rows at once
    double *sums_ = nullptr, *along_ = nullptr;
    Lane lane_{call_};
    const Stream stream_ = pk::stream();
    const Line *const line_;  // that all of it stands in, if it does
};

}  // namespace

void resize(const Resize &given, Call &call) {
    const std::vector<int> devices = devices_of(call);
    if (given.size == 0) return;
    pk_operand out{};
    out.address = reinterpret_cast<uint64_t>(given.out);
    out.type = given.type;
    out.strides[0] = given.layout.views[0].item;
    const int64_t elements = given.elements();
    const Layout result(&out, 1, &elements, 1, {true});
    plan::Homes homes({{result, result.views[0], true}, {given.layout, given.layout.views[0], false}}, call,
                      {devices[0]}, true);
    const CurrentDevice current(devices[0]);
    Resizer(given, call, devices[0], result, homes).run();
    homes.settle();
}

}  // namespace pk::image
