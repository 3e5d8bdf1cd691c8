// CUDA's atomic operations for the CPU, by the compiler's __atomic builtins.
#pragma once

// The value is not deduced, so that it converts to the type of the pointer's target.
template <class T>
struct pk_plain {
    using type = T;
};
template <class T>
struct pk_plain<volatile T> {
    using type = T;
};
template <class T>
using pk_value = typename pk_plain<T>::type;

// Checks the address of an atomic operation, which is not instrumented as an access: it is no race.
#if defined(PK_CHECKED)
#define PK_ATOMIC_FUNCTION PK_OWN
static void pk_access(uint64_t address, uint64_t bytes, int how);
#define PK_CHECK_ATOMIC(address) pk_access((uint64_t)(address), sizeof(*(address)), PK_ORDERED | PK_WRITES)
#else
#define PK_ATOMIC_FUNCTION
#define PK_CHECK_ATOMIC(address) ((void)0)
#endif

// Replaces a value v by next(v) in a compare-and-swap loop, and returns v.
template <class T, class Next>
PK_ATOMIC_FUNCTION static inline pk_value<T> pk_update(T *address, Next next) {
    PK_CHECK_ATOMIC(address);
    pk_value<T> old, made;
    __atomic_load((pk_value<T> *)address, &old, __ATOMIC_RELAXED);
    do {
        made = next(old);
    } while (!__atomic_compare_exchange((pk_value<T> *)address, &old, &made, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return old;
}

#define PK_ATOMIC(name, next)                                                            \
    template <class T>                                                                   \
    static inline pk_value<T> name(T *address, pk_value<T> value) {                      \
        return pk_update(address, [=](pk_value<T> old) -> pk_value<T> { return next; }); \
    }                                                                                    \
    template <class T>                                                                   \
    static inline pk_value<T> name##_block(T *address, pk_value<T> value) {              \
        return name(address, value);                                                     \
    }                                                                                    \
    template <class T>                                                                   \
    static inline pk_value<T> name##_system(T *address, pk_value<T> value) {             \
        return name(address, value);                                                     \
    }

PK_ATOMIC(atomicAdd, old + value)
PK_ATOMIC(atomicSub, old - value)
PK_ATOMIC(atomicExch, ((void)old, value))
PK_ATOMIC(atomicMin, value < old ? value : old)
PK_ATOMIC(atomicMax, value > old ? value : old)
PK_ATOMIC(atomicAnd, old &value)
PK_ATOMIC(atomicOr, old | value)
PK_ATOMIC(atomicXor, old ^ value)
PK_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
PK_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef PK_ATOMIC

// Integer operations with an instruction. Sums of signed integers wrap, too.
#define PK_FETCH(name, fetch, type)                                         \
    PK_ATOMIC_FUNCTION static inline type name(type *address, type value) { \
        PK_CHECK_ATOMIC(address);                                           \
        return fetch(address, value, __ATOMIC_RELAXED);                     \
    }
#define PK_FETCHES(type)                          \
    PK_FETCH(atomicAdd, __atomic_fetch_add, type) \
    PK_FETCH(atomicSub, __atomic_fetch_sub, type) \
    PK_FETCH(atomicAnd, __atomic_fetch_and, type) \
    PK_FETCH(atomicOr, __atomic_fetch_or, type)   \
    PK_FETCH(atomicXor, __atomic_fetch_xor, type)
PK_FETCHES(int)
PK_FETCHES(unsigned int)
PK_FETCHES(long long)
PK_FETCHES(unsigned long long)
#undef PK_FETCHES
#undef PK_FETCH

template <class T>
PK_ATOMIC_FUNCTION static inline pk_value<T> atomicCAS(T *address, pk_value<T> compare, pk_value<T> value) {
    PK_CHECK_ATOMIC(address);
    __atomic_compare_exchange((pk_value<T> *)address, &compare, &value, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
    return compare;
}
template <class T>
static inline pk_value<T> atomicCAS_block(T *address, pk_value<T> compare, pk_value<T> value) {
    return atomicCAS(address, compare, value);
}
template <class T>
static inline pk_value<T> atomicCAS_system(T *address, pk_value<T> compare, pk_value<T> value) {
    return atomicCAS(address, compare, value);
}
