// cuRAND's device API for the CPU: XORWOW (Marsaglia 2003), Philox 4x32-10 (Salmon et al. 2011) and MRG32k3a
// (L'Ecuyer 1999), with cuRAND's sequences. The bits are cuRAND's, except in normal draws, where the GPU's
// log and sin differ, and in Poisson draws of a mean from 64 to 4000, which are by Hoermann's PTRS (1993).
#pragma once

#include "pycudakit_cuda.h"

extern "C++" {

enum { CURAND_EXTRA_FLAG_NORMAL = 1 };

// ---- XORWOW ----

struct curandStateXORWOW {
    unsigned int d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef struct curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;

static inline unsigned int curand(curandStateXORWOW_t *state) {
    unsigned int *v = state->v;
    const unsigned int t = v[0] ^ v[0] >> 2;
    v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
    v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
    state->d += 362437;
    return v[4] + state->d;
}

// The linear part of a step as a matrix over GF(2): row i is the image of bit i.
struct pk_xorwow_jump {
    unsigned int row[160][5];

    PK_OWN void apply(unsigned int *v) const {
        unsigned int made[5] = {0, 0, 0, 0, 0};
        for (int i = 0; i < 160; ++i) {
            const unsigned int mask = 0u - (v[i / 32] >> i % 32 & 1);
            for (int word = 0; word < 5; ++word) made[word] ^= row[i][word] & mask;
        }
        memcpy(v, made, sizeof(made));
    }
};

// The matrix of 2^k steps for every k below 131; sequences are 2^67 steps apart.
struct pk_xorwow_jumps {
    pk_xorwow_jump jump[131];

    PK_OWN pk_xorwow_jumps() {
        for (int i = 0; i < 160; ++i) {
            curandStateXORWOW one = {};
            one.v[i / 32] = 1u << i % 32;
            curand(&one);
            memcpy(jump[0].row[i], one.v, sizeof(one.v));
        }
        for (int k = 1; k < 131; ++k) {
            jump[k] = jump[k - 1];
            for (int i = 0; i < 160; ++i) jump[k - 1].apply(jump[k].row[i]);
        }
    }
};

static __attribute__((noinline)) void pk_xorwow_skip(curandStateXORWOW *state, unsigned long long steps,
                                                     int first) {
    if (steps == 0) return;
    static const pk_xorwow_jumps jumps;
    for (int k = first; steps != 0; ++k, steps >>= 1) {
        if (steps & 1) jumps.jump[k].apply(state->v);
    }
}

static inline void skipahead(unsigned long long steps, curandStateXORWOW_t *state) {
    pk_xorwow_skip(state, steps, 0);
    state->d += 362437u * (unsigned int)steps;
}
static inline void skipahead_sequence(unsigned long long sequences, curandStateXORWOW_t *state) {
    pk_xorwow_skip(state, sequences, 67);
}

static inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long offset, curandStateXORWOW_t *state) {
    const unsigned int low = 1099087573u * ((unsigned int)seed ^ 0xaad26b49u);
    const unsigned int high = 2591861531u * ((unsigned int)(seed >> 32) ^ 0xf7dcefddu);
    *state = {6615241u + high + low,
              {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low},
              0,
              0,
              0.0f,
              0.0};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}

// ---- Philox 4x32-10 ----

struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned int STATE;
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

static inline uint4 curand_Philox4x32_10(uint4 c, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = (uint64_t)0xd2511f53u * c.x, b = (uint64_t)0xcd9e8d57u * c.z;
        c = {(unsigned int)(b >> 32) ^ c.y ^ key.x, (unsigned int)b, (unsigned int)(a >> 32) ^ c.w ^ key.y,
             (unsigned int)a};
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return c;
}

static inline void pk_philox_add(unsigned int *low, unsigned int *high, unsigned long long steps,
                                 bool *carry) {
    const uint64_t before = (uint64_t)*high << 32 | *low, after = before + steps;
    *carry = after < before;
    *low = (unsigned int)after;
    *high = (unsigned int)(after >> 32);
}
static inline void pk_philox_step(curandStatePhilox4_32_10_t *state, unsigned long long steps) {
    bool carry;
    pk_philox_add(&state->ctr.x, &state->ctr.y, steps, &carry);
    if (carry) pk_philox_add(&state->ctr.z, &state->ctr.w, 1, &carry);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
static inline void skipahead_sequence(unsigned long long sequences, curandStatePhilox4_32_10_t *state) {
    bool carry;
    pk_philox_add(&state->ctr.z, &state->ctr.w, sequences, &carry);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
static inline void skipahead(unsigned long long steps, curandStatePhilox4_32_10_t *state) {
    state->STATE += (unsigned int)(steps & 3);
    steps /= 4;
    if (state->STATE > 3) {
        ++steps;
        state->STATE -= 4;
    }
    pk_philox_step(state, steps);
}
static inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long offset, curandStatePhilox4_32_10_t *state) {
    *state = {};
    state->key = {(unsigned int)seed, (unsigned int)(seed >> 32)};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}
static inline unsigned int curand(curandStatePhilox4_32_10_t *state) {
    const uint4 words = state->output;
    const unsigned int which = state->STATE++;
    if (state->STATE == 4) {
        state->STATE = 0;
        pk_philox_step(state, 1);
    }
    return which == 1 ? words.y : which == 2 ? words.z : which == 3 ? words.w : words.x;
}
static inline uint4 curand4(curandStatePhilox4_32_10_t *state) {
    const uint4 a = state->output;
    pk_philox_step(state, 1);
    const uint4 b = state->output;
    switch (state->STATE) {
        case 1: return {a.y, a.z, a.w, b.x};
        case 2: return {a.z, a.w, b.x, b.y};
        case 3: return {a.w, b.x, b.y, b.z};
        default: return a;
    }
}

// ---- MRG32k3a ----

struct curandStateMRG32k3a {
    unsigned int s1[3], s2[3];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;

enum : uint64_t { PK_MRG_M1 = 4294967087u, PK_MRG_M2 = 4294944443u };

// A step of one of the two recurrences, as a matrix modulo m.
struct pk_mrg_matrix {
    uint64_t row[3][3];
};

static inline pk_mrg_matrix pk_mrg_product(const pk_mrg_matrix &a, const pk_mrg_matrix &b, uint64_t m) {
    pk_mrg_matrix c = {};
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) {
            for (int k = 0; k < 3; ++k) c.row[i][j] = (c.row[i][j] + a.row[i][k] * b.row[k][j] % m) % m;
        }
    }
    return c;
}

// Advances a recurrence by steps * 2^first.
static inline void pk_mrg_skip(unsigned int *s, pk_mrg_matrix step, uint64_t m, unsigned long long steps,
                               int first) {
    for (int k = 0; k < first; ++k) step = pk_mrg_product(step, step, m);
    for (; steps != 0; steps >>= 1) {
        if (steps & 1) {
            uint64_t made[3] = {};
            for (int i = 0; i < 3; ++i) {
                for (int k = 0; k < 3; ++k) made[i] = (made[i] + step.row[i][k] * s[k] % m) % m;
            }
            for (int i = 0; i < 3; ++i) s[i] = (unsigned int)made[i];
        }
        step = pk_mrg_product(step, step, m);
    }
}
static inline void pk_mrg_skip_both(curandStateMRG32k3a_t *state, unsigned long long steps, int first) {
    const pk_mrg_matrix a = {{{0, 1, 0}, {0, 0, 1}, {PK_MRG_M1 - 810728u, 1403580u, 0}}};
    const pk_mrg_matrix b = {{{0, 1, 0}, {0, 0, 1}, {PK_MRG_M2 - 1370589u, 0, 527612u}}};
    pk_mrg_skip(state->s1, a, PK_MRG_M1, steps, first);
    pk_mrg_skip(state->s2, b, PK_MRG_M2, steps, first);
}
static inline void skipahead(unsigned long long steps, curandStateMRG32k3a_t *state) {
    pk_mrg_skip_both(state, steps, 0);
}
static inline void skipahead_subsequence(unsigned long long subsequences, curandStateMRG32k3a_t *state) {
    pk_mrg_skip_both(state, subsequences, 76);
}
static inline void skipahead_sequence(unsigned long long sequences, curandStateMRG32k3a_t *state) {
    pk_mrg_skip_both(state, sequences, 127);
}
static inline void curand_init(unsigned long long seed, unsigned long long subsequence,
                               unsigned long long offset, curandStateMRG32k3a_t *state) {
    *state = {{12345u, 12345u, 12345u}, {12345u, 12345u, 12345u}, 0, 0, 0.0f, 0.0};
    if (seed != 0) {
        const uint64_t x = (unsigned int)seed ^ 0x55555555u, y = (unsigned int)(seed >> 32) ^ 0xaaaaaaaau;
        for (int i = 0; i < 3; ++i) {
            state->s1[i] = (unsigned int)((i == 1 ? y : x) * state->s1[i] % PK_MRG_M1);
            state->s2[i] = (unsigned int)((i == 1 ? x : y) * state->s2[i] % PK_MRG_M2);
        }
    }
    skipahead_subsequence(subsequence, state);
    skipahead(offset, state);
}

// A number from 1 to PK_MRG_M1.
static inline double pk_mrg_draw(curandStateMRG32k3a_t *state) {
    const uint64_t a =
        (1403580u * (uint64_t)state->s1[1] + (PK_MRG_M1 - 810728u) * (uint64_t)state->s1[0] % PK_MRG_M1) %
        PK_MRG_M1;
    const uint64_t b =
        (527612u * (uint64_t)state->s2[2] + (PK_MRG_M2 - 1370589u) * (uint64_t)state->s2[0] % PK_MRG_M2) %
        PK_MRG_M2;
    state->s1[0] = state->s1[1], state->s1[1] = state->s1[2], state->s1[2] = (unsigned int)a;
    state->s2[0] = state->s2[1], state->s2[1] = state->s2[2], state->s2[2] = (unsigned int)b;
    return (double)(a > b ? a - b : a + PK_MRG_M1 - b);
}
static inline unsigned int curand(curandStateMRG32k3a_t *state) {
    return (unsigned int)(pk_mrg_draw(state) * 1.000000048662);
}

// ---- Distributions ----

static inline float pk_uniform(unsigned int x) { return (float)x * 0x1p-32f + 0x1p-33f; }
static inline double pk_uniform_double(unsigned int x, unsigned int y) {
    const uint64_t bits = (uint64_t)x ^ (uint64_t)y << 21;
    return (double)bits * 0x1p-53 + 0x1p-54;
}
static inline float2 pk_box_muller(unsigned int x, unsigned int y) {
    constexpr float TURN = 2.3283064e-10f * 6.2831855f;
    const float angle = (float)y * TURN + TURN / 2, radius = sqrtf(-2.0f * logf(pk_uniform(x)));
    return {sinf(angle) * radius, cosf(angle) * radius};
}
static inline double2 pk_box_muller_double(uint4 words) {
    const uint64_t bits = (uint64_t)words.z ^ (uint64_t)words.w << 21;
    const double radius = sqrt(-2.0 * log(pk_uniform_double(words.x, words.y)));
    double s, c;
    sincospi((double)bits * 0x1p-52 + 0x1p-53, &s, &c);
    return {s * radius, c * radius};
}

template <class State>
static inline uint4 pk_four(State *state) {
    uint4 words;
    words.x = curand(state);
    words.y = curand(state);
    words.z = curand(state);
    words.w = curand(state);
    return words;
}
static inline uint4 pk_four(curandStatePhilox4_32_10_t *state) { return curand4(state); }

static inline float curand_uniform(curandStateXORWOW_t *state) { return pk_uniform(curand(state)); }
static inline float curand_uniform(curandStatePhilox4_32_10_t *state) { return pk_uniform(curand(state)); }
static inline float4 curand_uniform4(curandStatePhilox4_32_10_t *state) {
    const uint4 words = curand4(state);
    return {pk_uniform(words.x), pk_uniform(words.y), pk_uniform(words.z), pk_uniform(words.w)};
}
static inline double curand_uniform_double(curandStateXORWOW_t *state) {
    const unsigned int x = curand(state), y = curand(state);
    return pk_uniform_double(x, y);
}
static inline double curand_uniform_double(curandStatePhilox4_32_10_t *state) {
    return (double)curand(state) * 0x1p-32 + 0x1p-32;
}
static inline double2 curand_uniform2_double(curandStatePhilox4_32_10_t *state) {
    const uint4 words = curand4(state);
    return {pk_uniform_double(words.x, words.y), pk_uniform_double(words.z, words.w)};
}

constexpr double PK_MRG_NORM = 2.328306549295728e-10;
static inline float curand_uniform(curandStateMRG32k3a_t *state) {
    return (float)(pk_mrg_draw(state) * PK_MRG_NORM);
}
static inline double curand_uniform_double(curandStateMRG32k3a_t *state) {
    return pk_mrg_draw(state) * PK_MRG_NORM;
}

template <class State>
static inline float2 pk_normal_pair(State *state) {
    const unsigned int x = curand(state), y = curand(state);
    return pk_box_muller(x, y);
}
static inline float2 pk_normal_pair(curandStateMRG32k3a_t *state) {
    const float radius = sqrtf(-2.0f * logf(curand_uniform(state)));
    const float angle = curand_uniform(state) * 6.2831855f;
    return {sinf(angle) * radius, cosf(angle) * radius};
}
template <class State>
static inline double2 pk_normal_pair_double(State *state) {
    return pk_box_muller_double(pk_four(state));
}
static inline double2 pk_normal_pair_double(curandStateMRG32k3a_t *state) {
    const double radius = sqrt(-2.0 * log(curand_uniform_double(state)));
    double s, c;
    sincospi(curand_uniform_double(state) * 2.0, &s, &c);
    return {s * radius, c * radius};
}

static inline double curand_normal_double(curandStateXORWOW_t *state);
static inline double curand_normal_double(curandStatePhilox4_32_10_t *state);
static inline double curand_normal_double(curandStateMRG32k3a_t *state);

template <class State>
static inline unsigned int pk_poisson(State *state, double mean) {
    if (!(mean > 0)) return 0;
    if (mean < 64) {  // Knuth's product of uniform draws
        unsigned int count = 0;
        float product = expf((float)mean);
        do {
            ++count;
            product *= curand_uniform(state);
        } while (product > 1.0f);
        return count - 1;
    }
    if (mean > 4000) return (unsigned int)(curand_normal_double(state) * sqrt(mean) + mean + 0.5);
    const double root = sqrt(mean), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    const double inverse = 1.1239 + 1.1328 / (b - 3.4), fits = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = curand_uniform_double(state) - 0.5, v = curand_uniform_double(state);
        const double s = 0.5 - fabs(u), k = floor((2 * a / s + b) * u + mean + 0.43);
        if (s >= 0.07 && v <= fits) return (unsigned int)k;
        if (k < 0 || (s < 0.013 && v > s)) continue;
        if (log(v) + log(inverse) - log(a / (s * s) + b) <= k * log(mean) - mean - lgamma(k + 1))
            return (unsigned int)k;
    }
}

