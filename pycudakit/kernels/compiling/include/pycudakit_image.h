// The binary interface between the CPU engine and a compiled source: the engine loads the shared library,
// gets its table from pk_image(), and calls its kernels on stacks of its own.
#pragma once

#include <stdint.h>

extern "C" {

enum { PK_IMAGE_VERSION = 2, PK_WARP = 32 };

// Flags of an access: it writes; its address may be unaligned; it is atomic or volatile, which is no race.
enum { PK_WRITES = 1, PK_ANYWHERE = 2, PK_ORDERED = 4 };

struct pk_services;

// The state of one engine thread. If blocks run as plain loops, `block_index` is not set.
struct pk_context {
    const struct pk_services *services;
    void *shared;  // the block's dynamic shared memory
    uint32_t grid[3], block[3], block_index[3];
};

// Services of the engine for kernels. None throws; after a fault, the kernel's thread does not continue.
struct pk_services {
    // Waits for the block's threads (__syncthreads_count), and counts those whose value is not 0.
    int32_t (*barrier)(struct pk_context *, int32_t line, int32_t value);
    // Waits for the warp's lanes in the mask; `values` then has those of all lanes. Returns the lanes' mask.
    uint32_t (*exchange)(struct pk_context *, int32_t line, int32_t operation, uint32_t mask, uint64_t value,
                         uint64_t *values);
    // Waits until no other lane of the warp can run; returns the mask of lanes at the same source line.
    uint32_t (*active)(struct pk_context *, int32_t line);
    // Waits at a volatile access for the warp's other lanes that can go on; `spins` is 1 if the thread reads
    // the same address again and again.
    void (*turn)(struct pk_context *, int32_t spins);
    void (*yield)(struct pk_context *);
    void (*print)(struct pk_context *, const char *text, int64_t bytes);
    void (*stop)(struct pk_context *, const char *why, int32_t line);
    // For checked sources: an access that may be out of bounds, a check of the time limit in loops, and
    // a variable in shared memory, which has a number in the image.
    void (*access)(struct pk_context *, uint64_t address, uint64_t bytes, int32_t how);
    void (*tick)(struct pk_context *);
    void *(*variable)(struct pk_context *, int32_t index, int64_t bytes, int64_t item, const char *name);
};

struct pk_image_kernel {
    const char *symbol;
    int64_t parameters;
    const int64_t *parameter_bytes;
    int64_t waits;  // 0: it has no barrier and no warp operation
    // Runs blocks as loops over their threads; null if it waits where no loop can end.
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
    int64_t checked;  // 1 if compiled with checks
    int64_t kernel_count;
    const struct pk_image_kernel *kernels;
    int64_t symbol_count;
    const struct pk_image_symbol *symbols;
};

typedef const struct pk_image_table *(*pk_image_function)(void);

// A launch by the host code of a source: `kernel<<<grid, block, shared>>>(...)`.
struct pk_image_launch {
    const struct pk_image_kernel *kernel;
    void *const *arguments;
    int64_t grid[3], block[3];
    int64_t shared;  // bytes of dynamic shared memory
};

// Runs a launch, and returns a status of pycudakit.h; *message is then the reason, until the thread's next
// call.
typedef int32_t (*pk_image_launcher)(const struct pk_image_launch *, const char **message);
}
