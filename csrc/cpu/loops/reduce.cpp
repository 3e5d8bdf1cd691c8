// Inner loops of reductions: accumulates a block in lanes, and combines the lanes to a partial.
#include <algorithm>
#include <limits>

#include "common/reduce_ops.h"
#include "table.h"

namespace pk {
namespace {

using namespace reduction;

// Conversion of a value in memory to the type in which it is accumulated.
template <int type>
struct Stored {
    using Item = typename std::conditional<type == PK_FLOAT16, uint16_t, typename type_of<type>::type>::type;
    static PK_HD typename type_of<type>::type value(Item item) {
        if constexpr (type == PK_FLOAT16) {
            return half::to_float(item);
        } else if constexpr (type == PK_BOOL) {
            return item != 0;
        } else {
            return item;
        }
    }
    template <class Word>
    static PK_HD Word as(Item item) {
        if constexpr (std::is_signed<Item>::value && std::is_same<Word, uint64_t>::value) {
            return uint64_t(int64_t(value(item)));
        } else {
            return Word(value(item));
        }
    }
};

// The type in which values of a type are compared.
template <class T>
using class_of = typename std::conditional<
    std::is_floating_point<T>::value, double,
    typename std::conditional<std::is_signed<T>::value, int64_t, uint64_t>::type>::type;

// Lanes are stored word by word, then lane by lane, then column by column, so that adjacent columns are added
// to adjacent lanes. Adds `times` values to each of `count` lanes: values are `step` apart, columns `column`
// apart.
template <class Op, int times, class Word, class Item, class Other, class Value, class Second>
PK_HD void add_rows(Word *__restrict lanes, int64_t apart, int64_t count, const Item *__restrict values,
                    const Other *__restrict others, int64_t step, int64_t column,
                    const Word *__restrict pivots, Value value, Second second) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        Word lane[Op::WORDS];
        for (int w = 0; w < Op::WORDS; ++w) lane[w] = lanes[w * apart + i];
        for (int t = 0; t < times; ++t) {
            const int64_t at = t * step + i * column;
            Op::add(lane, value(values[at]), second(others, at), Op::has_pivot ? pivots[i] : Word());
        }
        for (int w = 0; w < Op::WORDS; ++w) lanes[w * apart + i] = lane[w];
    }
}

// Prefetches the next rows of a few columns, which hardware prefetchers do not predict.
template <int rows, class Item>
PK_HD void ask_for(const Item *values, int64_t step, int64_t width) {
    constexpr int64_t LINE = 64 / sizeof(Item);
    for (int t = 0; t < rows; ++t) {
        for (int64_t i = 0; i < width; i += LINE) __builtin_prefetch(values + t * step + i);
    }
}

template <class Op, class Word>
PK_HD void join_rows(Word *__restrict lanes, const Word *__restrict others, int64_t apart, int64_t count) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
        Word lane[Op::WORDS], other[Op::WORDS];
        for (int w = 0; w < Op::WORDS; ++w) {
            lane[w] = lanes[w * apart + i];
            other[w] = others[w * apart + i];
        }
        Op::join(lane, other);
        for (int w = 0; w < Op::WORDS; ++w) lanes[w * apart + i] = lane[w];
    }
}

// For one column with dense rows, lanes are in vector registers.
#if defined(__AVX512F__)
constexpr int REGISTER = 64;
#elif defined(__AVX2__)
constexpr int REGISTER = 32;
#else
constexpr int REGISTER = 16;
#endif

template <class Op, class Item>
constexpr bool in_registers = false;
template <class Item>
constexpr bool in_registers<Sum<sizeof(Item) == 8, false>, Item> = std::is_floating_point<Item>::value;
template <class Item>
constexpr bool in_registers<Moments<false, false>, Item> = std::is_same<Item, float>::value;
template <class Item>
constexpr bool in_registers<Dot<false>, Item> = std::is_same<Item, float>::value;

