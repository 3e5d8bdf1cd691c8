// Matrix products on the CPU, for C callers and for types that no BLAS has. The result is divided into tiles;
// one thread computes a tile, and packs the panels of both factors that the tile needs.
#include "common/matmul.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/call/parallel_for.h"
#include "loops.h"

namespace pk::matmul {

namespace {

// The rows of a packed group of `a`, the rows of a tile, and the depth of its panels.
constexpr int64_t STRIP = MatmulLoops::STRIP, TILE_ROWS = 16 * STRIP, DEPTH = 256;

template <class Kind>
MatmulLoop loop_of() {
    const MatmulLoops &all = loops().matmul;
    using Total = typename Kind::Total;
    if (std::is_same<Kind, Bool>::value) return all.logical;
    if (std::is_same<Total, float>::value) return all.float32;
    if (std::is_same<Total, double>::value) return all.float64;
    switch (sizeof(Total)) {
        case 1: return all.integer8;
        case 2: return all.integer16;
        case 4: return all.integer32;
        default: return all.integer64;
    }
}

// Packs elements (i, d) of a matrix, at from[i * row_stride + d * column_stride], in groups of `group_size`
// rows. In a group, element d of all rows comes before element d + 1. The last group is filled up with zeros.
template <class Kind>
void pack(const typename Kind::Element *from, int64_t row_stride, int64_t column_stride, int64_t rows,
          int64_t depth, int64_t group_size, typename Kind::Total *to) {
    using Total = typename Kind::Total;
    for (int64_t start = 0; start < rows; start += group_size, to += group_size * depth) {
        const int64_t count = std::min(group_size, rows - start);
        const typename Kind::Element *const group = from + start * row_stride;
        if (count < group_size) std::fill_n(to, group_size * depth, Total(0));
        if (row_stride == 1) {
            for (int64_t d = 0; d < depth; ++d) {
                for (int64_t i = 0; i < count; ++i)
                    to[d * group_size + i] = Kind::load(group[i + d * column_stride]);
            }
        } else {
            for (int64_t i = 0; i < count; ++i) {
                for (int64_t d = 0; d < depth; ++d)
                    to[d * group_size + i] = Kind::load(group[i * row_stride + d * column_stride]);
            }
        }
    }
}

template <class Kind>
class Tiles {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;
    // The columns of a packed group of `b`, and the columns of a tile.
    static constexpr int64_t GROUP_COLUMNS = MatmulLoops::GROUP_BYTES / int64_t(sizeof(Total)),
                             TILE_COLUMNS = 4 * GROUP_COLUMNS;

   public:
    Tiles(const Product &product, Call &call) : product_(product), call_(call) {}

    static int64_t count(const Product &product) {
        return product.batch * ceil_div(product.m, TILE_ROWS) * ceil_div(product.n, TILE_COLUMNS);
    }

    void run(int64_t tile) {
        const int64_t across = ceil_div(product_.n, TILE_COLUMNS), down = ceil_div(product_.m, TILE_ROWS);
        const int64_t pair = tile / (across * down);
        const int64_t top = tile / across % down * TILE_ROWS, left = tile % across * TILE_COLUMNS;
        const int64_t rows = std::min(TILE_ROWS, product_.m - top),
                      columns = std::min(TILE_COLUMNS, product_.n - left);
        // Padded to whole groups.
        const int64_t height = align_up(rows, STRIP);
        const int64_t width = align_up(columns, GROUP_COLUMNS);
        const int64_t m = product_.m, n = product_.n, k = product_.k;
        const auto *a = static_cast<const Element *>(product_.a) + product_.index_pairs[2 * pair] * m * k;
        const auto *b = static_cast<const Element *>(product_.b) + product_.index_pairs[2 * pair + 1] * k * n;
        const int64_t a_row_stride = product_.transposed_a ? 1 : k,
                      a_column_stride = product_.transposed_a ? m : 1;
        const int64_t b_row_stride = product_.transposed_b ? 1 : n,
                      b_column_stride = product_.transposed_b ? k : 1;
        std::fill_n(sums_.get(), height * width, Total(0));
        for (int64_t d = 0; d < k; d += DEPTH) {
            const int64_t depth = std::min(DEPTH, k - d);
            pack<Kind>(a + top * a_row_stride + d * a_column_stride, a_row_stride, a_column_stride, rows,
                       depth, STRIP, rows_.get());
            pack<Kind>(b + left * b_column_stride + d * b_row_stride, b_column_stride, b_row_stride, columns,
                       depth, GROUP_COLUMNS, columns_.get());
            loop_(rows_.get(), columns_.get(), sums_.get(), height, width, depth);
            call_.check_interrupt();
        }
        auto *c = static_cast<Element *>(product_.c) + (pair * m + top) * n + left;
        for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
                const Total sum = sums_[size_t(i * width + j)];
                const Element stored = Kind::store(sum);
                // Any infinite or NaN result raises a flag, for whatever reason.
                if constexpr (is_float_kind<Kind>) raised_ |= fp_exceptions_of(Kind::load(stored));
                c[i * n + j] = stored;
            }
        }
        call_.advance(rows * columns);
    }

