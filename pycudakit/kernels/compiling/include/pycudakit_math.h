// CUDA's mathematical functions for kernels that the host's C++ compiler builds to run on the CPU: functions
// that the C library lacks (rsqrt, sincospi, erfinv, ...), min and max, and overloads for float.
#pragma once

#if defined(__APPLE__)  // its C library lacks these GNU extensions
static inline void sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
static inline void sincos(double x, double *s, double *c) { *s = sin(x), *c = cos(x); }
static inline float exp10f(float x) { return powf(10.0f, x); }
static inline double exp10(double x) { return pow(10.0, x); }
#endif

static inline float pk_rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double pk_rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline double rcbrt(double x) { return 1.0 / cbrt(x); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
static inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
static inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
static inline double norm3d(double x, double y, double z) { return sqrt(x * x + y * y + z * z); }
static inline float norm3df(float x, float y, float z) {
    return (float)sqrt((double)x * x + (double)y * y + (double)z * z);
}
static inline double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
static inline float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
static inline double norm4d(double x, double y, double z, double w) {
    return sqrt(x * x + y * y + z * z + w * w);
}
static inline float norm4df(float x, float y, float z, float w) { return (float)norm4d(x, y, z, w); }
static inline double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
static inline float rnorm4df(float x, float y, float z, float w) { return (float)rnorm4d(x, y, z, w); }

// The quantile of the normal distribution: a rational approximation (Abramowitz and Stegun 26.2.23), and two
// steps of Halley's method.
static inline double normcdfinv(double p) {
    if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : NAN;
    const double tail = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(tail));
    const double numerator = 2.515517 + t * (0.802853 + t * 0.010328);
    double x = numerator / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
    for (int step = 0; step < 2; ++step) {
        const double u = (normcdf(x) - tail) * 2.50662827463100050 * exp(0.5 * x * x);
        x -= u / (1 + 0.5 * x * u);
    }
    return p < 0.5 ? x : -x;
}
static inline double erfinv(double x) {
    if (!(fabs(x) <= 0.5)) {
        const double outside = normcdfinv(0.5 * (x < 0 ? 1 + x : 1 - x)) * 0.70710678118654752;
        return x < 0 ? outside : -outside;
    }
    const double y = x == 0 ? x : 0.70710678118654752 * normcdfinv(0.5 * (1 + x));
    return y - (erf(y) - x) * 0.88622692545275801 * exp(y * y);  // so that small x have all digits
}
static inline double erfcinv(double y) {
    return fabs(1 - y) <= 0.5 ? erfinv(1 - y) : -0.70710678118654752 * normcdfinv(0.5 * y);
}
static inline float normcdfinvf(float p) { return (float)normcdfinv(p); }
static inline float erfcinvf(float y) { return (float)erfcinv(y); }
static inline float erfinvf(float x) { return (float)erfinv(x); }

// exp(x * x) * erfc(x): from 25 on by the asymptotic series, as erfc becomes zero.
static inline double erfcx(double x) {
    if (!(x > 25)) return exp(x * x) * erfc(x);
    const double s = 0.5 / x / x;
    return (1 - s * (1 - s * (3 - s * (15 - s * (105 - s * (945 - s * 10395)))))) * 0.56418958354775629 / x;
}
static inline float erfcxf(float x) { return (float)erfcx(x); }

// Modified Bessel functions of the first kind: the power series, whose terms are all positive.
static inline double pk_bessel_i(int order, double x) {
    const double square = 0.25 * x * x;
    double term = order == 0 ? 1.0 : 0.5 * x, sum = term;
    for (int k = 1; fabs(term) > 1e-17 * fabs(sum) && sum - sum == 0; ++k) {
        term *= square / ((double)k * (k + order));
        sum += term;
    }
    return sum;
}
static inline double cyl_bessel_i0(double x) { return pk_bessel_i(0, x); }
static inline double cyl_bessel_i1(double x) { return pk_bessel_i(1, x); }
static inline float cyl_bessel_i0f(float x) { return (float)pk_bessel_i(0, x); }
static inline float cyl_bessel_i1f(float x) { return (float)pk_bessel_i(1, x); }

// Argument reduction by quarter turns (pi / 2), so that multiples of one half are exact.
static inline void sincospi(double x, double *s, double *c) {
    const double quarters = rint(2.0 * x), angle = (x - 0.5 * quarters) * 3.14159265358979323846;
    const double sine = sin(angle), cosine = cos(angle);
    const int quarter = (int)(quarters - 4.0 * floor(quarters / 4.0));
    const double sines[] = {sine, cosine, -sine, -cosine}, cosines[] = {cosine, -sine, -cosine, sine};
    const bool finite = x - x == 0;
    *s = finite ? sines[quarter & 3] : x - x;
    *c = finite ? cosines[quarter & 3] : x - x;
}
static inline void sincospif(float x, float *s, float *c) {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    *s = (float)sine, *c = (float)cosine;
}
static inline double pk_sinpi(double x) {
    double s, c;
    sincospi(x, &s, &c);
    return s;
}
static inline double pk_cospi(double x) {
    double s, c;
    sincospi(x, &s, &c);
    return c;
}
static inline float pk_sinpif(float x) { return (float)pk_sinpi(x); }
static inline float pk_cospif(float x) { return (float)pk_cospi(x); }

