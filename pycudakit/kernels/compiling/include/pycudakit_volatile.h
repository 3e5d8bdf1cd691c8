// Lanes of a warp in step at volatile accesses, as warp-synchronous code expects: the compiler calls these
// functions before each access to memory (as for ThreadSanitizer, with volatile accesses told apart).
//
// A lane waits for the others before a volatile write, so that all have read the statement's operands, and
// before its next access after one, so that all have written. It also waits between a plain write and a
// volatile read, which is where a plain array is passed on by a volatile pointer.
#pragma once

enum { PK_SPINS = 64 };  // reads of one address

static thread_local const void *pk_last_read;
static thread_local int pk_same_reads;

// Whether an address is in the stack of the kernel's thread.
#define PK_IS_LOCAL(address)                                          \
    ((uintptr_t)(address) >= (uintptr_t)__builtin_frame_address(0) && \
     (uintptr_t)(address) < (uintptr_t)pk_stack)

PK_OWN static void pk_turn(int spins) {
    pk_last_read = nullptr;
    pk_same_reads = 0;
    (void)pk_waiting([=](pk_context *now) PK_OWN {
        now->services->turn(now, spins);
        return 0;
    });
}

extern "C" {
#define PK_HOOK PK_HIDDEN PK_OWN

PK_HOOK void pk_before_volatile_write(const void *address) {
    if (pk_now == nullptr || PK_IS_LOCAL(address)) return;
    pk_turn(0);
    pk_wrote = PK_VOLATILE_VALUE;
}
PK_HOOK void pk_before_volatile_read(const void *address) {
    if (pk_now == nullptr || PK_IS_LOCAL(address)) return;
    if (pk_wrote != PK_NOTHING) {
        pk_turn(0);
    } else if (address != pk_last_read) {
        pk_last_read = address;
        pk_same_reads = 0;
    } else if (++pk_same_reads == PK_SPINS) {
        pk_turn(1);
    }
}
PK_HOOK void pk_before_access(const void *address) {
    if (__builtin_expect(pk_wrote == PK_VOLATILE_VALUE, 0) && !PK_IS_LOCAL(address)) pk_turn(0);
}
PK_HOOK void pk_before_plain_write(const void *address) {
    if (PK_IS_LOCAL(address)) return;
    if (__builtin_expect(pk_wrote == PK_VOLATILE_VALUE, 0)) pk_turn(0);
    pk_wrote = PK_PLAIN_VALUE;
}

#if defined(PK_CHECKED)
#define PK_CHECK(address, bytes, how) pk_access((uint64_t)(address), bytes, how)
#else
#define PK_CHECK(address, bytes, how) ((void)0)
#endif
#define PK_BEFORE(name, before, bytes, how)           \
    PK_HOOK void __tsan_##name(const void *address) { \
        PK_CHECK(address, bytes, how);                \
        before(address);                              \
    }
