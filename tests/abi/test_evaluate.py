"""pk_evaluate with invalid arguments: it returns a status and a message, and writes nothing."""

import ctypes

import numpy as np
import pytest
from helpers.processes import compiled

import pycudakit as pk
from pycudakit._element_programs.values import operations
from pycudakit._native import abi

F32, F64, I64, BOOL = (abi.TYPES.index(np.dtype(t)) for t in ("float32", "float64", "int64", "bool"))


class Call:
    """A valid call, out = (a + b < b) + 0 in float64, whose arguments the tests make invalid."""

    def __init__(self, size=5000):
        self.size = size
        opcode = operations()
        self.a, self.b, self.out = np.arange(size * 1.0), np.ones(size), np.full(size, -7.0)
        self.program = np.array(
            [
                (abi.OP_LOAD, F64, F64, 0, 0, 0),
                (abi.OP_LOAD, F64, F64, 1, 0, 0),
                (opcode["add"], F64, F64, 0, 1, 0),
                (opcode["less"], F64, BOOL, 2, 1, 0),
                (abi.OP_CAST, BOOL, F64, 3, 0, 0),
                (opcode["where"], F64, F64, 3, 2, 4),
                (abi.OP_STORE, F64, F64, 5, 2, 0),
            ],
            abi.INSTRUCTION,
        )
        self.operands = np.zeros(3, abi.OPERAND)
        for row, array in zip(self.operands, (self.a, self.b, self.out), strict=True):
            row["address"], row["type"], row["strides"][0] = array.ctypes.data, F64, 8
        self.shape = np.array([size], np.int64)
        self.options = np.zeros(1, abi.OPTIONS)
        self.exceptions = np.full(len(self.program), 0xAA, np.uint8)
        self.report = np.full(abi.REPORT.itemsize, 0xAA, np.uint8)
        self.counts = {"instruction_count": len(self.program), "operand_count": 3, "dimensions": 1}
        self.null = set()

    def run(self, library):
        def at(name):
            return None if name in self.null else getattr(self, name).ctypes.data

        counts = self.counts
        return library.pk_evaluate(
            *(at("program"), counts["instruction_count"]),
            *(at("operands"), counts["operand_count"]),
            *(at("shape"), counts["dimensions"]),
            *(at("options"), at("exceptions"), at("report")),
        )

    def untouched(self):
        return bool(
            (self.out == -7.0).all() and (self.exceptions == 0xAA).all() and (self.report == 0xAA).all()
        )


def count(name, value):
    return lambda call: call.counts.update({name: value})


def null(name):
    return lambda call: call.null.add(name)


def instruction(index, **fields):
    def spoil(call):
        for field, value in fields.items():
            call.program[field][index] = value

    return spoil


def operand(index, **fields):
    def spoil(call):
        for field, value in fields.items():
            call.operands[field][index] = value

    return spoil


def option(**fields):
    def spoil(call):
        for field, value in fields.items():
            call.options[field] = value

    return spoil


def rest(*ranges, count=None):
    def spoil(call):
        call.rest = np.zeros(1, abi.REST)
        call.rest["count"] = len(ranges) if count is None else count
        for index, range_ in enumerate(ranges):
            call.rest["ranges"][0, index] = range_
        call.options["rest"] = call.rest.ctypes.data

    return spoil


def shape(*dims):
    def spoil(call):
        call.shape = np.array(dims, np.int64)
        call.counts["dimensions"] = len(dims)
        call.operands["strides"][:, : len(dims)] = 8

    return spoil


def second_store(call):
    call.program = np.append(call.program, call.program[-1:])
    call.counts["instruction_count"] += 1
    call.exceptions = np.full(len(call.program), 0xAA, np.uint8)


def load_after_store(call):
    second_store(call)
    call.program[-1] = (abi.OP_LOAD, *call.program[-1].item()[1:3], 2, 0, 0)


