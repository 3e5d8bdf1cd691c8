// Warp operations for the CPU engine: shuffles, votes, matches and warp barriers.
#pragma once

struct pk_lanes {
    uint64_t value[PK_WARP];
    uint32_t came;
};

enum pk_operation { PK_SYNC, PK_SHUFFLE, PK_VOTE, PK_MATCH, PK_COMBINE };

static inline unsigned pk_thread_of_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
static inline int pk_lane() { return int(pk_thread_of_block() % PK_WARP); }

template <class T>
static inline uint64_t pk_bits(T value) {
    static_assert(sizeof(T) <= 8, "lanes give each other values of up to 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, (const void *)&value, sizeof(T));
    return bits;
}
template <class T>
static inline T pk_of_bits(uint64_t bits) {
    T value;
    memcpy((void *)&value, &bits, sizeof(T));
    return value;
}

// Inline PTX: `mov` of values and of pairs, by their bits.
static inline unsigned long long pk_nanoseconds() {
    timespec now;
    timespec_get(&now, TIME_UTC);
    return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}
template <class To, class From>
static inline void pk_move(To &to, From from) {
    to = pk_of_bits<To>(pk_bits(from));
}
template <class To, class Low, class High>
static inline void pk_pack(To &to, Low low, High high) {
    static_assert(sizeof(To) == 2 * sizeof(Low) && sizeof(Low) == sizeof(High), "a pair fills the register");
    to = pk_of_bits<To>(pk_bits(low) | pk_bits(high) << 8 * sizeof(Low));
}
template <class Low, class High, class From>
static inline void pk_unpack(Low &low, High &high, From from) {
    static_assert(sizeof(From) == 2 * sizeof(Low) && sizeof(Low) == sizeof(High),
                  "a pair fills the register");
    low = pk_of_bits<Low>(pk_bits(from));
    high = pk_of_bits<High>(pk_bits(from) >> 8 * sizeof(Low));
}

// Inline PTX: arithmetic of registers, which are read by their bits. Integers wrap around.
template <class T, class From>
static inline T pk_read(From from) {
    return pk_of_bits<T>(pk_bits(from));
}
template <class T>
static inline T pk_read(int number) {
    return T(number);
}
template <class T>
constexpr bool pk_is_float = T(0.5) != T(0);
#define PK_PTX_WRAPPING(name, op)                                                    \
    template <class T>                                                               \
    static inline T pk_ptx_##name(T a, T b) {                                        \
        if constexpr (pk_is_float<T>) return a op b;                                 \
        else return T(uint64_t(a) op uint64_t(b));                                   \
    }
PK_PTX_WRAPPING(add, +)
PK_PTX_WRAPPING(sub, -)
PK_PTX_WRAPPING(mul, *)
PK_PTX_WRAPPING(mul_lo, *)
#undef PK_PTX_WRAPPING
#define PK_PTX(name, operands, expression) \
    template <class T>                     \
    static inline T pk_ptx_##name operands { return T(expression); }
PK_PTX(mad_lo, (T a, T b, T c), uint64_t(a) * uint64_t(b) + uint64_t(c))
PK_PTX(div, (T a, T b), a / b)
PK_PTX(rem, (T a, T b), a % b)
PK_PTX(min, (T a, T b), a < b || b != b ? a : b)
PK_PTX(max, (T a, T b), a > b || b != b ? a : b)
PK_PTX(neg, (T a), pk_ptx_sub<T>(pk_is_float<T> ? T(-0.) : T(0), a))
PK_PTX(abs, (T a), a > 0 ? a : pk_ptx_sub<T>(0, a))
PK_PTX(and, (T a, T b), a & b)
PK_PTX(or, (T a, T b), a | b)
PK_PTX(xor, (T a, T b), a ^ b)
PK_PTX(not, (T a), ~a)
PK_PTX(shl, (T a, uint32_t b), b < 8 * sizeof(T) ? uint64_t(a) << b : 0)
PK_PTX(shr, (T a, uint32_t b), a >> (b < 8 * sizeof(T) ? b : 8 * sizeof(T) - 1) >> (b >= 8 * sizeof(T)))
#undef PK_PTX
template <class T>
static inline T pk_ptx_fma(T a, T b, T c) {
    if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
    else return __builtin_fma(a, b, c);
}
template <class T>
static inline T pk_ptx_sqrt(T a) {
    if constexpr (sizeof(T) == 4) return __builtin_sqrtf(a);
    else return __builtin_sqrt(a);
}
// The product of two registers, of twice their bits.
template <class T>
static inline auto pk_ptx_mul_wide(T a, T b) {
    if constexpr (sizeof(T) == 8 && T(-1) < T(0)) return (__int128)a * b;
    else if constexpr (sizeof(T) == 8) return (unsigned __int128)a * b;
    else if constexpr (sizeof(T) == 4 && T(-1) < T(0)) return int64_t(a) * b;
    else if constexpr (sizeof(T) == 4) return uint64_t(a) * b;
    else if constexpr (T(-1) < T(0)) return int32_t(a) * b;
    else return uint32_t(a) * b;
}
template <class T>
static inline T pk_ptx_mul_hi(T a, T b) {
    return T(pk_ptx_mul_wide<T>(a, b) >> 8 * sizeof(T));
}