// The overloads of libstdc++'s <cmath>, which is left out because it takes long to compile.
#if defined(PK_OWN_OVERLOADS)
#define PK_MATH1(name)                                                   \
    static inline float name(float x) { return name##f(x); }             \
    static inline long double name(long double x) { return name##l(x); } \
    template <class T>                                                   \
    static inline auto name(T x) -> decltype(x % x, double()) {          \
        return name((double)x);                                          \
    }
#define PK_MATH2(name)                                                                     \
    static inline float name(float x, float y) { return name##f(x, y); }                   \
    static inline long double name(long double x, long double y) { return name##l(x, y); } \
    template <class A, class B>                                                            \
    static inline auto name(A x, B y) -> decltype(x * y + 1.0) {                           \
        return name((double)x, (double)y);                                                 \
    }
PK_MATH1(sqrt)
PK_MATH1(cbrt)
PK_MATH1(exp)
PK_MATH1(exp2)
PK_MATH1(expm1)
PK_MATH1(log)
PK_MATH1(log2)
PK_MATH1(log10)
PK_MATH1(log1p)
PK_MATH1(logb)
PK_MATH1(sin)
PK_MATH1(cos)
PK_MATH1(tan)
PK_MATH1(asin)
PK_MATH1(acos)
PK_MATH1(atan)
PK_MATH1(sinh)
PK_MATH1(cosh)
PK_MATH1(tanh)
PK_MATH1(asinh)
PK_MATH1(acosh)
PK_MATH1(atanh)
PK_MATH1(erf)
PK_MATH1(erfc)
PK_MATH1(tgamma)
PK_MATH1(lgamma)
PK_MATH1(ceil)
PK_MATH1(floor)
PK_MATH1(trunc)
PK_MATH1(round)
PK_MATH1(rint)
PK_MATH1(nearbyint)
PK_MATH1(fabs)
PK_MATH2(pow)
PK_MATH2(atan2)
PK_MATH2(fmod)
PK_MATH2(remainder)
PK_MATH2(fmin)
PK_MATH2(fmax)
PK_MATH2(fdim)
PK_MATH2(hypot)
PK_MATH2(copysign)
PK_MATH2(nextafter)
#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define PK_CLASSIFY(type)                                                 \
    static inline bool isnan(type x) { return __builtin_isnan(x); }       \
    static inline bool isinf(type x) { return __builtin_isinf(x); }       \
    static inline bool isfinite(type x) { return __builtin_isfinite(x); } \
    static inline bool signbit(type x) { return __builtin_signbit(x); }
PK_CLASSIFY(float)
PK_CLASSIFY(double)
PK_CLASSIFY(long double)
#undef PK_CLASSIFY
static inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
static inline float ldexp(float x, int exponent) { return ldexpf(x, exponent); }
static inline float scalbn(float x, int exponent) { return scalbnf(x, exponent); }
static inline float frexp(float x, int *exponent) { return frexpf(x, exponent); }
static inline float modf(float x, float *whole) { return modff(x, whole); }
static inline int ilogb(float x) { return ilogbf(x); }
static inline long lrint(float x) { return lrintf(x); }
static inline long lround(float x) { return lroundf(x); }
static inline long long llrint(float x) { return llrintf(x); }
static inline long long llround(float x) { return llroundf(x); }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }
static inline long double abs(long double x) { return fabsl(x); }
static inline long abs(long x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
#undef PK_MATH1
#undef PK_MATH2
#endif
static inline float pk_rsqrt(float x) { return pk_rsqrtf(x); }
static inline float rcbrt(float x) { return rcbrtf(x); }
static inline float pk_sinpi(float x) { return pk_sinpif(x); }
static inline float pk_cospi(float x) { return pk_cospif(x); }
static inline float exp10(float x) { return exp10f(x); }
static inline void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
static inline float normcdf(float x) { return normcdff(x); }
static inline float normcdfinv(float p) { return normcdfinvf(p); }
static inline float erfcinv(float y) { return erfcinvf(y); }
static inline float erfinv(float x) { return erfinvf(x); }
static inline float erfcx(float x) { return erfcxf(x); }
static inline float cyl_bessel_i0(float x) { return cyl_bessel_i0f(x); }
static inline float cyl_bessel_i1(float x) { return cyl_bessel_i1f(x); }

// min and max. For floats they are as fmin and fmax: the result is NaN only if both arguments are.
#define PK_EXTREME(name, sign)                                            \
    template <class A, class B>                                           \
    static inline auto name(A a, B b) -> decltype(true ? a * 1 : b * 1) { \
        using T = decltype(true ? a * 1 : b * 1);                         \
        const T x = T(a), y = T(b);                                       \
        return x sign y || y != y ? x : y;                                \
    }
PK_EXTREME(min, <)
PK_EXTREME(max, >)
#undef PK_EXTREME
static inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
static inline long long llmin(long long a, long long b) { return a < b ? a : b; }
static inline long long llmax(long long a, long long b) { return a > b ? a : b; }

// Macros, since C23 declares functions with these names.
#define rsqrt(x) pk_rsqrt(x)
#define rsqrtf(x) pk_rsqrtf(x)
#define sinpi(x) pk_sinpi(x)
#define sinpif(x) pk_sinpif(x)
#define cospi(x) pk_cospi(x)
#define cospif(x) pk_cospif(x)
