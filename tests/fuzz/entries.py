"""Fuzz the CPU library: call every entry as pycudakit does, and then with one invalid argument at a time.

An invalid argument must be refused, or make no difference: this process must not die. With a number as its
argument, it makes as many more calls with random changes. Prints how often each entry was called and refused.
"""

import collections
import contextlib
import ctypes
import functools
import json
import sys
import warnings

import mutations
import numpy as np

import pycudakit as pk
from pycudakit._families.take import put_rows
from pycudakit._native import abi, abi_objects, loader
from pycudakit.fusing.schedule import tile_rows as in_rows

MOST_OF_AN_ENTRY = 3  # calls whose arguments are changed
CODES = {"distribution", "kind", "type", "op", "mode", "flags", "compute_type", "value_count", "opcode"}
LIBRARY = loader.library("cpu")
RAW = ctypes.CDLL(LIBRARY._name)
STATUSES = {kind: status for status, kind in pk.errors.BY_STATUS.items()}
INVALID, UNSUPPORTED = STATUSES[pk.errors.InvalidArgument], STATUSES[pk.errors.Unsupported]
INTERRUPTED, DEVICE_ERROR = STATUSES[pk.errors.Interrupted], STATUSES[pk.errors.DeviceError]
ACCEPTED = {0, INVALID, UNSUPPORTED}  # never a fault of the library's own
ALSO = {
    "pk_fail": range(99),
    "pk_histogram_of_extent": [INTERRUPTED],  # by the callback
    "pk_run_kernels": [DEVICE_ERROR],  # no such image
    "pk_kernel_info": [DEVICE_ERROR],
    "pk_module_load": [DEVICE_ERROR],
}
in_rows._MIN_BYTES = in_rows._MIN_BYTES_PER_THREAD = in_rows._MIN_TILE_BYTES = 0  # tile small arrays, too
calls, spoilt, refused = (collections.Counter() for _ in range(3))
MOST = int(sys.argv[1]) if len(sys.argv) > 1 else 0
NUMBERS = {ctypes.c_int64, ctypes.c_int32, ctypes.c_uint64, ctypes.c_double}
AT_A_TIME = 40  # of one valid call
RNG = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)


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
    written = [
        a for a in arguments if isinstance(a, np.ndarray) and a.dtype != abi.REPORT and a.nbytes < 100_000
    ]
    before = [a.tobytes() for a in written]
    status = entry(*map(as_given, abi.SIGNATURES[name], arguments))
    assert status in ACCEPTED or status in ALSO.get(name, ()), (name, status, message(), arguments)
    spoilt[name] += 1
    if status in (INVALID, UNSUPPORTED):
        refused[name] += 1
        changed = [was for was, is_ in zip(before, written, strict=True) if was != is_.tobytes()]
        assert not changed, (name, message(), changed, arguments)
    return status


def spoil(name, arguments):
    """Repeat the call with each pointer null, each number out of range, and each field of a table changed."""
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
            if array.dtype == abi.BINDING and field == "offset":  # any number leads to an address
                continue
            is_code = field in CODES or array.dtype == abi.INSTRUCTION
            numbers = (0,) if array.dtype[field] == np.uint64 else (0, -1, 99) if is_code else (0, -1)
            for number in numbers:  # an invalid address cannot be told from a valid one
                other = array.copy()
                other.reshape(-1)[field][row] = np.array(number).astype(array.dtype[field])
                yield other


def met(name, arguments):
    arguments = [a.value if type(a) in NUMBERS else a for a in arguments]
    calls[name] += 1
    if calls[name] <= MOST_OF_AN_ENTRY:
        spoil(name, list(arguments))
    elif MOST and arguments:
        for _ in range(AT_A_TIME):
            attempt(name, mutations.spoilt(RNG, name, arguments))


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


def arrays_of(dtype, rows):
    x = RNG.integers(0, 100, (rows, 100)).astype(dtype)
    if x.dtype.kind == "f" and RNG.random() < 0.5:
        x[RNG.random(x.shape) < 0.1] = RNG.choice([np.nan, np.inf, -0.0])
    return x.ravel(), x


