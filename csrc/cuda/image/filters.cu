// Image filters in the chunk pipeline: small images whole, large ones in bands of rows with a halo.
#include "filters.cuh"

#include <cstring>

#include "common/image.h"
#include "cuda/pipeline/broadcast_buffers.h"
#include "cuda/residency/execute.h"
#include "cuda/runtime/tuning.h"

namespace pk::image::filters {

namespace {

// Images of at most so many bytes, with their results, are processed whole, several to a chunk; larger ones
// in bands.
constexpr int64_t SMALL_IMAGE = 1 << 20;
// Bytes of a band, with its result, that make its halo worthwhile if the window is high.
constexpr int64_t WORTHWHILE_BAND = 4 << 20;
// Bytes from which copying is faster than zero-copy, where each window reads its elements over the link.
constexpr int64_t WORTH_COPYING = 512 << 10;

// A filter's weights on each device of the call, in the type of the sums.
class Weights {
   public:
    Weights(const Filter &filter, Call &call, const ExecutionContext &context) {
        if (!filter.computes_sums()) return;
        std::vector<double> all = filter.weights;
        all.insert(all.end(), filter.down.begin(), filter.down.end());
        all.insert(all.end(), filter.across.begin(), filter.across.end());
        const std::vector<float> narrow(all.begin(), all.end());
        const bool is_double = filter.arithmetic == Arithmetic::float64;
        const void *const from = is_double ? static_cast<const void *>(all.data()) : narrow.data();
        broadcasts_.add_inline(from, int64_t(all.size() * (is_double ? sizeof(double) : sizeof(float))));
        if (!broadcasts_.upload(call, context)) {
            fail_device_budget("a filter's weights");
        }
    }
    const void *d_data(int device_index) const { return broadcasts_.d_data(device_index); }

   private:
    BroadcastBuffers broadcasts_;
};

// Filters whole images, or bands of rows of one image.
class FilterAlgorithm : public DeviceAlgorithm {
   public:
    FilterAlgorithm(const Filter &filter, const Weights &weights, const Operands &operands,
                    const Layout &layout, bool in_bands)
        : DeviceAlgorithm(layout, loads_of(filter, operands, in_bands), operands.stores(1), 0, 0),
          filter_(filter),
          weights_(weights),
          operands_(operands),
          in_bands_(in_bands) {
        unit_elements = in_bands ? filter.row() : filter.image();
        allow_zero_copy = allow_zero_copy && layout.size * streamed_bytes < WORTH_COPYING;
        own_stream = can_run_async = true;
        if (!in_bands || loads.empty()) return;
        const int64_t worthwhile = WORTHWHILE_BAND / (filter.row() * bytes_of_both(filter));
        min_units = std::clamp<int64_t>(4 * (filter.height - 1), 1, std::max<int64_t>(1, worthwhile));
    }

    static int64_t bytes_of_both(const Filter &filter) {
        return size_of(filter.type) + size_of(filter.result_type);
    }

    int64_t units() const override { return layout.size / unit_elements; }
    int64_t start(int64_t unit) const override { return unit * unit_elements; }

    // Return a range for each image if it is processed in bands: no chunk has rows of two images.
    std::vector<pk_range> ranges() const {
        if (!in_bands_) return {{0, units()}};
        std::vector<pk_range> ranges;
        for (int64_t image = 0; image < filter_.batch; ++image)
            ranges.push_back({image * filter_.rows, filter_.rows});
        return ranges;
    }