#define PK_KINDS(bytes)                                                                                 \
    PK_BEFORE(read##bytes, pk_before_access, bytes, 0)                                                  \
    PK_BEFORE(write##bytes, pk_before_plain_write, bytes, PK_WRITES)                                    \
    PK_BEFORE(read_write##bytes, pk_before_plain_write, bytes, PK_WRITES)                               \
    PK_BEFORE(unaligned_read##bytes, pk_before_access, bytes, PK_ANYWHERE)                              \
    PK_BEFORE(unaligned_write##bytes, pk_before_plain_write, bytes, PK_WRITES | PK_ANYWHERE)            \
    PK_BEFORE(unaligned_read_write##bytes, pk_before_plain_write, bytes, PK_WRITES | PK_ANYWHERE)       \
    PK_BEFORE(volatile_read##bytes, pk_before_volatile_read, bytes, PK_ORDERED)                         \
    PK_BEFORE(volatile_write##bytes, pk_before_volatile_write, bytes, PK_ORDERED | PK_WRITES)           \
    PK_BEFORE(unaligned_volatile_read##bytes, pk_before_volatile_read, bytes, PK_ORDERED | PK_ANYWHERE) \
    PK_BEFORE(unaligned_volatile_write##bytes, pk_before_volatile_write, bytes,                         \
              PK_ORDERED | PK_WRITES | PK_ANYWHERE)
PK_KINDS(1)
PK_KINDS(2)
PK_KINDS(4)
PK_KINDS(8)
PK_KINDS(16)
#undef PK_KINDS
#undef PK_BEFORE
PK_HOOK void __tsan_read_range(const void *address, size_t bytes) {
    PK_CHECK(address, bytes, PK_ANYWHERE);
    (void)bytes;
    pk_before_access(address);
}
PK_HOOK void __tsan_write_range(const void *address, size_t bytes) {
    PK_CHECK(address, bytes, PK_WRITES | PK_ANYWHERE);
    (void)bytes;
    pk_before_plain_write(address);
}

PK_HOOK void __tsan_init(void) {}
PK_HOOK void __tsan_func_entry(void *) {}
PK_HOOK void __tsan_func_exit(void) {}
PK_HOOK void __tsan_vptr_read(void **) {}
PK_HOOK void __tsan_vptr_update(void **, void *) {}
PK_HOOK void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    pk_before_plain_write(to);
    return __builtin_memcpy(to, from, bytes);
}
PK_HOOK void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    pk_before_plain_write(to);
    return __builtin_memmove(to, from, bytes);
}
PK_HOOK void *__tsan_memset(void *to, int byte, size_t bytes) {
    pk_before_plain_write(to);
    return __builtin_memset(to, byte, bytes);
}

// Atomic operations, which the compiler replaces by calls.
#define PK_ATOMIC_ACCESS(address)                                \
    PK_CHECK(address, sizeof(*address), PK_ORDERED | PK_WRITES); \
    pk_before_access((const void *)address)
#define PK_ATOMIC_FETCH(bits, type, name)                                                      \
    PK_HOOK type __tsan_atomic##bits##_fetch_##name(volatile type *address, type value, int) { \
        PK_ATOMIC_ACCESS(address);                                                             \
        return __atomic_fetch_##name(address, value, __ATOMIC_SEQ_CST);                        \
    }
#define PK_ATOMIC_EXCHANGE(bits, type, name, weak)                                                    \
    PK_HOOK int __tsan_atomic##bits##_compare_exchange_##name(volatile type *address, type *expected, \
                                                              type value, int, int) {                 \
        PK_ATOMIC_ACCESS(address);                                                                    \
        return __atomic_compare_exchange_n(address, expected, value, weak, __ATOMIC_SEQ_CST,          \
                                           __ATOMIC_SEQ_CST);                                         \
    }
#define PK_ATOMICS(bits, type)                                                             \
    PK_HOOK type __tsan_atomic##bits##_load(const volatile type *address, int) {           \
        PK_ATOMIC_ACCESS(address);                                                         \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                 \
    }                                                                                      \
    PK_HOOK void __tsan_atomic##bits##_store(volatile type *address, type value, int) {    \
        PK_ATOMIC_ACCESS(address);                                                         \
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                \
    }                                                                                      \
    PK_HOOK type __tsan_atomic##bits##_exchange(volatile type *address, type value, int) { \
        PK_ATOMIC_ACCESS(address);                                                         \
        return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                      \
    }                                                                                      \
    PK_ATOMIC_FETCH(bits, type, add)                                                       \
    PK_ATOMIC_FETCH(bits, type, sub)                                                       \
    PK_ATOMIC_FETCH(bits, type, and)                                                       \
    PK_ATOMIC_FETCH(bits, type, or)                                                        \
    PK_ATOMIC_FETCH(bits, type, xor)                                                       \
    PK_ATOMIC_FETCH(bits, type, nand)                                                      \
    PK_ATOMIC_EXCHANGE(bits, type, strong, false)                                          \
    PK_ATOMIC_EXCHANGE(bits, type, weak, true)
PK_ATOMICS(8, uint8_t)
PK_ATOMICS(16, uint16_t)
PK_ATOMICS(32, uint32_t)
PK_ATOMICS(64, uint64_t)
#undef PK_ATOMICS
#undef PK_ATOMIC_ACCESS
#undef PK_ATOMIC_EXCHANGE
#undef PK_ATOMIC_FETCH
PK_HOOK void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
PK_HOOK void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
}