BAD = {
    "null program": (null("program"), "program is a null pointer"),
    "null operands": (null("operands"), "operands is a null pointer"),
    "null shape": (null("shape"), "shape is a null pointer"),
    "null exceptions": (null("exceptions"), "exceptions is a null pointer"),
    "null report": (null("report"), "report is a null pointer"),
    "null address": (operand(1, address=0), "operand 1 is a null pointer"),
    "null stored address": (operand(2, address=0), "operand 2 is a null pointer"),
    "negative dimension": (shape(-1), "negative"),
    "negative dimension among zeros": (shape(0, -5), "negative"),
    "size overflow": (shape(2**32, 2**32), "64 bits"),
    "size overflow to zero": (shape(2**62, 4), "64 bits"),
    "unknown opcode": (instruction(2, op=3 + len(operations())), "opcode"),
    "largest opcode": (instruction(2, op=2**16 - 1), "opcode"),
    "unknown type": (instruction(2, type=12), "unknown type"),
    "largest type": (instruction(2, type=255), "unknown type"),
    "unknown result type": (instruction(4, to=12), "unknown type"),
    "unknown operand type": (operand(0, type=12), "operand 0 has an unknown type"),
    "negative operand type": (operand(0, type=-1), "operand 0 has an unknown type"),
    "unknown flags": (operand(0, flags=4), "flags"),
    "all flags": (operand(2, flags=-1), "flags"),
    "load of no operand": (instruction(0, a=3), "operand"),
    "load of a negative operand": (instruction(0, a=-1), "operand"),
    "load of a far operand": (instruction(0, a=2**31 - 1), "operand"),
    "store to no operand": (instruction(6, b=3), "operand"),
    "store to a negative operand": (instruction(6, b=-1), "operand"),
    "load of another type": (instruction(0, type=F32), "another type than its operand"),
    "store of another type": (operand(2, type=I64), "another type than its operand"),
    "store of another type of value": (instruction(6, a=3), "another type than its own"),
    "two stores": (second_store, "second time"),
    "a load after the store": (load_after_store, "after it was stored to"),
    "itself as argument": (instruction(2, a=2), "not defined before"),
    "a later value": (instruction(2, b=3), "not defined before"),
    "a far value": (instruction(2, b=2**31 - 1), "not defined before"),
    "a negative value": (instruction(2, a=-1), "not defined before"),
    "store of a negative value": (instruction(6, a=-(2**31)), "not defined before"),
    "argument of another type": (instruction(5, b=3), "another type than its own"),
    "condition that is no bool": (instruction(5, a=2), "another type than its own"),
    "third argument undefined": (instruction(5, c=5), "not defined before"),
    "cast of another type": (instruction(4, type=F64), "another type than its own"),
    "operation without that type": (instruction(2, op=operations()["invert"]), "does not take"),
    "bool to an operation for numbers": (instruction(2, type=BOOL), "does not take"),
    "zero stride of a store": (operand(2, strides=[0] * abi.MAX_DIMS), "stride of 0"),
    "negative count of devices": (option(device_count=-1), "negative"),
    "negative capacity for spans": (option(span_capacity=-1), "negative"),
    "negative rest": (rest(count=-1), "options.rest"),
    "too much rest": (rest(count=abi.MAX_RANGES + 1), "options.rest"),
    **{
        f"rest {start} {size}": (rest((start, size)), "options.rest")
        for start, size in ((-1, 2), (0, -1), (0, 5001), (5000, 1), (2**62, 2**62), (1, 2**63 - 1))
    },
    **{
        f"{n} instructions": (count("instruction_count", n), "instruction_count")
        for n in (0, -1, 16385, 2**62)
    },
    **{f"{n} operands": (count("operand_count", n), "operand_count") for n in (0, -1, 1025, -(2**63))},
    **{f"{n} dimensions": (count("dimensions", n), "dimensions") for n in (-1, 65, 2**62)},
}


@pytest.mark.parametrize("spoilt", BAD)
def test_refused(raw, spoilt):
    spoil, message = BAD[spoilt]
    call = Call()
    spoil(call)
    assert call.run(raw) == 1
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    assert message in text.value.decode()
    assert call.untouched()


def test_on_no_device(raw):
    """The CPU library refuses the flag, and the CUDA library checks where the memory is."""
    call = Call()
    call.operands["flags"] = abi.ON_DEVICE
    assert call.run(raw) == 1
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    words = text.value.decode()
    assert "an operand has unknown flags" in words or "not in memory of a device" in words
    assert call.untouched()


def test_a_value_that_a_store_does_not_define(raw):
    call = Call()
    call.program[5] = (abi.OP_STORE, F64, F64, 2, 2, 0)
    call.program[6] = (abi.OP_CAST, F64, F64, 5, 0, 0)
    assert call.run(raw) == 1
    assert call.untouched()


@pytest.mark.smoke
def test_accepted(raw):
    call = Call()
    assert call.run(raw) == 0
    total = call.a + call.b
    assert (call.out == np.where(total < call.b, total, total < call.b)).all()
    assert (call.exceptions == 0).all()


def test_no_options(raw):
    call = Call()
    call.null = {"options"}
    assert call.run(raw) == 0
    assert (call.out != -7.0).all()


