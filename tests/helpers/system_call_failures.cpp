// A preload library (glibc) that fails the system calls by which one library acquires memory, threads and
// files, and counts the memory and descriptors that the library has not released.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);
}

namespace {

uintptr_t code_begin = 0, code_end = 0;  // the library's
std::atomic<int64_t> calls{0}, first{INT64_MAX}, last{INT64_MAX};
std::atomic<const char *> failed{""};

// Addresses that the library has allocated and not freed: a hash table with linear probing.
constexpr size_t PLACES = size_t(1) << 18;
void *const GONE = reinterpret_cast<void *>(1);
void *live[PLACES];
std::atomic<int64_t> live_count{0};
std::atomic_flag live_lock = ATOMIC_FLAG_INIT;

struct Locked {
    Locked() {
        while (live_lock.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~Locked() { live_lock.clear(std::memory_order_release); }
};

size_t place_of(void *address) {
    return size_t(reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15u >> 32) % PLACES;
}

void *given(void *address, bool to_library) {
    if (!to_library || address == nullptr || address == MAP_FAILED) return address;
    const Locked locked;
    size_t at = place_of(address);
    while (live[at] != nullptr && live[at] != GONE) at = (at + 1) % PLACES;
    live[at] = address;
    ++live_count;
    return address;
}

void given_back(void *address) {
    if (address == nullptr || live_count == 0) return;
    const Locked locked;
    for (size_t at = place_of(address); live[at] != nullptr; at = (at + 1) % PLACES) {
        if (live[at] != address) continue;
        live[at] = GONE;
        --live_count;
        return;
    }
}

bool is_library(const void *caller) {
    const auto at = reinterpret_cast<uintptr_t>(caller);
    return code_begin <= at && at < code_end;
}

bool fails(bool by_library, const char *function, int error) {
    if (!by_library) return false;
    const int64_t number = ++calls;
    if (number < first || number > last) return false;
    failed = function;
    errno = error;
    return true;
}

template <class Function>
Function *next(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define BY_LIBRARY is_library(__builtin_return_address(0))

extern "C" {

void *malloc(size_t bytes) {
    const bool ours = BY_LIBRARY;
    return fails(ours, "malloc", ENOMEM) ? nullptr : given(__libc_malloc(bytes), ours);
}

void *calloc(size_t count, size_t bytes) {
    const bool ours = BY_LIBRARY;
    return fails(ours, "calloc", ENOMEM) ? nullptr : given(__libc_calloc(count, bytes), ours);
}

void *realloc(void *memory, size_t bytes) {
    const bool ours = BY_LIBRARY;
    if (fails(ours, "realloc", ENOMEM)) return nullptr;
    void *const moved = __libc_realloc(memory, bytes);
    if (moved != nullptr || bytes == 0) given_back(memory);
    return given(moved, ours);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    const bool ours = BY_LIBRARY;
    return fails(ours, "aligned_alloc", ENOMEM) ? nullptr : given(__libc_memalign(alignment, bytes), ours);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    const bool ours = BY_LIBRARY;
    void *const found = fails(ours, "posix_memalign", ENOMEM) ? nullptr : __libc_memalign(alignment, bytes);
    if (found == nullptr) return ENOMEM;
    *memory = given(found, ours);
    return 0;
}

void free(void *memory) {
    given_back(memory);
    __libc_free(memory);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    const bool ours = BY_LIBRARY;
    if (fails(ours, "mmap", ENOMEM)) return MAP_FAILED;
    const long found = syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
    return given(reinterpret_cast<void *>(found), ours);
}

int munmap(void *memory, size_t bytes) {
    given_back(memory);
    return int(syscall(SYS_munmap, memory, bytes));
}

int mprotect(void *memory, size_t bytes, int protection) {
    if (fails(BY_LIBRARY, "mprotect", ENOMEM)) return -1;
    return int(syscall(SYS_mprotect, memory, bytes, protection));
}

// If set, MADV_GUARD_INSTALL fails, as on Linux before 6.13.
int madvise(void *memory, size_t bytes, int advice) {
    if (advice == 102 && getenv("FAILING_GUARDS") != nullptr) {
        errno = EINVAL;
        return -1;
    }
    return int(syscall(SYS_madvise, memory, bytes, advice));
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *given) {
    if (fails(BY_LIBRARY, "pthread_create", EAGAIN)) return EAGAIN;
    static auto *const real = next<decltype(pthread_create)>("pthread_create");
    return real(thread, attributes, body, given);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, int) : 0;
    va_end(rest);
    if (fails(BY_LIBRARY, "open", EMFILE)) return -1;
    return int(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

FILE *fopen64(const char *path, const char *mode) {
    if (fails(BY_LIBRARY, "fopen64", EMFILE)) return nullptr;
    static auto *const real = next<decltype(fopen)>("fopen64");
    return real(path, mode);
}

// ---- For the tests ----

// Selects the library whose path ends so. Returns whether it is loaded.
int failing_library(const char *name) {
    return dl_iterate_phdr(
        [](dl_phdr_info *library, size_t, void *data) {
            const char *const wanted = static_cast<const char *>(data);
            const size_t length = strlen(library->dlpi_name), tail = strlen(wanted);
            if (length < tail || strcmp(library->dlpi_name + length - tail, wanted) != 0) return 0;
            for (int i = 0; i < library->dlpi_phnum; ++i) {
                const auto &part = library->dlpi_phdr[i];
                if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
                code_begin = library->dlpi_addr + part.p_vaddr;
                code_end = code_begin + part.p_memsz;
            }
            return 1;
        },
        const_cast<char *>(name));
}

// Makes the calls of the library with these numbers fail from now on, counted from 1.
void failing_calls(int64_t from, int64_t to) {
    calls = 0;
    failed = "";
    first = from;
    last = to;
}

// Ends that; returns the number of calls.
int64_t failing_none() {
    first = last = INT64_MAX;
    return calls;
}

const char *failing_last() { return failed; }
int64_t failing_live() { return live_count; }
}
