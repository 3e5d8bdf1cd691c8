"""The rule of waiting, for every entry that takes operands on a device.

A call returns when its outputs are complete or, with options.asynchronous, once it is enqueued in its stream.
"""

import ctypes
import threading

import numpy as np
import pytest

from pycudakit._element_programs.values import operations
from pycudakit._native import abi

F64, I64 = (abi.TYPES.index(np.dtype(t)) for t in ("float64", "int64"))
SIZE = 1000
INVALID_ARGUMENT, INTERRUPTED = 1, 7
SECONDS = 0.3


def _address(array):
    return ctypes.c_void_p(array.ctypes.data)


class Call:
    """A call on arrays of a thousand elements, and the result that it must give."""

    def __init__(self, cupy, name):
        x = np.random.default_rng(5).standard_normal(SIZE)
        self.values = cupy.asarray(x)
        length, dtype = {"reduce": (1, float), "argsort": (SIZE, np.int64)}.get(name, (SIZE, float))
        self.result = cupy.full(length, 77, dtype)
        self.options, self.report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        self.exceptions = np.zeros(2, np.uint8)
        self._cupy = cupy
        self._arguments = getattr(self, f"_{name}")(x)

    def _operands(self, *operands):
        table = np.zeros(len(operands), abi.OPERAND)
        for row, array in zip(table, operands, strict=True):
            row["type"], row["strides"][0] = F64, 8
            if array is None:  # a value of a reduction
                continue
            row["address"], row["flags"] = array.data.ptr, abi.ON_DEVICE
            row["type"] = F64 if array.dtype == np.float64 else I64
        self.table = table
        return _address(table)

    def _program(self):
        self.program = np.array(
            [(abi.OP_LOAD, F64, F64, 0, 0, 0), (abi.OP_STORE, F64, F64, 0, 1, 0)], abi.INSTRUCTION
        )
        self.shape = np.array([SIZE], np.int64)
        return _address(self.program), ctypes.c_int64(2)

    def _ends(self):
        return _address(self.options), _address(self.report)

    def _evaluate(self, x):
        self.name, self.want = "pk_evaluate", x
        return (
            *(*self._program(), self._operands(self.values, self.result), ctypes.c_int64(2)),
            *(_address(self.shape), ctypes.c_int64(1), _address(self.options), _address(self.exceptions)),
            _address(self.report),
        )

    def _reduce(self, x):
        self.name, self.want = "pk_reduce", x.max()
        self.reduction = np.zeros(1, abi.REDUCTION)
        self.reduction["kind"], self.reduction["value_count"] = abi.REDUCE_MAX, 1
        self.reduction["reduced"] = 1
        program = self._program()
        operands = self._operands(self.values, None, self.result)
        return (
            *(_address(self.reduction), *program, operands, ctypes.c_int64(3)),
            *(_address(self.shape), ctypes.c_int64(1), _address(self.exceptions), *self._ends()),
        )

    def _scan(self, x):
        self.name, self.want = "pk_scan", np.maximum.accumulate(x)
        self.shape = np.array([SIZE], np.int64)
        return (
            *(ctypes.c_int64(abi.SCAN_MAX), ctypes.c_int64(0), self._operands(self.values, self.result)),
            *(_address(self.shape), *(ctypes.c_int64(n) for n in (1, 0, 1)), *self._ends()),
        )

    def _sort(self, x):
        self.name, self.want = "pk_sort", np.sort(x)
        sizes = [ctypes.c_int64(n) for n in (1, SIZE)]
        return (self._operands(self.values, self.result), *sizes, *self._ends())

    def _argsort(self, x):
        self.name, self.want = "pk_argsort", np.argsort(x)
        sizes = [ctypes.c_int64(n) for n in (1, SIZE, SIZE, 0)]
        return (self._operands(self.values, self.result), *sizes, *self._ends())

    def _matmul(self, x):
        # A row times a column, a thousand times: the elements' squares.
        self.name, self.want = "pk_matmul", x * x
        self.pairs, self.method = np.repeat(np.arange(SIZE), 2), np.zeros(1, np.int64)
        sizes = [ctypes.c_int64(n) for n in (1, 1, 1)]
        flags = [ctypes.c_int64(n) for n in (SIZE, 0, abi.PRECISION_EXACT)]
        return (
            *(self._operands(self.values, self.values, self.result), *sizes, _address(self.pairs)),
            *(*flags, _address(self.method), *self._ends()),
        )

    def _random(self, _):
        self.name, self.want = "pk_random", None
        self.draws = np.zeros(1, abi.DRAWS)
        self.draws["distribution"] = abi.RANDOM_UNIFORM
        self.shape = np.array([SIZE], np.int64)
        return (
            *(_address(self.draws), self._operands(self.result), ctypes.c_int64(1)),
            *(_address(self.shape), ctypes.c_int64(1), *self._ends()),
        )

    def run(self, library, stream, *, asynchronous):
        self.options["stream"], self.options["asynchronous"] = stream, asynchronous
        return library[self.name](*self._arguments)

    def check(self):
        got = self._cupy.asnumpy(self.result)
        if self.want is None:
            assert ((got >= 0) & (got < 1)).all()
            assert len(set(got)) == SIZE
        else:
            assert np.array_equal(got, np.broadcast_to(self.want, got.shape))


