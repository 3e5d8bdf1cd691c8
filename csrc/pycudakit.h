/* pycudakit's C ABI: the whole contract between a library and its callers.
 *
 * Two libraries implement it, libpycudakit_cpu and libpycudakit_cuda, with the same symbols and the same
 * answers.
 *
 * - Every function returns a pk_status and blocks until its outputs are complete. Output arguments are
 *   meaningful only after PK_OK, except where a function says otherwise.
 * - Any thread may call any function at any time.
 * - Sizes and strides are int64_t; strides count bytes and may be zero or negative.
 * - A library never exits, prints, or lets a C++ exception escape.
 */
#ifndef PYCUDAKIT_H
#define PYCUDAKIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(PK_BUILDING)
#define PK_API __attribute__((visibility("default")))
#else
#define PK_API
#endif

/* Raised whenever a signature or a struct below changes; pk_abi_version() tells the library's. */
#define PK_ABI_VERSION 14

enum { PK_MAX_DIMS = 64, PK_MAX_OPERANDS = 1024, PK_MAX_INSTRUCTIONS = 16384, PK_MAX_RANGES = 256 };
enum { PK_NAME_SIZE = 256, PK_MAX_PARAMETERS = 256 };

/* Each failure has a class of its own in pycudakit.errors; pk_last_error() tells what went wrong. */
typedef enum pk_status {
    PK_OK = 0,
    PK_INVALID_ARGUMENT = 1, /* an argument breaks this contract; nothing was written */
    PK_OUT_OF_MEMORY = 2,    /* host or device memory */
    PK_NO_DEVICE = 3,        /* no driver, a driver too old for this build, or no GPU */
    PK_DEVICE_ERROR = 4,     /* a CUDA call failed, or the library met a fault of its own */
    PK_COMPILE_ERROR = 5,    /* a kernel's source did not compile */
    PK_UNSUPPORTED = 6,      /* this engine does not do that */
    PK_INTERRUPTED = 7       /* the caller asked the call to stop */
} pk_status;

typedef enum pk_type {
    PK_BOOL = 0,
    PK_INT8 = 1,
    PK_INT16 = 2,
    PK_INT32 = 3,
    PK_INT64 = 4,
    PK_UINT8 = 5,
    PK_UINT16 = 6,
    PK_UINT32 = 7,
    PK_UINT64 = 8,
    PK_FLOAT16 = 9,
    PK_FLOAT32 = 10,
    PK_FLOAT64 = 11,
    PK_TYPE_COUNT = 12
} pk_type;

/* ---- The library ---------------------------------------------------------------------------------- */

/* The PK_ABI_VERSION this library was built with. */
PK_API int32_t pk_abi_version(int64_t *version);

/* The calling thread's last failure, as UTF-8. The pointer is valid until the thread's next call. */
PK_API int32_t pk_last_error(const char **message);

/* How the library was built: one line per fact, "key: value", UTF-8. The pointer is valid for good. */
PK_API int32_t pk_build_info(const char **text);

/* Fails on purpose with the given status, PK_INVALID_ARGUMENT ... PK_INTERRUPTED. For tests of callers:
 * the failure is a C++ exception that crosses the same barrier as any other. */
PK_API int32_t pk_fail(int32_t status);

/* Threads that the library computes with on the host, the caller's included. */
PK_API int32_t pk_thread_count(int64_t *count);

/* What computes: the instruction set that the loops were chosen for, "baseline", "avx2" or "avx512"; or
 * "cuda". */
PK_API int32_t pk_instruction_set(const char **name);

/* For a process that is about to end: from now on no pk_progress_callback is called for the calls of other
 * threads, which go on to their end; waits for those that are being called, a few seconds at most. */
PK_API int32_t pk_disable_callbacks(void);

/* For the end of the process: stops the calls of other threads that are under way and waits for them, a few
 * seconds at most. Those threads, and others that call later, never return; the calling thread's calls go
 * on working, and no pk_progress_callback is called any more. */
PK_API int32_t pk_shutdown(void);

/* ---- Devices -------------------------------------------------------------------------------------- */

typedef struct pk_device {
    char name[PK_NAME_SIZE]; /* UTF-8 */
    char pci_bus_id[32];     /* "0000:65:00.0" */
    int64_t memory;          /* bytes */
    int32_t compute_major;
    int32_t compute_minor;
    int32_t multiprocessors;
    int32_t reserved; /* zero */
} pk_device;

/* The number of GPUs that the library can use. The CPU library has none: PK_OK and 0. The CUDA library
 * fails with PK_NO_DEVICE where it can use none, and the message is the plain reason. */
PK_API int32_t pk_device_count(int64_t *count);

/* Describes the GPU of that index, from 0. */
PK_API int32_t pk_device_info(int64_t index, pk_device *device);

/* What the link to a GPU moves from and to pinned memory, in bytes a second: measured when first asked, which
 * takes some milliseconds. */
typedef struct pk_link {
    double up;   /* host to device */
    double down; /* device to host */
} pk_link;

PK_API int32_t pk_link_speed(int64_t device, pk_link *link);

/* What the library keeps from call to call to stream arrays through its devices. It takes memory when a call
 * first needs it, never more than the budgets, which the environment sets when the library is first used:
 * PYCUDAKIT_DEVICE_MEMORY, PYCUDAKIT_PINNED_MEMORY, PYCUDAKIT_RESULT_MEMORY and PYCUDAKIT_PLAN_MEMORY, in
 * bytes or with a K, M or G behind. The arrays of pk_pinned_take are apart from that. */
typedef struct pk_memory {
    int64_t device_bytes;   /* of all devices */
    int64_t device_budget;  /* of each device, 512 MiB unless set */
    int64_t pinned_bytes;   /* of the host's memory */
    int64_t pinned_budget;  /* 256 MiB unless set */
    int64_t arrays_bytes;   /* pinned arrays that were taken */
    int64_t arrays_kept;    /* and returned, kept for the next */
    int64_t results_kept;   /* of pk_result_allocator: returned, kept for the next */
    int64_t results_budget; /* unless set, 1 GiB, or an eighth of the machine's memory if less */
    int64_t plan_bytes;     /* of all devices, what plans keep or have kept; apart from device_bytes */
    int64_t plan_budget; /* of each device, half of what is free when first needed, unless set: in a plan of
                            its device, else of device 0, and 0 until it is needed */
} pk_memory;

PK_API int32_t pk_memory_info(pk_memory *memory);

/* Gives back what is kept and not in use by a call under way or by a pinned array. */
PK_API int32_t pk_release(void);

