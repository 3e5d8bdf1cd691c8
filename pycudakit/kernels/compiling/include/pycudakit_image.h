// What the CPU engine and a compiled source of kernels know of each other: the engine loads a shared library,
// asks pk_image() for its table, and calls the kernels in it on stacks of its own.
#pragma once

#include <stdint.h>

extern "C" {

enum { PK_IMAGE_VERSION = 1, PK_WARP = 32 };

// Of an access: it writes; it may lie at any address, not only at multiples of its size.
enum { PK_WRITES = 1, PK_ANYWHERE = 2 };

struct pk_services;

// One for each of the engine's threads. Where blocks run as plain loops, `block_index` is not set.
struct pk_context {
    const struct pk_services *services;
    void *shared;  // the block's dynamic shared memory
    uint32_t grid[3], block[3], block_index[3];
};

// What kernels ask of the engine. None throws; after a fault, the calling thread of the kernel does not go
// on.
struct pk_services {
    // Waits for the block's threads, and counts those whose value is not 0.
    int32_t (*barrier)(struct pk_context *, int32_t line, int32_t value);
    // Waits for the warp's lanes in the mask; `values` are then those of all. Returns which lanes came.
    uint32_t (*exchange)(struct pk_context *, int32_t line, int32_t operation, uint32_t mask, uint64_t value,
                         uint64_t *values);
    // Waits until no other lane of the warp can go on; returns those that came to the same line.
    uint32_t (*active)(struct pk_context *, int32_t line);
    void (*yield)(struct pk_context *);
    void (*print)(struct pk_context *, const char *text, int64_t bytes);
    void (*stop)(struct pk_context *, const char *why, int32_t line);
    // For sources that are compiled to be checked: an access that may be outside, now and then in a loop, and
    // a variable in shared memory, which has a number in the image.
    void (*access)(struct pk_context *, uint64_t address, uint64_t bytes, int32_t how);
    void (*tick)(struct pk_context *);
    void *(*variable)(struct pk_context *, int32_t index, int64_t bytes, int64_t item, const char *name);
};

struct pk_image_kernel {
    const char *symbol;
    int64_t parameters;
    const int64_t *parameter_bytes;
    int64_t waits;  // 0: no barrier and nothing of a warp is in it, so that its threads may run in a loop
    void (*blocks)(struct pk_context *, void *const *arguments, int64_t first, int64_t count);
    void (*thread)(struct pk_context *, void *const *arguments, int64_t thread);
};

struct pk_image_symbol {
    const char *name;
    void *address;
    int64_t bytes;
};

struct pk_image_table {
    int64_t version;
    int64_t checked;  // compiled to be checked
    int64_t kernel_count;
    const struct pk_image_kernel *kernels;
    int64_t symbol_count;
    const struct pk_image_symbol *symbols;
};

typedef const struct pk_image_table *(*pk_image_function)(void);
}
