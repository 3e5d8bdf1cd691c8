// Layouts of operands: the order of dimensions, and strided copies to and from dense buffers. Transposed
// operands are copied in tiles that fit into registers and cache lines.
#include "layout.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/call/status.h"
#include "types.h"
#include "visit_type.h"

namespace pk {

static int64_t checked_size(const int64_t *dims, int64_t dim_count) {
    int64_t size = 1;
    bool empty = false;
    for (int64_t d = 0; d < dim_count; ++d) {
        require(dims[d] >= 0, "a dimension is negative");
        empty |= dims[d] == 0;
        if (!empty && __builtin_mul_overflow(size, dims[d], &size)) {
            fail(PK_INVALID_ARGUMENT, "the shape has more elements than 64 bits can count");
        }
    }
    return empty ? 0 : size;
}

static uint64_t magnitude(int64_t stride) { return stride < 0 ? 0 - uint64_t(stride) : uint64_t(stride); }

static void check_operand(const pk_operand &operand, int64_t index, const int64_t *dims, int64_t dim_count,
                          bool stored) {
    auto refuse = [index](const char *fault) {
        fail(PK_INVALID_ARGUMENT, "operand " + std::to_string(index) + fault);
    };
    if (operand.address == 0) refuse(" is a null pointer");
    for (int64_t d = 0; d < dim_count; ++d) {
        if (stored && dims[d] > 1 && operand.strides[d] == 0) refuse(" is stored to and has a stride of 0");
    }
}

// Returns the dimensions from the slowest to the fastest, sorted by the strides of stored operands, and where
// these are equal, by those of loaded operands. Dimensions of length 1 are left out.
static std::vector<int64_t> walking_order(const pk_operand *operands, int64_t operand_count,
                                          const int64_t *dims, int64_t dim_count,
                                          const std::vector<bool> &stored) {
    std::vector<int64_t> order;
    for (int64_t d = 0; d < dim_count; ++d) {
        if (dims[d] != 1) order.push_back(d);
    }
    if (order.size() < 2) return order;
    std::vector<int64_t> priority(operand_count);
    std::iota(priority.begin(), priority.end(), 0);
    std::stable_partition(priority.begin(), priority.end(), [&](int64_t i) { return stored[i]; });
    std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
        for (int64_t i : priority) {
            const uint64_t sx = magnitude(operands[i].strides[x]), sy = magnitude(operands[i].strides[y]);
            if (sx != sy) return sx > sy;
        }
        return false;
    });
    return order;
}

Layout::Layout(const pk_operand *operands, int64_t operand_count, const int64_t *dims, int64_t dim_count,
               const std::vector<bool> &stored, int32_t allowed_flags)
    : size(checked_size(dims, dim_count)) {
    views.reserve(size_t(operand_count));
    for (int64_t i = 0; i < operand_count; ++i) {
        const pk_operand &operand = operands[i];
        require((operand.flags & ~allowed_flags) == 0, "an operand has unknown flags");
        if (size != 0) check_operand(operand, i, dims, dim_count, stored[i]);
        const int64_t item = size_of(operand.type);
        const bool swapped = (operand.flags & PK_OPERAND_BYTE_SWAPPED) != 0 && item > 1;
        views.push_back(
            {reinterpret_cast<char *>(operand.address), operand.type, item, swapped, Access::strided, {}});
        views.back().on_device = (operand.flags & PK_ON_DEVICE) != 0;
    }
    if (size == 0) return;  // no element is accessed

    for (int64_t d : walking_order(operands, operand_count, dims, dim_count, stored)) {
        const bool backwards =
            std::all_of(operands, operands + operand_count, [&](auto &o) { return o.strides[d] <= 0; });
        std::vector<int64_t> strides(operand_count);
        bool merges = !shape.empty();
        for (int64_t i = 0; i < operand_count; ++i) {
            strides[i] = operands[i].strides[d];
            if (backwards) {
                views[i].base += (dims[d] - 1) * strides[i];
                strides[i] = -strides[i];
            }
            merges = merges && views[i].strides.back() == strides[i] * dims[d];
        }
        for (int64_t i = 0; i < operand_count; ++i) {
            if (merges) views[i].strides.pop_back();
            views[i].strides.push_back(strides[i]);
        }
        if (merges) {
            shape.back() *= dims[d];
        } else {
            shape.push_back(dims[d]);
        }
    }
    if (shape.empty()) {  // a single element, which counts as contiguous: its stride is one element
        shape.push_back(1);
        for (View &view : views) view.strides.push_back(view.item);
    }

    classify_access();
}

