"""pk_reduce with invalid arguments: it returns a status and a message, and writes nothing."""

import ctypes

import numpy as np
import pytest
from abi.test_evaluate import count, instruction, null, operand, option, rest

from pycudakit._element_programs.values import operations
from pycudakit._native import abi

F32, F64, I64, U8, BOOL = (
    abi.TYPES.index(np.dtype(t)) for t in ("float32", "float64", "int64", "uint8", "bool")
)


class Call:
    """A valid call, the sum of a + b along the middle of three dimensions, which the tests make invalid."""

    def __init__(self, shape=(4, 50, 3)):
        self.a = np.arange(1.0 * np.prod(shape)).reshape(shape)
        self.b = np.ones(shape)
        self.out = np.full((shape[0], shape[2]), -7.0)
        self.program = np.array(
            [
                (abi.OP_LOAD, F64, F64, 0, 0, 0),
                (abi.OP_LOAD, F64, F64, 1, 0, 0),
                (operations()["add"], F64, F64, 0, 1, 0),
                (abi.OP_STORE, F64, F64, 2, 2, 0),
            ],
            abi.INSTRUCTION,
        )
        self.operands = np.zeros(4, abi.OPERAND)
        self.operands["type"] = F64
        for row, array in zip(self.operands[:2], (self.a, self.b), strict=True):
            row["address"], row["strides"][:3] = array.ctypes.data, array.strides
        self.operands["address"][3] = self.out.ctypes.data
        self.operands["strides"][3, :3] = self.out.strides[0], 0, self.out.strides[1]
        self.shape = np.array(shape, np.int64)
        self.reduction = np.zeros(1, abi.REDUCTION)
        self.reduction["kind"], self.reduction["value_count"] = abi.REDUCE_SUM, 1
        self.reduction["outer"], self.reduction["reduced"] = 1, 1
        self.options = np.zeros(1, abi.OPTIONS)
        self.exceptions = np.full(len(self.program), 0xAA, np.uint8)
        self.report = np.full(abi.REPORT.itemsize, 0xAA, np.uint8)
        self.counts = {"instruction_count": len(self.program), "operand_count": 4, "dimensions": 3}
        self.null = set()
        self.size = self.a.size

    def run(self, library):
        def at(name):
            return None if name in self.null else getattr(self, name).ctypes.data

        library.pk_reduce.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64),
            *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
        ]
        counts = self.counts
        return library.pk_reduce(
            at("reduction"),
            *(at("program"), counts["instruction_count"]),
            *(at("operands"), counts["operand_count"]),
            *(at("shape"), counts["dimensions"]),
            *(at("exceptions"), at("options"), at("report")),
        )

    def untouched(self):
        return bool(
            (self.out == -7.0).all() and (self.exceptions == 0xAA).all() and (self.report == 0xAA).all()
        )


def asked(**fields):
    def spoil(call):
        for field, value in fields.items():
            call.reduction[field] = value

    return spoil


def both(*spoils):
    def spoil(call):
        for each in spoils:
            each(call)

    return spoil


def two_values(other=F64, **fields):
    """Store a second value, which takes one more operand."""

    def spoil(call):
        call.operands = np.insert(call.operands, 3, call.operands[2])
        call.operands["type"][3] = other
        cast = (abi.OP_CAST, F64, other, 2, 0, 0)
        call.program = np.append(call.program, np.array([cast, cast], abi.INSTRUCTION))
        call.program[5] = (abi.OP_STORE, other, other, 4, 3, 0)
        call.counts.update(instruction_count=6, operand_count=5)
        call.exceptions = np.full(6, 0xAA, np.uint8)
        asked(value_count=2, **fields)(call)

    return spoil


def shape(*dims):
    def spoil(call):
        call.shape = np.array(dims, np.int64)

    return spoil


def integers(call):
    """Reduce integers."""
    call.program["type"] = call.program["to"] = I64
    call.operands["type"] = I64


