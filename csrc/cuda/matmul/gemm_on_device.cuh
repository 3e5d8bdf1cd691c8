// The device's side of a matrix product: its tiles and panels, their places in one piece of device memory,
// and the launches for a panel. Operands that are on the device are used in place, with the same tiling, so
// that results have the same bits.
#pragma once

#include <optional>
#include <vector>

#include "common/call/thread_pool.h"
#include "cuda/pipeline/staging_slots.h"
#include "cuda/runtime/tuning.h"
#include "gemm_backends.cuh"
#include "host_matrix.h"

namespace pk::matmul {

// Bytes of a product for each host thread that it wakes.
constexpr int64_t BYTES_PER_THREAD = 1 << 20;

// Return the bytes of an element as a factor, as a sum, and as a factor that is widened or split.
template <class Kind>
ElementBytes element_bytes_of(GemmAlgorithm algorithm) {
    return {int64_t(sizeof(typename Kind::Element)), int64_t(sizeof(typename Kind::Total)),
            algorithm == GemmAlgorithm::split            ? 4
            : algorithm == GemmAlgorithm::float64_cublas ? 8
                                                         : 0};
}

// Return the number of staging slots, one for each host thread, that the budget has to have room for. Slots
// take at most half of it.
template <class Kind>
int64_t slots_reserved(const Product &product) {
    const double bytes = double(sizeof(typename Kind::Element)) * double(product.batch) *
                         (double(product.m) * double(product.k) + double(product.k) * double(product.n) +
                          double(product.m) * double(product.n));
    const auto most = int64_t(std::min(bytes / double(BYTES_PER_THREAD), 1e6)) + 1;
    const int64_t fitting = DevicePool::staging_budget() / 2 / Lease::default_size(Lease::staged).device;
    return std::min({most, tuned(Tune::threads), std::max<int64_t>(1, fitting)});
}

// Return half of a slot's pinned memory, which is double-buffered.
inline int64_t half_slot_bytes() { return Lease::default_size(Lease::staged).host / 512 * 256; }

// Choose the tiling. It, and so the bits, depend on the sizes and the configured budget alone.
template <class Kind>
GemmTiling tiling_of(const Product &product, GemmAlgorithm algorithm) {
    const int64_t longest = half_slot_bytes() / int64_t(sizeof(double));
    const int64_t available = DevicePool::staging_budget() -
                              slots_reserved<Kind>(product) * Lease::default_size(Lease::staged).device;
    GemmTiling tiling{};
    if (!GemmTiling::best(product, element_bytes_of<Kind>(algorithm), available, longest, tiling))
        fail_device_budget("a matrix product");
    return tiling;
}

template <class Kind>
class GemmOnDevice {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;

   public:
    // `resident` has the device addresses of the operands that are on the device, and null for the others.
    GemmOnDevice(const Product &product, const Product &resident, int device, GemmAlgorithm algorithm)
        : tiling(tiling_of<Kind>(product, algorithm)),
          element_bytes(element_bytes_of<Kind>(algorithm)),
          product_(product),
          resident_(resident),
          device_(device),
          algorithm_(algorithm) {
        const int64_t depths = tiling.panels(product_);
        for (int64_t pair = 0; pair < product_.batch; pair += tiling.pairs) {
            for (int64_t row = 0; row < product_.m; row += tiling.rows) {
                for (int64_t column = 0; column < product_.n; column += tiling.columns) {
                    tiles.push_back({pair, std::min(tiling.pairs, product_.batch - pair), row,
                                     std::min(tiling.rows, product_.m - row), column,
                                     std::min(tiling.columns, product_.n - column)});
                }
            }
        }
        for (int64_t tile = 0; tile < int64_t(tiles.size()); ++tile) {
            for (int64_t d = 0; d < depths; ++d) {
                const int64_t start = d * tiling.depth;
                panels.push_back({tile, start, std::min(tiling.depth, product_.k - start)});
            }
        }
    }

    // Set the memory, of tiling.bytes() bytes. It begins with the status words: floating-point exceptions,
    // and whether a factor that was split is not finite.
    void set_memory(char *d_memory) {
        d_memory_ = d_memory;
        accumulates_in_place_ = can_accumulate_in_place();
    }
    unsigned *d_status() const { return reinterpret_cast<unsigned *>(d_memory_); }
    char *totals(int64_t tile) const {
        return accumulates_in_place_ ? resident_result(tile) : staging_totals(tile);
    }
    char *factors(int64_t panel) const {
        return d_memory_ + GemmTiling::STATUS_BYTES + tiling.totals * tiling.total_bytes() +
               panel % GemmTiling::PANELS * tiling.panel_bytes();
    }
    bool is_first(int64_t panel) const { return panels[size_t(panel)].start == 0; }
    bool is_last(int64_t panel) const {
        const Panel &current = panels[size_t(panel)];
        return current.start + current.depth == product_.k;
    }

