/* The C ABI: the contract between the two libraries and their callers.
 *
 * libpycudakit_cpu and libpycudakit_cuda export the same functions. Results have the same bits in both, but
 * for matrix products of floats and the last bits of transcendental functions.
 *
 * Conventions
 *
 * - Every function returns a pk_status. Outputs are meaningful only after PK_OK, except where a function
 *   says otherwise. pk_last_error() describes the failure.
 * - Any thread may call any function at any time.
 * - Sizes and strides are int64_t. Strides count bytes and may be zero or negative.
 * - Addresses inside structs are uint64_t, 0 for a null pointer.
 * - `options` may be null, which means all zero. `report` must not be null.
 * - A library never exits, prints, or lets a C++ exception escape.
 *
 * Where pointers may point, when a call returns, and in which stream it runs
 *
 * A call returns when its outputs are complete; if all of its array operands are PK_ON_DEVICE and
 * options.asynchronous is set, it returns once it is enqueued in options.stream, and errors come with a later
 * call.
 *
 * Arrays are host memory (pageable, pinned or a mapped file), which the CUDA library copies through the GPU
 * in chunks, in streams of its own. The entries that take operands or buffers with the flag PK_ON_DEVICE
 * (pk_evaluate, pk_reduce, pk_scan, pk_sort, pk_argsort, pk_matmul, pk_random and pk_run_kernels) also take
 * device memory of the caller, all of one GPU, on which the call then runs; where it must be dense, the entry
 * says so. All other array pointers, structs, shapes, programs, parameters and reports are host memory.
 *
 * options.stream is a cudaStream_t: the one that the arrays on the device are computed in. The call comes
 * after the work that it holds already, and before work that is enqueued there later. PK_STREAM_LEGACY and
 * PK_STREAM_PER_THREAD are CUDA's default streams; 0 is a stream of the library's, for arrays that are
 * complete, and does not go with options.asynchronous. Calls on host memory read neither.
 *
 * An asynchronous call
 *
 * - needs its arrays until the stream has passed it.
 * - reports no floating-point exceptions, and no failure of its kernels: that comes with a later call, as
 *   with CUDA.
 * - may wait after all, if it needs temporary storage of more than 64 MiB.
 * - can be captured in a CUDA graph, if it neither waits nor takes such storage; else it fails with
 *   PK_UNSUPPORTED while its stream is being captured.
 *
 * In a residency scope (see pk_run_in_residency_scope) arguments are host addresses, and the library uses the
 * device copy of the range that they lie in. There the stream is that of pk_residency_set_stream, and a call
 * whose arrays are all resident is asynchronous after that. Entries for memory, streams, events and modules
 * that outlive a call have rules of their own (see there).
 *
 * The CPU library has no device memory. It refuses PK_ON_DEVICE with PK_INVALID_ARGUMENT, of buffers and in
 * pk_residency_import with PK_UNSUPPORTED, and its residency scopes keep nothing.
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

/* The version of this header. It goes up whenever a signature or a struct changes. */
#define PK_ABI_VERSION 22

enum { PK_MAX_DIMS = 64, PK_MAX_OPERANDS = 1024, PK_MAX_INSTRUCTIONS = 16384, PK_MAX_RANGES = 256 };
enum { PK_NAME_SIZE = 256, PK_MAX_PARAMETERS = 256, PK_MAX_REDUCTIONS = 16 };

/* ---- Status and errors ---------------------------------------------------------------------------- */

/* In Python, each failure is a class of its own in pycudakit.errors. */
typedef enum pk_status {
    PK_OK = 0,
    PK_INVALID_ARGUMENT = 1, /* an argument breaks this contract; nothing was written */
    PK_OUT_OF_MEMORY = 2,    /* host or device memory */
    PK_NO_DEVICE = 3,        /* no driver, a driver too old for this build, or no GPU */
    PK_DEVICE_ERROR = 4,     /* a CUDA call failed */
    PK_COMPILE_ERROR = 5,    /* a kernel's source did not compile */
    PK_UNSUPPORTED = 6,      /* this library cannot do that */
    PK_INTERRUPTED = 7,      /* a callback of the caller stopped the call, or threw an exception */
    PK_INTERNAL_ERROR = 8    /* an invariant of the library is broken: a defect, which please report */
} pk_status;

/* Sets *message to the text of the calling thread's last failure, UTF-8. The pointer is valid until the
 * thread's next call. */
PK_API int32_t pk_last_error(const char **message);

/* Fails with the given status, PK_INVALID_ARGUMENT to PK_INTERNAL_ERROR. For tests of callers: the failure is
 * a C++ exception that crosses the same barrier as any other. */
PK_API int32_t pk_fail(int32_t status);

/* ---- The library ---------------------------------------------------------------------------------- */

/* Sets *version to the PK_ABI_VERSION that the library was built with. */
PK_API int32_t pk_abi_version(int64_t *version);

/* Sets *text to a description of the build: one line per fact, "key: value", UTF-8. The pointer is valid
 * until the process ends. */
PK_API int32_t pk_build_info(const char **text);

/* Sets *count to the number of host threads that the library computes with, the calling thread included. */
PK_API int32_t pk_thread_count(int64_t *count);

/* Sets *name to the instruction set that the library computes with: "baseline", "avx2" or "avx512" for the
 * CPU's loops, or "cuda". */
PK_API int32_t pk_instruction_set(const char **name);

/* Disables progress callbacks, for a process that is about to end. Calls of other threads run on to their
 * end without calling their pk_progress_callback. Waits a few seconds at most for callbacks that are
 * running. */
PK_API int32_t pk_disable_callbacks(void);

/* Stops the library at the end of the process. Calls of other threads are stopped, and waited for, a few
 * seconds at most. Those threads, and others that call later, block for ever. The calling thread can go on
 * making calls. No pk_progress_callback is called any more. */
PK_API int32_t pk_shutdown(void);

/* ---- Element types -------------------------------------------------------------------------------- */

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

/* ---- Options -------------------------------------------------------------------------------------- */

/* The progress of a call, in elements; of pk_run_requests in requests, beside that of each request. */
typedef struct pk_progress {
    int64_t done;
    int64_t all;
} pk_progress;

/* Called about every 50 ms during a call, on the thread that made the call. If it returns anything but 0,
 * the call stops and fails with PK_INTERRUPTED. */
typedef int32_t (*pk_progress_callback)(const pk_progress *progress);

/* Some of a call's elements, counted in the order in which both libraries traverse them. */
typedef struct pk_range {
    int64_t start;
    int64_t count;
} pk_range;

typedef struct pk_rest {
    int64_t count;
    pk_range ranges[PK_MAX_RANGES];
} pk_rest;

/* The stages of a chunk on its way through a GPU. The CPU library has PK_STAGE_COMPUTE alone. */
enum {
    PK_STAGE_STAGE = 0, /* copying operands into pinned memory */
    PK_STAGE_UPLOAD = 1,
    PK_STAGE_KERNEL = 2,
    PK_STAGE_DOWNLOAD = 3,
    PK_STAGE_UNSTAGE = 4, /* copying results out of pinned memory */
    PK_STAGE_COMPUTE = 5,
    PK_STAGE_COUNT = 6
};

/* One stage of one chunk, for a timeline of the call. */
typedef struct pk_span {
    double begin; /* seconds since the call began */
    double end;
    int64_t bytes;
    int64_t elements;
    int32_t stage;
    int32_t device; /* -1: the host */
    int32_t lane;   /* the host thread or the device's slot; spans of one lane do not overlap */
    int32_t reserved;
} pk_span;

/* Options of a call. All zero is the default. */
typedef struct pk_options {
    /* A pk_progress_callback, or 0. */
    uint64_t progress_callback;
    /* The address of an array of int64_t, the indices of the GPUs that share the call; 0: GPU 0. The CPU
     * library does not read it. */
    uint64_t devices;
    int64_t device_count;
    /* pk_evaluate on host memory alone: the address of a pk_rest, or 0. If its count is not 0, only its
     * ranges are computed. If the call fails on a device, the library sets it to the ranges that were not
     * delivered; the others were, and `exceptions` describes those. Given to the other library, with the same
     * arguments, it completes the call. */
    uint64_t rest;
    /* The address of an array of span_capacity pk_spans, or 0. */
    uint64_t spans;
    int64_t span_capacity;
    /* Calls on arrays that are all PK_ON_DEVICE: their cudaStream_t or PK_STREAM_..., and whether the call
     * returns once it is enqueued there (not 0) or when its outputs are complete (0). */
    uint64_t stream;
    int64_t asynchronous;
} pk_options;

