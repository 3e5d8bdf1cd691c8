"""The ctypes binding of csrc/pycudakit.h: constants, structs as NumPy dtypes, and one table of signatures."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import addressof
from typing import Any, NoReturn

import numpy as np
from numpy.ctypeslib import ndpointer

from pycudakit import errors
from pycudakit._native import abi_objects

ABI_VERSION = 22
MAX_DIMS = 64
MAX_OPERANDS = 1024
MAX_INSTRUCTIONS = 16384
MAX_RANGES = 256
NAME_SIZE = 256
MAX_PARAMETERS = 256
MAX_REDUCTIONS = 16
MAX_REQUEST_ARGUMENTS = 12
MAX_LOOP_OPERANDS = 8

OP_LOAD, OP_STORE, OP_CAST, OP_FIRST = range(4)
OPERAND_BYTE_SWAPPED, OPERAND_IN_SCRATCH = 1, 4
ON_DEVICE = 16  # of an operand or a buffer
STREAM_LEGACY, STREAM_PER_THREAD = 1, 2
STAGE_STAGE, STAGE_UPLOAD, STAGE_KERNEL, STAGE_DOWNLOAD, STAGE_UNSTAGE, STAGE_COMPUTE, STAGE_COUNT = range(7)
FPE_DIVIDE_BY_ZERO, FPE_OVERFLOW, FPE_INVALID, FPE_NEGATIVE_POWER = 1, 2, 4, 8
BINS_INDEX, BINS_EDGES, BINS_UNIFORM = range(3)
SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN = range(4)
SCAN_EXCLUSIVE, SCAN_SKIP_NAN = 1, 2
RESIZE_NEAREST, RESIZE_BILINEAR, RESIZE_AREA = range(3)
MATMUL_TRANSPOSE_A, MATMUL_TRANSPOSE_B = 1, 2
PRECISION_HIGHEST, PRECISION_EXACT, PRECISION_TF32, PRECISION_BF16 = range(4)
MATMUL_BY_LOOPS, MATMUL_BY_KERNEL, MATMUL_BY_CUBLAS, MATMUL_BY_CUBLAS_SPLIT = range(4)
UNIQUE_INDEX, UNIQUE_INVERSE, UNIQUE_COUNTS, UNIQUE_EQUAL_NAN = 1, 2, 4, 8
FILTER_CORRELATE, FILTER_SEPARABLE, FILTER_BOX, FILTER_MINIMUM, FILTER_MAXIMUM, FILTER_MEDIAN = range(6)
BORDER_REFLECT, BORDER_NEAREST, BORDER_MIRROR, BORDER_WRAP, BORDER_CONSTANT, BORDER_SHRINK = range(6)
RANDOM_BITS, RANDOM_UNIFORM, RANDOM_NORMAL, RANDOM_EXPONENTIAL = range(4)
RANDOM_INTEGERS, RANDOM_POISSON, RANDOM_BINOMIAL, RANDOM_LOGNORMAL = range(4, 8)
RANDOM_GAMMA, RANDOM_BETA, RANDOM_GEOMETRIC, RANDOM_COUNT = range(8, 12)
(
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_ARGMIN,
    REDUCE_ARGMAX,
    REDUCE_PTP,
    REDUCE_DOT,
    REDUCE_SUM_SQUARED_DEVIATIONS,
    REDUCE_COUNT,
) = range(10)
FINALIZE_NONE, FINALIZE_MEAN, FINALIZE_NORM, FINALIZE_VAR, FINALIZE_STD = range(5)
(
    REQUEST_EVALUATE,
    REQUEST_REDUCE,
    REQUEST_REDUCE_SEVERAL,
    REQUEST_SCAN,
    REQUEST_LOOP,
    REQUEST_TAKE,
    REQUEST_PUT,
    REQUEST_INTERP,
    REQUEST_EXTENT,
    REQUEST_HISTOGRAM,
    REQUEST_HISTOGRAM_OF_EXTENT,
    REQUEST_WEIGHTED_HISTOGRAM,
    REQUEST_DIGITIZE,
    REQUEST_RANDOM,
    REQUEST_GRAY,
    REQUEST_LOOKUP,
    REQUEST_RESIZE,
    REQUEST_FILTER,
    REQUEST_RUN_BLOCKS,
    REQUEST_RUN_KERNELS,
    REQUEST_SORT,
    REQUEST_ARGSORT,
    REQUEST_SEARCHSORTED,
    REQUEST_UNIQUE,
    REQUEST_SELECT,
    REQUEST_MATMUL,
    REQUEST_COUNT,
) = range(27)
STOP_IF_FALSE, STOP_IF_TRUE, STOP_IF_NOT_FINITE = range(3)
RESIDENT_INPUT, RESIDENT_TEMPORARY, RESIDENT_OUTPUT = range(3)
IMPORT_HOST_VALID, IMPORT_DEVICE_VALID = range(2)
TAKE_BATCHED_INDICES, TAKE_INDICES_IN_BOUNDS = 1, 2
BUFFER_UPLOAD, BUFFER_DOWNLOAD, BUFFER_POISON, BUFFER_CONSTANT = 1, 2, 4, 8
BUFFER_POISON_BYTE = 165  # 0xA5
ARGUMENT_VALUE, ARGUMENT_NULL = -1, -2
STEP_REPEAT = -1

# The element types, in the order of pk_type.
TYPES = tuple(
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    )
)

DEVICE = np.dtype(
    [
        ("name", f"S{NAME_SIZE}"),
        ("pci_bus_id", "S32"),
        ("memory", np.int64),
        ("compute_major", np.int32),
        ("compute_minor", np.int32),
        ("multiprocessors", np.int32),
        ("reserved", np.int32),
    ]
)
LINK = np.dtype([("up", np.float64), ("down", np.float64)])
MEMORY = np.dtype(
    [
        ("device_bytes", np.int64),
        ("device_budget", np.int64),
        ("pinned_bytes", np.int64),
        ("pinned_budget", np.int64),
        ("arrays_bytes", np.int64),
        ("arrays_kept", np.int64),
        ("results_kept", np.int64),
        ("results_budget", np.int64),
        ("plan_bytes", np.int64),
        ("plan_budget", np.int64),
    ]
)
TUNING = np.dtype(
    [
        ("name", "S32"),
        ("text", f"S{NAME_SIZE}"),
        ("value", np.int64),
        ("default_value", np.int64),
        ("min_value", np.int64),
        ("max_value", np.int64),
    ]
)
PROGRESS = np.dtype([("done", np.int64), ("all", np.int64)])
RANGE = np.dtype([("start", np.int64), ("count", np.int64)])
REST = np.dtype([("count", np.int64), ("ranges", RANGE, (MAX_RANGES,))])
SPAN = np.dtype(
    [
        ("begin", np.float64),
        ("end", np.float64),
        ("bytes", np.int64),
        ("elements", np.int64),
        ("stage", np.int32),
        ("device", np.int32),
        ("lane", np.int32),
        ("reserved", np.int32),
    ]
)
OPTIONS = np.dtype(
    [
        ("progress_callback", np.uint64),
        ("devices", np.uint64),
        ("device_count", np.int64),
        ("rest", np.uint64),
        ("spans", np.uint64),
        ("span_capacity", np.int64),
        ("stream", np.uint64),
        ("asynchronous", np.int64),
    ]
)
OPERATION = np.dtype(
    [
        ("name", "S32"),
        ("arity", np.int32),
        ("types", np.uint32),
        ("returns_bool", np.int32),
        ("quiet", np.int32),
    ]
)
INSTRUCTION = np.dtype(
    [
        ("op", np.uint16),
        ("type", np.uint8),
        ("to", np.uint8),
        ("a", np.int32),
        ("b", np.int32),
        ("c", np.int32),
    ]
)
OPERAND = np.dtype(
    [
        ("address", np.uint64),
        ("type", np.int32),
        ("flags", np.int32),
        ("strides", np.int64, (MAX_DIMS,)),
    ]
)
BINS = np.dtype(
    [
        ("kind", np.int32),
        ("type", np.int32),
        ("compute_type", np.int32),
        ("reserved", np.int32),
        ("count", np.int64),
        ("edges", np.uint64),
        ("low", np.uint64),
        ("high", np.uint64),
        ("first", np.float64),
        ("width", np.float64),
    ]
)
WINDOW = np.dtype(
    [
        ("kind", np.int32),
        ("border", np.int32),
        ("height", np.int64),
        ("width", np.int64),
        ("above", np.int64),
        ("left", np.int64),
        ("border_value", np.float64),
    ]
)
REPORT = np.dtype(
    [
        ("bytes_up", np.int64),
        ("bytes_down", np.int64),
        ("chunks", np.int64),
        ("threads", np.int64),
        ("exceptions", np.int64),
        ("spans", np.int64),
        ("seconds", np.float64),
        ("overlap_seconds", np.float64),
        ("stage_seconds", np.float64, (STAGE_COUNT,)),
    ]
)

REDUCTION = np.dtype(
    [
        ("kind", np.int32),
        ("finalize", np.int32),
        ("outer", np.int32),
        ("reduced", np.int32),
        ("value_count", np.int32),
        ("has_initial", np.int32),
        ("initial", np.float64),
        ("initial_integer", np.int64),
        ("ddof", np.float64),
    ]
)
BLOCK_PROGRAM = np.dtype(
    [
        ("program", np.uint64),
        ("operands", np.uint64),
        ("shape", np.uint64),
        ("reductions", np.uint64),
        ("instruction_count", np.int64),
        ("operand_count", np.int64),
        ("dimensions", np.int64),
        ("reduction_count", np.int64),
        ("block_strides", np.uint64),
        ("exceptions", np.uint64),
        ("seconds", np.float64),
    ]
)
REQUEST = np.dtype([("entry", np.int64), ("arguments", np.uint64, (MAX_REQUEST_ARGUMENTS,))])
BINDING = np.dtype([("word", np.uint64), ("buffer", np.int64), ("offset", np.int64)])
STOP = np.dtype(
    [*((name, np.int64) for name in ("call", "buffer", "offset")), ("type", np.int32), ("kind", np.int32)]
)
DRAWS = np.dtype(
    [
        ("key", np.uint64, (2,)),
        ("counter", np.uint64, (4,)),
        ("distribution", np.int32),
        ("word", np.int32),
        ("has_half", np.int32),
        ("half", np.uint32),
    ]
)
IMAGE = np.dtype([("address", np.uint64), ("bytes", np.int64), ("key", np.uint64, (2,))])
USER_KERNEL = np.dtype(
    [
        ("image", np.int64),
        ("symbol", np.uint64),
        ("symbol_bytes", np.int64),
        ("label", f"S{NAME_SIZE}"),
    ]
)
BUFFER = np.dtype(
    [
        ("address", np.uint64),
        ("stream", np.uint64),
        ("bytes", np.int64),
        ("flags", np.int32),
        ("itemsize", np.int32),
        ("label", "S64"),
    ]
)
SYMBOL = np.dtype([(name, np.int64) for name in ("image", "name", "name_bytes", "address", "bytes")])
ARGUMENT = np.dtype([(name, np.int64) for name in ("buffer", "offset", "bytes")])
STEP = np.dtype(
    [
        *((name, np.int64) for name in ("kernel", "count", "length")),
        *((name, np.int64) for name in ("first_argument", "argument_count", "shared")),
        ("grid", np.int64, (3,)),
        ("block", np.int64, (3,)),
    ]
)
RUN = np.dtype(
    [
        (name, np.int64)
        for array, count in (
            ("images", "image_count"),
            ("kernels", "kernel_count"),
            ("buffers", "buffer_count"),
            ("symbols", "symbol_count"),
            ("steps", "step_count"),
            ("arguments", "argument_count"),
            ("values", "value_bytes"),
        )
        for name in (array, count)
    ]
    + [("block_limit", np.int64)]
)
LIMITS = np.dtype(
    [
        ("threads", np.int64),
        ("block", np.int64, (3,)),
        ("grid", np.int64, (3,)),
        *(
            (name, np.int64)
            for name in ("shared", "static_shared", "registers", "suggested_block", "parameters")
        ),
        ("parameter_bytes", np.int64, (MAX_PARAMETERS,)),
    ]
)


RESIDENCY_BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


_first_char: Any = ctypes.c_char.from_buffer
# By ndim: the index expression that makes a 0-d view of the first element.
_FIRST: list[Any] = [(*(0,) * ndim, ...) for ndim in range(MAX_DIMS + 1)]


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array, three times as fast as `array.ctypes.data`."""
    try:
        return addressof(_first_char(array if array.flags.c_contiguous else array[_FIRST[array.ndim]]))
    except (IndexError, TypeError, ValueError) as error:
        return _address_from_numpy(array, error)


