// Matrix products on the CPU, for C callers and for types that no BLAS has: blocked by tiles of the result.
// One thread computes a tile, and packs the panels that it reads.
#include "common/matmul.h"

#include <cstring>
#include <memory>

#include "common/call/parallel_for.h"
#include "loops.h"

namespace pk::matmul {

namespace {

constexpr int64_t STRIP = MatmulLoops::STRIP, HEIGHT = 16 * STRIP, DEPTH = 256;

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

// Packs elements (i, d) of a matrix, at from[i * row + d * column], in groups of `wide` rows, interleaved
// element by element.
template <class Kind>
void pack(const typename Kind::Element *from, int64_t row, int64_t column, int64_t rows, int64_t depth,
          int64_t wide, typename Kind::Total *to) {
    using Total = typename Kind::Total;
    for (int64_t start = 0; start < rows; start += wide, to += wide * depth) {
        const int64_t count = std::min(wide, rows - start);
        const typename Kind::Element *const group = from + start * row;
        if (count < wide) std::fill_n(to, wide * depth, Total(0));
        if (row == 1) {
            for (int64_t d = 0; d < depth; ++d) {
                for (int64_t i = 0; i < count; ++i) to[d * wide + i] = Kind::load(group[i + d * column]);
            }
        } else {
            for (int64_t i = 0; i < count; ++i) {
                for (int64_t d = 0; d < depth; ++d)
                    to[d * wide + i] = Kind::load(group[i * row + d * column]);
            }
        }
    }
}

template <class Kind>
class Tiles {
    using Element = typename Kind::Element;
    using Total = typename Kind::Total;
    static constexpr int64_t WIDE = MatmulLoops::WIDE_BYTES / int64_t(sizeof(Total)), WIDTH = 4 * WIDE;

   public:
    Tiles(const Product &given, Call &call) : given_(given), call_(call) {}

    static int64_t count(const Product &given) {
        return given.batch * ((given.m + HEIGHT - 1) / HEIGHT) * ((given.n + WIDTH - 1) / WIDTH);
    }

    void run(int64_t tile) {
        const int64_t across = (given_.n + WIDTH - 1) / WIDTH, down = (given_.m + HEIGHT - 1) / HEIGHT;
        const int64_t pair = tile / (across * down);
        const int64_t top = tile / across % down * HEIGHT, left = tile % across * WIDTH;
        const int64_t rows = std::min(HEIGHT, given_.m - top), columns = std::min(WIDTH, given_.n - left);
        const int64_t height = (rows + STRIP - 1) / STRIP * STRIP, width = (columns + WIDE - 1) / WIDE * WIDE;
        const int64_t m = given_.m, n = given_.n, k = given_.k;
        const auto *a = static_cast<const Element *>(given_.a) + given_.places[2 * pair] * m * k;
        const auto *b = static_cast<const Element *>(given_.b) + given_.places[2 * pair + 1] * k * n;
        const int64_t a_row = given_.transposed_a ? 1 : k, a_column = given_.transposed_a ? m : 1;
        const int64_t b_row = given_.transposed_b ? 1 : n, b_column = given_.transposed_b ? k : 1;
        std::fill_n(sums_.get(), height * width, Total(0));
        for (int64_t d = 0; d < k; d += DEPTH) {
            const int64_t depth = std::min(DEPTH, k - d);
            pack<Kind>(a + top * a_row + d * a_column, a_row, a_column, rows, depth, STRIP, rows_.get());
            pack<Kind>(b + left * b_column + d * b_row, b_column, b_row, columns, depth, WIDE,
                       columns_.get());
            loop_(rows_.get(), columns_.get(), sums_.get(), height, width, depth);
            call_.check_interrupt();
        }
        auto *c = static_cast<Element *>(given_.c) + (pair * m + top) * n + left;
        for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
                const Total sum = sums_[size_t(i * width + j)];
                const Element stored = Kind::store(sum);
                if constexpr (is_float_kind<Kind>) raised_ |= fp_exceptions_of(Kind::load(stored));
                c[i * n + j] = stored;
            }
        }
        call_.advance(rows * columns);
    }

    int64_t raised() const { return raised_; }

   private:
    static std::unique_ptr<Total[]> room(int64_t elements) {
        return std::unique_ptr<Total[]>(new Total[size_t(elements)]);
    }

    const Product &given_;
    Call &call_;
    const MatmulLoop loop_ = loop_of<Kind>();
    int64_t raised_ = 0;
    const std::unique_ptr<Total[]> rows_ = room(HEIGHT * DEPTH), columns_ = room(WIDTH * DEPTH),
                                   sums_ = room(HEIGHT * WIDTH);
};

// A matrix-vector product is computed as the vector times the transposed matrix, so that rows fill whole
// vectors.
Product transposed(const Product &given) {
    Product result = given;
    std::swap(result.a, result.b);
    std::swap(result.m, result.n);
    result.transposed_a = !given.transposed_b;
    result.transposed_b = !given.transposed_a;
    return result;
}

template <class Kind>
void launch(const Product &asked, Call &call) {
    if (clear_if_empty<Kind>(asked)) return;
    Product given = asked;
    std::vector<int64_t> places;
    if (asked.n == 1 && asked.m > 1) {
        given = transposed(asked);
        for (int64_t i = 0; i < asked.batch; ++i) {
            places.push_back(asked.places[2 * i + 1]);
            places.push_back(asked.places[2 * i]);
        }
        given.places = places.data();
    }
    const int64_t tiles = Tiles<Kind>::count(given);
    constexpr double WORTH_A_THREAD = 1 << 20;  // multiplications
    const double products = double(given.elements()) * double(given.k);
    const int64_t most = int64_t(std::min(products / WORTH_A_THREAD, 1e6)) + 1;
    const int64_t share = std::max<int64_t>(1, tiles / (64 * thread_count()));
    parallel_for(
        call, tiles, share, std::min({tiles, most, thread_count()}), [&] { return Tiles<Kind>(given, call); },
        [&](Tiles<Kind> &work, int64_t first, int64_t count) {
            for (int64_t tile = first; tile < first + count; ++tile) work.run(tile);
            return count;
        },
        [&](Tiles<Kind> &work) { call.report.exceptions |= work.raised(); });
}

}  // namespace

}  // namespace pk::matmul

#define PK_ENTRY(t, T, Kind)                                                                                 \
    extern "C" int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,          \
                                     const int64_t *places, int64_t batch, int64_t flags, int64_t precision, \
                                     int64_t *method, const pk_options *options, pk_report *report) {        \
        const auto check = [&] {                                                                             \
            return pk::matmul::Product(a, b, c, m, n, k, places, batch, flags, precision, method,            \
                                       sizeof(T));                                                           \
        };                                                                                                   \
        return pk::run_entry(options, report, check, pk::matmul::launch<pk::matmul::Kind>);                  \
    }
PK_MATMUL_TYPES(PK_ENTRY)
#undef PK_ENTRY

extern "C" int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found) {
    return pk::guarded([&] {
        (void)pk::matmul::checked_path(path, length, found);
        *found = 0;
    });
}