def test_rest_alone_is_computed(raw):
    call = Call()
    rest((10, 5), (4000, 1), (4990, 10), (7, 0))(call)
    assert call.run(raw) == 0
    total = call.a + call.b
    expected = np.full(call.size, -7.0)
    for part in (slice(10, 15), slice(4000, 4001), slice(4990, 5000)):
        expected[part] = np.where(total < call.b, total, total < call.b)[part]
    assert (call.out == expected).all()


def test_rest_of_operands_that_are_not_dense(raw):
    """Whatever the order, a range has its number of elements, and ranges complement each other."""
    call = Call(24)
    shape(2, 3, 4)(call)
    call.operands["strides"][:, :3] = 8, 64, 16  # of an array of shape (3, 4, 2), transposed
    for left, written in (((5, 8), 8), ((0, 5), 13), ((13, 11), 24)):
        rest(left)(call)
        assert call.run(raw) == 0
        assert (call.out != -7.0).sum() == written


def test_spans(raw):
    for capacity in (0, 1, 100):
        call = Call(200_000)
        call.report = np.zeros(1, abi.REPORT)
        call.spans = np.full(100, -1, np.int32).repeat(12).view(abi.SPAN)
        option(spans=call.spans.ctypes.data, span_capacity=capacity)(call)
        assert call.run(raw) == 0
        reported = int(call.report["spans"][0])
        assert reported >= 1
        told, untold = call.spans[: min(reported, capacity)], call.spans[min(reported, capacity) :]
        assert (untold["lane"] == -1).all()
        assert (told["begin"] <= told["end"]).all()
        assert (told["end"] <= call.report["seconds"] + 1e-4).all()  # a GPU has another clock
        assert (told["reserved"] == 0).all()
        if capacity >= reported:
            last = told["stage"].max()
            assert told["elements"][told["stage"] == last].sum() == call.size


WATCH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int64 * 2))


@pytest.mark.parametrize("stop", [0, 1, -5])
def test_watch(raw, stop):
    told = []

    @WATCH
    def watch(progress):
        told.append(tuple(progress.contents))
        return stop

    size = 4_000_000
    for more in (20, 100, 500, 2500, 12500):  # casts, until it takes some time, wherever this runs
        call = Call(size)
        call.program = np.insert(call.program, [5] * more, call.program[4])
        call.program["a"][-2:] += more * (call.program["a"][-2:] >= 5)
        call.counts["instruction_count"] = len(call.program)
        call.exceptions = np.zeros(len(call.program), np.uint8)
        option(progress_callback=ctypes.cast(watch, ctypes.c_void_p).value)(call)
        assert call.run(raw) == (7 if stop and told else 0)
        if told:
            break
    assert told
    assert all(0 <= done <= total == size for done, total in told)
    assert told == sorted(told)
    if stop:
        assert len(told) == 1
        assert np.isin(call.out, [-7.0, 0.0]).all()  # some elements, or all, were computed before the stop
    assert Call().run(raw) == 0


THROWS = """
#include <cstdint>
#include <stdexcept>
extern "C" int32_t watch(const void *) { throw std::runtime_error("the callback threw"); }
"""


@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
@pytest.mark.parametrize("raw", ["cpu"], indirect=True)
def test_a_callback_that_throws(raw, tmp_path):
    """Threads that help a call use its memory, so the call returns only when they have ended."""
    source = tmp_path / "watch.cpp"
    source.write_text(THROWS)
    watch = ctypes.CDLL(compiled(source)).watch
    for more in (500, 2500, 12500):  # casts, until it takes many times 50 ms, wherever this runs
        call = Call(4_000_000)
        call.program = np.insert(call.program, [5] * more, call.program[4])
        call.program["a"][-2:] += more * (call.program["a"][-2:] >= 5)
        call.counts["instruction_count"] = len(call.program)
        call.exceptions = np.zeros(len(call.program), np.uint8)
        option(progress_callback=ctypes.cast(watch, ctypes.c_void_p).value)(call)
        status = call.run(raw)
        if status != 0:
            break
    assert pk.errors.BY_STATUS[status] is pk.errors.Interrupted
    message = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(message))
    assert message.value == b"the callback threw"
    assert Call().run(raw) == 0


def test_no_dimensions_and_no_elements(raw):
    call = Call()
    call.counts["dimensions"] = 0
    call.null = {"shape"}
    assert call.run(raw) == 0
    assert call.out[0] == 0
    assert (call.out[1:] == -7.0).all()
    for dims in ((0,), (5, 0, 3), (2**62, 0, 2**62)):
        call = Call()
        shape(*dims)(call)
        call.operands["address"] = 0  # no element is at any address
        assert call.run(raw) == 0
        assert (call.out == -7.0).all()
        assert (call.exceptions == 0).all()


