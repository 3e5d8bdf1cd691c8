"""pk_run_kernels and pk_kernel_info from C: valid runs, and invalid ones, of which nothing runs."""

import ctypes
import functools

import numpy as np
import pytest

from pycudakit import errors
from pycudakit._native import abi, loader
from pycudakit.kernels.compiling import cache
from pycudakit.kernels.compiling.source import Signature, Source

TEXT = """
__constant__ float step[4];
__global__ void add(float *x, float y, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) x[i] += y + step[0];
}
__global__ void say() { printf("something to say\\n"); }
"""


@functools.cache
def image(engine):
    names = tuple(Signature(name, (), 1) for name in ("add", "say"))
    arch = cache.arch(0) if engine == "cuda" else "sm_90"
    source = Source(TEXT, "abi.cu", (), (), no_extern_c=False, debug=False, arch=arch, kernels=names)
    return cache.get(source, engine)


def array(dtype, *rows):
    made = np.zeros(len(rows), dtype)
    for i, row in enumerate(rows):
        for name, value in row.items():
            made[i][name] = value
    return made


class Run:
    """A run that adds 2 to an array of 100 numbers, three times, and whose tables the tests change."""

    def __init__(self, engine):
        self.engine = engine
        loaded = image(engine)
        self.x = np.arange(100, dtype=np.float32)
        self.data = np.frombuffer(loaded.binary.data, np.uint8)
        self.symbol = np.frombuffer(loaded.symbols["add"].encode(), np.uint8)
        self.values = np.frombuffer(np.float32(2).tobytes() + np.int32(100).tobytes(), np.uint8).copy()
        self.name = np.frombuffer(b"step", np.uint8)
        self.value = np.zeros(4, np.float32)
        up_down = abi.BUFFER_UPLOAD | abi.BUFFER_DOWNLOAD
        self.images = array(abi.IMAGE, {"address": self.data.ctypes.data, "bytes": self.data.size})
        self.images["key"] = np.frombuffer(loaded.binary.key, np.uint64)
        self.kernels = array(
            abi.USER_KERNEL,
            {"symbol": self.symbol.ctypes.data, "symbol_bytes": self.symbol.size, "label": b"add"},
        )
        self.buffers = array(abi.BUFFER, {"flags": up_down, "itemsize": 4, "label": b"x"})
        self.buffers["address"], self.buffers["bytes"] = self.x.ctypes.data, self.x.nbytes
        self.symbols = array(abi.SYMBOL, {"name": self.name.ctypes.data, "name_bytes": self.name.size})
        self.symbols["address"], self.symbols["bytes"] = self.value.ctypes.data, self.value.nbytes
        launch = {"argument_count": 3, "grid": (4, 1, 1), "block": (32, 1, 1)}
        self.steps = array(abi.STEP, {"kernel": abi.STEP_REPEAT, "count": 3, "length": 1}, launch)
        self.arguments = array(
            abi.ARGUMENT,
            {"bytes": 8},
            {"buffer": abi.ARGUMENT_VALUE, "bytes": 4},
            {"buffer": abi.ARGUMENT_VALUE, "bytes": 4},
        )
        self.changes = {}
        self.report = np.zeros(1, abi.REPORT)

    def __call__(self):
        run = np.zeros(1, abi.RUN)
        names = ("images", "kernels", "buffers", "symbols", "steps", "arguments", "values")
        counts = [f"{name[:-1]}_count" for name in names[:-1]] + ["value_bytes"]
        for name, count in zip(names, counts, strict=True):
            run[name], run[count] = getattr(self, name).ctypes.data, len(getattr(self, name))
        for name, value in self.changes.items():
            run[name] = value
        text, length = np.zeros(1000, np.uint8), ctypes.c_int64(-1)
        library = loader.library(self.engine)
        options = np.zeros(1, abi.OPTIONS)
        library.pk_run_kernels(run, text, len(text), ctypes.byref(length), options, self.report)
        return text[: length.value].tobytes().decode()


@pytest.fixture
def run(engine):
    return Run(engine)


@pytest.mark.smoke
def test_a_run(run):
    assert run() == ""
    np.testing.assert_array_equal(run.x, np.arange(100) + 6)
    assert run.report["seconds"][0] > 0
    if run.engine == "cuda":
        assert run.report["bytes_up"][0] == run.report["bytes_down"][0] == 400