def call_all(dtype, rows):
    x, rows = arrays_of(dtype, rows)
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
    with contextlib.suppress(ValueError):  # no range from infinity
        pk.histogram(x, 10)
    pk.histogram(x, np.arange(20), weights=np.ones(x.size))
    pk.histogram2d(x, x, 5, [[0, 50], [0, 50]])
    pk.digitize(x, [3, 9, 50])
    if kind in "iu":
        pk.bincount(x.astype(np.uint8))
        pk.bincount(x.astype(np.uint16), weights=np.ones(x.size))
    products = {"uint8": ["u8", "bool"], "float16": ["f16"]}.get(
        dtype, [f"{kind}{8 * np.dtype(dtype).itemsize}"]
    )
    stored = rows.view(np.uint16) if dtype == "float16" else rows
    for name in products:
        out, method = np.zeros((len(rows), len(rows)), stored.dtype), ctypes.c_int64()
        sizes = (len(rows), len(rows), 100, np.zeros(2, np.int64), 1, 2, 0)
        getattr(LIBRARY, f"pk_matmul_{name}")(stored, stored, out, *sizes, ctypes.byref(method), *call())
    square = np.zeros((len(rows), len(rows)), rows.dtype)
    LIBRARY.pk_matmul(operands(rows, rows, square), *sizes, ctypes.byref(method), *call())
    ordered, places = np.empty_like(rows), np.empty(rows.shape, np.int64)
    LIBRARY.pk_sort(operands(rows, ordered), *rows.shape, *call())
    LIBRARY.pk_argsort(operands(rows, places), *rows.shape, rows.shape[1], 0, *call())


def operands(*arrays):
    table = np.zeros(len(arrays), abi.OPERAND)
    table["address"] = [each.ctypes.data for each in arrays]
    table["type"] = [abi.TYPES.index(each.dtype) for each in arrays]
    return table


def call():
    return np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)


@functools.cache
def module():
    """A kernel that accesses nothing, whatever its arguments are."""
    return pk.SourceModule("""
        __constant__ int factor = 2;
        __global__ void idle(const int *x, int *y, int n) {}
    """)


def softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


KEPT = []  # a plan with its arrays: a list of requests has their addresses


def halve(x):
    while np.max(x) > 1:
        x = x * 0.5
    return x


def call_others():
    pk.take(np.arange(12).reshape(3, 4), [1, -1], axis=1)
    put_rows(np.arange(12).reshape(3, 4), np.array([1, -1]), np.arange(8), 2)
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
    with pk.engine("cpu"):
        pk.fuse(softmax)(np.ones((300, 1000), np.float32))
        KEPT.append(pk.fuse(lambda a, b: (np.sqrt(a) + a.sum(), (a - 1) @ b)))
        for _ in range(3):
            KEPT.append((a := np.ones(100), b := np.ones((100, 3)), KEPT[0](a, b)))
        KEPT.append(halved := pk.fuse(halve))
        KEPT.extend((a := np.full(100, 99.0), halved(a)) for _ in range(4))
    pk.devices()
    pk.memory_info()
    pk.build_info()
    with pk.tuned(cpu_threads=2) if "cpu_threads" in pk.tunings() else warnings.catch_warnings():
        pk.add([1.0], [2.0])
    idle = module().get_function("idle")
    a = np.ones(40, np.int32)
    idle(pk.InOut(a), pk.Out(a.copy()), a.size, block=4, grid=3, symbols={"factor": np.int32(3)})
    assert idle.max_threads_per_block > 0
    program = pk.Program("idle twice")
    x = program.inout("x", 40, np.int32)
    with program.repeat(2):
        program.launch(idle, x, x, 40, threads=40)
    program(x=a)
    library, out, number = LIBRARY, ctypes.c_int32(), ctypes.c_uint64()
    options, report = call()
    room, size, x = np.zeros(8, np.uint8), ctypes.c_int64(), np.ones(100)
    at = x.ctypes.data
    library.pk_residency_add(at, 8, 0, ctypes.byref(out))
    with contextlib.suppress(pk.errors.InvalidArgument):  # outside of a plan
        library.pk_residency_set_device(0)
    for entry in (library.pk_residency_download, library.pk_residency_upload):
        entry(at, options, report)
    library.pk_residency_invalidate(at)
    library.pk_residency_drop(at)
    library.pk_jit_request(room, 8, ctypes.byref(size), ctypes.byref(number))
    library.pk_jit_install(7, room, 8)