NAMES = ["evaluate", "reduce", "scan", "sort", "argsort", "matmul", "random"]


@pytest.fixture
def gpu(raw):
    """CuPy, where the library is that of a GPU."""
    cupy = pytest.importorskip("cupy")
    if not hasattr(cupy, "cuda") or "kit_cuda" not in str(raw._name):
        pytest.skip("needs a GPU")
    return cupy


class Gate:
    """Blocks a stream until it is opened, by itself after some time."""

    def __init__(self, stream):
        self._event = threading.Event()
        stream.launch_host_func(lambda _: self._event.wait(20), None)

    def open(self):
        self._event.set()

    def open_later(self):
        threading.Timer(SECONDS, self.open).start()


@pytest.mark.parametrize("name", NAMES)
def test_an_asynchronous_call_returns_once_it_is_enqueued(raw, gpu, name):
    call, stream = Call(gpu, name), gpu.cuda.Stream(non_blocking=True)
    gpu.cuda.Device().synchronize()
    assert call.run(raw, stream.ptr, asynchronous=1) == 0  # the first call's resources exist then
    stream.synchronize()
    call.result.fill(77)
    gpu.cuda.Device().synchronize()
    gate = Gate(stream)
    try:
        assert call.run(raw, stream.ptr, asynchronous=1) == 0
        assert not stream.done
    finally:
        gate.open()
    stream.synchronize()
    call.check()


@pytest.mark.parametrize("name", NAMES)
def test_a_synchronous_call_returns_when_its_outputs_are_complete(raw, gpu, name):
    call, stream = Call(gpu, name), gpu.cuda.Stream(non_blocking=True)
    gpu.cuda.Device().synchronize()
    Gate(stream).open_later()
    assert call.run(raw, stream.ptr, asynchronous=0) == 0
    assert stream.done
    call.check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stream", [0, abi.STREAM_LEGACY, abi.STREAM_PER_THREAD])
def test_streams_by_number(raw, gpu, name, stream):
    call = Call(gpu, name)
    gpu.cuda.Device().synchronize()
    assert call.run(raw, stream, asynchronous=0) == 0
    call.check()


@pytest.mark.parametrize("name", NAMES)
def test_an_asynchronous_call_needs_a_stream(raw, gpu, name):
    call = Call(gpu, name)
    gpu.cuda.Device().synchronize()
    assert call.run(raw, 0, asynchronous=1) == INVALID_ARGUMENT
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    assert "options.asynchronous needs options.stream" in text.value.decode()
    assert (gpu.asnumpy(call.result) == 77).all()


@pytest.mark.parametrize("name", NAMES)
def test_host_memory_is_no_device_memory(raw, name):
    """The CPU library refuses the flag, and the CUDA library checks where the memory is."""
    call = Call(Host, name)
    assert call.run(raw, 1, asynchronous=1) == INVALID_ARGUMENT
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    words = text.value.decode()
    assert "an operand has unknown flags" in words or "not in memory of a device" in words
    assert (call.result.array == 77).all()