static inline pk_lanes pk_exchange(int line, pk_operation operation, unsigned mask, uint64_t value) {
    return pk_waiting([=](pk_context *now) {
        pk_lanes lanes;
        lanes.came = now->services->exchange(now, line, operation, mask, value, lanes.value);
        return lanes;
    });
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, PK_HERE) {
    (void)pk_exchange(line, PK_SYNC, mask, 0);
}
static inline unsigned __activemask(PK_HERE) {
    return pk_waiting([=](pk_context *now) { return now->services->active(now, line); });
}

template <class T>
static inline T pk_shuffled(int line, unsigned mask, T value, int from) {
    const pk_lanes lanes = pk_exchange(line, PK_SHUFFLE, mask, pk_bits(value));
    return lanes.came >> from & 1 ? pk_of_bits<T>(lanes.value[from]) : value;
}
template <class T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = PK_WARP, PK_HERE) {
    const int lane = pk_lane(), first = lane & -width;
    return pk_shuffled(line, mask, value, first + (from & (width - 1)));
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = PK_WARP, PK_HERE) {
    const int lane = pk_lane(), within = lane & (width - 1);
    return pk_shuffled(line, mask, value, by > unsigned(within) ? lane : lane - int(by));
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = PK_WARP, PK_HERE) {
    const int lane = pk_lane(), within = lane & (width - 1);
    return pk_shuffled(line, mask, value, by >= unsigned(width - within) ? lane : lane + int(by));
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = PK_WARP, PK_HERE) {
    const int lane = pk_lane(), from = lane ^ by, last = lane | (width - 1);
    return pk_shuffled(line, mask, value, from < 0 || from > last ? lane : from);
}

static inline unsigned pk_vote(int line, unsigned mask, bool predicate, unsigned *came) {
    const pk_lanes lanes = pk_exchange(line, PK_VOTE, mask, predicate);
    unsigned votes = 0;
    for (int lane = 0; lane < PK_WARP; ++lane) {
        if (lanes.came >> lane & 1) votes |= unsigned(lanes.value[lane]) << lane;
    }
    *came = lanes.came;
    return votes;
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, PK_HERE) {
    unsigned came;
    return pk_vote(line, mask, predicate != 0, &came);
}
static inline int __any_sync(unsigned mask, int predicate, PK_HERE) {
    unsigned came;
    return pk_vote(line, mask, predicate != 0, &came) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, PK_HERE) {
    unsigned came;
    return pk_vote(line, mask, predicate != 0, &came) == came;
}
static inline int __uni_sync(unsigned mask, int predicate, PK_HERE) {
    unsigned came;
    const unsigned votes = pk_vote(line, mask, predicate != 0, &came);
    return votes == 0 || votes == came;
}

template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value, PK_HERE) {
    const uint64_t bits = pk_bits(value);
    const pk_lanes lanes = pk_exchange(line, PK_MATCH, mask, bits);
    unsigned same = 0;
    for (int lane = 0; lane < PK_WARP; ++lane) {
        same |= unsigned((lanes.came >> lane & 1) && lanes.value[lane] == bits) << lane;
    }
    return same;
}
template <class T>
static inline unsigned __match_all_sync(unsigned mask, T value, int *all, PK_HERE) {
    const uint64_t bits = pk_bits(value);
    const pk_lanes lanes = pk_exchange(line, PK_MATCH, mask, bits);
    bool same = true;
    for (int lane = 0; lane < PK_WARP; ++lane) {
        same = same && (!(lanes.came >> lane & 1) || lanes.value[lane] == bits);
    }
    *all = same;
    return same ? lanes.came : 0;
}

#define PK_REDUCE(name, type, combined)                                             \
    static inline type __reduce_##name##_sync(unsigned mask, type value, PK_HERE) { \
        const pk_lanes lanes = pk_exchange(line, PK_COMBINE, mask, pk_bits(value)); \
        const int own = pk_lane();                                                  \
        type a = value;                                                             \
        for (int lane = 0; lane < PK_WARP; ++lane) {                                \
            if (lane == own || !(lanes.came >> lane & 1)) continue;                 \
            const type b = pk_of_bits<type>(lanes.value[lane]);                     \
            a = combined;                                                           \
        }                                                                           \
        return a;                                                                   \
    }
PK_REDUCE(add, unsigned, a + b)
PK_REDUCE(add, int, int(unsigned(a) + unsigned(b)))
PK_REDUCE(min, unsigned, a < b ? a : b)
PK_REDUCE(min, int, a < b ? a : b)
PK_REDUCE(max, unsigned, a > b ? a : b)
PK_REDUCE(max, int, a > b ? a : b)
PK_REDUCE(and, unsigned, a &b)
PK_REDUCE(or, unsigned, a | b)
PK_REDUCE(xor, unsigned, a ^ b)
#undef PK_REDUCE
