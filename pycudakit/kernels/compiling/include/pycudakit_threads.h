// Thread indices, barriers, dynamic shared memory, and the entry points by which the engine calls kernels.
#pragma once

static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static thread_local pk_context *pk_now;
static constexpr int warpSize = PK_WARP;

#if defined(PK_VOLATILE)
// The kind of the thread's writes since it last waited.
enum pk_written { PK_NOTHING, PK_PLAIN_VALUE, PK_VOLATILE_VALUE };
static thread_local pk_written pk_wrote;
static thread_local const void *pk_stack;  // the end of the thread's stack
#endif

// Sets an index. Stores that are merged would take its address, after which no loop keeps it in a register.
#define PK_SET_INDEX(index, X, Y, Z)   \
    do {                               \
        (index).x = (X);               \
        asm volatile("" ::: "memory"); \
        (index).y = (Y);               \
        asm volatile("" ::: "memory"); \
        (index).z = (Z);               \
    } while (0)

// All threads of a block share one threadIdx, and others run during a wait: each thread restores its own.
template <class Wait>
PK_WAITING static inline auto pk_waiting(Wait wait) {
    uint32_t x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    asm("" : "+r"(x), "+r"(y), "+r"(z));  // or the loads would be merged
#if defined(PK_VOLATILE)
    const void *const stack = pk_stack;
    pk_wrote = PK_NOTHING;
#endif
    asm volatile("" ::: "memory");
    const auto result = wait(pk_now);
    asm volatile("" ::: "memory");
    PK_SET_INDEX(threadIdx, x, y, z);
#if defined(PK_VOLATILE)
    pk_stack = stack;
    pk_wrote = PK_NOTHING;
#endif
    return result;
}

static inline int __syncthreads_count(int predicate, PK_HERE) {
    return pk_waiting([=](pk_context *now) { return now->services->barrier(now, line, predicate); });
}
static inline void __syncthreads(PK_HERE) { (void)__syncthreads_count(0, line); }
static inline int __syncthreads_or(int predicate, PK_HERE) {
    return __syncthreads_count(predicate, line) != 0;
}
static inline int __syncthreads_and(int predicate, PK_HERE) {
    return __syncthreads_count(predicate == 0, line) == 0;
}

static inline void __nanosleep(unsigned int) {
    (void)pk_waiting([](pk_context *now) {
        now->services->yield(now);
        return 0;
    });
}

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

static inline void pk_stop(const char *why, PK_HERE) { pk_now->services->stop(pk_now, why, line); }
static inline void __trap(PK_HERE) { pk_stop("called __trap()", line); }

// Called by the compiler's instrumentation before an integer division by zero, which would end the process.
struct pk_place {
    const char *file;
    uint32_t line, column;
};
extern "C" {
PK_HIDDEN void __ubsan_handle_divrem_overflow(const pk_place *place, uint64_t, uint64_t) {
    if (pk_now != nullptr) pk_stop("divides an integer by zero", (int)place->line);
}
}