/* Streams that are no cudaStream_t of the caller's, in options.stream. 0 is a stream of the library's. */
enum { PK_STREAM_LEGACY = 1, PK_STREAM_PER_THREAD = 2 };

/* The flag of an operand or a buffer whose address is device memory. */
enum { PK_ON_DEVICE = 16 };

/* ---- Reports -------------------------------------------------------------------------------------- */

/* Statistics of a call. The time of a stage is the time during which at least one chunk was in it. */
typedef struct pk_report {
    int64_t bytes_up;   /* host to device */
    int64_t bytes_down; /* device to host */
    int64_t chunks;
    int64_t threads;        /* host threads that took part */
    int64_t exceptions;     /* the PK_FPE_... flags that any element raised */
    int64_t spans;          /* the number of spans, including those beyond span_capacity */
    double seconds;         /* the whole call */
    double overlap_seconds; /* the time during which at least two stages were active */
    double stage_seconds[PK_STAGE_COUNT];
} pk_report;

/* Exception flags, OR-ed over elements. Underflow is not reported. */
enum {
    PK_FPE_DIVIDE_BY_ZERO = 1, /* an exact infinity from finite arguments; an integer division by zero */
    PK_FPE_OVERFLOW = 2,       /* an infinity from finite arguments by rounding; the quotient INT_MIN / -1 */
    PK_FPE_INVALID = 4,       /* a NaN from arguments without one; a float that its integer type can't hold */
    PK_FPE_NEGATIVE_POWER = 8 /* an integer raised to a negative integer power */
};

/* ---- Operands ------------------------------------------------------------------------------------- */

/* Flags of an operand, beside PK_ON_DEVICE. Entries refuse the flags that they do not support. */
enum {
    PK_OPERAND_BYTE_SWAPPED = 1, /* elements are in the other byte order */
    PK_OPERAND_IN_SCRATCH = 4    /* the address is an offset into the thread's scratch: pk_run_blocks */
};

/* A strided array. A stride of 0 broadcasts; of an output it is refused.
 *
 * With PK_ON_DEVICE, elements are aligned and in native byte order, and all such operands of a call are on
 * one GPU. Beside them, pk_evaluate and pk_random take host operands of a single element, which they read
 * before they return. The others take device operands alone, and all but pk_evaluate dense ones. */
typedef struct pk_operand {
    uint64_t address; /* of the first element */
    int32_t type;     /* pk_type */
    int32_t flags;
    int64_t strides[PK_MAX_DIMS]; /* bytes, for each of the call's dimensions */
} pk_operand;

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

/* Sets *count to the number of GPUs that the library can use: 0 for the CPU library. The CUDA library fails
 * with PK_NO_DEVICE if it can use none; the message gives the reason. */
PK_API int32_t pk_device_count(int64_t *count);

/* Describes the GPU of that index, from 0. */
PK_API int32_t pk_device_info(int64_t index, pk_device *device);

/* The throughput of the link to a GPU, from and to pinned memory, in bytes per second. */
typedef struct pk_link {
    double up;   /* host to device */
    double down; /* device to host */
} pk_link;

/* Gets the throughput of a GPU's link. The first call measures it, which takes some milliseconds. */
PK_API int32_t pk_link_speed(int64_t device, pk_link *link);

/* ---- The library's memory ------------------------------------------------------------------------- */

/* The memory that the library keeps from call to call. It is allocated when a call first needs it, within
 * budgets that the environment sets: PYCUDAKIT_DEVICE_MEMORY, PYCUDAKIT_PINNED_MEMORY,
 * PYCUDAKIT_RESULT_MEMORY and PYCUDAKIT_PLAN_MEMORY, in bytes or with a suffix K, M or G, read when the
 * library is first used. The arrays of pk_pinned_take are outside of these budgets. */
typedef struct pk_memory {
    int64_t device_bytes;   /* staging and temporary storage, on all devices */
    int64_t device_budget;  /* for each device; default: 512 MiB */
    int64_t pinned_bytes;   /* host memory for staging */
    int64_t pinned_budget;  /* default: 256 MiB */
    int64_t arrays_bytes;   /* pinned arrays in use */
    int64_t arrays_kept;    /* pinned arrays that were returned, for reuse */
    int64_t results_kept;   /* memory that was returned to pk_result_allocator, for reuse */
    int64_t results_budget; /* default: 1 GiB, or an eighth of the machine's memory if that is less */
    int64_t plan_bytes;     /* device copies of ranges, in use or for reuse, on all devices */
    /* The budget for those, for each device; default: half of the memory that is free when it is first
     * needed, and 0 before that. In a residency scope it is that of the scope's device, else of device 0. */
    int64_t plan_budget;
} pk_memory;

/* Gets how much memory the library holds, and its budgets. */
PK_API int32_t pk_memory_info(pk_memory *memory);

/* Frees the memory, modules and compiled kernels that are not in use by a call or a pinned array. */
PK_API int32_t pk_release(void);

/* Allocates uninitialized pinned memory, aligned to 4096 bytes, which a GPU reads and writes without staging.
 * The CPU library allocates ordinary memory. */
PK_API int32_t pk_pinned_take(int64_t bytes, uint64_t *address);

/* Returns memory of pk_pinned_take. The library keeps it for reuse until pk_release. */
PK_API int32_t pk_pinned_return(uint64_t address);

/* Sets *address to that of an allocator of ordinary memory for large results, a PyDataMem_Handler of NumPy's,
 * valid until the process ends. It reuses freed blocks for results of about their size, because touching new
 * pages costs more than most calls compute. The operating system may reclaim free blocks when memory is
 * short. */
PK_API int32_t pk_result_allocator(uint64_t *address);

/* A tuning constant of the pipeline, for experiments. It is set by the environment variable
 * PYCUDAKIT_STREAM_<NAME>, read when the library is first used, or by pk_tune. */
typedef struct pk_tuning {
    char name[32];
    char text[PK_NAME_SIZE]; /* a description */
    int64_t value;
    int64_t default_value;
    int64_t min_value;
    int64_t max_value;
} pk_tuning;

/* Sets *count to the number of tuning constants: 0 for the CPU library. */
PK_API int32_t pk_tuning_count(int64_t *count);

/* Describes the tuning constant of that index. */
PK_API int32_t pk_tuning_info(int64_t index, pk_tuning *tuning);

/* Sets the tuning constant of that index for later calls of the whole process. */
PK_API int32_t pk_tune(int64_t index, int64_t value);

/* ---- Residency scopes ----------------------------------------------------------------------------- */

/* These functions serve entries that take addresses instead of operands, which can be PK_ON_DEVICE. They are
 * going: they end when no such entry is left.
 *
 * While the body of a residency scope runs, calls on ordinary host addresses leave data on the device. A call
 * whose operand lies in a resident range reads and writes the device copy, and nothing is transferred.
 * Results have the same bits as without a scope.
 *
 * All entries that compute use resident ranges by themselves. pk_unique_*, pk_extent, and the host's part of
 * other calls, download the ranges that they read. Parameters are not looked up: before a call reads a range
 * as weights of a filter, ranks, a lookup table or index pairs, and before the caller reads it,
 * pk_residency_download copies it to the host. After other code has written to the host memory, the caller
 * calls pk_residency_invalidate.
 *
 * An operand uses the device copy if it is aligned and in native byte order, and the call runs on the scope's
 * device alone; most entries need a dense one, too. Otherwise the call goes through host memory, and the
 * library downloads and invalidates the ranges that it needs. */
typedef int32_t (*pk_residency_body)(void *context);

/* Runs body(context) on the calling thread in a residency scope. Ranges that become resident meanwhile are
 * dropped when it returns, and data that only the device has are lost. If it returns anything but 0, the call
 * fails with PK_INTERRUPTED. Scopes may nest: new ranges belong to the innermost one, and calls see the
 * ranges of all. Work that a nested scope has enqueued comes after that of the scopes around it, and before
 * their later work. The outermost call does not wait for the stream of pk_residency_set_stream. */
PK_API int32_t pk_run_in_residency_scope(pk_residency_body body, void *context);

/* Sets the device of the thread's innermost scope, for ranges that become resident later; by default it is
 * device 0. Fails with PK_INVALID_ARGUMENT outside of a scope, and if there is no such device: the CPU
 * library has none. */
PK_API int32_t pk_residency_set_device(int64_t device);

/* Enqueues the later calls of the innermost scope in `stream`, a cudaStream_t of the caller, if all of their
 * arrays are resident on the scope's device and the entry supports it. Such calls return without waiting, and
 * report no exceptions but integers raised to negative powers. Other calls wait for the stream first. Host
 * data of up to 64 KiB that goes up to a range, weights of filters and long programs are then uploaded
 * through kernel parameters; report.bytes_up counts the ranges alone. 0 waits for the stream, and ends this.
 * Fails with PK_INVALID_ARGUMENT outside of a scope; in the CPU library it has no effect. */
