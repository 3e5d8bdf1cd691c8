"""Calls every entry of the CPU library as pycudakit does, and then with one argument spoilt at a time.

What is spoilt must be refused, or make no difference: this process may not die. Writes how often each entry
was called.
"""

import collections
import ctypes
import json
import sys
import warnings

import numpy as np

import pycudakit as pk
from pycudakit._library import abi, loader

MOST_OF_AN_ENTRY = 3  # calls whose arguments are spoilt
CODES = {"what", "kind", "type", "how", "op", "mode", "flags", "quotient", "values", "opcode"}
LIBRARY = loader.library("cpu")
RAW = ctypes.CDLL(LIBRARY._name)
INVALID, UNSUPPORTED = (
    next(status for status, kind in pk.errors.BY_STATUS.items() if kind is refused)
    for refused in (pk.errors.InvalidArgument, pk.errors.Unsupported)
)
ACCEPTED = {0, INVALID, UNSUPPORTED}  # never a fault of the library's own
calls, spoilt = collections.Counter(), collections.Counter()


def as_given(kind, argument):
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, (int, float)):
        return kind(argument)
    return argument


def message():
    text = ctypes.c_char_p()
    LIBRARY.pk_last_error.call(ctypes.byref(text))
    return text.value


def attempt(name, arguments):
    entry = RAW[name]
    entry.restype = ctypes.c_int32
    status = entry(*map(as_given, abi.SIGNATURES[name], arguments))
    assert status in ACCEPTED, (name, status, message(), arguments)
    spoilt[name] += 1
    return status


def spoil(name, arguments):
    """Make the call with each pointer null, each number out of range, and each field of a table spoilt."""
    for place, argument in enumerate(arguments):
        instead = [None]
        if isinstance(argument, (int, float)):
            is_address = abi.SIGNATURES[name][place] is ctypes.c_uint64
            instead = [0] if is_address else [-1, -(2**31)]
        if isinstance(argument, np.ndarray) and argument.dtype.names and argument.dtype != abi.OPTIONS:
            instead += tables(argument)
        for other in instead:
            attempt(name, [*arguments[:place], other, *arguments[place + 1 :]])


def tables(array):
    for row in range(min(array.size, 4)):
        for field in array.dtype.names:
            if array.dtype[field].shape or array.dtype[field].kind not in "iu":
                continue
            is_code = field in CODES or array.dtype == abi.INSTRUCTION
            numbers = (0,) if array.dtype[field] == np.uint64 else (0, -1, 99) if is_code else (0, -1)
            for number in numbers:  # other addresses nobody can tell from good ones
                other = array.copy()
                other.reshape(-1)[field][row] = np.array(number).astype(array.dtype[field])
                yield other


def met(name, arguments):
    calls[name] += 1
    if calls[name] <= MOST_OF_AN_ENTRY and not name.startswith(NOT_SPOILT):
        spoil(name, list(arguments))


# What is handed code to run, or ends the library.
NOT_SPOILT = ("pk_run_", "pk_kernel_info", "pk_shutdown", "pk_unwatch", "pk_open_cublas")


class Entry:
    def __init__(self, name):
        self.name, self.call = name, getattr(LIBRARY, name)

    def __call__(self, *arguments):
        met(self.name, arguments)
        return self.call(*arguments)


def bound(library, name, *arguments):
    call = bind(library, name, *arguments)

    def run():
        met(name, arguments)
        return call()

    return run


bind, abi.bound = abi.bound, bound
for name in abi.SIGNATURES:
    setattr(LIBRARY, name, Entry(name))


def arrays_of(dtype):
    x = np.random.default_rng(1).integers(0, 100, 6000).astype(dtype)
    return x, x.reshape(60, 100)