/* Takes pinned memory for an array, aligned to 4096 bytes, uninitialised: a GPU reads and writes it without
 * staging. The CPU library's is ordinary memory. */
PK_API int32_t pk_pinned_take(int64_t bytes, uint64_t *address);

/* Returns what pk_pinned_take gave. The library keeps it for the next array, until pk_release. */
PK_API int32_t pk_pinned_return(uint64_t address);

/* The address of an allocator of ordinary memory for large results, which is a PyDataMem_Handler of NumPy's
 * and valid for good. What it gets back is kept for the next result of about that size, since new pages cost
 * more than most calls compute; the operating system takes it when it runs short of memory. */
PK_API int32_t pk_result_allocator(uint64_t *address);

/* A constant of the streaming engine, to be changed in experiments: by the environment variable
 * PYCUDAKIT_STREAM_<NAME>, read when the library is first used, or by pk_tune. */
typedef struct pk_tuning {
    char name[32];
    char text[PK_NAME_SIZE]; /* what it is */
    int64_t value;
    int64_t default_value;
    int64_t min_value;
    int64_t max_value;
} pk_tuning;

/* The CPU library has none. */
PK_API int32_t pk_tuning_count(int64_t *count);
PK_API int32_t pk_tuning_info(int64_t index, pk_tuning *tuning);

/* Sets the constant of that index for calls to come, in the whole process. */
PK_API int32_t pk_tune(int64_t index, int64_t value);

/* ---- Calls ---------------------------------------------------------------------------------------- */

/* Elements of a call, counted in the order in which the libraries walk them, which is the same in both. */
typedef struct pk_range {
    int64_t start;
    int64_t count;
} pk_range;

typedef struct pk_rest {
    int64_t count;
    pk_range ranges[PK_MAX_RANGES];
} pk_rest;

/* The stages that a call's chunks go through; on the CPU there is PK_STAGE_COMPUTE alone. */
enum {
    PK_STAGE_STAGE = 0, /* copying operands into pinned memory */
    PK_STAGE_UPLOAD = 1,
    PK_STAGE_KERNEL = 2,
    PK_STAGE_DOWNLOAD = 3,
    PK_STAGE_UNSTAGE = 4, /* copying results out of pinned memory */
    PK_STAGE_COMPUTE = 5,
    PK_STAGE_COUNT = 6
};

/* One stage of one chunk. */
typedef struct pk_span {
    double begin; /* seconds since the call began */
    double end;
    int64_t bytes;
    int64_t elements;
    int32_t stage;
    int32_t device; /* -1: the host */
    int32_t lane;   /* the host's thread or the device's slot: the spans of one lane don't overlap */
    int32_t reserved;
} pk_span;

/* What a call may be given beside its work. All zero is the usual. */
typedef struct pk_options {
    /* A pk_progress_callback, or 0. */
    uint64_t progress_callback;
    /* The address of the indices of the GPUs that share the call, int64_t each; 0 for GPU 0 alone. The CPU
     * library has no use for them. */
    uint64_t devices;
    int64_t device_count;
    /* The address of a pk_rest, or 0. If its count isn't 0, its ranges alone are computed. If the call fails
     * with a status of a device, it tells what was not delivered; the rest was, and `exceptions` is of it. */
    uint64_t rest;
    /* The address of a pk_span for each of span_capacity, or 0: where to report the stages of the chunks. */
    uint64_t spans;
    int64_t span_capacity;
    /* Of a call whose arrays lie on a device: the cudaStream_t that it is queued in, where 0 and 1 are the
     * legacy default stream and 2 is the thread's; and whether the call returns when it is done, rather than
     * when it is queued. Calls on the host's arrays take no notice. */
    uint64_t stream;
    int64_t synchronous;
} pk_options;

/* How far a call has come, in elements. */
typedef struct pk_progress {
    int64_t done;
    int64_t all;
} pk_progress;

/* Called about every 50 ms while a call runs, by the thread that made it. What it returns, if not 0, stops
 * the call, which fails with PK_INTERRUPTED. */
typedef int32_t (*pk_progress_callback)(const pk_progress *progress);

/* What a call did. The time of a stage is that in which at least one chunk was in it. */
typedef struct pk_report {
    int64_t bytes_up;   /* host to device */
    int64_t bytes_down; /* device to host */
    int64_t chunks;
    int64_t threads;        /* host threads that took part */
    int64_t exceptions;     /* what any instruction met */
    int64_t spans;          /* how many there were, reported or not */
    double seconds;         /* the whole call */
    double overlap_seconds; /* the time in which at least two stages were under way */
    double stage_seconds[PK_STAGE_COUNT];
} pk_report;

/* ---- Elementwise programs ------------------------------------------------------------------------- */

/* One operation of csrc/ops.def. */
typedef struct pk_operation {
    char name[32];
    int32_t arity;        /* 1, 2 or 3 */
    uint32_t types;       /* bit t is set if the operation takes values of pk_type t */
    int32_t returns_bool; /* else the result has the type of the arguments */
    int32_t quiet;        /* never reports an exception */
} pk_operation;

/* Opcodes 0, 1 and 2 are these; opcode 3 + i is the i-th operation of csrc/ops.def. */
enum { PK_OP_LOAD = 0, PK_OP_STORE = 1, PK_OP_CAST = 2, PK_OP_FIRST = 3 };

PK_API int32_t pk_operation_count(int64_t *count);
PK_API int32_t pk_operation_info(int64_t index, pk_operation *operation);

/* A program is a list of instructions. Each defines the value of its own index, but for PK_OP_STORE, which
 * defines none; arguments name values defined earlier.
 *   PK_OP_LOAD   a: operand                 type: the operand's type
 *   PK_OP_STORE  a: value, b: operand       type: the operand's and the value's type
 *   PK_OP_CAST   a: value                   type: the value's type; to: the result's type
 *   others    a, b, c: values, as many as the operation takes, all of the type `type`; of an operation
 *             of three arguments, a is a PK_BOOL
 * An operand is stored to at most once, and not loaded after that.
 * Casts round to nearest even; from a float to an integer they truncate, out of range they saturate, and
 * NaN becomes 0. */
typedef struct pk_instruction {
    uint16_t op;
    uint8_t type;
    uint8_t to;
    int32_t a;
    int32_t b;
    int32_t c;
} pk_instruction;