Layout Layout::contiguous(std::initializer_list<ContiguousArray> arrays, int64_t count) {
    Layout layout;
    layout.size = count;
    if (count != 0) layout.shape = {count};
    for (const ContiguousArray &array : arrays) {
        auto *const base = static_cast<char *>(const_cast<void *>(array.address));
        const int64_t item = size_of(array.type);
        layout.views.push_back({base, array.type, item, false, Access::contiguous, {item}});
    }
    return layout;
}

void Layout::classify_access() {
    for (View &view : views) {
        const bool constant =
            std::all_of(view.strides.begin(), view.strides.end(), [](int64_t s) { return s == 0; });
        const bool dense = view.strides.size() == 1 && view.strides[0] == view.item && !view.swapped;
        const bool aligned = reinterpret_cast<uintptr_t>(view.base) % uintptr_t(view.item) == 0;
        view.access = constant ? Access::constant : (dense && aligned ? Access::contiguous : Access::strided);
    }
}

// Calls run(address, stride, elements before this run, elements in this run) for each run of elements along
// the last dimension in [start, start + count).
template <class Run>
static void for_each_run(const Layout &layout, const View &view, int64_t start, int64_t count, Run run) {
    const int64_t last = int64_t(layout.shape.size()) - 1;
    int64_t index[PK_MAX_DIMS + 1];  // layouts of blocks (slabs.h) have one dimension more than operands
    char *address = view.base;
    int64_t remaining = start;
    for (int64_t d = last; d >= 0; --d) {
        index[d] = remaining % layout.shape[d];
        remaining /= layout.shape[d];
        address += index[d] * view.strides[d];
    }
    int64_t done = 0;
    while (done < count) {
        const int64_t length = std::min(count - done, layout.shape[last] - index[last]);
        run(address, view.strides[last], done, length);
        done += length;
        if (done == count) return;
        address -= index[last] * view.strides[last];
        index[last] = 0;
        for (int64_t d = last - 1; d >= 0; --d) {
            address += view.strides[d];
            if (++index[d] < layout.shape[d]) break;
            address -= index[d] * view.strides[d];
            index[d] = 0;
        }
    }
}

static uint8_t swap_bytes(uint8_t x) { return x; }
static uint16_t swap_bytes(uint16_t x) { return __builtin_bswap16(x); }
static uint32_t swap_bytes(uint32_t x) { return __builtin_bswap32(x); }
static uint64_t swap_bytes(uint64_t x) { return __builtin_bswap64(x); }

// Elements may be unaligned, so they are read and written by memcpy.
template <class Word, bool swapped>
static Word read_word(const char *from) {
    Word word;
    std::memcpy(&word, from, sizeof(word));
    return swapped ? swap_bytes(word) : word;
}

static constexpr int64_t CACHE_LINE = 64;  // bytes

// Prefetches for reading, with locality 2: into L2 but not L1, whose associativity is too small for many
// columns at once.
static void prefetch_to_l2(const char *address) { __builtin_prefetch(address, 0, 2); }

static bool is_transposed(const Layout &layout, const View &view) {
    const size_t dims = layout.shape.size();
    if (dims < 2 || view.strides[dims - 2] == 0) return false;
    return magnitude(view.strides[dims - 2]) < magnitude(view.strides[dims - 1]);
}

int64_t Layout::cache_line_granule(const View &view) const {
    return is_transposed(*this, view) ? CACHE_LINE / view.item * shape.back() : 1;
}