    // Stage a band with its halo: the rows above and below it that the window reaches, as the border mode
    // defines them.
    void stage(const StreamedOperand &load, const Chunk &chunk, char *to) const override {
        if (!in_bands_) return DeviceAlgorithm::stage(load, chunk, to);
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
                    std::memset(place, 0, size_t(bytes));  // not read by the kernel
                } else {
                    std::memcpy(place, image + source * bytes, size_t(bytes));
                }
            }
        };
        copy_rows(begin, low);
        copy_rows(high, end);
    }

    void enqueue(const Chunk &chunk) override {
        device::FilterParams params = params_for(chunk);
        if (!filter_.computes_sums()) {
            launch<device::OrderTile, uint32_t>(params, chunk);
        } else if (filter_.arithmetic == Arithmetic::float64) {
            launch<device::SumTile<double>, double>(params, chunk);
        } else {
            launch<device::SumTile<float>, float>(params, chunk);
        }
    }

    void collect(const void *) override {}

   private:
    static std::vector<StreamedOperand> loads_of(const Filter &filter, const Operands &operands,
                                                 bool in_bands) {
        std::vector<StreamedOperand> loads = operands.loads({0});
        if (!loads.empty() && in_bands) loads[0].halo = (filter.height - 1) * filter.row();
        return loads;
    }

    // Return the chunk's first row within its image.
    int64_t first_row(const Chunk &chunk) const { return in_bands_ ? chunk.units.start % filter_.rows : 0; }

    device::FilterParams params_for(const Chunk &chunk) const {
        device::FilterParams params{};
        params.in = operands_.d_data(*this, chunk, 0);
        params.out = operands_.d_data(*this, chunk, 1);
        params.weights = weights_.d_data(chunk.device_index);
        params.type = filter_.type;
        params.result_type = filter_.result_type;
        params.kind = filter_.kind;
        params.border = filter_.border;
        params.height = int(filter_.height);
        params.width = int(filter_.width);
        params.above = int(filter_.above);
        params.left = int(filter_.left);
        params.rank = int(filter_.rank());
        params.border_value = float(filter_.border_value);
        params.rows = filter_.rows;
        params.columns = filter_.columns;
        params.channels = filter_.channels;
        params.first_row = first_row(chunk);
        params.band_rows = in_bands_ ? chunk.units.count : filter_.rows;
        params.has_halo = in_bands_ && !loads.empty();
        if (loads.empty()) params.in -= params.first_row * filter_.row() * layout.views[0].item;
        return params;
    }

    template <class Tile, class Sum>
    void launch(device::FilterParams &params, const Chunk &chunk) const {
        constexpr int64_t ROWS = device::ROWS<Sum>, COLUMNS = device::COLUMNS;
        params.row_tiles = ceil_div(params.band_rows, ROWS);
        params.column_tiles = ceil_div(params.columns, COLUMNS);
        const int64_t images = in_bands_ ? 1 : chunk.units.count;
        const int64_t blocks = images * params.row_tiles * params.column_tiles * params.channels;
        if (blocks > INT32_MAX) fail(PK_INVALID_ARGUMENT, "a chunk has too many tiles");
        const int64_t reach_rows = ROWS + params.height - 1, reach_columns = COLUMNS + params.width - 1;
        const int64_t shared = reach_rows * (COLUMNS * int64_t(sizeof(Sum)) + reach_columns * 4);
        device::filter<Tile><<<unsigned(blocks), device::THREADS, size_t(shared), chunk.stream>>>(params);
        PK_CUDA(cudaGetLastError());
    }

    const Filter &filter_;
    const Weights &weights_;
    const Operands &operands_;
    const bool in_bands_;
};

// Return the layout of the elements of all images, as one dimension.
Layout layout_of(const Filter &filter) {
    return Layout::contiguous({{filter.in, filter.type}, {filter.out, filter.result_type}},
                              filter.elements());
}

}  // namespace

}  // namespace pk::image::filters

void pk::image::filter(const filters::Filter &filter, Call &call) {
    using namespace filters;
    const ExecutionContext context(call);
    if (filter.elements() == 0) return;
    const Layout layout = layout_of(filter);
    Operands operands({{layout, layout.views[0], false}, {layout, layout.views[1], true}}, call, context);
    const Weights weights(filter, call, context);
    const int64_t small = std::min(SMALL_IMAGE, tuned(Tune::chunk_bytes) / 2);
    const bool is_streamed = operands.of(0).d_data == nullptr || !operands.stores(1).empty();
    const bool in_bands = is_streamed && filter.image() * FilterAlgorithm::bytes_of_both(filter) > small;
    FilterAlgorithm algorithm(filter, weights, operands, layout, in_bands);
    execute(algorithm, operands, call, context, algorithm.ranges());
    operands.commit();
}