/* PK_OPERAND_ON_DEVICE says that an operand lies in memory of a GPU, the caller's own. pk_evaluate takes such
 * operands, and beside them none but single elements on the host, which are read at once; pk_reduce, and
 * pk_scan for both of its operands, take dense ones. The call is queued in options.stream, after what is
 * queued there, on the GPU that the operands lie on. It returns without having waited, unless pk_reduce or
 * pk_scan need much memory, `exceptions` are all 0, and errors of the kernel come with a later call, as CUDA
 * has it. They are not byte-swapped, and aligned to their elements. */
enum { PK_OPERAND_BYTE_SWAPPED = 1, PK_OPERAND_ON_DEVICE = 2 };

/* An array that a program loads from or stores to: the address of its first element, and a stride in
 * bytes for each of the call's dimensions. */
typedef struct pk_operand {
    uint64_t address;
    int32_t type;  /* pk_type */
    int32_t flags; /* of those above */
    int64_t strides[PK_MAX_DIMS];
} pk_operand;

/* What an instruction met, OR-ed over all elements. */
enum {
    PK_FPE_DIVIDE_BY_ZERO = 1, /* an exact infinity from finite arguments; an integer division by zero */
    PK_FPE_OVERFLOW = 2,       /* an infinity from finite arguments by rounding; the quotient INT_MIN / -1 */
    PK_FPE_INVALID = 4,       /* a NaN from arguments without one; a float that its integer type can't hold */
    PK_FPE_NEGATIVE_POWER = 8 /* an integer raised to a negative integer power */
};

/* Runs a program once for every element of `shape`, in any order.
 *
 * Operands that the program stores to must not overlap each other, nor any other operand, unless they
 * are the same elements at the same addresses with the same strides. No element of a store's operand may
 * stand at two places of `shape`. `options` may be null. `exceptions`, one byte per instruction, and
 * `report` are set on PK_OK.
 */
PK_API int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count,
                           const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                           int64_t dimensions, const pk_options *options, uint8_t *exceptions,
                           pk_report *report);

/* ---- Reductions ----------------------------------------------------------------------------------- */

/* What becomes of the values of a column: integers add up and multiply modulo 2^64, floats in float64 with an
 * account of what is rounded away. NaN is the least and the largest, and of several equal the first counts.
 */
enum {
    PK_REDUCE_SUM = 0,
    PK_REDUCE_PROD = 1,
    PK_REDUCE_MIN = 2,
    PK_REDUCE_MAX = 3,
    PK_REDUCE_ARGMIN = 4, /* its index along the reduced dimensions, int64 */
    PK_REDUCE_ARGMAX = 5,
    PK_REDUCE_PTP = 6,                    /* the largest less the least */
    PK_REDUCE_DOT = 7,                    /* the sum of products of two values */
    PK_REDUCE_SUM_SQUARED_DEVIATIONS = 8, /* of the differences from the mean: of floats alone */
    PK_REDUCE_COUNT = 9
};

/* What is made of that: of a PK_REDUCE_SUM its share of an element, of a PK_REDUCE_DOT its root, of
 * PK_REDUCE_SUM_SQUARED_DEVIATIONS their share of an element, less ddof of these, or that one's root. */
enum {
    PK_FINALIZE_NONE = 0,
    PK_FINALIZE_MEAN = 1,
    PK_FINALIZE_NORM = 2,
    PK_FINALIZE_VAR = 3,
    PK_FINALIZE_STD = 4
};

typedef struct pk_reduction {
    int32_t kind;
    int32_t finalize;
    int32_t outer;       /* how many of the dimensions come before the reduced ones */
    int32_t reduced;     /* how many those are; the others follow */
    /* 1, or 2: the second is the other factor of PK_REDUCE_DOT, or, for PK_REDUCE_SUM and
     * PK_REDUCE_SUM_SQUARED_DEVIATIONS of floats, a mask of the type PK_BOOL. */
    int32_t value_count;
    /* For PK_REDUCE_SUM, PK_REDUCE_PROD, PK_REDUCE_MIN and PK_REDUCE_MAX: one more value. */
    int32_t has_initial;
    double initial;  /* for floats, */
    int64_t initial_integer; /* and for integers, by its bits */
    double ddof;
} pk_reduction;

/* Runs a program once for every element of `shape`, none of whose dimensions is 0, and reduces what it stores
 * along some of them. The program stores its values to operands that have an address of 0, the last but for
 * the result's, which the program doesn't name and which has strides for the dimensions that stay.
 *
 * The result depends on the reduced elements' values and on their order in `shape` alone. */
PK_API int32_t pk_reduce(const pk_reduction *reduction, const pk_instruction *program,
                         int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                         const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                         const pk_options *options, pk_report *report);

/* The same for several reductions of the same values along the same dimensions, in one pass over them: their
 * `outer`, `reduced` and `value_count` are equal, and the operands end with the result of each, in their
 * order. */
enum { PK_MAX_REDUCTIONS = 16 };
PK_API int32_t pk_reduce_several(const pk_reduction *reductions, int64_t reduction_count,
                                 const pk_instruction *program, int64_t instruction_count,
                                 const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                 int64_t dimensions, uint8_t *exceptions, const pk_options *options,
                                 pk_report *report);

/* ---- Passes over blocks --------------------------------------------------------------------------- */

/* Of an operand of pk_run_blocks: its address is an offset into memory that each thread has of its own. */
enum { PK_OPERAND_IN_SCRATCH = 4 };

/* A pass over the first of some blocks: what pk_evaluate takes, or, with reductions, pk_reduce_several. */
typedef struct pk_block_program {
    /* The addresses of the first pk_instruction, pk_operand, int64_t of `shape`, and pk_reduction, or 0. */
    uint64_t program;
    uint64_t operands;
    uint64_t shape;
    uint64_t reductions;
    int64_t instruction_count;
    int64_t operand_count;
    int64_t dimensions;
    int64_t reduction_count;
    /* The address of an int64_t for each operand: by how many bytes it moves on from block to block. */
    uint64_t block_strides;
    /* The address of a byte for each instruction: what it met in any block. */
    uint64_t exceptions;
    double seconds; /* set: that the threads have spent on it, together */
} pk_block_program;

/* Runs passes over so many blocks: all of them, one after the other, over a block, by one thread, while other
 * threads are at others. No block may read what another writes. The CPU library's alone: PK_UNSUPPORTED by
 * the other one. `seconds`, `exceptions` and `report` are set on PK_OK. */
PK_API int32_t pk_run_blocks(pk_block_program *programs, int64_t program_count, int64_t blocks,
                             int64_t scratch_bytes, const pk_options *options, pk_report *report);

/* ---- Plans ---------------------------------------------------------------------------------------- */