// Transposes square tiles in registers. A side has as many elements as a vector. Rows of `from`, from_stride
// bytes apart, become columns of `to`, whose rows are to_stride bytes apart.
template <class Word>
struct SquareTile {
    static constexpr int SIDE = 16 / sizeof(Word);
    using Vector __attribute__((vector_size(16))) = Word;

    template <size_t... i>
    static Vector interleave_low_halves(Vector a, Vector b, std::index_sequence<i...>) {
        return Vector{(i % 2 == 0 ? a[i / 2] : b[i / 2])...};
    }
    template <size_t... i>
    static Vector interleave_high_halves(Vector a, Vector b, std::index_sequence<i...>) {
        return Vector{(i % 2 == 0 ? a[SIDE / 2 + i / 2] : b[SIDE / 2 + i / 2])...};
    }

    static void transpose(const char *from, int64_t from_stride, char *to, int64_t to_stride) {
        using Indices = std::make_index_sequence<SIDE>;
        Vector rows[SIDE], mixed[SIDE];
        for (int i = 0; i < SIDE; ++i) std::memcpy(&rows[i], from + i * from_stride, 16);
        for (int step = 1; step < SIDE; step *= 2) {
            for (int i = 0; i < SIDE / 2; ++i) {
                mixed[2 * i] = interleave_low_halves(rows[i], rows[i + SIDE / 2], Indices());
                mixed[2 * i + 1] = interleave_high_halves(rows[i], rows[i + SIDE / 2], Indices());
            }
            for (int i = 0; i < SIDE; ++i) rows[i] = mixed[i];
        }
        for (int i = 0; i < SIDE; ++i) std::memcpy(to + i * to_stride, &rows[i], 16);
    }
};

// Copies a cache line to an aligned address with non-temporal stores: ordinary stores would read the
// destination first.
static void store_cache_line(void *to, const void *line) {
#if defined(__SSE2__)
    for (int i = 0; i < CACHE_LINE / 16; ++i)
        _mm_stream_si128(static_cast<__m128i *>(to) + i, static_cast<const __m128i *>(line)[i]);
#else
    std::memcpy(to, line, CACHE_LINE);
#endif
}

// Copies a matrix whose rows are closer together than its columns, so that the copy is a transposition: in
// tiles of whole cache lines, with prefetching. Rows of the result are `pitch` elements apart. With
// `bypass_cache`, whole cache lines are stored past the caches.
template <class Word, bool swapped>
static void gather_rows(const char *from, int64_t row_stride, int64_t column_stride, int64_t rows,
                        int64_t columns, Word *to, int64_t pitch, bool bypass_cache = false) {
    constexpr int64_t WIDTH = CACHE_LINE / sizeof(Word), HEIGHT = 4 * WIDTH, SIDE = SquareTile<Word>::SIDE;
    alignas(CACHE_LINE) Word tile[HEIGHT][WIDTH];
    const int64_t misalignment = int64_t(reinterpret_cast<uintptr_t>(to) % CACHE_LINE);
    bypass_cache = bypass_cache && pitch % WIDTH == 0 && misalignment % int64_t(sizeof(Word)) == 0;
    // The number of columns before the first whole cache line of a row; it is the same in all rows.
    const int64_t head = bypass_cache ? (CACHE_LINE - misalignment) % CACHE_LINE / int64_t(sizeof(Word)) : 0;
    const bool in_squares = row_stride == int64_t(sizeof(Word));
    for (int64_t row = 0; row < rows; row += HEIGHT) {
        const int64_t tile_rows = std::min(HEIGHT, rows - row);
        int64_t tile_columns = 0;
        for (int64_t column = 0; column < columns; column += tile_columns) {
            tile_columns = std::min(column == 0 && head != 0 ? head : WIDTH, columns - column);
            const char *const corner = from + row * row_stride + column * column_stride;
            for (int64_t c = 0; c < tile_columns; ++c) {
                const char *const ahead = corner + (c + WIDTH) * column_stride;
                for (int64_t r = 0; r < tile_rows; r += WIDTH) prefetch_to_l2(ahead + r * row_stride);
            }
            const int64_t square_rows = in_squares ? tile_rows / SIDE * SIDE : 0;
            const int64_t square_columns = in_squares ? tile_columns / SIDE * SIDE : 0;
            for (int64_t c = 0; c < square_columns; c += SIDE) {
                for (int64_t r = 0; r < square_rows; r += SIDE)
                    SquareTile<Word>::transpose(corner + r * row_stride + c * column_stride, column_stride,
                                                reinterpret_cast<char *>(&tile[r][c]), CACHE_LINE);
            }
            for (int64_t c = 0; c < tile_columns; ++c) {
                for (int64_t r = c < square_columns ? square_rows : 0; r < tile_rows; ++r)
                    std::memcpy(&tile[r][c], corner + r * row_stride + c * column_stride, sizeof(Word));
            }
            for (int64_t r = 0; r < tile_rows; ++r) {
                if (swapped) {
                    for (int64_t c = 0; c < tile_columns; ++c) tile[r][c] = swap_bytes(tile[r][c]);
                }
                Word *const line = to + (row + r) * pitch + column;
                if (tile_columns == WIDTH && bypass_cache) {
                    store_cache_line(line, tile[r]);
                } else if (tile_columns == WIDTH) {
                    std::memcpy(line, tile[r], CACHE_LINE);
                } else {
                    std::memcpy(line, tile[r], size_t(tile_columns) * sizeof(Word));
                }
            }
        }
    }
}