BAD = {
    "loads the result": (instruction(1, a=3), "loads a value, or the result"),
    "loads a value": (instruction(1, a=2), "loads a value, or the result"),
    **{
        f"null {name}": (null(name), "null pointer")
        for name in ("reduction", "program", "operands", "shape", "exceptions", "report")
    },
    **{
        f"kind {n}": (asked(kind=n), "reduction.kind")
        for n in (-1, abi.REDUCE_SUM_SQUARED_DEVIATIONS + 1, 2**31 - 1)
    },
    **{f"finish {n}": (asked(finalize=n), "reduction.finalize") for n in (-1, 5, -(2**31))},
    **{
        f"outer {o}, reduced {r}": (asked(outer=o, reduced=r), "more dimensions than there are")
        for o, r in ((-1, 1), (1, -1), (3, 1), (0, 4), (2**31 - 1, 1), (2**31 - 1, 2**31 - 1), (1, 3))
    },
    **{f"{n} values": (asked(value_count=n), "neither 1 nor 2") for n in (-1, 0, 3, 2**31 - 1)},
    "more values than operands": (both(count("operand_count", 1)), "fewer operands"),
    "a value with an address": (operand(2, address=8), "has an address"),
    "an operand without": (operand(0, address=0), "an operand is a null pointer"),
    "a result without": (operand(3, address=0), "an operand is a null pointer"),
    "negative type": (operand(1, type=-1), "unknown type"),
    "type of the result": (operand(3, type=12), "unknown type"),
    "flags": (operand(0, flags=4), "unknown flags"),
    "flags of the result": (operand(3, flags=-1), "unknown flags"),
    "one factor": (asked(kind=abi.REDUCE_DOT), "PK_REDUCE_DOT takes two values"),
    "factors of two types": (two_values(F32, kind=abi.REDUCE_DOT), "different types"),
    "a mask of numbers": (two_values(F64, kind=abi.REDUCE_SUM), "a second value is for"),
    "a mask for a product": (two_values(BOOL, kind=abi.REDUCE_PROD), "a second value is for"),
    "a mask for the least": (two_values(BOOL, kind=abi.REDUCE_MIN), "a second value is for"),
    "squares of integers": (
        both(integers, asked(kind=abi.REDUCE_SUM_SQUARED_DEVIATIONS)),
        "PK_REDUCE_SUM_SQUARED_DEVIATIONS takes floats",
    ),
    "a result that stands": (operand(3, strides=[0] * abi.MAX_DIMS), "stride of 0"),
    "no elements": (shape(4, 0, 3), "not positive"),
    "negative size": (shape(4, 50, -3), "positive"),
    "too many elements": (shape(2**40, 2**40, 3), "64 bits"),
    "a store to the result": (instruction(3, b=3), "stores to"),
    "a store to an operand": (instruction(3, b=0), "stores to"),
    "load of no operand": (instruction(0, a=9), "operand that there is not"),
    "unknown operation": (instruction(2, op=9999), "unknown"),
    "rest": (rest((0, 1)), "options.rest is for pk_evaluate"),
    "negative count of devices": (option(device_count=-1), "negative"),
    **{f"{n} instructions": (count("instruction_count", n), "instruction_count") for n in (0, -1, 2**62)},
    **{f"{n} operands": (count("operand_count", n), "operand_count") for n in (0, -1, 2**62)},
    **{f"{n} dimensions": (count("dimensions", n), "dimensions") for n in (-1, 65, 2**62)},
}


@pytest.mark.parametrize("spoilt", BAD)
def test_refused(raw, spoilt):
    spoil, message = BAD[spoilt]
    call = Call()
    spoil(call)
    status = call.run(raw)
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    assert status == 1
    assert message in text.value.decode()
    assert call.untouched()


def test_on_a_device_alone(raw):
    """The CPU library refuses the flag, and the CUDA library requires it for the result, too."""
    call = Call()
    call.operands["flags"][0] = abi.ON_DEVICE
    assert call.run(raw) == 1
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    words = text.value.decode()
    assert "unknown flags" in words or "is on a device, and the result is not" in words
    assert call.untouched()


def test_accepted(raw):
    call = Call()
    assert call.run(raw) == 0
    assert np.array_equal(call.out, (call.a + call.b).sum(axis=1))
    assert (call.exceptions == 0).all()


def test_no_options(raw):
    call = Call()
    call.null = {"options"}
    assert call.run(raw) == 0
    assert (call.out != -7.0).all()


def test_every_kind(raw):
    total = Call().a + 1
    for kind, want in (
        (abi.REDUCE_SUM, total.sum(axis=1)),
        (abi.REDUCE_MIN, total.min(axis=1)),
        (abi.REDUCE_MAX, total.max(axis=1)),
        (abi.REDUCE_ARGMIN, total.argmin(axis=1)),
        (abi.REDUCE_ARGMAX, total.argmax(axis=1)),
        (abi.REDUCE_PTP, np.ptp(total, axis=1)),
        (abi.REDUCE_SUM_SQUARED_DEVIATIONS, total.var(axis=1) * 50),
        (abi.REDUCE_PROD, total.prod(axis=1)),
    ):
        call = Call()
        asked(kind=kind)(call)
        assert call.run(raw) == 0
        np.testing.assert_allclose(call.out, want, 1e-13)


def test_finishes_and_initial(raw):
    total = Call().a + 1
    for fields, want in (
        ({"finalize": abi.FINALIZE_MEAN}, total.mean(axis=1)),
        ({"kind": abi.REDUCE_SUM_SQUARED_DEVIATIONS, "finalize": abi.FINALIZE_VAR}, total.var(axis=1)),
        (
            {"kind": abi.REDUCE_SUM_SQUARED_DEVIATIONS, "finalize": abi.FINALIZE_STD, "ddof": 1},
            total.std(axis=1, ddof=1),
        ),
        ({"has_initial": 1, "initial": 5.5}, total.sum(axis=1) + 5.5),
        ({"kind": abi.REDUCE_MAX, "has_initial": 1, "initial": 9e9}, np.full((4, 3), 9e9)),
    ):
        call = Call()
        asked(**fields)(call)
        assert call.run(raw) == 0
        np.testing.assert_allclose(call.out, want, 1e-13)