// Accumulates rows in lanes, which were just initialized; returns the first row that is left.
template <class Op, class Word, class Item>
PK_HD int64_t gather(Word *lanes, Word pivot, const Item *values, const Item *others, int64_t rows,
                     bool has_others) {
    constexpr int BYTES = std::min<int>(REGISTER, LANES * sizeof(Word)), WIDE = BYTES / sizeof(Word);
    constexpr int PARTS = LANES / WIDE;
    typedef Word Words __attribute__((vector_size(BYTES)));
    typedef Item Items __attribute__((vector_size(WIDE * sizeof(Item))));
    auto load = [](const Item *from) {
        Items items;
        memcpy(&items, from, sizeof(items));
        return __builtin_convertvector(items, Words);
    };
    const Words one = Words{} + 1, pivots = Words{} + pivot;
    Words held[PARTS][Op::WORDS];
    for (int p = 0; p < PARTS; ++p) {
        for (int w = 0; w < Op::WORDS; ++w) memcpy(&held[p][w], lanes + w * LANES + p * WIDE, BYTES);
    }
    const int64_t whole = rows / LANES * LANES;
    for (int64_t row = 0; row < whole; row += LANES) {
#pragma GCC unroll 16
        for (int p = 0; p < PARTS; ++p) {
            const Words value = load(values + row + p * WIDE);
            Op::add(held[p], value, has_others ? load(others + row + p * WIDE) : one, pivots);
        }
    }
    for (int p = 0; p < PARTS; ++p) {
        for (int w = 0; w < Op::WORDS; ++w) memcpy(lanes + w * LANES + p * WIDE, &held[p][w], BYTES);
    }
    return whole;
}

enum class Others { none, values, mask };

// Order-preserving integer keys of a type's values; any byte that is not 0 is a true bool.
template <int type>
PK_HD auto in_order(typename Stored<type>::Item item) {
    using Item = typename Stored<type>::Item;
    if constexpr (is_float_type(type)) {
        using Bits = typename std::conditional<
            sizeof(Item) == 8, int64_t,
            typename std::conditional<sizeof(Item) == 4, int32_t, int16_t>::type>::type;
        const Bits bits = bit_cast<Bits>(item);
        constexpr Bits magnitude = std::numeric_limits<Bits>::max();
        return Bits(bits ^ (Bits(bits >> (8 * sizeof(bits) - 1)) & magnitude));
    } else {
        return item;
    }
}

template <int type>
PK_HD auto infinity_of() {
    if constexpr (type == PK_FLOAT16) return uint16_t(0x7c00);
    if constexpr (type == PK_FLOAT32) return bit_cast<float>(0x7f800000u);
    if constexpr (type == PK_FLOAT64) return bit_cast<double>(0x7ff0000000000000u);
}

// Minimum, maximum, or both, in any order of values. Vectors compare integers best, and NaN, of either sign,
// has a key beyond the infinities: so for floats both extremes are needed to detect NaN.
template <int type, bool takes_least, bool takes_largest>
struct Ordered {
    using Item = typename Stored<type>::Item;
    using Word = decltype(in_order<type>(Item()));
    using Wide = class_of<typename type_of<type>::type>;
    static constexpr bool has_least = takes_least || is_float_type(type);
    static constexpr bool has_largest = takes_largest || is_float_type(type);
    static constexpr int WORDS = has_least + has_largest, PARTIAL = takes_least + takes_largest;
    static constexpr bool has_pivot = false;

    static PK_HD void start(Word *lane) {
        if constexpr (has_least) lane[0] = std::numeric_limits<Word>::max();
        if constexpr (has_largest) lane[WORDS - 1] = std::numeric_limits<Word>::min();
    }
    static PK_HD void take(Word *lane, Word least, Word largest) {
        if constexpr (has_least) lane[0] = least < lane[0] ? least : lane[0];
        if constexpr (has_largest) lane[WORDS - 1] = largest > lane[WORDS - 1] ? largest : lane[WORDS - 1];
    }
    static PK_HD void add(Word *lane, Word value, Word, Word) { take(lane, value, value); }
    static PK_HD void join(Word *lane, const Word *other) { take(lane, other[0], other[WORDS - 1]); }
    static PK_HD void close(const Word *lane, Word, Wide *partial) {
        if constexpr (takes_least) partial[0] = value_of(lane, lane[0]);
        if constexpr (takes_largest) partial[PARTIAL - 1] = value_of(lane, lane[WORDS - 1]);
    }
    static PK_HD Wide value_of(const Word *lane, Word key) {
        if constexpr (is_float_type(type)) {
            const Word infinity = in_order<type>(infinity_of<type>());
            if (lane[1] > infinity || lane[0] < Word(~infinity)) return NAN;
            return Stored<type>::value(
                bit_cast<Item>(in_order<type>(bit_cast<Item>(key))));  // in_order() is its own inverse
        } else {
            return Stored<type>::value(key);
        }
    }
};

