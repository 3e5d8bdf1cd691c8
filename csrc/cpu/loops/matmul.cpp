// The micro-kernels of matrix products.
#include "cpu/matmul_loops.h"
#include "table.h"

namespace pk {
namespace {

#if defined(__AVX512F__)
constexpr int VECTOR = 64;
#elif defined(__AVX2__)
constexpr int VECTOR = 32;
#else
constexpr int VECTOR = 16;
#endif

template <class T>
using Vector __attribute__((vector_size(VECTOR))) = T;

// A strip of rows times a few vectors of columns, with the sums in registers. Each sum adds its products in
// order, whatever the vector width.
template <class T, bool is_logical, int vectors>
PK_HD void add_strip(const T *rows, const T *columns, T *sums, int64_t width, int64_t depth) {
    constexpr int STRIP = MatmulLoops::STRIP, LANES = VECTOR / int(sizeof(T));
    constexpr int64_t GROUP_COLUMNS = MatmulLoops::GROUP_BYTES / int64_t(sizeof(T));
    Vector<T> sum[STRIP][vectors];
    for (int r = 0; r < STRIP; ++r) {
        for (int v = 0; v < vectors; ++v) memcpy(&sum[r][v], sums + r * width + v * LANES, VECTOR);
    }
    for (int64_t d = 0; d < depth; ++d) {
        Vector<T> column[vectors];
        for (int v = 0; v < vectors; ++v) memcpy(&column[v], columns + d * GROUP_COLUMNS + v * LANES, VECTOR);
        for (int r = 0; r < STRIP; ++r) {
            const Vector<T> row = rows[d * STRIP + r] - Vector<T>{};
            for (int v = 0; v < vectors; ++v) {
                if constexpr (is_logical)
                    sum[r][v] |= row & column[v];
                else
                    sum[r][v] += row * column[v];
            }
        }
    }
    for (int r = 0; r < STRIP; ++r) {
        for (int v = 0; v < vectors; ++v) memcpy(sums + r * width + v * LANES, &sum[r][v], VECTOR);
    }
}

template <class T, bool is_logical = false>
void add_product(const void *rows, const void *columns, void *sums, int64_t height, int64_t width,
                 int64_t depth) {
    constexpr int STRIP = MatmulLoops::STRIP, LANES = VECTOR / int(sizeof(T));
    constexpr int64_t GROUP_COLUMNS = MatmulLoops::GROUP_BYTES / int64_t(sizeof(T));
    constexpr int ALL = GROUP_COLUMNS / LANES, AT_ONCE = 3;
    static_assert(ALL % AT_ONCE == 0, "a group of columns is whole vectors");
    for (int64_t j = 0; j < width; j += GROUP_COLUMNS) {
        for (int64_t i = 0; i < height; i += STRIP) {
            const T *const strip = static_cast<const T *>(rows) + i * depth;
            const T *const group = static_cast<const T *>(columns) + j * depth;
            T *const to = static_cast<T *>(sums) + i * width + j;
            for (int v = 0; v < ALL; v += AT_ONCE)
                add_strip<T, is_logical, AT_ONCE>(strip, group + v * LANES, to + v * LANES, width, depth);
        }
    }
}

}  // namespace

void PK_ISA_FUNCTION(fill_matmul)(Loops &loops) {
    loops.matmul = {add_product<uint8_t>,      add_product<uint16_t>, add_product<uint32_t>,
                    add_product<uint64_t>,     add_product<float>,    add_product<double>,
                    add_product<uint8_t, true>};
}

}  // namespace pk
