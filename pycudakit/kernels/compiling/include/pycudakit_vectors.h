// CUDA's vector types (float4, int2, ...), with CUDA's alignment.
#pragma once

#define PK_VECTORS(base, name, a2, a4)                                                           \
    struct name##1 { base x; };                                                                  \
    struct __align__(a2) name##2 { base x, y; };                                                 \
    struct name##3 { base x, y, z; };                                                            \
    struct __align__(a4) name##4 { base x, y, z, w; };                                           \
    static inline constexpr name##1 make_##name##1(base x) { return {x}; }                       \
    static inline constexpr name##2 make_##name##2(base x, base y) { return {x, y}; }            \
    static inline constexpr name##3 make_##name##3(base x, base y, base z) { return {x, y, z}; } \
    static inline constexpr name##4 make_##name##4(base x, base y, base z, base w) { return {x, y, z, w}; }

PK_VECTORS(signed char, char, 2, 4)
PK_VECTORS(unsigned char, uchar, 2, 4)
PK_VECTORS(short, short, 4, 8)
PK_VECTORS(unsigned short, ushort, 4, 8)
PK_VECTORS(int, int, 8, 16)
PK_VECTORS(unsigned int, uint, 8, 16)
PK_VECTORS(long, long, 16, 16)
PK_VECTORS(unsigned long, ulong, 16, 16)
PK_VECTORS(long long, longlong, 16, 16)
PK_VECTORS(unsigned long long, ulonglong, 16, 16)
PK_VECTORS(float, float, 8, 16)
PK_VECTORS(double, double, 16, 16)
#undef PK_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