def call_the_rest():
    """Call the entries that pycudakit does not call on the CPU, or had called before this script began."""
    size, number, text = ctypes.c_int64(), ctypes.c_uint64(), ctypes.c_char_p()
    for name in ("abi_version", "device_count", "tuning_count"):
        getattr(LIBRARY, f"pk_{name}")(ctypes.byref(size))
    for name in ("last_error", "build_info", "instruction_set"):
        getattr(LIBRARY, f"pk_{name}")(ctypes.byref(text))
    LIBRARY.pk_release()
    LIBRARY.pk_result_allocator(ctypes.byref(number))
    LIBRARY.pk_pinned_take(5000, ctypes.byref(number))
    LIBRARY.pk_pinned_return(number.value)
    LIBRARY.pk_kernel_launcher(np.zeros(1, np.uint64))
    LIBRARY.pk_open_cublas(np.frombuffer(b"/no/such/library", np.uint8), 16, ctypes.byref(size))
    LIBRARY.pk_run_in_residency_scope(abi.RESIDENCY_BODY(lambda _: 0), None)
    x, out = np.ones(100), ctypes.c_int32()
    for name, *arguments in (
        ("pk_fail", 0),
        ("pk_device_info", 0, np.zeros(1, abi.DEVICE)),
        ("pk_link_speed", 0, np.zeros(1, abi.LINK)),
        ("pk_tuning_info", 0, np.zeros(1, abi.TUNING)),
        ("pk_tune", 0, 1),
        ("pk_residency_set_stream", 0),
        ("pk_residency_import", x.ctypes.data, 800, x.ctypes.data, 0, 0, ctypes.byref(out)),
    ):
        with contextlib.suppress(pk.errors.Error):
            getattr(LIBRARY, name)(*arguments)


def row_of(dtype, **fields):
    table = np.zeros(1, dtype)
    for name, value in fields.items():
        table[name] = value
    return table


def call_for_memory():
    """Call the entries for memory that outlives a call."""
    at, begin = ctypes.c_uint64(), ctypes.c_uint64()
    size, device, host = ctypes.c_int64(), ctypes.c_int64(), np.arange(4096, dtype=np.uint8)
    LIBRARY.pk_device_memory_allocate(0, 4096, abi_objects.MEMORY_ZEROS, ctypes.byref(at))
    LIBRARY.pk_device_memory_find(at.value + 9, *map(ctypes.byref, (begin, size, device)))
    LIBRARY.pk_device_memory_info(0, ctypes.byref(size), ctypes.byref(device))
    ends = {"destination": at.value, "source": host.ctypes.data, "flags": abi_objects.COPY_TO_DEVICE}
    pitches = {"destination_pitch": 64, "source_pitch": 48, "destination_height": 9, "source_height": 7}
    layers = {"width": 40, "rows": 6, "layers": 5}
    for shape in ({"width": 4096, "rows": 1, "layers": 1}, {**pitches, **layers}):
        LIBRARY.pk_device_memory_copy(row_of(abi_objects.COPY, **ends, **shape), 1, 0, 0, 1)
    LIBRARY.pk_device_memory_fill(at.value, 64, 7, 4, 12, 30, 0, 0)
    with contextlib.suppress(pk.errors.InvalidArgument):  # it is registered by a call with other arguments
        LIBRARY.pk_host_memory_register(host.ctypes.data, host.nbytes)
    LIBRARY.pk_host_memory_unregister(host.ctypes.data)
    with contextlib.suppress(pk.errors.InvalidArgument):
        LIBRARY.pk_device_attribute(0, 10, ctypes.byref(size))
    LIBRARY.pk_device_memory_free(at.value)