/* A plan is a scope in which calls, made one after the other on ordinary host arrays, leave data on the
 * device: a call whose operand lies in a range that is kept reads and writes the device's copy, and nothing
 * goes over the link. What is computed is the same with and without. These look for such ranges:
 * pk_evaluate, pk_reduce, pk_reduce_several and pk_run_kernels; and, for dense operands, pk_scan,
 * pk_sort_..., pk_argsort_..., pk_searchsorted_..., pk_select_..., pk_histogram, pk_histogram_of_extent,
 * pk_gray, pk_lookup, pk_resize, pk_filter, pk_interp, pk_take, pk_put, pk_random and pk_matmul_... Nothing
 * is to be done about their operands before and after; pk_plan_invalidate would lose what one left on the
 * device alone. Before the host reads a range, for weights and ranks, too, or any other entry does,
 * pk_plan_download brings it there, and after one has written to it, pk_plan_invalidate says so. Operands
 * that are byte-swapped or not aligned to their elements, and all of a call on other devices than the plan's,
 * go over the host's memory. */
typedef int32_t (*pk_plan_body)(void *context);

/* Calls body(context) on the calling thread. What pk_plan_make_resident keeps meanwhile lasts until that
 * returns, and then what only the device has is lost. PK_INTERRUPTED if it returned anything but 0. Plans may
 * nest: the innermost one is added to, and calls see the ranges of all. */
PK_API int32_t pk_run_plan(pk_plan_body body, void *context);

/* Has the innermost plan of the thread keep on another device than 0 what it keeps from now on, for calls on
 * that device alone. PK_INVALID_ARGUMENT outside of a plan, and where there is no such device, as there is
 * none for the CPU library. */
PK_API int32_t pk_plan_set_device(int64_t device);

/* What a kept range is:
 *   PK_RESIDENT_INPUT      the host's memory is valid; it goes up with the first call that reads it, and
 * stays PK_RESIDENT_TEMPORARY  nothing is valid yet; what calls store there stays on the device, and the
 * host's memory is not touched PK_RESIDENT_OUTPUT     nothing is valid yet; what calls store there stays on
 * the device, and goes down to the host's memory as well */
enum { PK_RESIDENT_INPUT = 0, PK_RESIDENT_TEMPORARY = 1, PK_RESIDENT_OUTPUT = 2 };

/* Gives a range of the host's memory a home on the plan's device, for calls that the plan's thread makes.
 * *is_resident is 0 where there is none, and calls go over the host's memory as ever: without a plan, without
 * room in PYCUDAKIT_PLAN_MEMORY or on the device, and by the CPU library. A range that overlaps another one
 * that the thread's plans keep is refused. What is kept is dropped before its memory is given to something
 * else.
 */
PK_API int32_t pk_plan_make_resident(uint64_t address, int64_t bytes, int32_t intent, int32_t *is_resident);

/* Which memory of a lent range is valid. */
enum { PK_IMPORT_HOST_VALID = 0, PK_IMPORT_DEVICE_VALID = 1 };

/* Gives a range of the host's memory a home that is the caller's own: `bytes` at `home`, on any device, which
 * calls on that device read and write in place, and which is never freed. First, what has been queued in
 * `stream`, a cudaStream_t, is done; 0: there is nothing to wait for. The host's memory is touched only by
 * pk_plan_download and by calls that cannot use the home; so it may be untouched pages, whose address serves
 * as the name of what lies on the device. *device is which that is. PK_INVALID_ARGUMENT outside of a plan,
 * and where `home` is no device's memory. */
PK_API int32_t pk_plan_import(uint64_t address, int64_t bytes, uint64_t device_address, uint64_t stream,
                              int32_t valid, int32_t *device);

/* From now on, calls of the innermost plan whose arrays all lie on its device are queued in `stream`, a
 * cudaStream_t of the caller's, where they can be: nobody waits for them, and nobody is told what they meet,
 * but of integers to negative powers. Calls that the host has a part in come after what is queued there. 0:
 * from now on no more, and what was queued is done. PK_INVALID_ARGUMENT outside of a plan, where there are
 * devices. */
PK_API int32_t pk_plan_set_stream(uint64_t stream);

/* The following are about the range that contains the address; where there is none, they do nothing. */

/* Brings it to the host's memory if only the device has it. It stays on the device, too. */
PK_API int32_t pk_plan_download(uint64_t address, const pk_options *options, pk_report *report);

/* Brings it to its home if only the host has it: for a lent range, before it is dropped. */
PK_API int32_t pk_plan_upload(uint64_t address, const pk_options *options, pk_report *report);

/* Somebody else has written to the host's memory: that is valid now, and the device's copy is not. */
PK_API int32_t pk_plan_invalidate(uint64_t address);

/* Ends the range; what only the device has of it is lost. */
PK_API int32_t pk_plan_drop(uint64_t address);

/* Passes over kept ranges are interpreted, until one has done work that makes its compilation worth while. Of
 * the one that waits longest for it: C++ for NVRTC, which needs no headers, with a kernel `pass`, if `size`
 * has room for the source's bytes, and the number by which it is known. 0 bytes if none waits, and ever by
 * the CPU library. */
PK_API int32_t pk_plan_jit_request(uint8_t *source, int64_t size, int64_t *bytes, uint64_t *kernel);

/* Has a copy of an image, what NVRTC made of its source without contraction, serve a pass from now on; an
 * image of 0 bytes says that there is none, so that it goes on being interpreted. Results have the same bits
 * either way. pk_release forgets all images, and what is wanted. */
PK_API int32_t pk_plan_jit_install(uint64_t kernel, const uint8_t *image, int64_t bytes);

/* ---- Order statistics ----------------------------------------------------------------------------- */

/* Finds elements of each row by their ranks, which count from 0 in ascending order: -0.0 is before 0.0, and
 * NaN comes last. Rows are dense and aligned to their elements. `ranks` holds rank_count ranks for every row
 * (rank_rows is 1), or as many for each (rank_rows is rows), in ascending order. `out` is of rows times
 * rank_count elements, and `nans` tells how many NaN each row has. A float16 is its bits. */
PK_API int32_t pk_select_i8(const int8_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                            int64_t rank_rows, int64_t rank_count, int8_t *out, int64_t *nans,
                            const pk_options *options, pk_report *report);