PK_API int32_t pk_residency_set_stream(uint64_t stream);

/* The intent of a resident range. */
enum {
    PK_RESIDENT_INPUT = 0,     /* the host copy is valid; the first call that reads it uploads it */
    PK_RESIDENT_TEMPORARY = 1, /* nothing is valid yet; results stay on the device */
    PK_RESIDENT_OUTPUT = 2     /* the same, and results are copied back to the host as well */
};

/* Makes a range of host memory resident: allocates a copy on the scope's device, for calls of this thread.
 * *is_resident is 0 if that is not possible, and calls go through host memory: outside of a scope, without
 * room in PYCUDAKIT_PLAN_MEMORY or on the device, and in the CPU library. Fails with PK_INVALID_ARGUMENT if
 * the range overlaps a resident one. The caller drops the range before its memory is reused for something
 * else. */
PK_API int32_t pk_residency_add(uint64_t address, int64_t bytes, int32_t intent, int32_t *is_resident);

/* Which copy of an imported range is valid. */
enum { PK_IMPORT_HOST_VALID = 0, PK_IMPORT_DEVICE_VALID = 1 };

/* Makes a range of host memory resident, with device memory of the caller as its copy: `bytes` bytes at
 * `device_address`, on any device, which calls on that device read and write in place, and which is never
 * freed. Waits for the work in `stream`, a cudaStream_t, unless that is 0. Sets *device to the index of that
 * device. The host memory is touched by pk_residency_download, and by calls that cannot use the device copy;
 * else it may be untouched pages, whose address is a name for the device memory. Fails with
 * PK_INVALID_ARGUMENT outside of a scope, if the range overlaps a resident one, or if `device_address` is not
 * device memory; with PK_UNSUPPORTED in the CPU library. */
PK_API int32_t pk_residency_import(uint64_t address, int64_t bytes, uint64_t device_address, uint64_t stream,
                                   int32_t valid, int32_t *device);

/* The next four functions act on the resident range that contains `address`. Without one, they do nothing. */

/* Copies the range to host memory, if only the device copy is valid. Then both are. */
PK_API int32_t pk_residency_download(uint64_t address, const pk_options *options, pk_report *report);

/* Copies the range to the device, if only the host copy is valid. Then both are. For an imported range,
 * before it is dropped. */
PK_API int32_t pk_residency_upload(uint64_t address, const pk_options *options, pk_report *report);

/* Marks the device copy as stale and the host copy as valid, after a write to host memory. */
PK_API int32_t pk_residency_invalidate(uint64_t address);

/* Ends the residency of the range. Data that only the device has are lost, except in imported memory. */
PK_API int32_t pk_residency_drop(uint64_t address);

/* Gets the source of a fused kernel to compile. Programs over resident ranges are interpreted until one has
 * done enough work to be worth compiling. *bytes is the size of the oldest request's source, or 0 if there is
 * none, as in the CPU library. If `size` is enough for it, `source` is filled: complete C++ for NVRTC, with a
 * kernel named `pass`. *kernel is the number of the request. */
PK_API int32_t pk_jit_request(uint8_t *source, int64_t size, int64_t *bytes, uint64_t *kernel);

/* Installs the compiled image of a request, which NVRTC made without contraction (-fmad=false). The library
 * copies it. An image of 0 bytes means that there is none, and the program goes on being interpreted. Results
 * have the same bits either way. pk_release forgets all images and requests. */
PK_API int32_t pk_jit_install(uint64_t kernel, const uint8_t *image, int64_t bytes);

/* ---- Elementwise programs ------------------------------------------------------------------------- */

/* One operation of csrc/ops.def. */
typedef struct pk_operation {
    char name[32];
    int32_t arity;        /* 1, 2 or 3 */
    uint32_t types;       /* bit t is set if the operation takes values of pk_type t */
    int32_t returns_bool; /* else the result has the type of the arguments */
    int32_t quiet;        /* never raises an exception flag */
} pk_operation;

/* The first opcodes. Opcode PK_OP_FIRST + i is the i-th operation of csrc/ops.def. */
enum { PK_OP_LOAD = 0, PK_OP_STORE = 1, PK_OP_CAST = 2, PK_OP_FIRST = 3 };

/* Sets *count to the number of operations of csrc/ops.def. */
PK_API int32_t pk_operation_count(int64_t *count);

/* Describes the operation of that index, from 0. */
PK_API int32_t pk_operation_info(int64_t index, pk_operation *operation);

/* One instruction of a program. Each defines the value of its own index, but for PK_OP_STORE, which defines
 * none; arguments name values that were defined earlier.
 *
 *   PK_OP_LOAD   a: operand                 type: the operand's type
 *   PK_OP_STORE  a: value, b: operand       type: the operand's and the value's type
 *   PK_OP_CAST   a: value                   type: the value's type; to: the result's type
 *   others       a, b, c: values, as many as the operation takes, all of the type `type`; of an operation
 *                of three arguments, a is a PK_BOOL
 *
 * An operand is stored to at most once, and not loaded after that. Casts round to nearest even; from a float
 * to an integer they truncate and saturate, and NaN becomes 0. */
typedef struct pk_instruction {
    uint16_t op;
    uint8_t type;
    uint8_t to;
    int32_t a;
    int32_t b;
    int32_t c;
} pk_instruction;

/* Runs a program once for every element of `shape`, in any order.
 *
 * An operand that the program stores to overlaps no other operand, unless both are the same elements at the
 * same addresses with the same strides; and no two positions of `shape` share an element of it. `exceptions`
 * gets a byte for each instruction: the PK_FPE_... flags that any element raised in it. */
PK_API int32_t pk_evaluate(const pk_instruction *program, int64_t instruction_count,
                           const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                           int64_t dimensions, const pk_options *options, uint8_t *exceptions,
                           pk_report *report);

/* ---- Reductions ----------------------------------------------------------------------------------- */

/* The operation of a reduction. Sums and products of integers wrap modulo 2^64. Those of floats are computed
 * in float64 with compensation (double-double). Extremes propagate NaN, and the first of several equal
 * elements counts. */
enum {
    PK_REDUCE_SUM = 0,
    PK_REDUCE_PROD = 1,
    PK_REDUCE_MIN = 2,
    PK_REDUCE_MAX = 3,
    PK_REDUCE_ARGMIN = 4, /* the index along the reduced dimensions, int64 */
    PK_REDUCE_ARGMAX = 5,
    PK_REDUCE_PTP = 6,                    /* the maximum minus the minimum */
    PK_REDUCE_DOT = 7,                    /* the sum of products of two values */
    PK_REDUCE_SUM_SQUARED_DEVIATIONS = 8, /* the sum of squared differences from the mean; floats alone */
    PK_REDUCE_COUNT = 9
};

/* The step from the reduced value to the result, where n is the number of reduced elements, or of those that
 * the mask selects. */
enum {
    PK_FINALIZE_NONE = 0,
    PK_FINALIZE_MEAN = 1, /* of PK_REDUCE_SUM: sum / n */
    PK_FINALIZE_NORM = 2, /* of PK_REDUCE_DOT: its square root */
    PK_FINALIZE_VAR = 3,  /* of PK_REDUCE_SUM_SQUARED_DEVIATIONS: sum / (n - ddof) */
    PK_FINALIZE_STD = 4   /* the square root of that */
};

typedef struct pk_reduction {
    int32_t kind;     /* PK_REDUCE_... */
    int32_t finalize; /* PK_FINALIZE_... */
    int32_t outer;    /* the number of dimensions before the reduced ones */
    int32_t reduced;  /* the number of reduced dimensions; the others follow */
    /* 1, or 2. The second value is the other factor of PK_REDUCE_DOT, or, for PK_REDUCE_SUM and
     * PK_REDUCE_SUM_SQUARED_DEVIATIONS of floats, a mask: the PK_BOOL that selects elements. */
    int32_t value_count;
    /* Whether PK_REDUCE_SUM, PK_REDUCE_PROD, PK_REDUCE_MIN or PK_REDUCE_MAX begins with an initial value:
     * `initial` for floats, `initial_integer` for integers, by its bits. */
    int32_t has_initial;
    double initial;
    int64_t initial_integer;
    double ddof;
} pk_reduction;

