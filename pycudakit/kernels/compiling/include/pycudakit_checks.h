// Runtime checks of sources compiled with debug=True: the compiler calls a function before every access (as
// the kernel address sanitizer does), loops count iterations, and the engine allocates static shared memory.
#pragma once

#define PK_UNCHECKED PK_HIDDEN PK_OWN

PK_OWN static void pk_access(uint64_t address, uint64_t bytes, int how) {
    if (pk_now != nullptr) pk_now->services->access(pk_now, address, bytes, how);
}

extern "C" {
#define PK_ACCESSES(bytes)                                                                             \
    PK_UNCHECKED void __asan_load##bytes##_noabort(uint64_t address) { pk_access(address, bytes, 0); } \
    PK_UNCHECKED void __asan_store##bytes##_noabort(uint64_t address) {                                \
        pk_access(address, bytes, PK_WRITES);                                                          \
    }
PK_ACCESSES(1)
PK_ACCESSES(2)
PK_ACCESSES(4)
PK_ACCESSES(8)
PK_ACCESSES(16)
#undef PK_ACCESSES
PK_UNCHECKED void __asan_loadN_noabort(uint64_t address, uint64_t bytes) {
    pk_access(address, bytes, PK_ANYWHERE);
}
PK_UNCHECKED void __asan_storeN_noabort(uint64_t address, uint64_t bytes) {
    pk_access(address, bytes, PK_WRITES | PK_ANYWHERE);
}
PK_UNCHECKED void __asan_handle_no_return(void) {}
PK_UNCHECKED void *__asan_memcpy(void *to, const void *from, size_t bytes) {
    if (bytes != 0)
        pk_access((uint64_t)from, bytes, PK_ANYWHERE),
            pk_access((uint64_t)to, bytes, PK_WRITES | PK_ANYWHERE);
    return __builtin_memcpy(to, from, bytes);
}
PK_UNCHECKED void *__asan_memmove(void *to, const void *from, size_t bytes) {
    if (bytes != 0)
        pk_access((uint64_t)from, bytes, PK_ANYWHERE),
            pk_access((uint64_t)to, bytes, PK_WRITES | PK_ANYWHERE);
    return __builtin_memmove(to, from, bytes);
}
PK_UNCHECKED void *__asan_memset(void *to, int byte, size_t bytes) {
    if (bytes != 0) pk_access((uint64_t)to, bytes, PK_WRITES | PK_ANYWHERE);
    return __builtin_memset(to, byte, bytes);
}
}

template <class T>
struct pk_element {
    using type = T;
};
template <class T, size_t n>
struct pk_element<T[n]> {
    using type = typename pk_element<T>::type;
};

template <class T>
static inline T &pk_shared_variable(int index, const char *name) {
    constexpr int64_t item = sizeof(typename pk_element<T>::type);
    return *(T *)pk_now->services->variable(pk_now, index, sizeof(T), item, name);
}

static thread_local unsigned pk_rounds;
static inline void pk_count_round() {
    if (++pk_rounds % 256 == 0 && pk_now != nullptr) pk_now->services->tick(pk_now);
}
static inline constexpr bool pk_round() {
    if (!__builtin_is_constant_evaluated()) pk_count_round();
    return true;
}
#define for(...)           \
    for (__VA_ARGS__)      \
        if (!pk_round()) { \
        } else
#define while(...) while (pk_round() && (__VA_ARGS__))