template <class Op>
constexpr bool is_ordered = false;
template <int type, bool least, bool largest>
constexpr bool is_ordered<Ordered<type, least, largest>> = true;

// The type of the words of a partial, 8 bytes each.
template <class Op>
struct Partial {
    using Word = typename Op::Word;
};
template <int type, bool least, bool largest>
struct Partial<Ordered<type, least, largest>> {
    using Word = typename Ordered<type, least, largest>::Wide;
};

// Integers of twice the size; for 8 bytes the same size, which wraps.
template <class T>
using twice_as_wide = typename std::conditional<
    sizeof(T) == 1, typename std::conditional<std::is_signed<T>::value, int16_t, uint16_t>::type,
    typename std::conditional<sizeof(T) == 2,
                              typename std::conditional<std::is_signed<T>::value, int32_t, uint32_t>::type,
                              typename std::conditional<sizeof(T) == 4 && std::is_signed<T>::value, int64_t,
                                                        uint64_t>::type>::type>::type;

// Operations whose order does not matter reduce a whole dense column as a single lane.
template <class Op, int type>
PK_HD bool take_whole(const ValueBlock &block, void *partial) {
    using Item = typename Stored<type>::Item;
    const Item *const values = static_cast<const Item *>(block.values);
    if constexpr (std::is_same<Op, SumInteger>::value) {
        // So many values that their sum fits in twice their bytes, of which a vector holds more.
        constexpr int64_t TOGETHER = 256;
        uint64_t sum = 0;
        for (int64_t first = 0; first < block.rows; first += TOGETHER) {
            const int64_t last = std::min(first + TOGETHER, block.rows);
            twice_as_wide<Item> part = 0;
            for (int64_t i = first; i < last; ++i) part += Stored<type>::value(values[i]);
            sum += std::is_signed<Item>::value ? uint64_t(int64_t(part)) : uint64_t(part);
        }
        memcpy(partial, &sum, sizeof(sum));
        return true;
    } else if constexpr (is_ordered<Op>) {
        typename Op::Word lane[Op::WORDS];
        Op::start(lane);
        for (int64_t i = 0; i < block.rows; ++i) Op::add(lane, in_order<type>(values[i]), 0, 0);
        Op::close(lane, 0, static_cast<typename Op::Wide *>(partial));
        return true;
    }
    return false;
}

// Joins the lanes of each column, and closes them as its partial.
template <class Op, class Word, class To>
void close_columns(Word *lanes, const Word *pivots, int64_t used, int64_t width, To *partials) {
    const int64_t apart = LANES * width;
    for (int64_t half = LANES / 2; half != 0; half /= 2) {
        if (half < used) {
            const int64_t pairs = std::min(half, used - half);
            join_rows<Op>(lanes, lanes + half * width, apart, pairs * width);
        }
    }
    for (int64_t i = 0; i < width; ++i) {
        Word lane[Op::WORDS];
        for (int w = 0; w < Op::WORDS; ++w) lane[w] = lanes[w * apart + i];
        Op::close(lane, Op::has_pivot ? pivots[i] : Word(0), partials + i * Op::PARTIAL);
    }
}