def test_a_synchronous_call_can_be_stopped(raw, gpu):
    """It waits from time to time, and asks the callback then."""
    steps, size = 2000, 1 << 26
    sine = operations()["sin"]
    program = np.array(
        [
            (abi.OP_LOAD, F64, F64, 0, 0, 0),
            *((sine, F64, F64, i, 0, 0) for i in range(steps)),
            (abi.OP_STORE, F64, F64, steps, 1, 0),
        ],
        abi.INSTRUCTION,
    )
    call = Call(gpu, "evaluate")
    values, result = gpu.ones(size), gpu.full(size, 77.0)
    call.table["address"] = values.data.ptr, result.data.ptr
    shape, exceptions = np.array([size], np.int64), np.zeros(len(program), np.uint8)
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    def stop(_progress):
        asked.append(True)
        return 1

    call.options["progress_callback"] = ctypes.cast(stop, ctypes.c_void_p).value
    gpu.cuda.Device().synchronize()
    status = raw.pk_evaluate(
        *(program.ctypes.data, len(program), call.table.ctypes.data, 2, shape.ctypes.data, 1),
        *(call.options.ctypes.data, exceptions.ctypes.data, call.report.ctypes.data),
    )
    assert status == INTERRUPTED
    assert asked
    assert (gpu.asnumpy(result[-8:]) == 77).all()  # the last part did not run


class Host:
    """NumPy's arrays with CuPy's names."""

    class Array:
        def __init__(self, array):
            self.array, self.dtype, self.data = array, array.dtype, self
            self.ptr = array.ctypes.data

    @staticmethod
    def asarray(array):
        return Host.Array(array)

    @staticmethod
    def full(length, value, dtype):
        return Host.Array(np.full(length, value, dtype))


def test_random_numbers_with_a_parameter_on_a_device(raw, gpu):
    """Another parameter is a number in host memory; the bits are those of a call on host memory."""
    draws, shape = np.zeros(1, abi.DRAWS), np.array([SIZE], np.int64)
    draws["distribution"] = abi.RANDOM_NORMAL
    mean, deviation, want = np.arange(float(SIZE)), np.array([0.5]), np.full(SIZE, 77.0)
    options, report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
    table = np.zeros(3, abi.OPERAND)
    table["type"], table["strides"][:2, 0] = F64, 8
    arguments = (
        *(_address(draws), _address(table), ctypes.c_int64(3), _address(shape), ctypes.c_int64(1)),
        *(_address(options), _address(report)),
    )
    table["address"] = [each.ctypes.data for each in (want, mean, deviation)]
    assert raw.pk_random(*arguments) == 0
    on_device, result = gpu.asarray(mean), gpu.full(SIZE, 77.0)
    gpu.cuda.Device().synchronize()
    table["address"][:2] = result.data.ptr, on_device.data.ptr
    table["flags"][:2] = abi.ON_DEVICE
    assert raw.pk_random(*arguments) == 0
    assert np.array_equal(gpu.asnumpy(result), want)
    table["flags"][0], table["address"][0] = 0, want.ctypes.data
    assert raw.pk_random(*arguments) == INVALID_ARGUMENT
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    assert "a parameter is on a device, and the result is not" in text.value.decode()


def test_exceptions_of_a_synchronous_call(raw, gpu):
    """An asynchronous call reports none."""
    call, stream = Call(gpu, "evaluate"), gpu.cuda.Stream(non_blocking=True)
    divide = operations()["divide"]
    program = np.array(
        [
            (abi.OP_LOAD, F64, F64, 0, 0, 0),
            (divide, F64, F64, 0, 0, 0),
            (abi.OP_STORE, F64, F64, 1, 1, 0),
        ],
        abi.INSTRUCTION,
    )
    call.values.fill(0)
    gpu.cuda.Device().synchronize()
    for asynchronous in (1, 0):
        exceptions, options = np.zeros(3, np.uint8), np.zeros(1, abi.OPTIONS)
        options["stream"], options["asynchronous"] = stream.ptr, asynchronous
        assert (
            raw.pk_evaluate(
                *(program.ctypes.data, 3, call.table.ctypes.data, 2, call.shape.ctypes.data, 1),
                *(options.ctypes.data, exceptions.ctypes.data, call.report.ctypes.data),
            )
            == 0
        )
        stream.synchronize()
        assert exceptions.tolist() == ([0, 0, 0] if asynchronous else [0, abi.FPE_INVALID, 0])