template <class Word, bool swapped>
static void gather_words(const Layout &layout, const View &view, int64_t start, int64_t count, Word *dense);

// Calls body(address of the first row, number of rows, elements before them) for the rows of each plane in
// [start, start + count), where `start` is the first element of a row. Returns the number of elements in
// these rows: an incomplete last row is left out.
template <class Body>
static int64_t for_each_plane(const Layout &layout, const View &view, int64_t start, int64_t count,
                              Body body) {
    const size_t dims = layout.shape.size();
    const int64_t height = layout.shape[dims - 2], columns = layout.shape[dims - 1];
    int64_t done = 0;
    while (count - done >= columns) {
        const int64_t row = (start + done) / columns;
        const int64_t rows = std::min((count - done) / columns, height - row % height);
        const char *from = view.base + row % height * view.strides[dims - 2];
        int64_t remaining = row / height;
        for (size_t d = dims - 2; d-- > 0; remaining /= layout.shape[d])
            from += remaining % layout.shape[d] * view.strides[d];
        body(from, rows, done);
        done += rows * columns;
    }
    return done;
}

// Gathers elements of a view whose rows are closer together than its columns: whole rows by tiles, and the
// incomplete first and last row by gather_words(). Returns false, and copies nothing, if the view is not
// transposed or there are fewer elements than two rows have; so gather_words() does not call this again for
// an incomplete row.
template <class Word, bool swapped>
static bool try_gather_transposed(const Layout &layout, const View &view, int64_t start, int64_t count,
                                  Word *dense) {
    const size_t dims = layout.shape.size();
    if (!is_transposed(layout, view) || count < 2 * layout.shape[dims - 1]) return false;
    const int64_t columns = layout.shape[dims - 1];

    const int64_t head = (columns - start % columns) % columns;
    if (head != 0) gather_words<Word, swapped>(layout, view, start, head, dense);
    const int64_t done =
        head + for_each_plane(
                   layout, view, start + head, count - head, [&](const char *from, int64_t rows, int64_t at) {
                       gather_rows<Word, swapped>(from, view.strides[dims - 2], view.strides[dims - 1], rows,
                                                  columns, dense + head + at, columns);
                   });
    if (done != count) gather_words<Word, swapped>(layout, view, start + done, count - done, dense + done);
    return true;
}

bool Layout::are_transposed_rows(const View &view, int64_t start, int64_t count) const {
    if (!is_transposed(*this, view) || view.swapped || view.strides[shape.size() - 2] != view.item)
        return false;
    return start % shape.back() == 0 && count % shape.back() == 0;
}

