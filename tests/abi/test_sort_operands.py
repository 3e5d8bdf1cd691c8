"""pk_sort and pk_argsort, which take operands: NumPy's order in every type, and refused calls."""

import ctypes

import numpy as np
import pytest

from pycudakit._native import abi

TYPES = [dtype for dtype in abi.TYPES if dtype is not None]
INVALID_ARGUMENT = 1


class Call:
    """A sort or argsort of rows, by operands, whose arguments the tests make invalid."""

    def __init__(self, values, *, descending=None, limit=None):
        rows, columns = values.shape
        self.is_sort = descending is None
        self.values = values
        kept = columns if limit is None else limit
        result = values.dtype if self.is_sort else np.dtype("int64")
        self.result = np.full((rows, columns if self.is_sort else kept), 77, result)
        self.operands = np.zeros(2, abi.OPERAND)
        self.operands["address"] = values.ctypes.data, self.result.ctypes.data
        self.operands["type"] = abi.TYPES.index(values.dtype), abi.TYPES.index(result)
        self.sizes = [rows, columns] if self.is_sort else [rows, columns, kept, int(descending)]
        self.options, self.report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        self.has_operands = True

    def run(self, library):
        return library["pk_sort" if self.is_sort else "pk_argsort"](
            ctypes.c_void_p(self.operands.ctypes.data if self.has_operands else None),
            *(ctypes.c_int64(size) for size in self.sizes),
            *(ctypes.c_void_p(each.ctypes.data) for each in (self.options, self.report)),
        )


def numbers(dtype, rows=7, columns=301):
    values = np.random.default_rng(3).integers(-60, 60, (rows, columns))
    return (values > 0 if dtype.kind == "b" else abs(values) if dtype.kind == "u" else values).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sort(raw, dtype):
    call = Call(numbers(dtype))
    assert call.run(raw) == 0
    assert np.array_equal(call.result, np.sort(call.values, axis=-1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_argsort(raw, dtype, descending):
    call = Call(numbers(dtype), descending=descending, limit=20)
    assert call.run(raw) == 0
    keys = call.values.astype(np.float64)
    order = np.argsort(-keys if descending else keys, axis=-1, kind="stable")
    assert np.array_equal(call.result, order[:, :20])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty(raw, shape):
    for descending in (None, True):
        assert Call(np.empty(shape, np.float32), descending=descending).run(raw) == 0


def operand(index, field, value):
    def spoil(call):
        call.operands[field][index] = value

    return spoil


def size(index, value):
    def spoil(call):
        call.sizes[index] = value

    return spoil


BAD = {
    "no operands": (lambda call: setattr(call, "has_operands", False), "operands is a null pointer"),
    "no values": (operand(0, "address", 0), "in is a null pointer"),
    "no result": (operand(1, "address", 0), "null pointer"),
    "unknown type": (operand(0, "type", len(abi.TYPES)), "operand 0 has an unknown type"),
    "negative type": (operand(0, "type", -1), "operand 0 has an unknown type"),
    "another result": (
        operand(1, "type", abi.TYPES.index(np.dtype("uint8"))),
        "operand 1 has the wrong type",
    ),
    "byte-swapped": (operand(0, "flags", abi.OPERAND_BYTE_SWAPPED), "an operand has unknown flags"),
    "unknown flags": (operand(1, "flags", 1 << 20), "an operand has unknown flags"),
    "negative rows": (size(0, -1), "rows or columns is negative"),
    "too many": (size(1, 2**62), "too many elements"),
}


@pytest.mark.parametrize("descending", [None, False])
@pytest.mark.parametrize("spoilt", BAD)
def test_refused(raw, spoilt, descending):
    spoil, message = BAD[spoilt]
    call = Call(numbers(np.dtype("float64")), descending=descending)
    spoil(call)
    assert call.run(raw) == INVALID_ARGUMENT
    assert message in last_error(raw)
    assert (call.result == 77).all()


def test_limit(raw):
    call = Call(numbers(np.dtype("float64")), descending=False)
    call.sizes[2] = call.sizes[1] + 1
    assert call.run(raw) == INVALID_ARGUMENT
    assert "limit is not from 0 to columns" in last_error(raw)


@pytest.mark.parametrize("flagged", [0, 1])
def test_one_operand_on_a_device(raw, flagged):
    """The CPU library refuses the flag, and the CUDA library a pair of places."""
    call = Call(numbers(np.dtype("float64")))
    call.operands["flags"][flagged] = abi.ON_DEVICE
    assert call.run(raw) == INVALID_ARGUMENT
    words = last_error(raw)
    assert "an operand has unknown flags" in words or "one operand is on a device" in words
    assert (call.result == 77).all()


def test_host_memory_as_device_memory(raw):
    call = Call(numbers(np.dtype("float64")))
    call.operands["flags"] = abi.ON_DEVICE
    assert call.run(raw) == INVALID_ARGUMENT
    words = last_error(raw)
    assert "an operand has unknown flags" in words or "not in memory of a device" in words
    assert (call.result == 77).all()


def last_error(raw):
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    return text.value.decode()