PK_API int32_t pk_select_i16(const int16_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, int16_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_i32(const int32_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, int32_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_i64(const int64_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, int64_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_u8(const uint8_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                            int64_t rank_rows, int64_t rank_count, uint8_t *out, int64_t *nans,
                            const pk_options *options, pk_report *report);
PK_API int32_t pk_select_u16(const uint16_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, uint16_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_u32(const uint32_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, uint32_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_u64(const uint64_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, uint64_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_f16(const uint16_t *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, uint16_t *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_f32(const float *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, float *out, int64_t *nans,
                             const pk_options *options, pk_report *report);
PK_API int32_t pk_select_f64(const double *in, int64_t rows, int64_t columns, const int64_t *ranks,
                             int64_t rank_rows, int64_t rank_count, double *out, int64_t *nans,
                             const pk_options *options, pk_report *report);

/* ---- Counting ------------------------------------------------------------------------------------- */

/* How a value finds its bin:
 *   PK_BINS_INDEX  an integer is the index of its bin
 *   PK_BINS_EDGES  bin i holds edges[i] <= value < edges[i + 1], and the last one its right edge, too
 *   PK_BINS_UNIFORM  as numpy.histogram does with bins of equal width: values from `low` to `high` by
 *                (value - first) / width * count, and then to a neighbour where the edges say so */
enum { PK_BINS_INDEX = 0, PK_BINS_EDGES = 1, PK_BINS_UNIFORM = 2 };

typedef struct pk_bins {
    int32_t kind;
    int32_t type; /* of the edges: PK_INT64, PK_UINT64, PK_FLOAT32 or PK_FLOAT64; PK_BINS_UNIFORM: a float */
    int32_t compute_type; /* PK_BINS_UNIFORM: the float in which quotient and product are computed */
    int32_t reserved;     /* zero */
    int64_t count;        /* bins, fewer than 2^31 - 256 */
    uint64_t edges;       /* the address of count + 1, none below the one before; PK_FLOAT16: float32 */
    uint64_t low;         /* PK_BINS_UNIFORM: an element of the operand's type in the first bytes */
    uint64_t high;
    double first; /* PK_BINS_UNIFORM */
    double width; /* of all bins together */
} pk_bins;

/* The least and the greatest element, in the first bytes of extent[0] and extent[1]; NaN if any is. */
PK_API int32_t pk_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                         uint64_t *extent, const pk_options *options, pk_report *report);

/* Counts the elements in each bin. With two axes there are two operands of values and two pk_bins, and bin j
 * of the second in bin i of the first is bin i * (the second's count) + j. One more operand, of integers, has
 * each element counted so many times, modulo 2^64; by width, the sums of 65536 elements each are rounded to
 * float64.
 *
 * `counts` has a place for each bin and two more: how many elements were in no bin; and 1 if any was from
 * `low` to `high` and had an index beyond the bins, which is an error in numpy.histogram. */
PK_API int32_t pk_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                            int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,
                            const pk_options *options, pk_report *report);

/* Says what the bins are, once the least and the greatest element are known. What it returns, if not 0, stops
 * the call, which fails with PK_INTERRUPTED. */
typedef int32_t (*pk_find_bins)(const uint64_t *extent, pk_bins *bins);

/* pk_extent, and then pk_histogram with one axis and the bins that `find`, the address of a pk_find_bins,
 * says, `count` of them. The elements go to a GPU once, if its budget has room for all. The calling thread
 * calls it. */
PK_API int32_t pk_histogram_of_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                                      uint64_t find, int64_t count, int64_t *counts,
                                      const pk_options *options, pk_report *report);

/* Adds the weights, the last operand, of the elements in each bin, in float64: in the shape's order for each
 * 65536 elements, and then one such sum after the other. Where there are more than 16384 bins, it is not
 * 65536 elements but the least power of two that is four times the bins. `out_of_range` has the last two of
 * pk_histogram's counts. */
PK_API int32_t pk_weighted_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                     int64_t dimensions, const pk_bins *bins, int64_t axes, double *sums,
                                     int64_t *out_of_range, const pk_options *options, pk_report *report);

/* Stores, into the second operand of type PK_INT64, how many edges (PK_BINS_EDGES) are not above each element
 * of the first, or below it if `right`; if `decreasing`, the number of the edges less that. */
PK_API int32_t pk_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                           const pk_bins *bins, int32_t right, int32_t decreasing, const pk_options *options,
                           pk_report *report);

/* ---- Scans ---------------------------------------------------------------------------------------- */

enum { PK_SCAN_SUM = 0, PK_SCAN_PROD = 1, PK_SCAN_MAX = 2, PK_SCAN_MIN = 3 };
enum {
    PK_SCAN_EXCLUSIVE = 1, /* a result is of the elements before it: the first is 0, of a product 1 */
    PK_SCAN_SKIP_NAN = 2   /* NaN counts as 0, in a product as 1 */
};

/* Runs along the `rows` dimensions of `shape` that follow the first `outer`, the last of them the fastest:
 * operand 1 takes, for each element of operand 0, what it and those before it make. The other dimensions go
 * each on its own.
 *
 * The result's type is that of operand 1. Integers wrap around; elements are cast to an integer's type first,
 * while floats are summed and multiplied in float64 and more, and rounded to their type once. The operands
 * may be the same elements at the same addresses, and must not overlap otherwise; of operands on a device,
 * sums of several columns in float64 must not overlap at all. A scan runs on the first of the GPUs asked for.
 * `shape` has no 0; `options` may be null; `report.exceptions` has PK_FPE_OVERFLOW and PK_FPE_INVALID.
 */
PK_API int32_t pk_scan(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
                       int64_t dimensions, int64_t outer, int64_t rows, const pk_options *options,
                       pk_report *report);

/* ---- Filters of images ---------------------------------------------------------------------------- */

/* What a result is made of the elements in the window around it:
 *   PK_FILTER_CORRELATE  their sum with weights, of which there is one for each, row by row
 *   PK_FILTER_SEPARABLE  the same, where a weight is one of the window's rows times one of its columns:
 * `height` weights, then `width` PK_FILTER_BOX        their mean PK_FILTER_MINIMUM, PK_FILTER_MAXIMUM; NaN if
 * any is PK_FILTER_MEDIAN     the one with height * width / 2 before it in order, NaN last */
enum {
    PK_FILTER_CORRELATE = 0,
    PK_FILTER_SEPARABLE = 1,
    PK_FILTER_BOX = 2,
    PK_FILTER_MINIMUM = 3,
    PK_FILTER_MAXIMUM = 4,
    PK_FILTER_MEDIAN = 5
};

/* What is taken for an element beyond the border, of a row a b c d:
 *   PK_BORDER_REFLECT  d c b a | a b c d | d c b a      PK_BORDER_NEAREST   a a a a | a b c d | d d d d
 *   PK_BORDER_MIRROR     d c b | a b c d | c b a        PK_BORDER_WRAP      a b c d | a b c d | a b c d
 *   PK_BORDER_CONSTANT  `border_value`, a number of the image's type
 *   PK_BORDER_SHRINK    nothing: PK_FILTER_BOX is the mean of the elements inside */
enum {
    PK_BORDER_REFLECT = 0,
    PK_BORDER_NEAREST = 1,
    PK_BORDER_MIRROR = 2,
    PK_BORDER_WRAP = 3,
    PK_BORDER_CONSTANT = 4,
    PK_BORDER_SHRINK = 5
};

typedef struct pk_window {
    int32_t kind;
    int32_t border;
    int64_t height; /* 1 to 63 */
    int64_t width;
    int64_t above; /* rows of the window above that of the result */
    int64_t left;  /* columns left of it */
    double border_value;
} pk_window;

/* Filters images of uint8, uint16 or float32, operand 0, into operand 1, of the same type, or, of the first
 * three kinds, of float32. `shape` is: images, rows, columns, channels; each channel is for itself. The
 * operands are dense, aligned to their elements, and do not overlap.
 *
 * Sums run along each row of the window, from the left, by fused multiply-add, and then over these sums from
 * the top; with PK_FILTER_SEPARABLE that is by fused multiply-add, too. Of float32 they are sums of float32.
 * Integers are the sum in float64 rounded to nearest, to even between two, and to the type's range: exactly
 * where all weights are integers and no sum of magnitudes exceeds 2^24, and for PK_FILTER_BOX; within 1
 * elsewhere. `options` may be null. */
PK_API int32_t pk_filter(const pk_window *window, const double *weights, int64_t weight_count,
                         const pk_operand *operands, const int64_t *shape, const pk_options *options,
                         pk_report *report);

/* ---- Sorting and order ---------------------------------------------------------------------------- */

/* NaN comes last, and -0.0 and 0.0 are equal. Arrays are dense, aligned to their elements, and what is
 * written overlaps nothing else. A bool sorts as u8, and an f16's bits are given as uint16_t. */

/* What pk_unique is to give beside the values; and whether all NaN are one. */
enum { PK_UNIQUE_INDEX = 1, PK_UNIQUE_INVERSE = 2, PK_UNIQUE_COUNTS = 4, PK_UNIQUE_EQUAL_NAN = 8 };

/* For a type of elements T, called t:
 * pk_sort_t sorts each row, as a stable sort would.
 * pk_argsort_t gives the first `limit` of the stable order of each row; if `descending` is not 0, of that of
 * the largest first, NaN still last. pk_searchsorted_t gives, for each of `count` values, its place in `size`
 * sorted elements: the number of those that are less, or, if `right` is not 0, not greater. pk_unique_t gives
 * the distinct values in order, `*unique_count` of them; if `flags` ask for it, which the first of each was
 * (index), which of them each element is (inverse), and how many there are of each (counts). What is not
 * wanted is not touched; the others have room for `size`. Where options.stream is not 0, the arrays of
 * pk_sort_t and pk_argsort_t lie on a GPU, of 2^30 elements at most: they are sorted there, after what is
 * queued in the stream, and the call returns when that is done. */
#define PK_SORTING(t, T)                                                                                     \
    PK_API int32_t pk_sort_##t(const T *in, T *out, int64_t rows, int64_t columns,                           \
                               const pk_options *options, pk_report *report);                                \
    PK_API int32_t pk_argsort_##t(const T *in, int64_t *order, int64_t rows, int64_t columns, int64_t limit, \
                                  int64_t descending, const pk_options *options, pk_report *report);         \
    PK_API int32_t pk_searchsorted_##t(const T *sorted, int64_t size, const T *values, int64_t *indices,     \
                                       int64_t count, int64_t right, const pk_options *options,              \
                                       pk_report *report);                                                   \
    PK_API int32_t pk_unique_##t(const T *in, int64_t size, int64_t flags, T *values, int64_t *index,        \
                                 int64_t *inverse, int64_t *counts, int64_t *unique_count,                   \
                                 const pk_options *options, pk_report *report);