def test_symbols_are_of_one_run(run):
    run.value[0] = 10
    run()
    np.testing.assert_array_equal(run.x, np.arange(100) + 36)
    run.symbols = run.symbols[:0]
    run()
    np.testing.assert_array_equal(run.x, np.arange(100) + 42)


def test_nothing_to_run(run):
    run.steps = run.steps[:0]
    run()
    np.testing.assert_array_equal(run.x, np.arange(100))


def test_rounds_of_nothing_take_no_time(run):
    run.steps = array(
        abi.STEP, *[{"kernel": abi.STEP_REPEAT, "count": 2**62, "length": k} for k in (2, 1, 0)]
    )
    run()
    run.steps = array(
        abi.STEP, {"kernel": abi.STEP_REPEAT, "length": 1}, {"grid": (1, 1, 1), "block": (1, 1, 1)}
    )
    run.steps[1]["argument_count"] = 3
    run()
    np.testing.assert_array_equal(run.x, np.arange(100))


def test_rounds_of_rounds(run):
    launch = run.steps[1:2]
    outer = array(abi.STEP, {"kernel": abi.STEP_REPEAT, "count": 5, "length": 4})
    inner = array(abi.STEP, {"kernel": abi.STEP_REPEAT, "count": 2, "length": 1})
    run.steps = np.concatenate([outer, launch, inner, launch, launch, launch])
    run()
    np.testing.assert_array_equal(run.x, np.arange(100) + 2 * (5 * (1 + 2 + 1) + 1))


def test_the_library_chooses_the_block(run):
    run.steps = run.steps[1:]
    run.steps[0]["count"], run.steps[0]["grid"], run.steps[0]["block"] = 100, 0, 0
    run()
    np.testing.assert_array_equal(run.x, np.arange(100) + 2)


def test_null_pointers_and_places_in_buffers(run):
    run.arguments[0]["offset"] = 40
    run.values[4:] = np.frombuffer(np.int32(90).tobytes(), np.uint8)
    run()
    np.testing.assert_array_equal(run.x, np.arange(100) + 6 * (np.arange(100) >= 10))
    run.arguments[0]["buffer"] = abi.ARGUMENT_NULL
    run.values[4:] = 0
    run()


def test_output_larger_than_the_buffer(run):
    symbol = np.frombuffer(image(run.engine).symbols["say"].encode(), np.uint8)
    run.kernels["symbol"], run.kernels["symbol_bytes"] = symbol.ctypes.data, symbol.size
    run.steps = run.steps[1:]
    run.steps[0]["argument_count"] = 0
    text = run()
    assert len(text) == 1000
    assert text.startswith("something to say\n" * 50)


CHANGES = {
    "no steps at their address": lambda run: run.changes.update(steps=0),
    "a negative count": lambda run: run.changes.update(buffer_count=-1),
    "a crooked address": lambda run: run.changes.update(arguments=run.arguments.ctypes.data + 1),
    "a limit below zero": lambda run: run.changes.update(block_limit=-1),
    "an image without bytes": lambda run: run.images.__setitem__("bytes", 0),
    "an image without an address": lambda run: run.images.__setitem__("address", 0),
    "a kernel of no image": lambda run: run.kernels.__setitem__("image", 1),
    "a kernel without a symbol": lambda run: run.kernels.__setitem__("symbol_bytes", 0),
    "a buffer of less than nothing": lambda run: run.buffers.__setitem__("bytes", -4),
    "a buffer from nowhere": lambda run: run.buffers.__setitem__("address", 0),
    "a symbol of no image": lambda run: run.symbols.__setitem__("image", -1),
    "a symbol without a name": lambda run: run.symbols.__setitem__("name", 0),
    "a symbol without a value": lambda run: run.symbols.__setitem__("bytes", 0),
    "a symbol that is too large": lambda run: run.symbols.__setitem__("bytes", 20),
    "a symbol that there is not": lambda run: run.symbols.__setitem__("name_bytes", 3),
    "no such kernel": lambda run: run.steps[1:].__setitem__("kernel", 1),
    "less than no kernel": lambda run: run.steps[1:].__setitem__("kernel", -2),
    "a round of more than there is": lambda run: run.steps[:1].__setitem__("length", 2),
    "a round of less than nothing": lambda run: run.steps[:1].__setitem__("length", -1),
    "rounds below zero": lambda run: run.steps[:1].__setitem__("count", -1),
    "threads below zero": lambda run: run.steps[1:].__setitem__("count", -1),
    "arguments that there are not": lambda run: run.steps[1:].__setitem__("first_argument", 1),
    "arguments before the first": lambda run: run.steps[1:].__setitem__("first_argument", -1),
    "too few arguments": lambda run: run.steps[1:].__setitem__("argument_count", 2),
    "more than any kernel has": lambda run: run.steps[1:].__setitem__("argument_count", 2**40),
    "no such buffer": lambda run: run.arguments[:1].__setitem__("buffer", 1),
    "behind a buffer": lambda run: run.arguments[:1].__setitem__("offset", 401),
    "before a buffer": lambda run: run.arguments[:1].__setitem__("offset", -1),
    "a value that there is not": lambda run: run.arguments[2:].__setitem__("bytes", 8),
    "a value of another size": lambda run: run.arguments[1:2].__setitem__("bytes", 2),
    "a value of nothing": lambda run: run.arguments[1:2].__setitem__("bytes", 0),
    "an empty grid": lambda run: run.steps[1:].__setitem__("grid", (1, 0, 1)),
    "an empty block": lambda run: run.steps[1:].__setitem__("block", (0, 1, 1)),
    "a block below zero": lambda run: run.steps[1:].__setitem__("block", (32, -1, -1)),
    "a huge block": lambda run: run.steps[1:].__setitem__("block", (2**40, 2**40, 2**40)),
    "shared memory below zero": lambda run: run.steps[1:].__setitem__("shared", -1),
    "too much shared memory": lambda run: run.steps[1:].__setitem__("shared", 2**40),
}