#undef assert
#if defined(PK_HOST_CODE) && !defined(NDEBUG)
// In host code, C's own.
static inline void pk_failed_assert(const char *condition, const char *why, int line, const char *file,
                                    const char *function) {
    if (pk_now != nullptr) pk_stop(why, line);
    fprintf(stderr, "%s:%d: %s: Assertion `%s' failed.\n", file, line, function, condition);
    abort();
}
#define assert(condition) \
    ((condition)          \
         ? (void)0        \
         : pk_failed_assert(#condition, "failed assert(" #condition ")", __LINE__, __FILE__, __func__))
#elif defined(NDEBUG)
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : pk_stop("failed assert(" #condition ")"))
#endif

#if !defined(PK_HOST_CODE)
__attribute__((format(printf, 1, 2))) static inline int pk_printf(const char *format, ...) {
    char few[512];
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    const int length = vsnprintf(few, sizeof(few), format, values);
    va_end(values);
    if (length < (int)sizeof(few)) {
        if (length > 0) pk_now->services->print(pk_now, few, length);
    } else if (char *many = (char *)malloc((size_t)length + 1)) {
        vsnprintf(many, (size_t)length + 1, format, again);
        pk_now->services->print(pk_now, many, length);
        free(many);
    }
    va_end(again);
    return length;
}
#define printf(...) pk_printf(__VA_ARGS__)
#endif

static inline long long clock64() {
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    long long ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}
#if !defined(PK_HOST_CODE)
#define clock() ((int)clock64())
#endif

// Dynamic shared memory: the translation of `extern __shared__ T name[]`.
static inline void *pk_dynamic() { return pk_now->shared; }
template <class T>
struct pk_dynamic_array {
    operator T *() const { return static_cast<T *>(pk_now->shared); }
};

// ---- Entry points ----

template <class T>
static inline T pk_argument(const void *from) {
    if constexpr (__is_constructible(T)) {
        T value;
        memcpy((void *)&value, from, sizeof(T));
        return value;
    } else {  // a lambda
        alignas(T) unsigned char value[sizeof(T)];
        memcpy(value, from, sizeof(T));
        return *(const T *)value;
    }
}

PK_WAITING static inline void pk_enter(pk_context *context, const void *stack) {
#if defined(PK_VOLATILE)
    pk_stack = stack;
    pk_wrote = PK_NOTHING;
#endif
    (void)stack;
    pk_now = context;
    PK_SET_INDEX(blockDim, context->block[0], context->block[1], context->block[2]);
    PK_SET_INDEX(gridDim, context->grid[0], context->grid[1], context->grid[2]);
}

#if defined(PK_HOST_CODE)
struct pk_configuration {
    dim3 grid, block;
    size_t shared;
};
static void pk_run_launch(const pk_image_kernel &kernel, void **arguments,
                          const pk_configuration &configuration);
#endif

// Runs the threads of a block in a loop, which the compiler vectorises if it can: a function of its own, to
// which other blocks do not matter. It knows that `blockIdx.x * blockDim.x + threadIdx.x` does not wrap, or
// it could not tell that the elements with these indices follow each other.
enum { PK_MAX_WIDTH = 1024, PK_MAX_FIRST = INT_MAX - PK_MAX_WIDTH };
#define PK_ASSUME(condition) ((condition) ? (void)0 : __builtin_unreachable())
#define PK_LOOP(...)                                                                   \
    template <class... P>                                                              \
    __attribute__((flatten, noinline)) static void run(const dim3 size, P... values) { \
        PK_ASSUME(size.x > 0 && size.x <= PK_MAX_WIDTH);                               \
        const uint32_t first = blockIdx.x * blockDim.x;                                \
        PK_ASSUME(first <= PK_MAX_FIRST);                                              \
        for (uint32_t z = 0; z < size.z; ++z) {                                        \
            threadIdx.z = z;                                                           \
            for (uint32_t y = 0; y < size.y; ++y) {                                    \
                threadIdx.y = y;                                                       \
                for (uint32_t x = 0; x < size.x; ++x) {                                \
                    threadIdx.x = x;                                                   \
                    __VA_ARGS__(values...);                                            \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }
template <auto kernel>
struct pk_loop {
    PK_LOOP(kernel)
};

// The code that pycudakit generates for a kernel that waits: loops over a block's threads from barrier to
// barrier. The engine calls it for launches whose indices do not wrap.
enum { PK_MAX_THREADS = 1024 };
#define PK_BEGIN_LOOPS                                     \
    PK_ASSUME(pk_size.x > 0 && pk_size.x <= PK_MAX_WIDTH); \
    const uint32_t pk_first = blockIdx.x * blockDim.x;     \
    PK_ASSUME(pk_first <= PK_MAX_FIRST)
#define PK_EACH_THREAD                                                           \
    for (uint32_t pk_z = 0; pk_z < pk_size.z; ++pk_z)                            \
        for (uint32_t pk_y = (threadIdx.z = pk_z, 0u); pk_y < pk_size.y; ++pk_y) \
            for (size_t pk_x = (threadIdx.y = pk_y, size_t(0)),                  \
                        pk_thread = size_t(pk_z * pk_size.y + pk_y) * pk_size.x; \
                 pk_x < pk_size.x; ++pk_x, ++pk_thread)                          \
                if (threadIdx.x = uint32_t(pk_x), false) {                       \
                } else

// A launch is small if products of its integers and of the indices of its threads do not overflow, by which
// the compiler knows that the elements `x[row * width + column]` of threads that follow each other do so,
// too.
enum { PK_SMALL = 32767, PK_SMALL_GRID = 2048 };
template <class T>
static inline bool pk_is_small(const T &) {
    return true;
}
static inline bool pk_is_small(int value) { return value >= 0 && value <= PK_SMALL; }
static inline bool pk_is_small(unsigned int value) { return value <= PK_SMALL; }

// A local that lives across a barrier: an element for each thread.
template <class T>
struct pk_slots {
    static_assert(__is_trivial(T) && sizeof(T) <= 16, "a local that is no scalar, vector or pointer");
    T values[PK_MAX_THREADS];
    T &operator[](size_t thread) { return values[thread]; }
};

template <auto kernel>
struct pk_entry;

template <class... P, void (*kernel)(P...)>
struct pk_entry<kernel> {
    static constexpr int64_t count = sizeof...(P);
    static constexpr int64_t bytes[] = {int64_t(sizeof(P))..., 0};

    // A braced constructor call evaluates its arguments from left to right.
    template <auto block_loops>
    struct All {
        All(pk_context *context, int64_t first, int64_t count, P... values) {
            const uint32_t across = context->grid[0], down = context->grid[1];
            const dim3 size(context->block[0], context->block[1], context->block[2]);
            const bool wraps = uint64_t(across) * size.x > PK_MAX_FIRST || size.x > PK_MAX_WIDTH;
            uint3 block = {uint32_t(first % across), uint32_t(first / across % down),
                           uint32_t(first / across / down)};
            for (int64_t i = 0; i < count; ++i) {
                PK_SET_INDEX(blockIdx, block.x, block.y, block.z);
                if (wraps) {
                    one_by_one(size, values...);
                } else {
                    block_loops(size, values...);
                }
                if (++block.x == across) {
                    block.x = 0;
                    if (++block.y == down) {
                        block.y = 0;
                        ++block.z;
                    }
                }
            }
        }
        static void one_by_one(dim3 size, P... values) {
            for (uint32_t z = 0; z < size.z; ++z) {
                for (uint32_t y = 0; y < size.y; ++y) {
                    PK_SET_INDEX(threadIdx, 0, y, z);
                    for (; threadIdx.x < size.x; ++threadIdx.x) kernel(values...);
                }
            }
        }
    };

    struct One {
        One(P... values) { kernel(values...); }
    };

    // The loops of a block, compiled for small launches and for others.
    template <auto block_loops>
    static void split(dim3 size, P... values) {
        const bool has_small_grid =
            gridDim.x <= PK_SMALL_GRID && gridDim.y <= PK_SMALL_GRID && gridDim.z <= PK_SMALL_GRID;
        if (has_small_grid && (pk_is_small(values) && ...)) {
            split_small<block_loops>(size, values...);
        } else {
            split_any<block_loops>(size, values...);
        }
    }
    template <auto block_loops>
    __attribute__((flatten, noinline)) static void split_small(dim3 size, P... values) {
        (PK_ASSUME(pk_is_small(values)), ...);
        const uint3 block = {blockIdx.x, blockIdx.y, blockIdx.z};
        PK_ASSUME(block.x < PK_SMALL_GRID);
        PK_ASSUME(block.y < PK_SMALL_GRID);
        PK_ASSUME(block.z < PK_SMALL_GRID);
        PK_ASSUME(size.y <= PK_MAX_THREADS);
        block_loops(size, values...);
    }
    template <auto block_loops>
    __attribute__((flatten, noinline)) static void split_any(dim3 size, P... values) {
        block_loops(size, values...);
    }

    template <auto block_loops>
    static void blocks(pk_context *context, void *const *arguments, int64_t first, int64_t blocks) {
        pk_enter(context, __builtin_frame_address(0));
        int i = 0;
        (void)i, (void)arguments;
        All<block_loops>{context, first, blocks, pk_argument<P>(arguments[i++])...};
    }

    static void thread(pk_context *context, void *const *arguments, int64_t thread) {
        pk_enter(context, __builtin_frame_address(0));
        const uint32_t *block = context->block_index;
        PK_SET_INDEX(blockIdx, block[0], block[1], block[2]);
        const uint32_t index = uint32_t(thread), width = blockDim.x, height = blockDim.y;
        if (index < width) {
            PK_SET_INDEX(threadIdx, index, 0, 0);
        } else {  // divisions take longer than starting a thread
            PK_SET_INDEX(threadIdx, index % width, index / width % height, index / width / height);
        }
        int i = 0;
        (void)i, (void)arguments;
        One{pk_argument<P>(arguments[i++])...};
    }

#if defined(PK_HOST_CODE)
    // A launch by host code.
    template <bool waits>
    struct Launch {
        pk_configuration configuration;
        const char *name;
        void operator()(P... values) const {
            static const pk_image_kernel entry = waits ? pk_waits(name) : pk_loops(name);
            void *arguments[] = {(void *)&values..., nullptr};
            pk_run_launch(entry, arguments, configuration);
        }
    };
#endif

    static constexpr pk_image_kernel pk_waits(const char *symbol) {
        return {symbol, count, bytes, 1, nullptr, thread};
    }
    static constexpr pk_image_kernel pk_loops(const char *symbol) {
        return {symbol, count, bytes, 0, blocks<(&pk_loop<kernel>::template run<P...>)>, thread};
    }
    template <void (*block_loops)(dim3, P...)>
    static constexpr pk_image_kernel pk_splits(const char *symbol) {
        return {symbol, count, bytes, 1, blocks<(&split<block_loops>)>, thread};
    }
};