PK_SORTING(i8, int8_t)
PK_SORTING(i16, int16_t)
PK_SORTING(i32, int32_t)
PK_SORTING(i64, int64_t)
PK_SORTING(u8, uint8_t)
PK_SORTING(u16, uint16_t)
PK_SORTING(u32, uint32_t)
PK_SORTING(u64, uint64_t)
PK_SORTING(f16, uint16_t)
PK_SORTING(f32, float)
PK_SORTING(f64, double)

/* ---- Images --------------------------------------------------------------------------------------- */

/* Images are of uint8, uint16 or float32, and results of the same type; operands[1] is the result. Where the
 * result has a shape of its own, it is dense and aligned, and its strides are not read. Nothing that is
 * written overlaps what is read. `options` may be null. */

/* Makes each pixel grey, of a shape whose last dimension is 3 or 4 channels; a fourth one is not read. Of
 * integers the result is (weights[0] * red + weights[1] * green + weights[2] * blue) / divisor exactly,
 * rounded to nearest even, or down if truncates is 1; of floats it is the sum of (weights[i] / divisor) *
 * channel in float64, from the first to the last, rounded once. The weights are not negative, and together
 * not above the divisor, which is at most 16384. */
PK_API int32_t pk_gray(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                       const int64_t *weights, int64_t divisor, int64_t truncates, const pk_options *options,
                       pk_report *report);

/* Replaces each element by the table's at its value: of uint8 or uint16, with a table of 256 or 65536, and in
 * a result of the operand's shape and any strides. A table's element is converted to the type modulo 2^n. */
PK_API int32_t pk_lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                         const uint16_t *table, int64_t count, const pk_options *options, pk_report *report);

/* How a new pixel is found, which covers the part of the image that corresponds to it:
 *   PK_RESIZE_NEAREST   the pixel that its centre lies in, the one after an edge
 *   PK_RESIZE_BILINEAR  between the two by two pixels whose centres are around its own; at the border, the
 *                       border's
 *   PK_RESIZE_AREA      the mean over what it covers */
enum { PK_RESIZE_NEAREST = 0, PK_RESIZE_BILINEAR = 1, PK_RESIZE_AREA = 2 };

/* Resizes images of the shape (..., height, width, channels). A new pixel is the weighted sum, from the top,
 * of weighted sums along rows, from the left, all in float64; with PK_RESIZE_AREA the weights are integers,
 * and it is divided by their sum. It is rounded once: integers to nearest even. Weights of 0 are left out. It
 * runs on the first of the GPUs asked for. */