/* Runs a program once for every element of `shape`, none of whose dimensions is 0, and reduces the values
 * that it stores along some dimensions. The operands are those that the program loads; then value_count
 * operands with the address 0, to which the program stores its values; then the result, which the program
 * does not name, and whose strides of the other dimensions are read.
 *
 * The result depends on the values and their order in `shape` alone. `exceptions` is as for pk_evaluate. */
PK_API int32_t pk_reduce(const pk_reduction *reduction, const pk_instruction *program,
                         int64_t instruction_count, const pk_operand *operands, int64_t operand_count,
                         const int64_t *shape, int64_t dimensions, uint8_t *exceptions,
                         const pk_options *options, pk_report *report);

/* Computes several reductions of the same values along the same dimensions, in one pass over them where the
 * library can. Their `outer`, `reduced` and `value_count` are equal, and the operands end with the result of
 * each, in their order. There are at most PK_MAX_REDUCTIONS. */
PK_API int32_t pk_reduce_several(const pk_reduction *reductions, int64_t reduction_count,
                                 const pk_instruction *program, int64_t instruction_count,
                                 const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                 int64_t dimensions, uint8_t *exceptions, const pk_options *options,
                                 pk_report *report);

/* ---- Programs over blocks ------------------------------------------------------------------------- */

/* A program over the first of several blocks: the arguments of pk_evaluate or, with reductions, of
 * pk_reduce_several. */
typedef struct pk_block_program {
    /* The addresses of arrays of pk_instruction, pk_operand, int64_t (the shape) and pk_reduction, or 0. */
    uint64_t program;
    uint64_t operands;
    uint64_t shape;
    uint64_t reductions;
    int64_t instruction_count;
    int64_t operand_count;
    int64_t dimensions;
    int64_t reduction_count;
    /* The address of an int64_t for each operand: its offset in bytes from block to block. */
    uint64_t block_strides;
    /* The address of a byte for each instruction: the flags that it raised in any block. */
    uint64_t exceptions;
    double seconds; /* output: the time that the threads spent on this program, added up */
} pk_block_program;

/* Runs several programs over many blocks (loop tiling): one thread runs all programs, one after the other,
 * over a block, while other threads run them over other blocks. Results that one program leaves are still in
 * the cache when the next one reads them. Operands with PK_OPERAND_IN_SCRATCH are offsets into scratch_bytes
 * bytes that each thread has for itself. No block reads a result of another one. The bits are those of the
 * same calls one after the other. `seconds`, `exceptions` and `report` are set on PK_OK. The CUDA library
 * fails with PK_UNSUPPORTED. */
PK_API int32_t pk_run_blocks(pk_block_program *programs, int64_t program_count, int64_t blocks,
                             int64_t scratch_bytes, const pk_options *options, pk_report *report);

/* ---- Buffers --------------------------------------------------------------------------------------- */

/* Flags of a buffer, beside PK_ON_DEVICE, which is for memory on the device of the run. Without that, UPLOAD
 * and POISON it begins as zeros. pk_run_requests takes UPLOAD and DOWNLOAD alone. */
enum {
    PK_BUFFER_UPLOAD = 1,   /* it begins with the contents of the host memory */
    PK_BUFFER_DOWNLOAD = 2, /* it is copied to the host memory at the end */
    PK_BUFFER_POISON = 4,   /* without PK_BUFFER_UPLOAD: it begins as bytes of PK_BUFFER_POISON_BYTE */
    PK_BUFFER_CONSTANT = 8  /* no kernel writes it, so that kernels may read the caller's memory in place */
};
enum { PK_BUFFER_POISON_BYTE = 165 };

/* A buffer of a run, of kernels or of requests. Kernels use one that is PK_ON_DEVICE in place if it is also
 * PK_BUFFER_CONSTANT or PK_BUFFER_DOWNLOAD, else through a copy on the device. The run comes after the work
 * that the buffers' streams hold.
 *
 * With options.asynchronous, only a short run returns once it is enqueued: all of its buffers are
 * PK_ON_DEVICE, in place and of options.stream; it has at most 4 launches; it sets no symbol; no kernel of
 * its images prints; and it is not inside a residency scope. */
typedef struct pk_buffer {
    uint64_t address; /* host memory, or 0 without PK_BUFFER_UPLOAD and PK_BUFFER_DOWNLOAD */
    uint64_t stream;  /* PK_ON_DEVICE: the cudaStream_t that produces its contents; 0: they are ready */
    int64_t bytes;
    int32_t flags;
    int32_t itemsize; /* bytes of an element, for messages */
    char label[64];   /* its name for messages */
} pk_buffer;

/* ---- Lists of requests ----------------------------------------------------------------------------- */

/* The entry that a request calls. */
enum {
    PK_REQUEST_EVALUATE = 0,
    PK_REQUEST_REDUCE = 1,
    PK_REQUEST_REDUCE_SEVERAL = 2,
    PK_REQUEST_SCAN = 3,
    PK_REQUEST_LOOP = 4,
    PK_REQUEST_TAKE = 5,
    PK_REQUEST_PUT = 6,
    PK_REQUEST_INTERP = 7,
    PK_REQUEST_EXTENT = 8,
    PK_REQUEST_HISTOGRAM = 9,
    PK_REQUEST_HISTOGRAM_OF_EXTENT = 10,
    PK_REQUEST_WEIGHTED_HISTOGRAM = 11,
    PK_REQUEST_DIGITIZE = 12,
    PK_REQUEST_RANDOM = 13,
    PK_REQUEST_GRAY = 14,
    PK_REQUEST_LOOKUP = 15,
    PK_REQUEST_RESIZE = 16,
    PK_REQUEST_FILTER = 17,
    PK_REQUEST_RUN_BLOCKS = 18,
    PK_REQUEST_RUN_KERNELS = 19,
    /* Of the entries pk_sort_t and so on: the first argument is the pk_type of the elements. */
    PK_REQUEST_SORT = 20,
    PK_REQUEST_ARGSORT = 21,
    PK_REQUEST_SEARCHSORTED = 22,
    PK_REQUEST_UNIQUE = 23,
    PK_REQUEST_SELECT = 24,
    PK_REQUEST_MATMUL = 25,
    PK_REQUEST_COUNT = 26
};
enum { PK_MAX_REQUEST_ARGUMENTS = 12, PK_MAX_LOOP_OPERANDS = 8 };

/* A function of the caller's, with the signature of NumPy's loops of generalized ufuncs. It takes the
 * addresses of its operands, sizes and strides, and data of its own. */
typedef void (*pk_loop)(char **operands, const intptr_t *sizes, const intptr_t *strides, void *data);

/* A call of an entry, as data: the entry's arguments but for options and report, in their order, as words:
 * addresses, int64_t, and the bits of a double. The arguments of PK_REQUEST_LOOP are a pk_loop, an array of
 * pk_operand and its length (at most PK_MAX_LOOP_OPERANDS), of which the addresses are read, and the sizes,
 * the strides and the data of the loop. The call reports the exceptions of the calling thread, with underflow
 * left out. */
typedef struct pk_request {
    int64_t entry; /* PK_REQUEST_... */
    uint64_t arguments[PK_MAX_REQUEST_ARGUMENTS];
} pk_request;

/* An address in a request, or in its tables, that depends on a buffer of the caller. */
typedef struct pk_binding {
    uint64_t word;  /* the address of a uint64_t: an argument, or the `address` of a pk_operand for example */
    int64_t buffer; /* an index of `buffers` */
    int64_t offset; /* bytes from the buffer's begin */
} pk_binding;

/* When a stop ends a list. The value is a PK_BOOL for the first two, and a float for the third. */
enum { PK_STOP_IF_FALSE = 0, PK_STOP_IF_TRUE = 1, PK_STOP_IF_NOT_FINITE = 2 };

/* A test of a value after a call of a list, which may end the list there. */
typedef struct pk_stop {
    int64_t call;   /* an index of `order` */
    int64_t buffer; /* an index of `buffers` */
    int64_t offset; /* of the value, in bytes from the buffer's begin */
    int32_t type;   /* of the value: a pk_type */
    int32_t kind;   /* PK_STOP_... */
} pk_stop;