def test_many_instructions_and_operands(raw):
    """The largest program, over the most operands, with more live values than a machine has registers."""
    call = Call(300)
    add, loads = operations()["add"], abi.MAX_OPERANDS - 1
    rows = [(abi.OP_LOAD, F64, F64, i, 0, 0) for i in range(loads)]
    rows += [(add, F64, F64, 0, 1, 0)]
    rows += [(add, F64, F64, len(rows) - 1 + i, 2 + i, 0) for i in range(loads - 2)]
    while len(rows) < abi.MAX_INSTRUCTIONS - 1:
        rows.append((abi.OP_CAST, F64, F64, len(rows) - 1, 0, 0))
    rows.append((abi.OP_STORE, F64, F64, len(rows) - 1, loads, 0))
    call.program = np.array(rows, abi.INSTRUCTION)
    call.operands = np.repeat(call.operands[:1], loads + 1)
    call.operands["address"][-1] = call.out.ctypes.data
    call.counts.update(instruction_count=len(rows), operand_count=loads + 1)
    call.exceptions = np.zeros(len(rows), np.uint8)
    assert call.run(raw) == 0
    assert (call.out == call.a * loads).all()


def test_sixty_four_dimensions(raw):
    call = Call(1024)
    shape(*[2 if i % 6 == 0 and i < 60 else 1 for i in range(64)])(call)
    strides = np.zeros(64, np.int64)
    strides[[i for i in range(60) if i % 6 == 0]] = 8 << np.arange(10)[::-1]
    call.operands["strides"] = strides
    assert call.run(raw) == 0
    total = call.a + call.b
    assert (call.out == np.where(total < call.b, total, total < call.b)).all()


# ---- Operands that are loaded from and stored to ----------------------------------------------------


def two_operands(rows, dtype="float64", aliased=False, size=10_000):
    """Return a call over two operands, or three, where the third is the first under another index."""
    call = Call(size)
    kind = abi.TYPES.index(np.dtype(dtype))
    call.a, call.b = np.arange(size).astype(dtype), np.full(size, 3, dtype)
    arrays = [call.a, call.b, call.a if aliased else call.out.astype(dtype)]
    call.operands["type"] = kind
    call.operands["strides"][:, 0] = np.dtype(dtype).itemsize
    call.operands["address"] = [x.ctypes.data for x in arrays]
    call.program = np.array([(op, kind, kind, a, b, 0) for op, a, b in rows], abi.INSTRUCTION)
    call.counts["instruction_count"] = len(rows)
    call.exceptions = np.zeros(len(rows), np.uint8)
    call.arrays = arrays
    return call


LOADS = [(abi.OP_LOAD, 0, 0), (abi.OP_LOAD, 1, 0)]


@pytest.mark.parametrize("stored", [0, 2])
def test_exceptions_of_a_division_in_place(raw, stored):
    rows = [*LOADS, (operations()["divide"], 0, 1), (abi.OP_STORE, 2, stored)]
    call = two_operands(rows, aliased=True)
    call.b[7777] = 0
    expected = np.arange(10_000.0)
    expected = np.where(call.b == 0, np.inf, expected / 3)
    assert call.run(raw) == 0
    assert (call.a == expected).all()
    assert call.exceptions.tolist() == [0, 0, abi.FPE_DIVIDE_BY_ZERO, 0]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_swap(raw, dtype):
    call = two_operands([*LOADS, (abi.OP_STORE, 0, 1), (abi.OP_STORE, 1, 0)], dtype)
    a, b = call.a.copy(), call.b.copy()
    assert call.run(raw) == 0
    assert np.array_equal(call.a, b)
    assert np.array_equal(call.b, a)


@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("first", [0, 2])
def test_a_value_outlives_its_memory(raw, first, cast):
    add, multiply = operations()["add"], operations()["multiply"]
    middle = [(abi.OP_CAST, 0, 0), (add, 0, 1), (abi.OP_STORE, 3, first), (multiply, 2 if cast else 0, 1)]
    call = two_operands([*LOADS, *middle, (abi.OP_STORE, 5, 1)], aliased=True)
    a, b = call.a.copy(), call.b.copy()
    assert call.run(raw) == 0
    assert (call.a == a + b).all()
    assert (call.b == a * b).all()