    int64_t raised() const { return raised_; }

   private:
    static std::unique_ptr<Total[]> uninitialized(int64_t elements) {
        return std::unique_ptr<Total[]>(new Total[size_t(elements)]);
    }

    const Product &product_;
    Call &call_;
    const MatmulLoop loop_ = loop_of<Kind>();
    int64_t raised_ = 0;
    const std::unique_ptr<Total[]> rows_ = uninitialized(TILE_ROWS * DEPTH),
                                   columns_ = uninitialized(TILE_COLUMNS * DEPTH),
                                   sums_ = uninitialized(TILE_ROWS * TILE_COLUMNS);
};

// Returns the product of the transposed factors in exchanged order: the transposed result. A matrix times a
// vector is computed so, as one row, because rows of sums fill whole SIMD vectors.
Product transposed(const Product &product) {
    Product result = product;
    std::swap(result.a, result.b);
    std::swap(result.m, result.n);
    result.transposed_a = !product.transposed_b;
    result.transposed_b = !product.transposed_a;
    return result;
}

template <class Kind>
void launch(const Product &request, Call &call) {
    if (clear_if_empty<Kind>(request)) return;
    Product product = request;
    std::vector<int64_t> index_pairs;
    if (request.n == 1 && request.m > 1) {
        product = transposed(request);
        for (int64_t i = 0; i < request.batch; ++i) {
            index_pairs.push_back(request.index_pairs[2 * i + 1]);
            index_pairs.push_back(request.index_pairs[2 * i]);
        }
        product.index_pairs = index_pairs.data();
    }
    const int64_t tiles = Tiles<Kind>::count(product);
    constexpr double WORTH_A_THREAD = 1 << 20;  // multiplications
    const double multiplications = double(product.elements()) * double(product.k);
    const int64_t threads = int64_t(std::min(multiplications / WORTH_A_THREAD, 1e6)) + 1;
    const int64_t grain = std::max<int64_t>(1, tiles / (64 * thread_count()));
    parallel_for(
        call, tiles, grain, std::min({tiles, threads, thread_count()}),
        [&] { return Tiles<Kind>(product, call); },
        [&](Tiles<Kind> &work, int64_t first, int64_t count) {
            for (int64_t tile = first; tile < first + count; ++tile) work.run(tile);
            return count;
        },
        [&](Tiles<Kind> &work) { call.report.exceptions |= work.raised(); });
}

void launch_operands(const Product &product, Call &call) {
    visit_arithmetic(product.type, [&](auto kind) { launch<decltype(kind)>(product, call); });
}

}  // namespace

}  // namespace pk::matmul

#define PK_ENTRY(t, T, Kind)                                                                           \
    extern "C" int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,    \
                                     const int64_t *index_pairs, int64_t batch, int64_t flags,         \
                                     int64_t precision, int64_t *method, const pk_options *options,    \
                                     pk_report *report) {                                              \
        const auto check = [&] {                                                                       \
            return pk::matmul::Product(a, b, c, m, n, k, index_pairs, batch, flags, precision, method, \
                                       sizeof(T));                                                     \
        };                                                                                             \
        return pk::run_entry(options, report, check, pk::matmul::launch<pk::matmul::Kind>);            \
    }
PK_MATMUL_TYPES(PK_ENTRY)
#undef PK_ENTRY

extern "C" int32_t pk_matmul(const pk_operand *operands, int64_t m, int64_t n, int64_t k,
                             const int64_t *index_pairs, int64_t batch, int64_t flags, int64_t precision,
                             int64_t *method, const pk_options *options, pk_report *report) {
    const auto check = [&] {
        return pk::matmul::product_of(operands, m, n, k, index_pairs, batch, flags, precision, method, 0);
    };
    return pk::run_entry(options, report, check, pk::matmul::launch_operands);
}

// The CPU library has every entry, but finds no cuBLAS.
extern "C" int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found) {
    return pk::guarded([&] {
        (void)pk::matmul::checked_path(path, length, found);
        *found = 0;
    });
}