/* Binds the buffers: stores buffers[b.buffer].address + b.offset in the word of each binding b. Then makes
 * call_count calls, of requests[order[0]], requests[order[1]] and so on: one request may be called many
 * times. The results are those of the same calls one after the other. *completed is the number of calls.
 *
 * The list ends early, with PK_OK, after a call one of whose stops is met: so a loop runs until its condition
 * changes. Stops are in the order of their calls; a call may have several.
 *
 * The buffers are host memory, and do not overlap. The CUDA library copies them to a GPU, enqueues the
 * requests there without waiting in between, but for stops and in very long lists, and copies results back
 * at the end. Tables of arguments, and single values that an entry sets, such as *unique_count, are memory of
 * the host, and in no buffer. A buffer from which a request reads before one has written there must be
 * PK_BUFFER_UPLOAD, and one that the caller reads PK_BUFFER_DOWNLOAD; bytes of the latter that no request
 * writes are undefined unless it is uploaded, too, and so are all bytes of other buffers. Buffers that are
 * resident in a scope of the caller's stay on the device. With several devices, without room on the device,
 * and with a PK_REQUEST_LOOP or PK_REQUEST_RUN_KERNELS, each request runs as a call of its own. The CPU
 * library uses the buffers in place.
 *
 * With a key, the CPU library keeps the checked and compiled requests, and the CUDA library CUDA graphs of
 * the calls with the device memory of small buffers, until pk_release, or until the list is the least
 * recently used of too many. The next call with this key has the same requests, order and bindings, and the
 * same tables at the same addresses, apart from the words that are bound and the contents of buffers. Memory
 * that is in no buffer has the same contents. A key is two words, which no other list in the process has: a
 * number, and an address of the caller's, for example. Without a key, `key` is null, or both words are 0.
 *
 * The exceptions of all requests are in the report; a GPU leaves the requests' own tables of exceptions as
 * they are.
 *
 * If a call fails, this returns its status, *completed is the number of calls before it, and the contents of
 * buffers that requests write are undefined. The report adds up those of the calls. options.rest and
 * options.spans are 0. */
PK_API int32_t pk_run_requests(const pk_request *requests, int64_t request_count, const int32_t *order,
                               int64_t call_count, const pk_binding *bindings, int64_t binding_count,
                               const pk_buffer *buffers, int64_t buffer_count, const pk_stop *stops,
                               int64_t stop_count, const uint64_t *key, int64_t *completed,
                               const pk_options *options, pk_report *report);

/* ---- Scans ---------------------------------------------------------------------------------------- */

enum { PK_SCAN_SUM = 0, PK_SCAN_PROD = 1, PK_SCAN_MAX = 2, PK_SCAN_MIN = 3 };
enum {
    PK_SCAN_EXCLUSIVE = 1, /* a result leaves its own element out: the first is 0, of a product 1 */
    PK_SCAN_SKIP_NAN = 2   /* NaN counts as 0, in a product as 1 */
};

/* Computes the prefix sums, products or extremes of operand 0 into operand 1. The scan runs along the `rows`
 * dimensions of `shape` that follow the first `outer`, the last of them fastest; each position of the other
 * dimensions is scanned on its own. `shape` has no 0.
 *
 * The result has the type of operand 1. For an integer result, elements are cast first and sums wrap; for a
 * float result, sums and products are computed in float64 with compensation, and rounded once. The operands
 * may be the same elements at the same addresses, and do not overlap otherwise; with PK_ON_DEVICE, sums of
 * several columns in float64 do not overlap at all. A scan runs on the first of options.devices.
 * report.exceptions has PK_FPE_OVERFLOW and PK_FPE_INVALID. */
PK_API int32_t pk_scan(int64_t operation, int64_t flags, const pk_operand *operands, const int64_t *shape,
                       int64_t dimensions, int64_t outer, int64_t rows, const pk_options *options,
                       pk_report *report);

/* ---- Sorting and searching ------------------------------------------------------------------------ */

/* Flags of pk_unique: the additional results, and whether all NaN are one value. */
enum { PK_UNIQUE_INDEX = 1, PK_UNIQUE_INVERSE = 2, PK_UNIQUE_COUNTS = 4, PK_UNIQUE_EQUAL_NAN = 8 };

/* Four functions for each element type T, called t. Arrays are dense and aligned, and outputs overlap nothing
 * else. NaN comes last, and -0.0 equals 0.0. A bool sorts as u8; a float16 is its bits, a uint16_t.
 *
 * pk_sort_t sorts each of `rows` rows of `columns` elements, as a stable sort would.
 *
 * pk_argsort_t computes the first `limit` indices of each row's stable order, which is descending if
 * `descending` is not 0, with NaN still last.
 *
 * pk_searchsorted_t computes the position of each of `count` values in `size` sorted elements: the number of
 * elements that are less or, if `right` is not 0, not greater.
 *
 * pk_unique_t computes the distinct values in order and sets *unique_count to their number. If `flags` ask
 * for them, `index` gets the position of the first of each, `inverse` the number of each element's value, and
 * `counts` how often each occurs. Arrays that were not asked for are not touched; the others have room for
 * `size` elements. */
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

/* The same as pk_sort_t and pk_argsort_t, for operand 0 and the result, operand 1: dense arrays of rows,
 * whose strides are not read, in host memory or on a device, there of at most 2^30 elements. */
PK_API int32_t pk_sort(const pk_operand *operands, int64_t rows, int64_t columns, const pk_options *options,
                       pk_report *report);
PK_API int32_t pk_argsort(const pk_operand *operands, int64_t rows, int64_t columns, int64_t limit,
                          int64_t descending, const pk_options *options, pk_report *report);

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

/* ---- Order statistics ----------------------------------------------------------------------------- */

/* For each element type T, called t: pk_select_t finds elements of each row by rank, as a partial sort would.
 * Ranks count from 0 in ascending order, where -0.0 comes before 0.0 and NaN comes last. Rows are dense and
 * aligned; a float16 is its bits. `ranks` holds rank_count ranks in ascending order, for all rows if
 * rank_rows is 1, or for each row if rank_rows is `rows`. `out` gets rows * rank_count elements, and `nans`
 * the number of NaN in each row. */
#define PK_SELECT(t, T)                                                                            \
    PK_API int32_t pk_select_##t(const T *in, int64_t rows, int64_t columns, const int64_t *ranks, \
                                 int64_t rank_rows, int64_t rank_count, T *out, int64_t *nans,     \
                                 const pk_options *options, pk_report *report);

PK_SELECT(i8, int8_t)
PK_SELECT(i16, int16_t)
PK_SELECT(i32, int32_t)
PK_SELECT(i64, int64_t)
PK_SELECT(u8, uint8_t)
PK_SELECT(u16, uint16_t)
PK_SELECT(u32, uint32_t)
PK_SELECT(u64, uint64_t)
PK_SELECT(f16, uint16_t)
PK_SELECT(f32, float)
PK_SELECT(f64, double)

/* ---- Histograms ----------------------------------------------------------------------------------- */

/* How a value is assigned to a bin. */
enum {
    PK_BINS_INDEX = 0, /* an integer is the index of its bin */
    PK_BINS_EDGES = 1, /* bin i holds edges[i] <= value < edges[i + 1]; the last one its right edge, too */
    /* As numpy.histogram does for bins of equal width: a value from `low` to `high` has the index
     * (value - first) / width * count, which is corrected to a neighbour where the edges say so. */
    PK_BINS_UNIFORM = 2
};

typedef struct pk_bins {
    int32_t kind;         /* PK_BINS_... */
    int32_t type;         /* of the edges: PK_INT64, PK_UINT64 or a float; PK_BINS_UNIFORM: a float */
    int32_t compute_type; /* PK_BINS_UNIFORM: the float in which quotient and product are computed */
    int32_t reserved;     /* zero */
    int64_t count;        /* bins, fewer than 2^31 - 256 */
    uint64_t edges;       /* the address of count + 1 ascending edges; for PK_FLOAT16, of float32 */
    uint64_t low;         /* PK_BINS_UNIFORM: an element of the operand's type, in the first bytes */
    uint64_t high;
    double first; /* PK_BINS_UNIFORM: the first edge */
    double width; /* PK_BINS_UNIFORM: of all bins together */
} pk_bins;

/* Finds the minimum and the maximum of an array, in the first bytes of extent[0] and extent[1]; both are NaN
 * if any element is. */
PK_API int32_t pk_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                         uint64_t *extent, const pk_options *options, pk_report *report);

/* Counts the elements in each bin. With two axes there are two operands of values and two pk_bins, and the
 * bin of a pair has the index i * bins[1].count + j. One more operand, of integers, weights the elements; the
 * sums wrap modulo 2^64. With PK_BINS_UNIFORM they are made, as NumPy does, of float64 sums over segments of
 * 65536 elements.
 *
 * `counts` has an element for each bin and two more: the number of elements in no bin; and 1 if any element
 * from `low` to `high` had an index beyond the bins, which is an error in numpy.histogram. */
PK_API int32_t pk_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                            int64_t dimensions, const pk_bins *bins, int64_t axes, int64_t *counts,
                            const pk_options *options, pk_report *report);

