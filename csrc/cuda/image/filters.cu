#include "filters.cuh"

#include <cstring>

#include "common/image.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/pipeline/pipeline.h"
#include "cuda/residency/operands.h"
#include "cuda/runtime/tuning.h"

namespace pk::image::filters {

namespace {

// Bytes of an image and its result, of which several may share a chunk; a larger one goes in bands.
constexpr int64_t SMALL_IMAGE = 1 << 20;
// Bytes of a band and its result that are worth what is staged around it, if the window's rows are more.
constexpr int64_t WORTHWHILE_BAND = 4 << 20;
// Bytes that are better copied than read over the link by each window that has them.
constexpr int64_t WORTH_COPYING = 512 << 10;

// The weights on each of a call's devices, in the type of the sums.
class Weights {
   public:
    Weights(const Filter &filter, Call &call, const std::vector<int> &devices) {
        if (!filter.sums()) return;
        std::vector<double> all = filter.weights;
        all.insert(all.end(), filter.down.begin(), filter.down.end());
        all.insert(all.end(), filter.across.begin(), filter.across.end());
        const std::vector<float> narrow(all.begin(), all.end());
        const bool is_double = filter.arithmetic == Sums::float64;
        const void *const from = is_double ? static_cast<const void *>(all.data()) : narrow.data();
        resident_.add_parameters(from, int64_t(all.size() * (is_double ? sizeof(double) : sizeof(float))));
        if (!resident_.upload(call, devices)) {
            fail(PK_OUT_OF_MEMORY,
                 "other calls have all of PYCUDAKIT_DEVICE_MEMORY, and none is left for a filter's weights");
        }
    }
    const void *on(int place) const { return resident_.on(place); }

   private:
    Resident resident_;
};

// Whole images, or bands of rows.
class Filtering : public Work {
   public:
    Filtering(const Filter &filter, const Weights &weights, const plan::Homes &homes, const Layout &layout,
              bool in_bands)
        : Work(layout, loads_of(filter, homes, in_bands), homes.stores(1), 0, 0),
          filter_(filter),
          weights_(weights),
          homes_(homes),
          in_bands_(in_bands) {
        unit_elements = in_bands ? filter.row() : filter.image();
        may_stay = may_stay && layout.size * carried_bytes < WORTH_COPYING;
        alone = may_queue = true;
        if (!in_bands || loads.empty()) return;
        const int64_t worthwhile = WORTHWHILE_BAND / (filter.row() * bytes_of_both(filter));
        least_units = std::clamp<int64_t>(4 * (filter.height - 1), 1, std::max<int64_t>(1, worthwhile));
    }

    static int64_t bytes_of_both(const Filter &filter) {
        return size_of(filter.type) + size_of(filter.result_type);
    }

    int64_t units() const override { return layout.size / unit_elements; }
    int64_t start(int64_t unit) const override { return unit * unit_elements; }

    // No chunk has bands of two images.
    std::vector<pk_range> ranges() const {
        if (!in_bands_) return {{0, units()}};
        std::vector<pk_range> ranges;
        for (int64_t image = 0; image < filter_.batch; ++image)
            ranges.push_back({image * filter_.rows, filter_.rows});
        return ranges;
    }

    // Of a band, the rows that the window reaches above and below it come along, from where the border's mode
    // has them.
    void stage(const Carried &load, const Chunk &chunk, char *to) const override {
        if (!in_bands_) return Work::stage(load, chunk, to);
        const int64_t bytes = filter_.row() * load.item;
        const int64_t first = first_row(chunk);
        const char *const image = filter_.in + (chunk.units.start - first) * bytes;
        const int64_t begin = first - filter_.above;
        const int64_t end = first + chunk.units.count + filter_.below();
        const int64_t low = std::max<int64_t>(begin, 0), high = std::min(end, filter_.rows);
        std::memcpy(to + (low - begin) * bytes, image + low * bytes, size_t((high - low) * bytes));
        auto copy_rows = [&](int64_t from, int64_t until) {
            for (int64_t row = from; row < until; ++row) {
                const int64_t source = inside(filter_.border, row, filter_.rows);
                char *const place = to + (row - begin) * bytes;
                if (source < 0) {
                    std::memset(place, 0, size_t(bytes));  // which the kernel does not look at
                } else {
                    std::memcpy(place, image + source * bytes, size_t(bytes));
                }
            }
        };
        copy_rows(begin, low);
        copy_rows(high, end);
    }