template <class Op, int type, Others has>
void reduce(const ValueBlock &block, void *lanes_, void *partials_) {
    using Word = typename Op::Word;
    using From = Stored<type>;
    using Item = typename From::Item;
    using Other = typename std::conditional<has == Others::mask, uint8_t, Item>::type;
    auto value = [](Item item) {
        if constexpr (is_ordered<Op>) {
            return in_order<type>(item);
        } else {
            return From::template as<Word>(item);
        }
    };
    auto second = [](const Other *others, int64_t i) {
        if constexpr (has == Others::none) return Word(1);
        if constexpr (has == Others::mask) return Word(others[i] != 0);
        if constexpr (has == Others::values) return From::template as<Word>(others[i]);
    };

    if (block.width == 1 && block.stride == 1 && take_whole<Op, type>(block, partials_)) return;
    const int64_t width = block.width, rows = block.rows, column = block.column,
                  used = std::min<int64_t>(rows, LANES);
    const int64_t apart = LANES * width;
    Word *const lanes = static_cast<Word *>(lanes_), *const pivots = lanes + Op::WORDS * apart;
    const Item *values = static_cast<const Item *>(block.values);
    const Other *others = static_cast<const Other *>(has == Others::none ? block.values : block.others);
    Word nothing[Op::WORDS];
    Op::start(nothing);
    for (int w = 0; w < Op::WORDS; ++w) std::fill_n(lanes + w * apart, used * width, nothing[w]);
    if (Op::has_pivot) {
        for (int64_t i = 0; i < width; ++i) {
            const int64_t at = i * column;
            pivots[i] = second(others, at) != 0 ? value(values[at]) : Word(0);
        }
        for (int64_t l = 1; l < used; ++l) std::copy_n(pivots, width, pivots + l * width);
    }
    constexpr int64_t TIMES = 4;
    const bool dense = column == 1 && block.stride == width;  // rows are adjacent, and so are lanes
    int64_t row = 0;
    if constexpr (in_registers<Op, Item> && has != Others::mask) {
        if (width == 1 && dense)
            row = gather<Op>(lanes, Op::has_pivot ? *pivots : 0, values, others, rows, has == Others::values);
    }
    const int64_t count = dense ? apart : width, many = rows / (TIMES * LANES) * (TIMES * LANES);
    const int64_t step = LANES * block.stride;
    for (; row < many; row += TIMES * LANES) {
        for (int64_t l = 0; l < (dense ? 1 : LANES); ++l) {
            const int64_t at = (row + l) * block.stride;
            if (!dense && row + TIMES * LANES < many) ask_for<TIMES>(values + at + TIMES * step, step, width);
            add_rows<Op, TIMES>(lanes + l * width, apart, count, values + at, others + at, step, 1, pivots,
                                value, second);
        }
    }
    for (; row < rows; row += dense ? LANES : 1) {
        const int64_t at = row * block.stride, left = dense ? std::min((rows - row) * width, apart) : width;
        Word *const to = lanes + (dense ? 0 : row % LANES * width);
        if (column == 1) {
            add_rows<Op, 1>(to, apart, left, values + at, others + at, 0, 1, pivots, value, second);
        } else {
            add_rows<Op, 1>(to, apart, left, values + at, others + at, 0, column, pivots, value, second);
        }
    }
    close_columns<Op>(lanes, pivots, used, width, static_cast<typename Partial<Op>::Word *>(partials_));
}