PK_API int32_t pk_resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                         int64_t new_height, int64_t new_width, int64_t method, const pk_options *options,
                         pk_report *report);

/* ---- Random numbers ------------------------------------------------------------------------------- */

/* What is drawn, by the type of operand 0 and, one operand each, its parameters:
 *   PK_RANDOM_BITS         uint32, uint64
 *   PK_RANDOM_UNIFORM      float32, float64; float64: low, width
 *   PK_RANDOM_NORMAL       float32, float64; float64: mean, standard deviation
 *   PK_RANDOM_EXPONENTIAL  float32, float64; float64: scale
 *   PK_RANDOM_INTEGERS     bool and integers: low and span, both uint64; both ends are included, modulo 2^64
 *   PK_RANDOM_POISSON      int64: mean, float64
 *   PK_RANDOM_BINOMIAL     int64: trials, int64; likelihood, float64
 *   PK_RANDOM_LOGNORMAL    float64: mean and standard deviation of the logarithm, float64
 *   PK_RANDOM_GAMMA        float32, float64: shape and scale, float64
 *   PK_RANDOM_BETA         float64: both shapes, float64
 *   PK_RANDOM_GEOMETRIC    int64: likelihood, float64
 *
 * The first four may have no parameters. */
enum {
    PK_RANDOM_BITS = 0,
    PK_RANDOM_UNIFORM = 1,
    PK_RANDOM_NORMAL = 2,
    PK_RANDOM_EXPONENTIAL = 3,
    PK_RANDOM_INTEGERS = 4,
    PK_RANDOM_POISSON = 5,
    PK_RANDOM_BINOMIAL = 6,
    PK_RANDOM_LOGNORMAL = 7,
    PK_RANDOM_GAMMA = 8,
    PK_RANDOM_BETA = 9,
    PK_RANDOM_GEOMETRIC = 10,
    PK_RANDOM_COUNT = 11
};

/* Where Philox4x64-10 stands. */
typedef struct pk_draws {
    uint64_t key[2];
    uint64_t counter[4];  /* of the block of four words that has the first, the lowest 64 bits first */
    int32_t distribution; /* PK_RANDOM_BITS and so on */
    int32_t word;         /* which of its words is the first: 0 to 3 */
    int32_t has_half;     /* 1: the first 32 bits are `half`, and the words' follow */
    uint32_t half;
} pk_draws;

/* Draws an element of operand 0 for every element of `shape`. In the order of the memory that is written to,
 * each has 32 bits of the words, the lower ones first, if it is uint32 or float32 of one of the first four
 * kinds, and else one of the words. Elements that need more words have those of their place in other
 * sequences, whose counters differ in the highest 16 bits. */
PK_API int32_t pk_random(const pk_draws *draws, const pk_operand *operands, int64_t operand_count,
                         const int64_t *shape, int64_t dimensions, const pk_options *options,
                         pk_report *report);

/* ---- Products of matrices ------------------------------------------------------------------------- */

/* An operand whose matrices are stored as their transposes: a as k x m, b as n x k. */
enum { PK_MATMUL_TRANSPOSE_A = 1, PK_MATMUL_TRANSPOSE_B = 2 };

/* How floats are multiplied where there is a choice, on a GPU with cuBLAS: with no more error than float32's
 * own (PK_PRECISION_HIGHEST), in float64 (PK_PRECISION_EXACT), or with factors rounded to TF32 or bfloat16.
 */
enum { PK_PRECISION_HIGHEST = 0, PK_PRECISION_EXACT = 1, PK_PRECISION_TF32 = 2, PK_PRECISION_BF16 = 3 };

/* What computed a product: the CPU's loops, the library's own kernel, cuBLAS, or cuBLAS with each float32 as
 * the sum of two of TF32. */
enum {
    PK_MATMUL_BY_LOOPS = 0,
    PK_MATMUL_BY_KERNEL = 1,
    PK_MATMUL_BY_CUBLAS = 2,
    PK_MATMUL_BY_CUBLAS_SPLIT = 3
};

/* For a type of elements T, called t: the products of `batch` pairs of matrices, a's m x k and b's k x n, one
 * after the other in c, m x n each. Pair i is matrix index_pairs[2 * i] of a and index_pairs[2 * i + 1] of b.
 * Matrices are dense, row by row, side by side and aligned to their elements; c overlaps neither.
 *
 * Integers wrap around, of bools a product is an "and" and a sum an "or", and float16, given by its bits, is
 * summed up in float32. report.exceptions tells of floats whether any result is infinite (PK_FPE_OVERFLOW) or
 * NaN (PK_FPE_INVALID), for whatever reason. *method tells what computed. */
#define PK_MATMUL(t, T)                                                                         \
    PK_API int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k, \
                                 const int64_t *index_pairs, int64_t batch, int64_t flags,      \
                                 int64_t precision, int64_t *method, const pk_options *options, \
                                 pk_report *report);

PK_MATMUL(bool, uint8_t)
PK_MATMUL(i8, int8_t)
PK_MATMUL(i16, int16_t)
PK_MATMUL(i32, int32_t)
PK_MATMUL(i64, int64_t)
PK_MATMUL(u8, uint8_t)
PK_MATMUL(u16, uint16_t)
PK_MATMUL(u32, uint32_t)
PK_MATMUL(u64, uint64_t)
PK_MATMUL(f16, uint16_t)
PK_MATMUL(f32, float)
PK_MATMUL(f64, double)

/* Opens cuBLAS for the products to come, unless it is open: the library of that path, or else what the
 * system's loader finds. *found tells whether it is open. The CPU library has no use for it. */
PK_API int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found);

/* ---- Elements by their indices ---------------------------------------------------------------------- */

/* Of each of `outer` arrays that lie one after the other, of `count` elements of `width` bytes, the elements
 * at `index_count` indices, side by side. Negative indices count from the end. With PK_TAKE_BATCHED_INDICES
 * there are indices for each of the arrays, else the same for all. An index that has no element is
 * PK_INVALID_ARGUMENT, and nothing is written; with PK_TAKE_INDICES_IN_BOUNDS, which says that there is none,
 * it may mean the first element instead. Arrays are dense, and `out` overlaps nothing else. */
enum { PK_TAKE_BATCHED_INDICES = 1, PK_TAKE_INDICES_IN_BOUNDS = 2 };
PK_API int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width, const int64_t *indices,
                       int64_t index_count, int64_t flags, uint8_t *out, const pk_options *options,
                       pk_report *report);