// Copies a column of a plane at a time: the elements of a column are contiguous.
void Layout::gather_columns(const View &view, int64_t start, int64_t count, void *dense) const {
    constexpr int64_t PREFETCH_DISTANCE = 24;  // columns
    const int64_t columns = shape.back(), stride = view.strides.back();
    for_each_plane(*this, view, start, count, [&](const char *from, int64_t rows, int64_t at) {
        const int64_t bytes = rows * view.item;
        char *to = static_cast<char *>(dense) + at * view.item;
        for (int64_t column = 0; column < columns; ++column, from += stride, to += bytes) {
            for (int64_t i = 0; i < bytes; i += CACHE_LINE)
                prefetch_to_l2(from + PREFETCH_DISTANCE * stride + i);
            std::memcpy(to, from, size_t(bytes));
        }
    });
}

template <class Word, bool swapped>
static void gather_words(const Layout &layout, const View &view, int64_t start, int64_t count, Word *dense) {
    if (try_gather_transposed<Word, swapped>(layout, view, start, count, dense)) return;
    for_each_run(layout, view, start, count,
                 [&](const char *from, int64_t stride, int64_t done, int64_t length) {
                     Word *to = dense + done;
                     if (stride == int64_t(sizeof(Word)) && !swapped) {
                         std::memcpy(to, from, size_t(length) * sizeof(Word));
                         return;
                     }
                     if (stride == 0) {
                         std::fill_n(to, length, read_word<Word, swapped>(from));
                         return;
                     }
                     for (int64_t i = 0; i < length; ++i) to[i] = read_word<Word, swapped>(from + i * stride);
                 });
}

template <class Word, bool swapped>
static void scatter_words(const Layout &layout, const View &view, int64_t start, int64_t count,
                          const Word *dense) {
    for_each_run(layout, view, start, count, [&](char *to, int64_t stride, int64_t done, int64_t length) {
        const Word *from = dense + done;
        if (stride == int64_t(sizeof(Word)) && !swapped) {
            std::memcpy(to, from, size_t(length) * sizeof(Word));
            return;
        }
        for (int64_t i = 0; i < length; ++i) {
            const Word word = swapped ? swap_bytes(from[i]) : from[i];
            std::memcpy(to + i * stride, &word, sizeof(word));
        }
    });
}

// Calls body(Word(), swapped as a compile-time constant) for the view's element size and byte order.
template <class Body>
static void with_word(const View &view, Body body) {
    visit_word(view.item, [&](auto word) {
        if constexpr (sizeof(word) > 1) {
            if (view.swapped) return body(word, std::true_type());
        }
        body(word, std::false_type());
    });
}

void Layout::gather(const View &view, int64_t start, int64_t count, void *dense) const {
    with_word(view, [&](auto word, auto swapped) {
        using Word = decltype(word);
        gather_words<Word, decltype(swapped)::value>(*this, view, start, count, static_cast<Word *>(dense));
    });
}

void gather_plane(const View &view, const char *from, int64_t row_stride, int64_t column_stride, int64_t rows,
                  int64_t columns, char *to, int64_t pitch, bool bypass_cache) {
    with_word(view, [&](auto word, auto swapped) {
        using Word = decltype(word);
        gather_rows<Word, decltype(swapped)::value>(from, row_stride, column_stride, rows, columns,
                                                    reinterpret_cast<Word *>(to), pitch, bypass_cache);
    });
#if defined(__SSE2__)
    if (bypass_cache) _mm_sfence();
#endif
}

void Layout::fill(const View &view, int64_t count, void *dense) const {
    with_word(view, [&](auto word, auto swapped) {
        using Word = decltype(word);
        Word *words = static_cast<Word *>(dense);
        gather_words<Word, decltype(swapped)::value>(*this, view, 0, 1, words);
        std::fill_n(words + 1, count - 1, *words);
    });
}

void Layout::scatter(const View &view, int64_t start, int64_t count, const void *dense) const {
    with_word(view, [&](auto word, auto swapped) {
        using Word = decltype(word);
        scatter_words<Word, decltype(swapped)::value>(*this, view, start, count,
                                                      static_cast<const Word *>(dense));
    });
}

}  // namespace pk
