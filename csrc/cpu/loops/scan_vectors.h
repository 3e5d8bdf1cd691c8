// Sums of eight lanes at a time, in vectors of four, for compilers and instruction sets that have them. The
// bits are the same, because lanes are independent.
#pragma once

#include "table.h"

#if defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector)
#define PK_SCAN_VECTORS 1
#endif
#endif

#if defined(PK_SCAN_VECTORS)
namespace pk {
namespace {
namespace vectors {

using Doubles = double __attribute__((vector_size(32)));
using Floats = float __attribute__((vector_size(16)));
using ManyFloats = float __attribute__((vector_size(32)));
constexpr int LANES = 8;

template <class Vector>
PK_HD Vector load(const void *from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
}
template <class Vector>
PK_HD void store(void *to, Vector vector) {
    std::memcpy(to, &vector, sizeof(vector));
}

// Transposes rows and columns.
PK_HD void transpose(Doubles *rows) {
    const Doubles a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 2, 6);
    const Doubles b = __builtin_shufflevector(rows[0], rows[1], 1, 5, 3, 7);
    const Doubles c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 2, 6);
    const Doubles d = __builtin_shufflevector(rows[2], rows[3], 1, 5, 3, 7);
    rows[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    rows[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    rows[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    rows[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
PK_HD void transpose(ManyFloats *rows) {
    ManyFloats pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int k = 0; k < 2; ++k) {
            const ManyFloats &a = pairs[i + k], &b = pairs[i + k + 2];
            fours[i + 2 * k] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * k + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; ++i) {
        rows[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        rows[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

template <class Op>
struct State;
template <>
struct State<scan::FloatSum> {
    Doubles all;
    PK_HD Doubles value() const { return all; }
    static PK_HD State of(const scan::FloatSum::State *lanes) {
        const Doubles all = {lanes[0].all, lanes[1].all, lanes[2].all, lanes[3].all};
        return {all};
    }
    PK_HD scan::FloatSum::State get(int l) const { return {all[l]}; }
};
template <>
struct State<scan::DoubleSum> {
    Doubles all, rest;
    PK_HD Doubles value() const { return all + rest; }  // for calm states
    static PK_HD State of(const scan::DoubleSum::State *lanes) {
        const Doubles all = {lanes[0].all, lanes[1].all, lanes[2].all, lanes[3].all};
        const Doubles rest = {lanes[0].rest, lanes[1].rest, lanes[2].rest, lanes[3].rest};
        return {all, rest};
    }
    PK_HD scan::DoubleSum::State get(int l) const { return {all[l], rest[l]}; }
};

// Eight lanes of a row, in the type of the array.
template <class T>
struct Row;
template <>
struct Row<double> {
    Doubles low, high;
};
template <>
struct Row<float> {
    ManyFloats all;
};

PK_HD Doubles low(const Row<double> &row) { return row.low; }
PK_HD Doubles high(const Row<double> &row) { return row.high; }
PK_HD Doubles low(const Row<float> &row) {
    return __builtin_convertvector(__builtin_shufflevector(row.all, row.all, 0, 1, 2, 3), Doubles);
}
PK_HD Doubles high(const Row<float> &row) {
    return __builtin_convertvector(__builtin_shufflevector(row.all, row.all, 4, 5, 6, 7), Doubles);
}
PK_HD void join(Row<double> &row, Doubles low, Doubles high) { row = {low, high}; }
PK_HD void join(Row<float> &row, Doubles low, Doubles high) {
    row.all = __builtin_shufflevector(__builtin_convertvector(low, Floats),
                                      __builtin_convertvector(high, Floats), 0, 1, 2, 3, 4, 5, 6, 7);
}

// Rows of a tile of eight segments of one column, or of eight columns.
template <class T>
constexpr int TILE = sizeof(T) == 8 ? 4 : 8;

PK_HD void load_tile(const double *from, std::integral_constant<int64_t, scan::SEGMENT> lane, int64_t,
                     Row<double> *rows) {
    Doubles halves[2][4];
    for (int i = 0; i < 8; ++i) halves[i / 4][i % 4] = load<Doubles>(from + i * lane);
    for (auto &half : halves) transpose(half);
    for (int r = 0; r < 4; ++r) rows[r] = {halves[0][r], halves[1][r]};
}
PK_HD void store_tile(double *to, std::integral_constant<int64_t, scan::SEGMENT> lane, int64_t,
                      const Row<double> *rows) {
    Doubles halves[2][4];
    for (int r = 0; r < 4; ++r) {
        halves[0][r] = rows[r].low;
        halves[1][r] = rows[r].high;
    }
    for (auto &half : halves) transpose(half);
    for (int i = 0; i < 8; ++i) store(to + i * lane, halves[i / 4][i % 4]);
}
PK_HD void load_tile(const float *from, std::integral_constant<int64_t, scan::SEGMENT> lane, int64_t,
                     Row<float> *rows) {
    ManyFloats tile[8];
    for (int i = 0; i < 8; ++i) tile[i] = load<ManyFloats>(from + i * lane);
    transpose(tile);
    for (int i = 0; i < 8; ++i) rows[i].all = tile[i];
}
PK_HD void store_tile(float *to, std::integral_constant<int64_t, scan::SEGMENT> lane, int64_t,
                      const Row<float> *rows) {
    ManyFloats tile[8];
    for (int i = 0; i < 8; ++i) tile[i] = rows[i].all;
    transpose(tile);
    for (int i = 0; i < 8; ++i) store(to + i * lane, tile[i]);
}
template <class T>
PK_HD void load_tile(const T *from, std::integral_constant<int64_t, 1>, int64_t row, Row<T> *rows) {
    for (int r = 0; r < TILE<T>; ++r) rows[r] = load<Row<T>>(from + r * row);
}
template <class T>
PK_HD void store_tile(T *to, std::integral_constant<int64_t, 1>, int64_t row, const Row<T> *rows) {
    for (int r = 0; r < TILE<T>; ++r) store(to + r * row, rows[r]);
}

template <class Op>
struct States {
    State<Op> low, high;

    PK_HD explicit States(const typename Op::State *before)
        : low(State<Op>::of(before)), high(State<Op>::of(before + 4)) {}
    template <class T>
    PK_HD void step(const Row<T> &row) {
        Op::step(low, vectors::low(row));
        Op::step(high, vectors::high(row));
    }
};

// For a whole number of tiles.
template <class Op, class From, class LaneStride>
PK_HD void total(const From *from, LaneStride lane, int64_t row, int64_t rows, typename Op::State *totals) {
    for (int l = 0; l < LANES; ++l) totals[l] = Op::identity();
    States<Op> states(totals);
    for (int64_t r = 0; r < rows; r += TILE<From>) {
        Row<From> tile[TILE<From>];
        load_tile(from + r * row, lane, row, tile);
        for (const Row<From> &one : tile) states.step(one);
    }
    for (int l = 0; l < 4; ++l) {
        totals[l] = states.low.get(l);
        totals[l + 4] = states.high.get(l);
    }
}

template <class Op, bool is_exclusive, class T, class LaneStride>
PK_HD void run(const T *from, T *to, LaneStride lane, int64_t row, int64_t rows,
               const typename Op::State *before) {
    States<Op> states(before);
    for (int64_t r = 0; r < rows; r += TILE<T>) {
        Row<T> tile[TILE<T>];
        load_tile(from + r * row, lane, row, tile);
        for (Row<T> &one : tile) {
            const Row<T> terms = one;
            if (is_exclusive) join(one, states.low.value(), states.high.value());
            states.step(terms);
            if (!is_exclusive) join(one, states.low.value(), states.high.value());
        }
        store_tile(to + r * row, lane, row, tile);
    }
}

}  // namespace vectors
}  // namespace
}  // namespace pk
#endif