def test_two_values(raw):
    call = Call()
    two_values(kind=abi.REDUCE_DOT, finalize=abi.FINALIZE_NORM)(call)
    assert call.run(raw) == 0
    np.testing.assert_allclose(call.out, np.sqrt(((call.a + 1) ** 2).sum(axis=1)), 1e-15)
    call = Call()
    two_values(BOOL, finalize=abi.FINALIZE_MEAN)(call)
    assert call.run(raw) == 0
    np.testing.assert_allclose(call.out, (call.a + 1).mean(axis=1), 1e-15)


def test_dimensions(raw):
    """All dimensions are reduced, or none, of 64 dimensions or of none."""
    call = Call()
    asked(outer=0, reduced=3)(call)
    call.operands["strides"][3] = 0
    assert call.run(raw) == 0
    assert call.out[0, 0] == (call.a + 1).sum()
    assert (call.out.ravel()[1:] == -7).all()

    call = Call()
    call.counts["dimensions"] = 0
    asked(outer=0, reduced=0)(call)
    call.null = {"shape"}
    assert call.run(raw) == 0
    assert call.out[0, 0] == 1

    call = Call()
    call.shape = np.ones(64, np.int64)
    call.shape[[3, 40, 63]] = call.a.shape
    strides = np.zeros((4, 64), np.int64)
    strides[:2, [3, 40, 63]] = call.a.strides
    strides[3, [3, 63]] = call.out.strides
    call.operands["strides"] = strides
    call.counts["dimensions"] = 64
    asked(outer=20, reduced=30)(call)
    assert call.run(raw) == 0
    assert np.array_equal(call.out, (call.a + call.b).sum(axis=1))


def test_exceptions(raw):
    call = Call()
    call.program["op"][2] = operations()["divide"]
    call.b[1, 2, 1] = 0
    assert call.run(raw) == 0
    assert call.exceptions.tolist() == [0, 0, abi.FPE_DIVIDE_BY_ZERO, 0]
    assert call.out[1, 1] == np.inf


def test_types_of_results(raw):
    """Only the bytes of the result are written, whatever its type."""
    for code, dtype in enumerate(abi.TYPES):
        call = Call((4, 2, 3))
        call.b[:] = 0
        call.out = np.full(40, 99, dtype)
        call.operands["type"][3] = code
        call.operands["address"][3] = call.out.ctypes.data
        call.operands["strides"][3, :3] = 9 * dtype.itemsize, 0, 3 * dtype.itemsize
        assert call.run(raw) == 0
        written = np.full(40, 99, dtype)
        written[:36].reshape(4, 3, 3)[:, :, 0] = call.a.sum(axis=1)
        assert np.array_equal(call.out, written), dtype


def several(count=2, spoil=len, operand_count=None):
    """Call pk_reduce_several for `count` reductions of the same values."""

    def run(library):
        call = Call()
        reductions = np.repeat(call.reduction, max(count, 1))
        spoil(reductions)
        operands = np.concatenate([call.operands, *[call.operands[-1:]] * (max(count, 1) - 1)])
        library.pk_reduce_several.argtypes = [
            *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p),
            *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 3),
        ]
        status = library.pk_reduce_several(
            *(reductions.ctypes.data, count, call.program.ctypes.data, len(call.program)),
            *(operands.ctypes.data, len(operands) if operand_count is None else operand_count),
            *(call.shape.ctypes.data, 3, call.exceptions.ctypes.data),
            *(call.options.ctypes.data, call.report.ctypes.data),
        )
        return status, call

    return run


def different(field, value):
    def spoil(reductions):
        reductions[field][1] = value

    return spoil


SEVERAL_BAD = {
    "none": (several(0), "reduction_count is out of range"),
    "too many": (several(17), "reduction_count is out of range"),
    "fewer operands": (several(2, operand_count=2), "operand_count is out of range"),
    "other dimensions": (
        several(2, different("outer", 0)),
        "not of the same values along the same dimensions",
    ),
    "other values": (
        several(2, different("value_count", 2)),
        "not of the same values along the same dimensions",
    ),
    "an unknown kind": (several(2, different("kind", 99)), "reduction.kind"),
}


@pytest.mark.parametrize("spoilt", SEVERAL_BAD)
def test_several_that_are_refused(raw, spoilt):
    run, message = SEVERAL_BAD[spoilt]
    status, call = run(raw)
    text = ctypes.c_char_p()
    raw.pk_last_error(ctypes.byref(text))
    assert status == 1
    assert message in text.value.decode()
    assert call.untouched()


def test_several(raw):
    status, call = several(3)(raw)
    assert status == 0
    assert np.array_equal(call.out, (call.a + call.b).sum(axis=1))
