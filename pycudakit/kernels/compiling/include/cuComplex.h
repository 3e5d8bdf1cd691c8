// CUDA's cuComplex.h: complex numbers in C, cuFloatComplex and cuDoubleComplex.
#pragma once
#include "pycudakit_cuda.h"

#define PK_COMPLEX(type, T, suffix, make, function)                                          \
    static inline type make(T x, T y) { return make_##T##2(x, y); }                          \
    static inline T cuCreal##suffix(type a) { return a.x; }                                  \
    static inline T cuCimag##suffix(type a) { return a.y; }                                  \
    static inline type cuConj##suffix(type a) { return make(a.x, -a.y); }                    \
    static inline type cuCadd##suffix(type a, type b) { return make(a.x + b.x, a.y + b.y); } \
    static inline type cuCsub##suffix(type a, type b) { return make(a.x - b.x, a.y - b.y); } \
    static inline type cuCmul##suffix(type a, type b) {                                      \
        return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                           \
    }                                                                                        \
    /* Scaled as in CUDA's header, so that no square overflows. */                           \
    static inline type cuCdiv##suffix(type a, type b) {                                      \
        const T scale = T(1) / (function(b.x) + function(b.y));                              \
        const T ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale;      \
        const T over = T(1) / (bx * bx + by * by);                                           \
        return make((ax * bx + ay * by) * over, (ay * bx - ax * by) * over);                 \
    }                                                                                        \
    static inline T cuCabs##suffix(type a) { return hypot(a.x, a.y); }                       \
    static inline type cuCfma##suffix(type a, type b, type c) {                              \
        return cuCadd##suffix(cuCmul##suffix(a, b), c);                                      \
    }

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
PK_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex, fabsf)
PK_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex, fabs)
#undef PK_COMPLEX

static inline cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }
static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
    return make_cuFloatComplex(float(a.x), float(a.y));
}
static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) {
    return make_cuDoubleComplex(a.x, a.y);
}
