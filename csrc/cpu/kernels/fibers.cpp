// Stack switching in assembly (or by ucontext), and the allocation of fiber stacks with guard pages.
#include "fibers.h"

#include <pthread.h>
#include <algorithm>
#include <fstream>
#include <new>

#if defined(PK_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

// Saves the callee-saved registers, and continues where the other stack was left in the same way.
#if !defined(PK_UCONTEXT) && !defined(PK_SWITCH_BY_JUMP)
extern "C" __attribute__((visibility("hidden"))) void pk_switch_stacks(void **from, void *to);

#if defined(__APPLE__)
#define PK_SYMBOL "_pk_switch_stacks"
#define PK_HIDDEN ".private_extern " PK_SYMBOL "\n"
#else
#define PK_SYMBOL "pk_switch_stacks"
#define PK_HIDDEN ".hidden " PK_SYMBOL "\n.type " PK_SYMBOL ", %function\n"
#endif

#if defined(__x86_64__)
asm(".text\n.globl " PK_SYMBOL "\n" PK_HIDDEN PK_SYMBOL R"(:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
static constexpr size_t SAVED_WORDS = 6;  // the return address follows
#else
asm(".text\n.globl " PK_SYMBOL "\n" PK_HIDDEN ".p2align 2\n" PK_SYMBOL R"(:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#endif
#endif

namespace pk::kernels {

static constexpr size_t GUARD = size_t(64) << 10;  // a multiple of the page size, whatever it is

// Linux 6.13 and later have guard pages inside a mapping: MADV_GUARD_INSTALL, which older headers do not
// define.
static bool guard_within_mapping(char *memory) {
#if defined(__linux__)
    constexpr int INSTALL_GUARD = 102;
    return madvise(memory, GUARD, INSTALL_GUARD) == 0;
#else
    (void)memory;
    return false;
#endif
}

static void guard(char *memory) {
    if (!guard_within_mapping(memory) && mprotect(memory, GUARD, PROT_NONE) != 0) throw std::bad_alloc();
}

int64_t Fibers::max_count() {
    static const int64_t max_count = [] {
        constexpr int64_t MOST = 100'000;
        const Mapping tried(GUARD, PROT_READ | PROT_WRITE);
        int64_t mappings = 0;
        if (!tried || guard_within_mapping(tried.memory()) ||
            !(std::ifstream("/proc/sys/vm/max_map_count") >> mappings))
            return MOST;
        return std::min(MOST, mappings / 4);  // so that the program has as many for itself
    }();
    return max_count;
}

Fibers::~Fibers() {
    for (const Mapping &stacks : stacks_) ASAN_UNPOISON_MEMORY_REGION(stacks.memory(), stacks.bytes());
}

void Fibers::make(int count) {
    constexpr size_t EACH = GUARD + STACK;
    const int old = this->count(), more = count - old;
    if (more <= 0) return;
    Mapping stacks(EACH * size_t(more), PROT_READ | PROT_WRITE, MAP_NORESERVE | MAP_STACK);
    if (!stacks) throw std::bad_alloc();
    for (int i = 0; i < more; ++i) guard(stacks.memory() + EACH * size_t(i));
    stacks_.reserve(stacks_.size() + 1);
    contexts_.resize(size_t(count));
    for (int i = 0; i < more; ++i) {
        FiberContext &place = contexts_[size_t(old) + size_t(i)];
        place.bottom = stacks.memory() + EACH * size_t(i) + GUARD;
        place.bytes = STACK;
        reset(old + i);
    }
    stacks_.push_back(std::move(stacks));
}

void Fibers::adopt(Fibers &others) {
    const int old = count(), more = others.count();
    stacks_.reserve(stacks_.size() + others.stacks_.size());
    contexts_.resize(size_t(old) + size_t(more));
    for (int i = 0; i < more; ++i) {
        FiberContext &place = contexts_[size_t(old) + size_t(i)];
        place.bottom = others.contexts_[size_t(i)].bottom;
        place.bytes = others.contexts_[size_t(i)].bytes;
        reset(old + i);
    }
    for (Mapping &stacks : others.stacks_) stacks_.push_back(std::move(stacks));
    others.contexts_.clear();
    others.stacks_.clear();
}

bool Fibers::is_guard(int fiber, uint64_t address) const {
    const auto bottom = reinterpret_cast<uint64_t>(contexts_[size_t(fiber)].bottom);
    return address < bottom && bottom - address <= GUARD;
}

void Fibers::reset(int fiber) {
    FiberContext &place = contexts_[size_t(fiber)];
    char *const top = static_cast<char *>(const_cast<void *>(place.bottom)) + STACK;
    ASAN_UNPOISON_MEMORY_REGION(top - STACK, STACK);  // frames of abandoned calls
#if defined(PK_UCONTEXT)
    getcontext(&place.context);
    place.context.uc_stack.ss_sp = top - STACK;
    place.context.uc_stack.ss_size = STACK;
    place.context.uc_link = nullptr;
    makecontext(&place.context, base_, 0);
#else
    // Stacks begin at different offsets in a page, or they would compete for the same cache lines.
    char *const start = top - 64 - 192 * size_t(fiber % 20);
#if defined(PK_SWITCH_BY_JUMP)
    // As after a call: the stack pointer is 8 below a multiple of 16 when the base begins.
    void **words = reinterpret_cast<void **>(start) - 2;
    words[0] = reinterpret_cast<void *>(base_);
    words[1] = nullptr;
#elif defined(__x86_64__)
    // As after a call: the stack pointer is 8 below a multiple of 16 when the base begins.
    void **words = reinterpret_cast<void **>(start) - (SAVED_WORDS + 2);
    std::fill(words, words + SAVED_WORDS + 2, nullptr);
    words[SAVED_WORDS] = reinterpret_cast<void *>(base_);
#else
    void **words = reinterpret_cast<void **>(start) - 20;
    std::fill(words, words + 20, nullptr);
    words[11] = reinterpret_cast<void *>(base_);  // x30
#endif
    place.stack_pointer = static_cast<void *>(words);
#endif
}

#if defined(PK_ASAN)
// A fiber may continue on another thread than it stopped on, so the address of this variable must not be
// cached.
static thread_local FiberContext *left = nullptr;
__attribute__((noinline)) static void set_left(FiberContext *place) { left = place; }
__attribute__((noinline)) static FiberContext &get_left() { return *left; }
#endif

void Fibers::on_entry() {
#if defined(PK_ASAN)
    FiberContext &from = get_left();
    __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.bytes);
#endif
}

#if !defined(PK_SWITCH_BY_JUMP)
void Fibers::change(FiberContext &from, FiberContext &to) {
#if defined(PK_ASAN)
    void *fake = nullptr;
    set_left(&from);
    __sanitizer_start_switch_fiber(&fake, to.bottom, to.bytes);
#endif
#if defined(PK_UCONTEXT)
    swapcontext(&from.context, &to.context);
#else
    pk_switch_stacks(&from.stack_pointer, to.stack_pointer);
#endif
#if defined(PK_ASAN)
    FiberContext &before = get_left();
    __sanitizer_finish_switch_fiber(fake, &before.bottom, &before.bytes);
#endif
}
#endif

}  // namespace pk::kernels