/* A callback that fills in the bins for a minimum and a maximum. If it returns anything but 0, the call stops
 * and fails with PK_INTERRUPTED. */
typedef int32_t (*pk_find_bins)(const uint64_t *extent, pk_bins *bins);

/* Runs pk_extent and then pk_histogram, with one axis and the `count` bins that `find`, the address of a
 * pk_find_bins, fills in; it is called on the calling thread. The elements are uploaded to a GPU once, if
 * its budget has room for all of them. */
PK_API int32_t pk_histogram_of_extent(const pk_operand *operand, const int64_t *shape, int64_t dimensions,
                                      uint64_t find, int64_t count, int64_t *counts,
                                      const pk_options *options, pk_report *report);

/* Sums the weights, the last operand, of the elements in each bin, in float64. The order is NumPy's: within
 * segments of 65536 elements in the order of `shape`, and then over the segments. With more than 16384 bins
 * a segment has the least power of two of elements that is at least four times the bins. `out_of_range` gets
 * the last two counts of pk_histogram. */
PK_API int32_t pk_weighted_histogram(const pk_operand *operands, int64_t operand_count, const int64_t *shape,
                                     int64_t dimensions, const pk_bins *bins, int64_t axes, double *sums,
                                     int64_t *out_of_range, const pk_options *options, pk_report *report);

/* Computes the bin of each element, as numpy.digitize does: operand 1, of type PK_INT64, gets the number of
 * edges (PK_BINS_EDGES) that are not above the element of operand 0 or, if `right`, below it. If
 * `decreasing`, it gets the number of edges minus that. */
PK_API int32_t pk_digitize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                           const pk_bins *bins, int32_t right, int32_t decreasing, const pk_options *options,
                           pk_report *report);

/* ---- Matrix products ------------------------------------------------------------------------------ */

/* Flags: the matrices of an operand are stored transposed, a as k x m, b as n x k. */
enum { PK_MATMUL_TRANSPOSE_A = 1, PK_MATMUL_TRANSPOSE_B = 2 };

/* The precision of float products where there is a choice, on a GPU with cuBLAS. */
enum {
    PK_PRECISION_HIGHEST = 0, /* an error no larger than that of float32 arithmetic */
    PK_PRECISION_EXACT = 1,   /* float64 arithmetic */
    PK_PRECISION_TF32 = 2,    /* factors rounded to TF32 */
    PK_PRECISION_BF16 = 3     /* factors rounded to bfloat16 */
};

/* The implementation that computed a product. */
enum {
    PK_MATMUL_BY_LOOPS = 0,       /* the CPU's loops */
    PK_MATMUL_BY_KERNEL = 1,      /* the library's own kernel */
    PK_MATMUL_BY_CUBLAS = 2,      /* cuBLAS */
    PK_MATMUL_BY_CUBLAS_SPLIT = 3 /* cuBLAS, with each float32 split into a sum of two TF32 */
};

/* For each element type T, called t: pk_matmul_t computes the products of `batch` pairs of matrices, m x k of
 * `a` and k x n of `b`, one after the other in `c`, m x n each. Pair i is matrix index_pairs[2 * i] of `a`
 * and index_pairs[2 * i + 1] of `b`. Matrices are dense, row-major, aligned and adjacent; c overlaps neither.
 *
 * Integers wrap. For bools a product is "and" and a sum "or". A float16 is its bits, and is accumulated in
 * float32. For floats, report.exceptions has PK_FPE_OVERFLOW if any result is infinite and PK_FPE_INVALID if
 * any is NaN, for whatever reason. *method is set to the implementation, PK_MATMUL_BY_... */
#define PK_MATMUL(t, T)                                                                         \
    PK_API int32_t pk_matmul_##t(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k, \
                                 const int64_t *index_pairs, int64_t batch, int64_t flags,      \
                                 int64_t precision, int64_t *method, const pk_options *options, \
                                 pk_report *report);

/* The same for operands a, b and c of one type: dense arrays, whose strides are not read, all in host memory
 * or all on a device. */
PK_API int32_t pk_matmul(const pk_operand *operands, int64_t m, int64_t n, int64_t k,
                         const int64_t *index_pairs, int64_t batch, int64_t flags, int64_t precision,
                         int64_t *method, const pk_options *options, pk_report *report);

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

/* Opens cuBLAS for later products, unless it is open: the library of that path or, with a length of 0, the
 * one that the system's loader finds. *found is 1 if it is open. The CPU library has no use for it. */
PK_API int32_t pk_open_cublas(const uint8_t *path, int64_t length, int64_t *found);

/* ---- Indexing ------------------------------------------------------------------------------------- */

/* Flags of pk_take. */
enum {
    PK_TAKE_BATCHED_INDICES = 1,  /* each of the `outer` arrays has indices of its own */
    PK_TAKE_INDICES_IN_BOUNDS = 2 /* the caller has checked the indices */
};

/* Gathers elements by index: of each of `outer` adjacent arrays of `count` elements of `width` bytes, the
 * elements at index_count indices, side by side. Negative indices count from the end. An index out of bounds
 * is PK_INVALID_ARGUMENT, and nothing is written; with PK_TAKE_INDICES_IN_BOUNDS it may mean the first
 * element instead. Arrays are dense, and `out` overlaps nothing else. */
PK_API int32_t pk_take(const uint8_t *in, int64_t outer, int64_t count, int64_t width, const int64_t *indices,
                       int64_t index_count, int64_t flags, uint8_t *out, const pk_options *options,
                       pk_report *report);

/* Scatters values by index, as numpy.put does: writes to the elements of an array of `count` elements of
 * `width` bytes, at index_count indices. The value_count values are repeated as often as needed; of several
 * equal indices the last one counts. Indices are as for pk_take. `values` and `indices` overlap nothing that
 * is written. */
PK_API int32_t pk_put(uint8_t *array, int64_t count, int64_t width, const int64_t *indices,
                      int64_t index_count, const uint8_t *values, int64_t value_count,
                      const pk_options *options, pk_report *report);

/* ---- Interpolation --------------------------------------------------------------------------------- */

/* Interpolates linearly, as numpy.interp does: at each of `count` values x, on the lines through `size`
 * points (xp, fp), in ascending order of xp; `left` and `right` are the results outside of them. At NaN the
 * result is NaN, or fp[0] if there is one point. Arrays are dense, and `out` overlaps nothing else. */
PK_API int32_t pk_interp(const double *xp, const double *fp, int64_t size, double left, double right,
                         const double *x, double *out, int64_t count, const pk_options *options,
                         pk_report *report);

/* ---- Random numbers ------------------------------------------------------------------------------- */

/* A distribution, the types of its samples (operand 0), and its parameters, an operand each. The first four
 * may have no parameters. */
enum {
    PK_RANDOM_BITS = 0,        /* uint32, uint64 */
    PK_RANDOM_UNIFORM = 1,     /* float32, float64; float64: low, width */
    PK_RANDOM_NORMAL = 2,      /* float32, float64; float64: mean, standard deviation */
    PK_RANDOM_EXPONENTIAL = 3, /* float32, float64; float64: scale */
    PK_RANDOM_INTEGERS = 4,    /* bool and integers; uint64: low, span, both ends included, modulo 2^64 */
    PK_RANDOM_POISSON = 5,     /* int64; float64: mean */
    PK_RANDOM_BINOMIAL = 6,    /* int64; int64: trials; float64: probability */
    PK_RANDOM_LOGNORMAL = 7,   /* float64; float64: mean and standard deviation of the logarithm */
    PK_RANDOM_GAMMA = 8,       /* float32, float64; float64: shape, scale */
    PK_RANDOM_BETA = 9,        /* float64; float64: both shapes */
    PK_RANDOM_GEOMETRIC = 10,  /* int64; float64: probability */
    PK_RANDOM_COUNT = 11
};

/* The state of a Philox4x64-10 generator (Salmon et al. 2011), and the distribution to draw from. */
typedef struct pk_draws {
    uint64_t key[2];
    uint64_t counter[4];  /* of the first block of four words, the lowest 64 bits first */
    int32_t distribution; /* PK_RANDOM_... */
    int32_t word;         /* the first word in that block: 0 to 3 */
    int32_t has_half;     /* 1: the first 32 bits are `half`, and those of the words follow */
    uint32_t half;
} pk_draws;

/* Draws an element of operand 0 for every element of `shape`. Elements take their words in the order of the
 * memory that is written: 32 bits each, the lower ones first, if they are uint32 or float32 and of one of
 * the first four distributions, else a whole word each. An element that needs more words takes those of the
 * same position in further sequences, whose counters differ in the highest 16 bits. */