    // Enqueue the product of a panel.
    void enqueue_panel(int64_t index, cudaStream_t stream) const {
        const Panel &panel = panels[size_t(index)];
        const OutputTile &output = tiles[size_t(panel.tile)];
        const PanelGemm<Kind> product{product_, algorithm_, device_, scratch(), d_status() + 1, d_run_if_};
        const HostOperands<Kind> resident{resident_};
        char *a = factors(index), *b = a + output.pairs * output.rows * panel.depth * element_bytes.factor;
        if (resident_.a != nullptr) a = factor_on_device(resident.of_a(output, panel), a, stream);
        if (resident_.b != nullptr) b = factor_on_device(resident.of_b(output, panel), b, stream);
        product.enqueue(stream, output, panel, a, b, totals(panel.tile));
    }

    // Enqueue the work after the last panel of a tile: exception flags, and the result, if it is on the
    // device.
    void enqueue_result(int64_t tile, bool reports_exceptions, cudaStream_t stream) const {
        const OutputTile &output = tiles[size_t(tile)];
        const int64_t count = output.pairs * output.rows * output.columns;
        const auto *const sums = reinterpret_cast<const Total *>(totals(tile));
        if constexpr (is_float_kind<Kind>) {
            if (reports_exceptions) {
                device::flag_exceptions<Kind>
                    <<<grid_for(count, device::THREADS), device::THREADS, 0, stream>>>(sums, count,
                                                                                       d_status());
                PK_CUDA(cudaGetLastError());
            }
        }
        if (resident_.c == nullptr || accumulates_in_place_) return;
        device::store<Kind><<<grid_for(count, device::THREADS), device::THREADS, 0, stream>>>(
            sums, reinterpret_cast<Element *>(resident_result(tile)), product_.n, output.columns, count,
            d_run_if_);
        PK_CUDA(cudaGetLastError());
    }

    // Enqueue the whole product, of operands that are all on the device.
    void enqueue(bool reports_exceptions, cudaStream_t stream) const {
        for (int64_t panel = 0; panel < int64_t(panels.size()); ++panel) {
            enqueue_panel(panel, stream);
            if (is_last(panel)) enqueue_result(panels[size_t(panel)].tile, reports_exceptions, stream);
        }
    }

    // Make the kernels that are enqueued from now on compute again, by our own kernel, the products
    // whose operands an infinity or NaN kept from being split. Only the device knows whether there is any.
    void repeat_if_not_finite() {
        algorithm_ = GemmAlgorithm::kernel;
        d_run_if_ = d_status() + 1;
    }

    const GemmTiling tiling;
    const ElementBytes element_bytes;
    std::vector<OutputTile> tiles;
    std::vector<Panel> panels;

   private:
    char *staging_totals(int64_t tile) const {
        return d_memory_ + GemmTiling::STATUS_BYTES + tile % tiling.totals * tiling.total_bytes();
    }
    char *scratch() const { return factors(0) + GemmTiling::PANELS * tiling.panel_bytes(); }

    // cuBLAS picks kernels by pointer alignment. A resident operand is used in place only if it has the
    // alignment of the staged copy, so that both select the same kernel and give the same bits.
    static bool same_alignment(const char *resident, const char *staged) {
        return (resident - staged) % DEVICE_ALIGNMENT == 0;
    }

    char *resident_result(int64_t tile) const {
        return HostOperands<Kind>{resident_}.of_c(tiles[size_t(tile)]).base;
    }
    bool can_accumulate_in_place() const {
        bool can =
            resident_.c != nullptr && std::is_same<Element, Total>::value && tiling.columns >= product_.n;
        for (int64_t tile = 0; can && tile < int64_t(tiles.size()); ++tile)
            can = same_alignment(resident_result(tile), staging_totals(tile));
        return can;
    }
    // Return the address of a resident factor of a panel: in place, or gathered to `to`, the staged copy's
    // address.
    char *factor_on_device(const HostMatrixView &resident, char *to, cudaStream_t stream) const {
        if (algorithm_ != GemmAlgorithm::split && resident.are_dense() && same_alignment(resident.row(0), to))
            return resident.row(0);
        constexpr auto item = int64_t(sizeof(Element));
        const int64_t columns = resident.run / item;
        auto copy = [&](int64_t first, int64_t rows) {
            device::gather<<<grid_for(rows * columns, device::THREADS), device::THREADS, 0, stream>>>(
                reinterpret_cast<const Element *>(resident.row(first)), resident.pitch / item,
                reinterpret_cast<Element *>(to + first * resident.run), columns, rows * columns, d_run_if_);
            PK_CUDA(cudaGetLastError());
        };
        if (resident.are_dense()) {
            copy(0, resident.all_rows());
        } else {
            for (int64_t pair = 0; pair < resident.pairs; ++pair) copy(pair * resident.rows, resident.rows);
        }
        return to;
    }

    const Product &product_, &resident_;
    const int device_;
    GemmAlgorithm algorithm_;
    char *d_memory_ = nullptr;
    bool accumulates_in_place_ = false;   // sums are in the resident result itself
    const unsigned *d_run_if_ = nullptr;  // predicate of the kernels, if not null
};

}  // namespace pk::matmul