@pytest.mark.parametrize("change", CHANGES)
def test_refused_requests(run, change):
    CHANGES[change](run)
    with pytest.raises(errors.InvalidArgument) as caught:
        run()
    assert len(str(caught.value)) > 10
    np.testing.assert_array_equal(run.x, np.arange(100))


def test_loops_too_deep(run):
    rounds = array(
        abi.STEP, *[{"kernel": abi.STEP_REPEAT, "count": 1, "length": k} for k in range(100000, 0, -1)]
    )
    run.steps = np.concatenate([rounds, run.steps[1:]])
    with pytest.raises(errors.InvalidArgument, match="too deep"):
        run()


def test_buffers_larger_than_memory(run):
    run.buffers["flags"], run.buffers["bytes"] = 0, 2**52
    with pytest.raises(errors.OutOfMemory):
        run()


def test_limits(engine):
    loaded = image(engine)
    symbol = np.frombuffer(loaded.symbols["add"].encode(), np.uint8)
    data = np.frombuffer(loaded.binary.data, np.uint8)
    row = array(abi.IMAGE, {"address": data.ctypes.data, "bytes": data.size})
    row["key"] = np.frombuffer(loaded.binary.key, np.uint64)
    limits = np.zeros(1, abi.LIMITS)
    ask = loader.library(engine).pk_kernel_info
    ask(row, symbol, symbol.size, 0, limits)
    found = limits[0]
    assert found["threads"] >= 256
    assert found["grid"][0] >= 2**31 - 1
    assert found["shared"] >= 48 << 10
    assert 1 <= found["suggested_block"] <= found["threads"]
    assert found["parameters"] in (-1, 3)
    if found["parameters"] == 3:
        assert list(found["parameter_bytes"][:3]) == [8, 4, 4]
    with pytest.raises(errors.InvalidArgument):
        ask(row, symbol, 0, 0, limits)
    nothing = np.frombuffer(b"no_such_kernel", np.uint8)
    with pytest.raises(errors.Error, match="no_such_kernel"):
        ask(row, nothing, nothing.size, 0, limits)


def test_the_launcher_of_host_code(engine):
    """The CPU library returns a function; the CUDA library refuses, since CUDA's runtime launches there."""
    address = np.zeros(1, np.uint64)
    ask = loader.library(engine).pk_kernel_launcher
    if engine == "cuda":
        with pytest.raises(errors.Unsupported, match="CUDA's runtime launches the kernels of host code"):
            ask(address)
        assert address[0] == 0
        return
    ask(address)
    assert address[0] != 0
    again = np.zeros(1, np.uint64)
    ask(again)
    assert again[0] == address[0]


def test_a_launcher_without_an_address(raw):
    assert errors.BY_STATUS[raw.pk_kernel_launcher(None)] is errors.InvalidArgument