def call_for_streams():
    """Call the entries for streams and events."""
    stream, events, is_done = ctypes.c_uint64(), (ctypes.c_uint64(), ctypes.c_uint64()), ctypes.c_int64()
    LIBRARY.pk_device_synchronize(0)
    LIBRARY.pk_stream_create(0, 1, 0, ctypes.byref(stream))
    for event in events:
        LIBRARY.pk_event_create(0, 0, ctypes.byref(event))
        LIBRARY.pk_event_record(event.value, stream.value)
        LIBRARY.pk_event_synchronize(event.value)
        LIBRARY.pk_event_query(event.value, ctypes.byref(is_done))
        LIBRARY.pk_stream_wait_event(0, stream.value, event.value)
    begin, end = (event.value for event in events)
    LIBRARY.pk_event_elapsed(begin, end, ctypes.byref(ctypes.c_double()))
    LIBRARY.pk_stream_synchronize(0, stream.value)
    LIBRARY.pk_stream_query(0, stream.value, ctypes.byref(is_done))
    for event in events:
        LIBRARY.pk_event_destroy(event.value)
    LIBRARY.pk_stream_destroy(stream.value)


def call_for_modules():
    """Call the entries for modules that outlive a call."""
    source = module()
    loaded = source.binary(source.get_function("idle").signature, "cpu", 0)
    data, symbol, name = (
        np.frombuffer(text, np.uint8)
        for text in (loaded.binary.data, loaded.symbols["idle"].encode(), b"factor")
    )
    image = row_of(abi.IMAGE, address=data.ctypes.data, bytes=data.size)
    handle, function, number, value = *(ctypes.c_uint64() for _ in range(3)), ctypes.c_int64()
    LIBRARY.pk_module_load(image, 0, ctypes.byref(handle))
    parameters = np.zeros(3, abi_objects.PARAMETER)
    parameters["label"], parameters["itemsize"] = (b"x", b"y", b"n"), (4, 4, 0)
    limits = np.zeros(1, abi.LIMITS)
    LIBRARY.pk_module_function(
        handle.value, symbol, symbol.size, parameters, 3, limits, ctypes.byref(function)
    )
    LIBRARY.pk_module_variable(handle.value, name, name.size, ctypes.byref(number), ctypes.byref(value))
    launch = row_of(abi_objects.LAUNCH, function=function.value, grid=(3, 1, 1), block=(4, 1, 1))
    LIBRARY.pk_module_launch(launch, np.zeros(48, np.uint8), 48)
    LIBRARY.pk_module_printed(handle.value, np.zeros(100, np.uint8), 100, ctypes.byref(value))
    LIBRARY.pk_function_attribute(function.value, 0, ctypes.byref(value))
    LIBRARY.pk_function_set_attribute(function.value, 8, 1024)
    LIBRARY.pk_module_unload(handle.value)


def call_each(rows):
    for dtype in [f"{kind}{size}" for kind in ("int", "uint") for size in (8, 16, 32, 64)]:
        call_all(dtype, rows)
    for dtype in ("float16", "float32", "float64"):
        call_all(dtype, rows)
    call_others()
    call_the_rest()
    call_for_memory()
    call_for_streams()
    call_for_modules()


with pk.engine("cpu"), np.errstate(all="ignore"), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    call_each(60)
    while spoilt.total() < MOST:
        call_each(int(RNG.choice([1, 2, 7, 20])))
    for name in ("pk_disable_callbacks", "pk_shutdown"):
        getattr(LIBRARY, name)()
    call_all("int32", 60)  # the calls of this thread go on
sys.stdout.write(json.dumps([calls, spoilt, refused]))