def address_of_dense(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array that is known to be C-contiguous."""
    try:
        return addressof(_first_char(array))
    except (TypeError, ValueError) as error:
        return _address_from_numpy(array, error)


def _address_from_numpy(array: np.ndarray[Any, Any], error: Exception) -> int:
    """Return the address of an empty or read-only array, which `from_buffer` refused; else raise `error`."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
        raise error  # raised by a signal handler
    address: int = array.ctypes.data  # __array_interface__ would swallow a signal handler's exception
    return address


class ArrayPointer(ctypes.c_void_p):
    """The address of an array that was checked already, for repeated calls."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        super().__init__(array.ctypes.data)


@functools.cache
def _pointer(dtype: Any, flags: Any) -> Any:
    """Return an argument type as strict as NumPy's `ndpointer`, with a fast path for plain arrays."""
    checked: Any = ndpointer(dtype, flags=flags)
    expected = np.dtype(dtype)
    writeable = "WRITEABLE" in flags

    class Pointer(checked):  # type: ignore[misc]
        @classmethod
        def from_param(cls, obj: Any) -> Any:
            if (
                type(obj) is np.ndarray
                and obj.dtype == expected
                and obj.flags.c_contiguous
                and (obj.flags.writeable or not writeable)
            ):
                return ctypes.c_void_p(address_of(obj))
            return ctypes.c_void_p(checked.from_param(obj).data)  # slow path: raises if it is unsuitable

    return Pointer


def _in(dtype: Any) -> Any:
    return _pointer(dtype, ("C_CONTIGUOUS",))


def _out(dtype: Any) -> Any:
    return _pointer(dtype, ("C_CONTIGUOUS", "WRITEABLE"))


_INT32 = ctypes.c_int32
_INT32_OUT = ctypes.POINTER(ctypes.c_int32)
_SIZE = ctypes.c_int64
_SIZE_OUT = ctypes.POINTER(ctypes.c_int64)
_ADDRESS = ctypes.c_uint64
_ADDRESS_OUT = ctypes.POINTER(ctypes.c_uint64)
_TEXT_OUT = ctypes.POINTER(ctypes.c_char_p)

# The entries that sort have a suffix for each type, as pk_sort_f16. This maps a suffix to the dtype in which
# the ABI passes arrays of the type.
SORTED = {
    **{f"{kind}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)},
    "f16": np.dtype("uint16"),
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
}
_OPTIONS_AND_REPORT = (_in(OPTIONS), _out(REPORT))
# The same for the entries that multiply matrices, as pk_matmul_bool.
MULTIPLIED = {"bool": np.dtype("uint8"), **SORTED}
_SORTING: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "pk_sort": lambda t: (_in(t), _out(t), _SIZE, _SIZE, *_OPTIONS_AND_REPORT),
    "pk_argsort": lambda t: (_in(t), _out(np.int64), *[_SIZE] * 4, *_OPTIONS_AND_REPORT),
    "pk_searchsorted": lambda t: (_in(t), _SIZE, _in(t), _out(np.int64), _SIZE, _SIZE, *_OPTIONS_AND_REPORT),
    "pk_unique": lambda t: (_in(t), _SIZE, _SIZE, _out(t), *[_out(np.int64)] * 4, *_OPTIONS_AND_REPORT),
}


def _select_signature(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    return (
        *(_in(dtype), _SIZE, _SIZE, _in(np.int64), _SIZE, _SIZE),
        *(_out(dtype), _out(np.int64), *_OPTIONS_AND_REPORT),
    )


SIGNATURES: dict[str, tuple[Any, ...]] = {
    "pk_abi_version": (_SIZE_OUT,),
    "pk_last_error": (_TEXT_OUT,),
    "pk_build_info": (_TEXT_OUT,),
    "pk_fail": (_INT32,),
    "pk_thread_count": (_SIZE_OUT,),
    "pk_instruction_set": (_TEXT_OUT,),
    "pk_shutdown": (),
    "pk_disable_callbacks": (),
    "pk_device_count": (_SIZE_OUT,),
    "pk_device_info": (_SIZE, _out(DEVICE)),
    "pk_link_speed": (_SIZE, _out(LINK)),
    "pk_memory_info": (_out(MEMORY),),
    "pk_release": (),
    "pk_result_allocator": (_ADDRESS_OUT,),
    "pk_pinned_take": (_SIZE, _ADDRESS_OUT),
    "pk_pinned_return": (_ADDRESS,),
    "pk_tuning_count": (_SIZE_OUT,),
    "pk_tuning_info": (_SIZE, _out(TUNING)),
    "pk_tune": (_SIZE, _SIZE),
    "pk_operation_count": (_SIZE_OUT,),
    "pk_operation_info": (_SIZE, _out(OPERATION)),
    "pk_reduce": (
        _in(REDUCTION),
        *(_in(INSTRUCTION), _SIZE),
        *(_in(OPERAND), _SIZE),
        *(_in(np.int64), _SIZE),
        _out(np.uint8),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_reduce_several": (
        *(_in(REDUCTION), _SIZE),
        *(_in(INSTRUCTION), _SIZE),
        *(_in(OPERAND), _SIZE),
        *(_in(np.int64), _SIZE),
        _out(np.uint8),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_run_blocks": (_out(BLOCK_PROGRAM), _SIZE, _SIZE, _SIZE, *_OPTIONS_AND_REPORT),
    "pk_evaluate": (
        *(_in(INSTRUCTION), _SIZE),
        *(_in(OPERAND), _SIZE),
        *(_in(np.int64), _SIZE),
        _in(OPTIONS),
        _out(np.uint8),
        _out(REPORT),
    ),
    "pk_run_requests": (
        *(_in(REQUEST), _SIZE, _in(np.int32), _SIZE),
        *(_in(BINDING), _SIZE, _in(BUFFER), _SIZE, _in(STOP), _SIZE, _in(np.uint64), _SIZE_OUT),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_run_in_residency_scope": (RESIDENCY_BODY, ctypes.c_void_p),
    "pk_residency_set_device": (_SIZE,),
    "pk_residency_add": (_ADDRESS, _SIZE, _INT32, _INT32_OUT),
    "pk_residency_import": (_ADDRESS, _SIZE, _ADDRESS, _ADDRESS, _INT32, _INT32_OUT),
    "pk_residency_set_stream": (_ADDRESS,),
    "pk_residency_upload": (_ADDRESS, *_OPTIONS_AND_REPORT),
    "pk_residency_download": (_ADDRESS, *_OPTIONS_AND_REPORT),
    "pk_residency_invalidate": (_ADDRESS,),
    "pk_residency_drop": (_ADDRESS,),
    "pk_jit_request": (_out(np.uint8), _SIZE, _SIZE_OUT, _ADDRESS_OUT),
    "pk_jit_install": (_ADDRESS, _in(np.uint8), _SIZE),
    **{f"pk_select_{suffix}": _select_signature(dtype) for suffix, dtype in SORTED.items()},
    "pk_extent": (_in(OPERAND), _in(np.int64), _SIZE, _out(np.uint64), *_OPTIONS_AND_REPORT),
    "pk_histogram": (
        *(_in(OPERAND), _SIZE, _in(np.int64), _SIZE, _in(BINS), _SIZE),
        *(_out(np.int64), *_OPTIONS_AND_REPORT),
    ),
    "pk_histogram_of_extent": (
        *(_in(OPERAND), _in(np.int64), _SIZE, _ADDRESS, _SIZE, _out(np.int64)),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_weighted_histogram": (
        *(_in(OPERAND), _SIZE, _in(np.int64), _SIZE, _in(BINS), _SIZE),
        *(_out(np.float64), _out(np.int64), *_OPTIONS_AND_REPORT),
    ),
    "pk_digitize": (
        *(_in(OPERAND), _in(np.int64), _SIZE, _in(BINS), _INT32, _INT32),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_random": (_in(DRAWS), _in(OPERAND), _SIZE, _in(np.int64), _SIZE, *_OPTIONS_AND_REPORT),
    "pk_scan": (
        *(_SIZE, _SIZE),
        *(_in(OPERAND), _in(np.int64)),
        *(_SIZE, _SIZE, _SIZE),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_gray": (_in(OPERAND), _in(np.int64), _SIZE, _in(np.int64), _SIZE, _SIZE, *_OPTIONS_AND_REPORT),
    "pk_lookup": (_in(OPERAND), _in(np.int64), _SIZE, _in(np.uint16), _SIZE, *_OPTIONS_AND_REPORT),
    "pk_resize": (_in(OPERAND), _in(np.int64), *[_SIZE] * 4, *_OPTIONS_AND_REPORT),
    "pk_filter": (_in(WINDOW), _in(np.float64), _SIZE, _in(OPERAND), _in(np.int64), *_OPTIONS_AND_REPORT),
    **{f"{name}_{t}": make(dtype) for name, make in _SORTING.items() for t, dtype in SORTED.items()},
    "pk_sort": (_in(OPERAND), _SIZE, _SIZE, *_OPTIONS_AND_REPORT),
    "pk_argsort": (_in(OPERAND), *[_SIZE] * 4, *_OPTIONS_AND_REPORT),
    "pk_matmul": (
        *(_in(OPERAND), _SIZE, _SIZE, _SIZE, _in(np.int64), _SIZE, _SIZE, _SIZE, _SIZE_OUT),
        *_OPTIONS_AND_REPORT,
    ),
    **{
        f"pk_matmul_{t}": (
            *(_in(dtype), _in(dtype), _out(dtype)),
            *(_SIZE, _SIZE, _SIZE, _in(np.int64), _SIZE, _SIZE, _SIZE, _SIZE_OUT),
            *_OPTIONS_AND_REPORT,
        )
        for t, dtype in MULTIPLIED.items()
    },
    "pk_take": (
        *(_in(np.uint8), _SIZE, _SIZE, _SIZE),
        *(_in(np.int64), _SIZE, _SIZE, _out(np.uint8)),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_put": (
        *(_out(np.uint8), _SIZE, _SIZE),
        *(_in(np.int64), _SIZE, _in(np.uint8), _SIZE),
        *_OPTIONS_AND_REPORT,
    ),
    "pk_interp": (
        *(_in(np.float64), _in(np.float64), _SIZE, ctypes.c_double, ctypes.c_double),
        *(_in(np.float64), _out(np.float64), _SIZE, *_OPTIONS_AND_REPORT),
    ),
    "pk_open_cublas": (_in(np.uint8), _SIZE, _SIZE_OUT),
    "pk_run_kernels": (_in(RUN), _out(np.uint8), _SIZE, _SIZE_OUT, *_OPTIONS_AND_REPORT),
    "pk_kernel_info": (_in(IMAGE), _in(np.uint8), _SIZE, _SIZE, _out(LIMITS)),
    "pk_kernel_launcher": (_out(np.uint64),),
    **abi_objects.signatures(_in, _out, IMAGE, LIMITS),
}


def raise_error(library: ctypes.CDLL, status: int) -> NoReturn:
    """Raise the exception of a status other than 0, with the library's message."""
    message = ctypes.c_char_p()
    library.pk_last_error(ctypes.byref(message))
    text = (message.value or b"").decode("utf-8", "replace")
    raise errors.BY_STATUS.get(status, errors.Error)(text)


def _error_check(library: ctypes.CDLL) -> Callable[..., int]:
    def check(status: int, _function: Any, _arguments: Any) -> int:
        if status:
            raise_error(library, status)
        return status

    return check


def declare(library: ctypes.CDLL) -> None:
    """Declare the argument types of every entry of a library, and check every status."""
    check = _error_check(library)
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = [ctypes.c_void_p if _is_array(kind) else kind for kind in arguments]
        function.restype = _INT32  # the status
        if name != "pk_last_error":
            function.errcheck = check
        if any(map(_is_array, arguments)):
            setattr(library, name, _converting(function, arguments))


def _is_array(kind: Any) -> bool:
    return hasattr(kind, "_dtype_")


def _converting(function: Any, kinds: Sequence[Any]) -> Callable[..., int]:
    """Return a function that converts arrays itself: ctypes would change a signal handler's exception."""
    conversions = [(position, kind.from_param) for position, kind in enumerate(kinds) if _is_array(kind)]

    def call(*arguments: Any) -> int:
        converted = list(arguments)
        for position, convert in conversions:
            if type(arguments[position]) is not ArrayPointer:
                converted[position] = convert(arguments[position])
        status: int = function(*converted)
        return status

    return call


@functools.cache
def unchecked(library: Any, name: str) -> Any:
    """Return an entry whose status the caller must check."""
    function = library[name]  # not the attribute, which checks the status
    function.restype = _INT32  # the status
    return function


class EntryRecorder:
    """Stands for a library where a call is only described: entries return their names and arguments."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return an entry."""
        return lambda *arguments: (name, arguments)


def bound(library: Any, name: str, *arguments: Any) -> Callable[[], int]:
    """Return an entry with bound arguments, which are checked now, for repeated calls.

    Array arguments must stay alive. Their contents may change, and so may the values of ctypes numbers. The
    caller must check the status of each call, because checking it in ctypes is slow.
    """
    if type(library) is EntryRecorder:
        return functools.partial(getattr(library, name), *arguments)
    converted = []
    for kind, argument in zip(SIGNATURES[name], arguments, strict=True):
        if isinstance(argument, np.ndarray):
            converted.append(ctypes.c_void_p.from_param(kind.from_param(argument).value))
        else:
            converted.append(kind.from_param(argument) if isinstance(argument, int) else argument)
    return functools.partial(unchecked(library, name), *converted)