def call_all(dtype):
    x, rows = arrays_of(dtype)
    kind = np.dtype(dtype).kind
    pk.add(x, x)
    pk.evaluate("x + 1 if x > 2 else x * 2", {"x": rows.T})
    pk.sum(rows, axis=0)
    pk.var(rows, axis=1)
    pk.argmax(x)
    pk.sort(x)
    pk.argsort(rows, axis=1)
    pk.topk(x, 3)
    pk.searchsorted(np.sort(x), x[:9])
    pk.unique(x, True, True, True)
    pk.median(rows, axis=1)
    pk.cumsum(rows, axis=0)
    pk.cummax(x)
    pk.histogram(x, 10)
    pk.histogram(x, np.arange(20), weights=np.ones(x.size))
    pk.histogram2d(x, x, 5)
    pk.digitize(x, [3, 9, 50])
    if kind in "iu":
        pk.bincount(x.astype(np.uint8))
        pk.bincount(x.astype(np.uint16), weights=np.ones(x.size))
    if dtype in ("float32", "float64"):
        with pk.engine("cpu"):
            pk.matmul(rows, rows.T)
        out, library = np.zeros((60, 60), dtype), LIBRARY
        method = ctypes.c_int64()
        entry = getattr(library, "pk_matmul_" + {"float32": "f32", "float64": "f64"}[dtype])
        options, report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        places = np.zeros(2, np.int64)
        entry(rows, rows, out, 60, 60, 100, places, 1, 2, 0, ctypes.byref(method), options, report)


def call_others():
    pk.take(np.arange(12).reshape(3, 4), [1, -1], axis=1)
    pk.take_along_axis(np.arange(12).reshape(3, 4), np.array([[0], [1], [2]]), 1)
    pk.interp([0.5], [0.0, 1.0, 2.0], [3.0, 4.0, 9.0])
    rng = pk.random.default_rng(1)
    rng.random(100)
    rng.normal(np.arange(9.0))
    rng.integers(0, np.arange(1, 9))
    rng.poisson(np.arange(9.0))
    rng.binomial(np.arange(9), 0.3)
    rng.exponential(2.0, 10)
    rng.standard_exponential(10, np.float32)
    rng.lognormal(np.arange(9.0))
    rng.gamma(np.arange(9.0), 2.0)
    rng.standard_gamma(0.5, 10, np.float32)
    rng.beta(np.arange(1.0, 9.0), 0.5)
    rng.geometric(np.full(9, 0.3))
    pixels = np.random.default_rng(1).integers(0, 255, (40, 50, 3)).astype(np.uint8)
    for image in (pixels, pixels.astype(np.float32), pixels.astype(np.uint16)):
        pk.image.rgb_to_gray(image)
        pk.image.resize(image, (20, 30))
        pk.image.box_blur(image, 3)
        pk.image.median_filter(image, 3)
        pk.image.convolve(image[..., 0], np.ones((3, 3)))
        pk.image.gaussian_blur(image, 1.0)
    pk.image.equalize_histogram(pixels)
    pk.image.threshold(pixels, 100)
    pk.fuse(lambda a: (np.sum(a), np.max(a), np.sqrt(a)))(np.ones(100_000))
    pk.devices()
    pk.memory_info()
    pk.build_info()
    with pk.tuned(cpu_threads=2) if "cpu_threads" in pk.tunings() else warnings.catch_warnings():
        pk.add([1.0], [2.0])
    pk.SourceModule("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }").get_function("twice")(
        pk.InOut(np.ones(4, np.float32)), block=(4, 1, 1)
    )
    library, out, number = LIBRARY, ctypes.c_int32(), ctypes.c_uint64()
    options, report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
    room, size, x = np.zeros(8, np.uint8), ctypes.c_int64(), np.ones(100)
    at = x.ctypes.data
    library.pk_plan_keep(at, 8, 0, ctypes.byref(out))
    for entry in (library.pk_plan_fetch, library.pk_plan_send):
        entry(at, options, report)
    library.pk_plan_changed(at)
    library.pk_plan_drop(at)
    library.pk_plan_wanted(room, 8, ctypes.byref(size), ctypes.byref(number))
    library.pk_plan_compiled(7, room, 8)


with pk.engine("cpu"), np.errstate(all="ignore"), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for dtype in [f"{kind}{size}" for kind in ("int", "uint") for size in (8, 16, 32, 64)]:
        call_all(dtype)
    for dtype in ("float16", "float32", "float64"):
        call_all(dtype)
    call_others()
sys.stdout.write(json.dumps(spoilt | calls))