// Argmin and argmax: the first position of each column's extreme. `reduce` finds the extremes, then they are
// searched.
template <int type>
void place(const ValueBlock &block, void *lanes, void *partials_, BlockLoop reduce,
           bool (*is_better)(class_of<typename type_of<type>::type>,
                             class_of<typename type_of<type>::type>)) {
    using T = typename type_of<type>::type;
    using Wide = class_of<T>;
    using Item = typename Stored<type>::Item;
    const int64_t width = block.width;
    auto *const extremes = reinterpret_cast<Wide *>(static_cast<char *>(lanes) + block.width * LANES * 8);
    reduce(block, lanes, extremes);
    auto *const placed = static_cast<ValueAndIndex<Wide> *>(partials_);
    const Item *const values = static_cast<const Item *>(block.values);
    if (width == 1 && block.stride == 1) {
        // A block whose extreme is not better than an earlier block's needs no search.
        if (block.best_so_far != nullptr &&
            !is_better(extremes[0], *static_cast<const Wide *>(block.best_so_far))) {
            placed[0] = {extremes[0], block.first_row};
            return;
        }
        const T extreme = T(extremes[0]);
        auto matches = [&](int64_t row) {
            const T v = Stored<type>::value(values[row]);
            return v == extreme || v != v;
        };
        using Mask = typename std::conditional<
            sizeof(T) == 8, int64_t,
            typename std::conditional<
                sizeof(T) == 4, int32_t,
                typename std::conditional<sizeof(T) == 2, int16_t, int8_t>::type>::type>::type;
        constexpr int64_t TOGETHER = 64;
        int64_t row = 0;
        for (; extreme == extreme && row + TOGETHER <= block.rows; row += TOGETHER) {
            Mask found = 0;
            for (int64_t i = 0; i < TOGETHER; ++i)
                found |= Stored<type>::value(values[row + i]) == extreme ? Mask(-1) : Mask(0);
            if (found != 0) break;
        }
        while (!matches(row)) ++row;
        placed[0] = {extremes[0], block.first_row + row};
        return;
    }
    int64_t *const where = static_cast<int64_t *>(lanes);
    for (int64_t row = block.rows; row-- > 0;) {
        const Item *const at = values + row * block.stride;
        const int64_t column = block.column;
#pragma GCC ivdep
        for (int64_t i = 0; i < width; ++i) {
            const T v = Stored<type>::value(at[i * column]);
            where[i] = (v == T(extremes[i])) | (v != v) ? row : where[i];
        }
    }
    for (int64_t i = 0; i < width; ++i) placed[i] = {extremes[i], block.first_row + where[i]};
}

template <bool largest, int type>
void place(const ValueBlock &block, void *lanes, void *partials) {
    using T = typename type_of<type>::type;
    place<type>(block, lanes, partials, reduce<Ordered<type, !largest, largest>, type, Others::none>,
                [](class_of<T> a, class_of<T> b) -> bool { return is_better<largest>(a, b); });
}

template <int type>
void fill(BlockLoop (*reduce_of)[2][PK_TYPE_COUNT]) {
    auto set = [&](int kind, BlockLoop loop) { reduce_of[kind][0][type] = loop; };
    set(PK_REDUCE_MIN, reduce<Ordered<type, true, false>, type, Others::none>);
    set(PK_REDUCE_MAX, reduce<Ordered<type, false, true>, type, Others::none>);
    set(PK_REDUCE_ARGMIN, place<false, type>);
    set(PK_REDUCE_ARGMAX, place<true, type>);
    set(PK_REDUCE_PTP, reduce<Ordered<type, true, true>, type, Others::none>);
    if constexpr (is_float_type(type)) {
        constexpr bool compensated = type == PK_FLOAT64;
        set(PK_REDUCE_SUM, reduce<Sum<compensated, false>, type, Others::none>);
        set(PK_REDUCE_PROD, reduce<Product, type, Others::none>);
        set(PK_REDUCE_DOT, reduce<Dot<compensated>, type, Others::values>);
        set(PK_REDUCE_SUM_SQUARED_DEVIATIONS, reduce<Moments<compensated, false>, type, Others::none>);
        reduce_of[PK_REDUCE_SUM][1][type] = reduce<Sum<compensated, true>, type, Others::mask>;
        reduce_of[PK_REDUCE_SUM_SQUARED_DEVIATIONS][1][type] =
            reduce<Moments<true, true>, type, Others::mask>;
    } else {
        constexpr int wrapped = type == PK_UINT64 ? int(PK_INT64) : type;  // whose sums have the same bits
        set(PK_REDUCE_SUM, reduce<SumInteger, wrapped, Others::none>);
        set(PK_REDUCE_PROD, reduce<ProductInteger, wrapped, Others::none>);
        set(PK_REDUCE_DOT, reduce<DotInteger, wrapped, Others::values>);
    }
    if constexpr (type + 1 < PK_TYPE_COUNT) fill<type + 1>(reduce_of);
}

}  // namespace

void PK_ISA_FUNCTION(fill_reduce)(Loops &loops) { fill<0>(loops.reduce); }

}  // namespace pk
