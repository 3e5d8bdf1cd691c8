"""pk_matmul, which takes operands: NumPy's products in every type, and refused calls."""

import ctypes

import numpy as np
import pytest

from pycudakit._native import abi

TYPES = list(abi.TYPES)
INVALID_ARGUMENT = 1


class Call:
    """A product of two pairs of matrices, whose arguments the tests make invalid."""

    def __init__(self, dtype, m=5, n=7, k=11):
        draw = np.random.default_rng(2)
        self.a, self.b = (self._drawn(draw, shape, dtype) for shape in ((3, m, k), (2, k, n)))
        self.c = np.full((2, m, n), 1 if dtype.kind == "b" else 77, dtype)
        self.pairs = np.array([2, 0, 0, 1], np.int64)
        self.operands = np.zeros(3, abi.OPERAND)
        self.operands["address"] = [each.ctypes.data for each in (self.a, self.b, self.c)]
        self.operands["type"] = abi.TYPES.index(dtype)
        self.sizes, self.more, self.method = [m, n, k], [2, 0, 0], np.full(1, -1, np.int64)
        self.options, self.report = np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)
        self.has_operands = True

    @staticmethod
    def _drawn(draw, shape, dtype):
        if dtype.kind == "f":
            return draw.integers(-8, 8, shape).astype(dtype) / 4
        values = draw.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(f"u{dtype.itemsize}")[..., 0]
        return (values > 127) if dtype.kind == "b" else values.view(dtype)

    def run(self, library):
        return library.pk_matmul(
            ctypes.c_void_p(self.operands.ctypes.data if self.has_operands else None),
            *(ctypes.c_int64(size) for size in self.sizes),
            ctypes.c_void_p(self.pairs.ctypes.data),
            *(ctypes.c_int64(each) for each in self.more),
            *(ctypes.c_void_p(each.ctypes.data) for each in (self.method, self.options, self.report)),
        )

    def want(self):
        return self.a[self.pairs[::2]] @ self.b[self.pairs[1::2]]

    def is_untouched(self):
        return (self.c == self.c.dtype.type(77)).all() and self.method[0] == -1


def last_error(raw):
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    return text.value.decode()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_products(raw, dtype):
    """The sums of few small numbers are exact in every type."""
    call = Call(dtype)
    assert call.run(raw) == 0
    assert np.array_equal(call.c, call.want())
    assert call.method[0] >= 0


@pytest.mark.parametrize("sizes", [(0, 7, 11), (5, 0, 11), (5, 7, 0)])
def test_empty(raw, sizes):
    call = Call(np.dtype("float64"), *sizes)
    assert call.run(raw) == 0
    assert (call.c == 0).all()


def operand(index, field, value):
    def spoil(call):
        call.operands[field][index] = value

    return spoil


BAD = {
    "no operands": (lambda call: setattr(call, "has_operands", False), "operands is a null pointer"),
    "no factor": (operand(0, "address", 0), "a is a null pointer"),
    "no other factor": (operand(1, "address", 0), "b is a null pointer"),
    "no result": (operand(2, "address", 0), "c is a null pointer"),
    "unknown type": (operand(0, "type", len(TYPES)), "operand 0 has an unknown type"),
    "another type": (operand(1, "type", 0), "the operands have different types"),
    "another result": (operand(2, "type", 0), "the operands have different types"),
    "byte-swapped": (operand(1, "flags", abi.OPERAND_BYTE_SWAPPED), "an operand has unknown flags"),
    "negative size": (lambda call: call.sizes.__setitem__(2, -1), "a size is negative"),
    "unknown flags": (lambda call: call.more.__setitem__(1, 64), "there are unknown flags"),
    "negative index": (lambda call: call.pairs.__setitem__(3, -1), "an index of index_pairs is negative"),
}


@pytest.mark.parametrize("spoilt", BAD)
def test_refused(raw, spoilt):
    spoil, message = BAD[spoilt]
    call = Call(np.dtype("float64"))
    spoil(call)
    assert call.run(raw) == INVALID_ARGUMENT
    assert message in last_error(raw)
    assert call.is_untouched()


@pytest.mark.parametrize("flagged", [[0], [2], [0, 1, 2]], ids=str)
def test_host_memory_as_device_memory(raw, flagged):
    """The CPU library refuses the flag; the CUDA library wants it of all, and checks where they are."""
    call = Call(np.dtype("float64"))
    call.operands["flags"][flagged] = abi.ON_DEVICE
    assert call.run(raw) == INVALID_ARGUMENT
    words = last_error(raw)
    expected = "not in memory of a device" if len(flagged) == 3 else "some operands are on a device"
    assert "an operand has unknown flags" in words or expected in words
    assert call.is_untouched()