    void launch(const Chunk &chunk) override {
        device::Given given = given_of(chunk);
        if (!filter_.sums()) {
            launch<device::OrderTile, uint32_t>(given, chunk);
        } else if (filter_.arithmetic == Sums::float64) {
            launch<device::SumTile<double>, double>(given, chunk);
        } else {
            launch<device::SumTile<float>, float>(given, chunk);
        }
    }

    void collect(const void *) override {}

   private:
    static std::vector<Carried> loads_of(const Filter &filter, const plan::Homes &homes, bool in_bands) {
        std::vector<Carried> loads = homes.loads({0});
        if (!loads.empty() && in_bands) loads[0].halo = (filter.height - 1) * filter.row();
        return loads;
    }

    // Of its image.
    int64_t first_row(const Chunk &chunk) const { return in_bands_ ? chunk.units.start % filter_.rows : 0; }

    device::Given given_of(const Chunk &chunk) const {
        device::Given given{};
        given.in = homes_.at(*this, chunk, 0);
        given.out = homes_.at(*this, chunk, 1);
        given.weights = weights_.on(chunk.device);
        given.type = filter_.type;
        given.result_type = filter_.result_type;
        given.kind = filter_.kind;
        given.border = filter_.border;
        given.height = int(filter_.height);
        given.width = int(filter_.width);
        given.above = int(filter_.above);
        given.left = int(filter_.left);
        given.rank = int(filter_.rank());
        given.outside = float(filter_.outside);
        given.rows = filter_.rows;
        given.columns = filter_.columns;
        given.channels = filter_.channels;
        given.first_row = first_row(chunk);
        given.band_rows = in_bands_ ? chunk.units.count : filter_.rows;
        given.has_halo = in_bands_ && !loads.empty();
        if (loads.empty()) given.in -= given.first_row * filter_.row() * layout.views[0].item;
        return given;
    }

    template <class Tile, class Sum>
    void launch(device::Given &given, const Chunk &chunk) const {
        constexpr int64_t ROWS = device::ROWS<Sum>, COLUMNS = device::COLUMNS;
        given.row_tiles = (given.band_rows + ROWS - 1) / ROWS;
        given.column_tiles = (given.columns + COLUMNS - 1) / COLUMNS;
        const int64_t images = in_bands_ ? 1 : chunk.units.count;
        const int64_t blocks = images * given.row_tiles * given.column_tiles * given.channels;
        if (blocks > INT32_MAX) fail(PK_INVALID_ARGUMENT, "a chunk has too many tiles");
        const int64_t reach_rows = ROWS + given.height - 1, reach_columns = COLUMNS + given.width - 1;
        const int64_t shared = reach_rows * (COLUMNS * int64_t(sizeof(Sum)) + reach_columns * 4);
        device::filter<Tile><<<unsigned(blocks), device::THREADS, size_t(shared), chunk.queue>>>(given);
        PK_CUDA(cudaGetLastError());
    }

    const Filter &filter_;
    const Weights &weights_;
    const plan::Homes &homes_;
    const bool in_bands_;
};

// The elements of all images, as the engine walks them.
Layout layout_of(const Filter &filter) {
    pk_operand operands[2]{};
    const char *const addresses[] = {filter.in, filter.out};
    const int types[] = {filter.type, filter.result_type};
    for (int i = 0; i < 2; ++i) {
        operands[i].type = types[i];
        operands[i].strides[0] = size_of(types[i]);
        operands[i].address = reinterpret_cast<uint64_t>(addresses[i]);
    }
    const int64_t size = filter.elements();
    return Layout(operands, 2, &size, 1, {false, true});
}

}  // namespace

}  // namespace pk::image::filters

void pk::image::filter(const filters::Filter &filter, Call &call) {
    using namespace filters;
    const std::vector<int> devices = devices_of(call);
    if (filter.elements() == 0) return;
    const Layout layout = layout_of(filter);
    plan::Homes homes({{layout, layout.views[0], false}, {layout, layout.views[1], true}}, call, devices,
                      true);
    const Weights weights(filter, call, devices);
    const int64_t small = std::min(SMALL_IMAGE, tuned(Tune::chunk_bytes) / 2);
    const bool is_carried = homes.of(0).at == nullptr || !homes.stores(1).empty();
    const bool in_bands = is_carried && filter.image() * Filtering::bytes_of_both(filter) > small;
    Filtering work(filter, weights, homes, layout, in_bands);
    stream(work, call, devices, work.ranges());
    homes.settle();
}