// For each state: normal draws come in pairs (Box-Muller); the second is kept for the next call.
#define PK_NORMAL(State)                                                                               \
    static inline float2 curand_normal2(State *state) { return pk_normal_pair(state); }                \
    static inline float curand_normal(State *state) {                                                  \
        if (state->boxmuller_flag == CURAND_EXTRA_FLAG_NORMAL) {                                       \
            state->boxmuller_flag = 0;                                                                 \
            return state->boxmuller_extra;                                                             \
        }                                                                                              \
        const float2 pair = curand_normal2(state);                                                     \
        state->boxmuller_extra = pair.y;                                                               \
        state->boxmuller_flag = CURAND_EXTRA_FLAG_NORMAL;                                              \
        return pair.x;                                                                                 \
    }                                                                                                  \
    static inline double2 curand_normal2_double(State *state) { return pk_normal_pair_double(state); } \
    static inline double curand_normal_double(State *state) {                                          \
        if (state->boxmuller_flag_double == CURAND_EXTRA_FLAG_NORMAL) {                                \
            state->boxmuller_flag_double = 0;                                                          \
            return state->boxmuller_extra_double;                                                      \
        }                                                                                              \
        const double2 pair = curand_normal2_double(state);                                             \
        state->boxmuller_extra_double = pair.y;                                                        \
        state->boxmuller_flag_double = CURAND_EXTRA_FLAG_NORMAL;                                       \
        return pair.x;                                                                                 \
    }                                                                                                  \
    static inline float curand_log_normal(State *state, float mean, float deviation) {                 \
        return expf(mean + deviation * curand_normal(state));                                          \
    }                                                                                                  \
    static inline double curand_log_normal_double(State *state, double mean, double deviation) {       \
        return exp(mean + deviation * curand_normal_double(state));                                    \
    }                                                                                                  \
    static inline float2 curand_log_normal2(State *state, float mean, float deviation) {               \
        const float2 pair = curand_normal2(state);                                                     \
        return {expf(mean + deviation * pair.x), expf(mean + deviation * pair.y)};                     \
    }                                                                                                  \
    static inline double2 curand_log_normal2_double(State *state, double mean, double deviation) {     \
        const double2 pair = curand_normal2_double(state);                                             \
        return {exp(mean + deviation * pair.x), exp(mean + deviation * pair.y)};                       \
    }                                                                                                  \
    static inline unsigned int curand_poisson(State *state, double mean) { return pk_poisson(state, mean); }
PK_NORMAL(curandStateXORWOW_t)
PK_NORMAL(curandStatePhilox4_32_10_t)
PK_NORMAL(curandStateMRG32k3a_t)
#undef PK_NORMAL

static inline float4 curand_normal4(curandStatePhilox4_32_10_t *state) {
    const uint4 words = curand4(state);
    const float2 a = pk_box_muller(words.x, words.y), b = pk_box_muller(words.z, words.w);
    return {a.x, a.y, b.x, b.y};
}
}
