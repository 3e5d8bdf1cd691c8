// CUDA's intrinsics for the CPU: functions that are single instructions on a GPU.
#pragma once

// ---- Floats. Macros, since glibc uses some of the names. ----

#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)

static inline float __fdividef(float x, float y) { return x / y; }
static inline float fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __drcp_rn(double x) { return 1.0 / x; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

// ---- Bits ----

static inline int __float_as_int(float x) { return pk_of_bits<int>(pk_bits(x)); }
static inline unsigned __float_as_uint(float x) { return pk_of_bits<unsigned>(pk_bits(x)); }
static inline float __int_as_float(int x) { return pk_of_bits<float>(pk_bits(x)); }
static inline float __uint_as_float(unsigned x) { return pk_of_bits<float>(pk_bits(x)); }
static inline long long __double_as_longlong(double x) { return (long long)pk_bits(x); }
static inline double __longlong_as_double(long long x) { return pk_of_bits<double>(pk_bits(x)); }
static inline int __double2hiint(double x) { return (int)(pk_bits(x) >> 32); }
static inline int __double2loint(double x) { return (int)pk_bits(x); }
static inline double __hiloint2double(int high, int low) {
    return pk_of_bits<double>((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned long long __brevll(unsigned long long x) {
    x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
    return __builtin_bswap64(x);
}
static inline unsigned __brev(unsigned x) { return (unsigned)(__brevll(x) >> 32); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned made = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned which = selector >> 4 * i & 7;
        made |= unsigned(bytes >> 8 * which & 255) << 8 * i;
    }
    return made;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by);
}

// ---- Integers ----

static inline int __mulhi(int x, int y) { return (int)((int64_t)x * y >> 32); }
static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }
static inline long long __mul64hi(long long x, long long y) {
    __extension__ typedef __int128 wide;
    return (long long)((wide)x * y >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)x * y >> 64);
}
static inline int __mul24(int x, int y) {
    return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8));
}
static inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
static inline unsigned __sad(int x, int y, unsigned z) {
    return z + (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x);
}
static inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
static inline int __hadd(int x, int y) { return (int)(((int64_t)x + y) >> 1); }
static inline int __rhadd(int x, int y) { return (int)(((int64_t)x + y + 1) >> 1); }
static inline unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((uint64_t)x + y) >> 1); }
static inline unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((uint64_t)x + y + 1) >> 1); }
static inline int __dp4a(int x, int y, int sum) {
    unsigned made = (unsigned)sum;
    for (int i = 0; i < 4; ++i)
        made += (unsigned)((int8_t)((unsigned)x >> 8 * i) * (int8_t)((unsigned)y >> 8 * i));
    return (int)made;
}
static inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
    for (int i = 0; i < 4; ++i) sum += (x >> 8 * i & 255) * (y >> 8 * i & 255);
    return sum;
}

// ---- Conversions saturate. NaN becomes 0, or the value with only the highest bit set if either type has
// 64 bits. ----

template <class To, class From>
static inline To pk_saturated(From rounded, From below, From above, To least, To most, bool wide) {
    if (rounded != rounded) return wide ? (To)(1ull << (8 * sizeof(To) - 1)) : (To)0;
    return rounded <= below ? least : rounded >= above ? most : (To)rounded;
}
#define PK_CONVERT(name, From, To, round, least, most, above, wide)                               \
    static inline To name(From x) {                                                               \
        return pk_saturated<To, From>(round(x), (From)(least), (From)(above), least, most, wide); \
    }
#define PK_CONVERTS(from, From, to, To, suffix, least, most, above, wide)               \
    PK_CONVERT(__##from##2##to##_rn, From, To, rint##suffix, least, most, above, wide)  \
    PK_CONVERT(__##from##2##to##_rz, From, To, trunc##suffix, least, most, above, wide) \
    PK_CONVERT(__##from##2##to##_rd, From, To, floor##suffix, least, most, above, wide) \
    PK_CONVERT(__##from##2##to##_ru, From, To, ceil##suffix, least, most, above, wide)
PK_CONVERTS(float, float, int, int, f, INT_MIN, INT_MAX, 0x1p31, false)
PK_CONVERTS(float, float, uint, unsigned, f, 0u, UINT_MAX, 0x1p32, false)
PK_CONVERTS(float, float, ll, long long, f, LLONG_MIN, LLONG_MAX, 0x1p63, true)
PK_CONVERTS(float, float, ull, unsigned long long, f, 0ull, ULLONG_MAX, 0x1p64, true)
PK_CONVERTS(double, double, int, int, , INT_MIN, INT_MAX, 0x1p31, true)
PK_CONVERTS(double, double, uint, unsigned, , 0u, UINT_MAX, 0x1p32, true)
PK_CONVERTS(double, double, ll, long long, , LLONG_MIN, LLONG_MAX, 0x1p63, true)
PK_CONVERTS(double, double, ull, unsigned long long, , 0ull, ULLONG_MAX, 0x1p64, true)
#undef PK_CONVERTS
#undef PK_CONVERT
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __ull2float_rn(unsigned long long x) { return (float)x; }
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }
static inline double __ll2double_rn(long long x) { return (double)x; }
static inline double __ull2double_rn(unsigned long long x) { return (double)x; }
static inline float __double2float_rn(double x) { return (float)x; }

// ---- Memory ----

#define PK_LOAD(name)                        \
    template <class T>                       \
    static inline T name(const T *address) { \
        return *address;                     \
    }
PK_LOAD(__ldg)
PK_LOAD(__ldca)
PK_LOAD(__ldcg)
PK_LOAD(__ldcs)
PK_LOAD(__ldcv)
PK_LOAD(__ldlu)
#undef PK_LOAD
#define PK_STORE(name)                             \
    template <class T>                             \
    static inline void name(T *address, T value) { \
        *address = value;                          \
    }
PK_STORE(__stwb)
PK_STORE(__stcg)
PK_STORE(__stcs)
PK_STORE(__stwt)
#undef PK_STORE