PK_API int32_t pk_random(const pk_draws *draws, const pk_operand *operands, int64_t operand_count,
                         const int64_t *shape, int64_t dimensions, const pk_options *options,
                         pk_report *report);

/* ---- Images --------------------------------------------------------------------------------------- */

/* Images are of uint8, uint16 or float32. operands[0] is the image, and operands[1] the result, of the same
 * type. A result whose shape differs from the image's is dense and aligned, and its strides are not read.
 * Results overlap no input. */

/* Converts to grayscale. The last dimension of `shape` has 3 channels, or 4, of which the last is not read.
 * Integers are exactly (weights[0] * red + weights[1] * green + weights[2] * blue) / divisor, rounded to
 * nearest even or, if `truncates` is 1, down. Floats are the sum of (weights[i] / divisor) * channel in
 * float64, from the first to the last, rounded once. The weights are not negative, and their sum is not above
 * the divisor, which is at most 16384. */
PK_API int32_t pk_gray(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                       const int64_t *weights, int64_t divisor, int64_t truncates, const pk_options *options,
                       pk_report *report);

/* Replaces each element by table[element]. Elements are uint8 with a table of 256 entries, or uint16 with one
 * of 65536. An entry is converted to the type modulo 2^n. The result has the shape of the image, and any
 * strides. */
PK_API int32_t pk_lookup(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                         const uint16_t *table, int64_t count, const pk_options *options, pk_report *report);

/* How a new pixel is computed from the part of the old image that it covers. */
enum {
    PK_RESIZE_NEAREST = 0,  /* the pixel that contains its centre; on an edge, the next one */
    PK_RESIZE_BILINEAR = 1, /* between the four nearest centres; at the border, of border pixels */
    PK_RESIZE_AREA = 2      /* the mean over the area that it covers */
};

/* Resizes images of the shape (..., height, width, channels). A new pixel is the weighted sum, from the top,
 * of weighted sums along rows, from the left, all in float64. With PK_RESIZE_AREA the weights are integers,
 * and the sum is divided by their sum. Weights of 0 are left out. The result is rounded once, integers to
 * nearest even. The call runs on the first of options.devices. */
PK_API int32_t pk_resize(const pk_operand *operands, const int64_t *shape, int64_t dimensions,
                         int64_t new_height, int64_t new_width, int64_t method, const pk_options *options,
                         pk_report *report);

/* How a result is computed from the elements in the window around it. */
enum {
    PK_FILTER_CORRELATE = 0, /* their weighted sum, with height * width weights, row by row */
    PK_FILTER_SEPARABLE = 1, /* the same, where a weight is one of `height` row weights times one of `width`
                              * column weights, which follow them */
    PK_FILTER_BOX = 2,       /* their mean */
    PK_FILTER_MINIMUM = 3,   /* the minimum; NaN if any is */
    PK_FILTER_MAXIMUM = 4,   /* the maximum; NaN if any is */
    PK_FILTER_MEDIAN = 5     /* the one with height * width / 2 before it in order, NaN last */
};

/* The values beyond the border, as in scipy.ndimage, for a row a b c d. */
enum {
    PK_BORDER_REFLECT = 0,  /* d c b a | a b c d | d c b a */
    PK_BORDER_NEAREST = 1,  /* a a a a | a b c d | d d d d */
    PK_BORDER_MIRROR = 2,   /*   d c b | a b c d | c b a */
    PK_BORDER_WRAP = 3,     /* a b c d | a b c d | a b c d */
    PK_BORDER_CONSTANT = 4, /* border_value, a number of the image's type */
    PK_BORDER_SHRINK = 5    /* none: PK_FILTER_BOX is the mean of the elements inside */
};

typedef struct pk_window {
    int32_t kind;   /* PK_FILTER_... */
    int32_t border; /* PK_BORDER_... */
    int64_t height; /* 1 to 63 */
    int64_t width;  /* 1 to 63 */
    int64_t above;  /* rows of the window above that of the result */
    int64_t left;   /* columns of the window left of that of the result */
    double border_value;
} pk_window;

/* Filters images of the shape (images, rows, columns, channels), each channel for itself. The operands are
 * dense, aligned and do not overlap. The result has the type of the image or, for the first three kinds, may
 * be float32.
 *
 * Sums run along each row of the window, from the left, by fused multiply-add, and then over these sums from
 * the top; with PK_FILTER_SEPARABLE by fused multiply-add, too. For float32 images they are sums of float32.
 * For integers, the sum in float64 is rounded to nearest even and clipped to the type's range. It is exact
 * for PK_FILTER_BOX, and if all weights are integers and no sum of magnitudes exceeds 2^24; else within 1. */
PK_API int32_t pk_filter(const pk_window *window, const double *weights, int64_t weight_count,
                         const pk_operand *operands, const int64_t *shape, const pk_options *options,
                         pk_report *report);

/* ---- User kernels --------------------------------------------------------------------------------- */

/* A compiled image: a cubin for the CUDA library; the path of a shared library for the CPU library. It stays
 * loaded until pk_release, or until it is the least recently used of too many. */
typedef struct pk_image {
    uint64_t address;
    int64_t bytes;
    uint64_t key[2]; /* identifies the image: equal keys are equal images */
} pk_image;

/* A kernel in one of a run's images. */
typedef struct pk_kernel {
    int64_t image;   /* its index */
    uint64_t symbol; /* the address of its name in the image */
    int64_t symbol_bytes;
    char label[PK_NAME_SIZE]; /* its name for messages */
} pk_kernel;

/* A value for a __constant__ or __device__ variable, which is set before the first step. At the end of the
 * call the variable has the value again that it had when the image was loaded. */
typedef struct pk_symbol {
    int64_t image;
    uint64_t name;
    int64_t name_bytes;
    uint64_t address; /* of the value */
    int64_t bytes;    /* of the value, at most the variable's */
} pk_symbol;

/* Special values of pk_argument.buffer. */
enum { PK_ARGUMENT_VALUE = -1, PK_ARGUMENT_NULL = -2 };

/* An argument of a kernel: an address inside a buffer, if buffer >= 0; with PK_ARGUMENT_VALUE, the next
 * `bytes` bytes of pk_run.values; with PK_ARGUMENT_NULL, a null pointer. */
typedef struct pk_argument {
    int64_t buffer;
    int64_t offset; /* in bytes, inside the buffer */
    int64_t bytes;  /* of a value */
} pk_argument;

/* A special value of pk_step.kernel. */
enum { PK_STEP_REPEAT = -1 };

/* A launch of a kernel, if kernel >= 0; or, with PK_STEP_REPEAT, `count` rounds of the next `length` steps,
 * which may contain repetitions. If a launch has count > 0, the library chooses a one-dimensional block, and
 * a grid for `count` threads, and `grid` and `block` are not read. */
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

/* A run: the addresses of arrays of the structs above, and the number of elements of each. */
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
    int64_t block_limit; /* the time limit of a block, in milliseconds, for images that the CPU library runs
                          * with checks; 0: none */
} pk_run;

/* Runs the steps one after the other, on buffers that exist for the call alone: inputs are uploaded once, and
 * outputs downloaded once. Everything is checked before anything runs. The run is on the first of
 * options.devices. `text` gets the kernels' output, UTF-8, at most `capacity` bytes, and *length its full
 * length, on PK_OK and after a failure. The time of the steps is report.stage_seconds[PK_STAGE_KERNEL], on
 * the CPU [PK_STAGE_COMPUTE]. */
PK_API int32_t pk_run_kernels(const pk_run *run, uint8_t *text, int64_t capacity, int64_t *length,
                              const pk_options *options, pk_report *report);

/* The limits and properties of a kernel on a device. */
typedef struct pk_kernel_limits {
    int64_t threads;                            /* the maximum in a block */
    int64_t block[3];                           /* the maximum in each dimension */
    int64_t grid[3];                            /* the maximum in each dimension */
    int64_t shared;                             /* the maximum of dynamic shared memory, bytes */
    int64_t static_shared;                      /* bytes; 0 on the CPU */
    int64_t registers;                          /* per thread; 0 on the CPU */
    int64_t suggested_block;                    /* threads, by the occupancy calculator */
    int64_t parameters;                         /* their number; -1 if unknown */
    int64_t parameter_bytes[PK_MAX_PARAMETERS]; /* the size of each */
} pk_kernel_limits;

/* Gets the limits of a kernel, without running it. */
PK_API int32_t pk_kernel_info(const pk_image *image, const uint8_t *symbol, int64_t symbol_bytes,
                              int64_t device, pk_kernel_limits *limits);