/* Writes to the elements of an array of `count`, of `width` bytes each, at `index_count` indices: to the
 * first the first value, and so on, and from the first value on again after the last one of `value_count`.
 * Where several indices mean one element, it has the last one's value. Indices are as for pk_take. `values`
 * and `indices` overlap nothing that is written. */
PK_API int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices,
                      int64_t index_count, const uint8_t *values, int64_t value_count,
                      const pk_options *options, pk_report *report);

/* ---- Interpolation --------------------------------------------------------------------------------- */

/* At each of `count` values x, the line through the points before and behind it, of `size`, in order of xp;
 * `left` and `right` of all of them; at NaN, NaN, or of one point that one's value. Arrays are dense, and
 * `out` overlaps nothing else. */
PK_API int32_t pk_interp(const double *xp, const double *fp, int64_t size, double left, double right,
                         const double *x, double *out, int64_t count, const pk_options *options,
                         pk_report *report);

/* ---- Your own kernels ----------------------------------------------------------------------------- */

/* What a compiler made of a source: for the CUDA library a cubin; for the CPU library the path of a shared
 * library. It stays loaded, as do some others, until pk_release; the least recently used of too many goes
 * first. */
typedef struct pk_image {
    uint64_t address;
    int64_t bytes;
    uint64_t key[2]; /* images of one key are the same */
} pk_image;

typedef struct pk_kernel {
    int64_t image;   /* its index */
    uint64_t symbol; /* the address of its name in the image */
    int64_t symbol_bytes;
    char label[PK_NAME_SIZE]; /* its name for messages */
} pk_kernel;

/* How the memory of a buffer begins, and what becomes of it:
 *   PK_BUFFER_UPLOAD        it begins as the host's; else as zeros
 *   PK_BUFFER_DOWNLOAD      at the call's end it is the host's
 *   PK_BUFFER_POISON    without PK_BUFFER_UPLOAD: it begins as bytes of PK_BUFFER_POISON_BYTE
 *   PK_BUFFER_CONSTANT  no kernel writes it, so that it may lie where the host's lies
 *   PK_BUFFER_ON_DEVICE     its address is of memory of the device that the run is on: kernels work in it, if
 *                       it is constant or comes down, and else on a copy; nothing goes over the link
 * Where all buffers are PK_BUFFER_ON_DEVICE, in place and in one stream, a run of a few launches, in which no
 * kernel prints and no symbol is set, is queued in that stream, and the call does not wait for it, unless
 * its options say so. The CPU library refuses PK_BUFFER_ON_DEVICE. */
enum {
    PK_BUFFER_UPLOAD = 1,
    PK_BUFFER_DOWNLOAD = 2,
    PK_BUFFER_POISON = 4,
    PK_BUFFER_CONSTANT = 8,
    PK_BUFFER_ON_DEVICE = 16
};
enum { PK_BUFFER_POISON_BYTE = 165 };

typedef struct pk_buffer {
    uint64_t address; /* of the host's memory; 0 if it neither goes up nor comes down */
    uint64_t stream;  /* of PK_BUFFER_ON_DEVICE: a cudaStream_t of what is queued before and after the run */
    int64_t bytes;
    int32_t flags;
    int32_t itemsize; /* bytes of an element, for messages */
    char label[64];   /* its name for messages */
} pk_buffer;

/* A __constant__ or __device__ variable that is set before the first step; at the end of the call it is what
 * it was when the image was loaded. */
typedef struct pk_symbol {
    int64_t image;
    uint64_t name;
    int64_t name_bytes;
    uint64_t address; /* of the value */
    int64_t bytes;    /* at most the variable's */
} pk_symbol;

/* A kernel's argument: an address inside a buffer, with buffer >= 0 and the offset in bytes; or, with
 * PK_ARGUMENT_VALUE, bytes of `values`; or a null pointer. */
enum { PK_ARGUMENT_VALUE = -1, PK_ARGUMENT_NULL = -2 };

typedef struct pk_argument {
    int64_t buffer;
    int64_t offset;
    int64_t bytes; /* of a value */
} pk_argument;

/* A launch, with kernel >= 0; or, with kernel = PK_STEP_REPEAT, `count` rounds of the next `length` steps,
 * some of which may repeat others. Of a launch with count > 0 the library chooses the block, for so many
 * threads in one dimension, and grid and block are not read. */
enum { PK_STEP_REPEAT = -1 };

typedef struct pk_step {
    int64_t kernel;
    int64_t count;
    int64_t length;
    int64_t first_argument;
    int64_t argument_count;
    int64_t shared; /* bytes of dynamic shared memory */
    int64_t grid[3];
    int64_t block[3];
} pk_step;

/* What a run is made of; addresses of arrays, and how many each has. */
typedef struct pk_run {
    uint64_t images;
    int64_t image_count;
    uint64_t kernels;
    int64_t kernel_count;
    uint64_t buffers;
    int64_t buffer_count;
    uint64_t symbols;
    int64_t symbol_count;
    uint64_t steps;
    int64_t step_count;
    uint64_t arguments;
    int64_t argument_count;
    uint64_t values;
    int64_t value_bytes;
    int64_t block_limit; /* milliseconds that a block may take on the CPU when it was compiled to be checked;
                          * 0: no limit */
} pk_run;

/* Runs steps one after the other, over buffers that exist for the call alone: the inputs go up once, and the
 * outputs come down once. Everything is checked before anything runs. It runs on the first of the GPUs asked
 * for. What kernels print comes as UTF-8, at most `capacity` bytes of it, and *length tells how much there
 * was, on PK_OK and after a failure. report.stage_seconds[PK_STAGE_KERNEL], on the CPU [PK_STAGE_COMPUTE], is
 * the time of the steps. */
PK_API int32_t pk_run_kernels(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length,
                              const pk_options *options, pk_report *report);

/* What a kernel and the device that runs it allow, without running it. */
typedef struct pk_kernel_limits {
    int64_t threads;  /* the most in a block */
    int64_t block[3]; /* the most in each dimension */
    int64_t grid[3];
    int64_t shared;                             /* the most bytes of dynamic shared memory */
    int64_t static_shared;                      /* bytes; 0 on the CPU */
    int64_t registers;                          /* a thread's; 0 on the CPU */
    int64_t suggested_block;                    /* threads, by the occupancy calculator */
    int64_t parameters;                         /* how many; -1 if that is not known */
    int64_t parameter_bytes[PK_MAX_PARAMETERS]; /* of each */
} pk_kernel_limits;

PK_API int32_t pk_kernel_info(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes,
                              int64_t device, pk_kernel_limits *limits);

#ifdef __cplusplus
}
#endif

#endif