/* Sets *launcher to the address of the function by which host code that was compiled for the CPU launches its
 * kernels: a pk_image_launcher, which pycudakit_image.h in the Python package declares. The CUDA library
 * returns PK_UNSUPPORTED, since CUDA's runtime launches there. */
PK_API int32_t pk_kernel_launcher(uint64_t *launcher);

/* ---- Memory, streams, events and modules that outlive a call --------------------------------------- */

/* These entries are for programs that manage a device themselves, as those that were written for PyCUDA. The
 * library owns the objects. The caller holds their addresses or numbers, and gives each back.
 *
 * `device` is the index of a GPU; in the CPU library it is 0, and the device is the CPU itself: its memory is
 * host memory, the work of a stream is complete when the call that enqueues it returns, and an event is a
 * time. `stream` is 0 or 1, the legacy default stream of the device, or 2, the per-thread default stream, or
 * one of pk_stream_create; in the CUDA library it may be any cudaStream_t.
 *
 * Entries that do not synchronize report no failure of kernels that run at that time. The next one that
 * synchronizes does, with the names of the kernels that were launched since the last synchronization. */

/* Flags of pk_device_memory_allocate. */
enum {
    PK_MEMORY_ZEROS = 1,  /* it begins as zeros, else its contents are unspecified */
    PK_MEMORY_MANAGED = 2 /* the host may access it, too */
};

/* Allocates memory of a device, aligned to 256 bytes; `bytes` is positive. It can be used in every stream at
 * once. In the CPU library at least 64 KiB behind it belong to no other allocation. */
PK_API int32_t pk_device_memory_allocate(int64_t device, int64_t bytes, int32_t flags, uint64_t *address);

/* Frees memory of pk_device_memory_allocate, after the work that has been enqueued in the legacy default
 * stream and in the streams of pk_stream_create. */
PK_API int32_t pk_device_memory_free(uint64_t address);

/* Gets the allocation that contains an address: its begin, its size and its device. Memory of other libraries
 * is found by the CUDA driver. */
PK_API int32_t pk_device_memory_find(uint64_t address, uint64_t *begin, int64_t *bytes, int64_t *device);

/* Gets how many bytes of a device's memory are free, and how many it has. */
PK_API int32_t pk_device_memory_info(int64_t device, int64_t *free_bytes, int64_t *bytes);

/* Flags of a copy: which of its ends are device memory. The others are host memory. */
enum { PK_COPY_FROM_DEVICE = 1, PK_COPY_TO_DEVICE = 2 };

/* A copy of `layers` layers of `rows` rows of `width` bytes. */
typedef struct pk_copy {
    uint64_t destination;
    uint64_t source;
    int64_t destination_pitch; /* the bytes from one row to the next, at least `width` */
    int64_t source_pitch;
    int64_t destination_height; /* the rows from one layer to the next, at least `rows` */
    int64_t source_height;
    int64_t width;
    int64_t rows;
    int64_t layers;
    int64_t flags;
} pk_copy;

/* Copies in the order of the table, in a stream. The pitch of a single row and the height of a single layer
 * are not read. With `synchronous`, it returns when the copies are complete. Otherwise it may return before,
 * and host memory must stay valid; it should be pinned. Everything is checked before anything is copied. */
PK_API int32_t pk_device_memory_copy(const pk_copy *copies, int64_t count, int64_t device, uint64_t stream,
                                     int64_t synchronous);

/* Fills `rows` rows of `width` items, each of `item_bytes` bytes, 1, 2 or 4, with a value, in a stream.
 * Returns once that is enqueued. */
PK_API int32_t pk_device_memory_fill(uint64_t address, int64_t pitch, uint32_t value, int64_t item_bytes,
                                     int64_t width, int64_t rows, int64_t device, uint64_t stream);

/* Makes host memory of the caller accessible for kernels, at its own address, and copies from and to it
 * asynchronous, until pk_host_memory_unregister. */
PK_API int32_t pk_host_memory_register(uint64_t address, int64_t bytes);
PK_API int32_t pk_host_memory_unregister(uint64_t address);

/* Gets an attribute of a GPU, by its number in CUDA's cudaDeviceAttr. */
PK_API int32_t pk_device_attribute(int64_t device, int32_t attribute, int64_t *value);

/* Waits for all work of a device. */
PK_API int32_t pk_device_synchronize(int64_t device);

/* The flag of a stream that does not synchronize with the legacy default stream. */
enum { PK_STREAM_NON_BLOCKING = 1 };

/* Creates a stream; with `priority` less than 0 its kernels come first. */
PK_API int32_t pk_stream_create(int64_t device, int32_t flags, int64_t priority, uint64_t *stream);
/* Destroys a stream of pk_stream_create. Its work is completed first, without waiting for that. */
PK_API int32_t pk_stream_destroy(uint64_t stream);
PK_API int32_t pk_stream_synchronize(int64_t device, uint64_t stream);
/* Sets *is_done to 1 if all work of the stream is complete, else to 0. */
PK_API int32_t pk_stream_query(int64_t device, uint64_t stream, int64_t *is_done);
/* Makes the work that is enqueued in the stream later wait for an event. */
PK_API int32_t pk_stream_wait_event(int64_t device, uint64_t stream, uint64_t event);

/* Flags of an event. */
enum {
    PK_EVENT_BLOCKING_SYNC = 1, /* the thread that waits for it sleeps */
    PK_EVENT_DISABLE_TIMING = 2
};

PK_API int32_t pk_event_create(int64_t device, int32_t flags, uint64_t *event);
PK_API int32_t pk_event_destroy(uint64_t event);
/* Records the event in a stream: it happens when the work that the stream holds is complete. */
PK_API int32_t pk_event_record(uint64_t event, uint64_t stream);
PK_API int32_t pk_event_synchronize(uint64_t event);
/* Sets *is_done to 1 if the event has happened, or was not recorded, else to 0. */
PK_API int32_t pk_event_query(uint64_t event, int64_t *is_done);
/* Gets the milliseconds between two recorded events, both of which have happened. */
PK_API int32_t pk_event_elapsed(uint64_t begin, uint64_t end, double *milliseconds);

/* Loads an image for a device, as an instance with variables of its own: a cubin or PTX for the CUDA library,
 * the path of a shared library for the CPU library. */
PK_API int32_t pk_module_load(const pk_image *image, int64_t device, uint64_t *module);
/* Unloads a module after its kernels have ended. Its functions and variables must not be used any more. */
PK_API int32_t pk_module_unload(uint64_t module);

/* A parameter of a kernel. */
typedef struct pk_parameter {
    char label[64];   /* its name for messages */
    int64_t itemsize; /* bytes of an element that it points to; 0 if it is no pointer */
} pk_parameter;

/* Gets a kernel of a module, valid as long as the module, and its limits. `parameters` describes its
 * parameters, as far as they are known: the CPU library refuses to launch it with a pointer that is not to
 * memory of its device. */
PK_API int32_t pk_module_function(uint64_t module, const uint8_t *symbol, int64_t symbol_bytes,
                                  const pk_parameter *parameters, int64_t parameter_count,
                                  pk_kernel_limits *limits, uint64_t *function);

/* Gets the address and the size of a variable of a module, valid as long as the module. */
PK_API int32_t pk_module_variable(uint64_t module, const uint8_t *name, int64_t name_bytes, uint64_t *address,
                                  int64_t *bytes);

/* A launch of a kernel. */
typedef struct pk_launch {
    uint64_t function; /* of pk_module_function */
    uint64_t stream;
    int64_t grid[3];
    int64_t block[3];
    int64_t shared;             /* bytes of dynamic shared memory */
    int64_t block_limit;        /* as in pk_run */
    uint64_t progress_callback; /* as in pk_options; the CUDA library does not call it */
    int64_t reserved;           /* zero */
} pk_launch;

/* Launches a kernel in a stream. Each of its parameters begins at the next multiple of 16 bytes of
 * `parameters`, and `bytes` is the size of that table: a multiple of 16. */
PK_API int32_t pk_module_launch(const pk_launch *launch, const uint8_t *parameters, int64_t bytes);

/* Gets the output of a module's kernels since the last call: UTF-8, at most `capacity` bytes, and in
 * *length its full length. The CUDA library waits for the kernels. */
PK_API int32_t pk_module_printed(uint64_t module, uint8_t *text, int64_t capacity, int64_t *length);

/* Gets and sets an attribute of a kernel, by its number in CUDA's CUfunction_attribute. */
PK_API int32_t pk_function_attribute(uint64_t function, int32_t attribute, int64_t *value);
PK_API int32_t pk_function_set_attribute(uint64_t function, int32_t attribute, int64_t value);

#ifdef __cplusplus
}
#endif

#endif
