"""Bad arguments of counting: NumPy's errors, or, from the C ABI, a status with nothing written."""

import ctypes

import numpy as np
import pytest
from helpers.numpy_versions import since
from helpers.strategies import assert_same_outcome, outcome

import pycudakit as pk
from pycudakit import errors
from pycudakit._native import abi

# ---- Errors -----------------------------------------------------------------------------------------

WRONG = {
    "negative": ("bincount", ([1, -1],)),
    "negative with weights": ("bincount", ([1, -1], [1.0, 2.0])),
    "floats": ("bincount", (np.array([1.0, 2.0]),)),
    "two dimensions": ("bincount", ([[1, 2]],)),
    "a number": ("bincount", (3,)),
    "minlength": ("bincount", ([1], None, -1)),
    "minlength of None": ("bincount", ([1], None, None)),
    "other weights": ("bincount", ([1, 2], [1.0])),
    "no bins": ("histogram", ([1, 2], 0)),
    "a fraction of bins": ("histogram", ([1, 2], 2.5)),
    "two dimensions of bins": ("histogram", ([1, 2], [[1, 2]])),
    "edges that fall": ("histogram", ([1, 2], [2, 1])),
    "a range that falls": ("histogram", ([1, 2], 3, (2, 1))),
    "an infinite range": ("histogram", ([1, 2], 3, (0, np.inf))),
    "a range of three": ("histogram", ([1, 2], 3, (0, 1, 2))),
    "NaN without a range": ("histogram", ([1, np.nan], 3)),
    "infinity without a range": ("histogram", ([1, np.inf], 3)),
    "too many bins": ("histogram", (np.float32([1, 1.0000001]), 1000)),
    "a rule of no bins": ("histogram", (np.full(30, 1e9, np.float32), "scott")),
    "an unknown rule": ("histogram", ([1, 2], "mine")),
    "a rule with weights": ("histogram", ([1, 2], "auto", None, None, [1, 2])),
    "weights of another shape": ("histogram", ([1, 2], 3, None, None, [1])),
    "bool weights by edges": ("histogram", ([1, 2], [1, 2], None, None, [True, False])),
    "lists of two lengths": ("histogram2d", ([1, 2], [1])),
    "other weights of points": ("histogram2d", ([1, 2], [1, 2], 3, None, None, [1.0])),
    "no bins of points": ("histogram2d", ([1, 2], [1, 2], [0, 3])),
    "edges of points that fall": ("histogram2d", ([1, 2], [1, 2], [3, [2, 1]])),
    "NaN among points": ("histogram2d", ([1, np.nan], [1, 2])),
    "edges that rise and fall": ("digitize", ([1, 2], [1, 3, 2])),
    "a table of edges": ("digitize", ([1, 2], [[1, 2]])),
}


SINCE = {"minlength of None": "2.3", "too many bins": "2.2"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=since(SINCE[case])) if case in SINCE else case for case in WRONG]
)
def test_errors(engine, case):
    name, arguments = WRONG[case]
    ours, numpys = outcome(getattr(pk, name), *arguments), outcome(getattr(np, name), *arguments)
    assert numpys[0] == "error"
    if isinstance(ours[1], errors.Unsupported):  # an engine may refuse it for another reason than NumPy
        with pk.engine("auto"):
            ours = outcome(getattr(pk, name), *arguments)
    assert_same_outcome(ours, numpys, context=case)
    assert str(ours[1]) == str(numpys[1]), case


FOREIGN = {
    "complex weights": ("histogram", ([1.0, 2.0], 3, None, None, [1j, 2])),
    "complex weights of numbers": ("bincount", ([1, 2], np.array([1j, 2]))),
    "a complex value": ("histogram", ([1j, 2], [0, 1])),
    "objects": ("digitize", (np.array([1, 2], object), [1, 2])),
    "a masked array": ("histogram", (np.ma.array([1.0, 2.0]), 2)),
    "long doubles": ("histogram", (np.array([1.0, 2.0], np.longdouble), 2)),
    "edges of long doubles": ("histogram", ([1.0, 2.0], np.array([1.0, 2.0], np.longdouble))),
    "edges with NaN": ("histogram", ([1.0, 2.0], [0.0, 1.0, np.nan])),
    "an axis of two": ("histogram2d", ([[1.0, 2.0]], [[1.0, 2.0]])),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_calls_that_only_numpy_supports(engine, case):
    name, arguments = FOREIGN[case]
    with np.errstate(all="ignore"):
        status, error, _ = outcome(getattr(pk, name), *arguments)
        assert status == "error"
        assert isinstance(error, errors.Unsupported)
        assert name in str(error)
        assert engine in str(error)
        with pk.engine("auto"):
            ours = outcome(getattr(pk, name), *arguments)
        numpys = outcome(getattr(np, name), *arguments)
        assert ours[0] == numpys[0]
        if numpys[0] == "error":
            assert type(ours[1]) is type(numpys[1])
        else:
            results = [r if isinstance(r, tuple) else (r,) for r in (ours[1], numpys[1])]
            assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(*results, strict=True))
            assert pk.last_call().engine == "numpy"


# ---- The C ABI --------------------------------------------------------------------------------------


def test_bad_arguments(raw):
    values = np.arange(10, dtype="f4")
    edges = np.array([0.0, 5.0, 9.0], "f4")
    operands = np.zeros(3, abi.OPERAND)
    operands["address"], operands["type"] = values.ctypes.data, 10
    operands["strides"][:, 0] = 4
    bins = np.zeros(2, abi.BINS)
    bins["kind"], bins["type"], bins["count"], bins["edges"] = abi.BINS_EDGES, 10, 2, edges.ctypes.data
    shape = np.array([10])
    report = np.zeros(1, abi.REPORT)
    counts_ = np.full(16, 7)
    for name in ("pk_histogram", "pk_weighted_histogram", "pk_digitize", "pk_extent"):
        getattr(raw, name).argtypes = None

    def pointer(array):
        return None if array is None else ctypes.c_void_p(array.ctypes.data)

    def count(
        operands=operands, operand_count=1, shape=shape, bins=bins, axes=1, counts=counts_, report=report
    ):
        size = ctypes.c_int64
        return raw.pk_histogram(
            *(pointer(operands), size(operand_count), pointer(shape), size(1), pointer(bins), size(axes)),
            *(pointer(counts), None, pointer(report)),
        )

    def changed(table, **fields):
        copied = table.copy()
        for name, value in fields.items():
            copied[name][0] = value
        return copied

    assert count() == 0
    assert counts_[:4].tolist() == [5, 5, 0, 0]
    counts_[:] = 7
    bad = [
        {"operands": None}, {"shape": None}, {"bins": None}, {"counts": None}, {"report": None},
        {"axes": 0}, {"axes": 3}, {"axes": -1}, {"operand_count": 0}, {"operand_count": 3},
        {"shape": np.array([-1])}, {"operands": changed(operands, type=12)},
        {"operands": changed(operands, type=-1)}, {"operands": changed(operands, address=0)},
        {"operands": changed(operands, flags=2)},
        {"bins": changed(bins, kind=3)}, {"bins": changed(bins, kind=abi.BINS_INDEX)},
        {"bins": changed(bins, count=0)}, {"bins": changed(bins, count=-1)},
        {"bins": changed(bins, count=2**31)},
        {"bins": changed(bins, edges=0)}, {"bins": changed(bins, edges=edges.ctypes.data + 1)},
        {"bins": changed(bins, type=4)}, {"bins": changed(bins, type=5)},
        {"bins": changed(bins, kind=abi.BINS_UNIFORM, type=4)},
        {"bins": changed(bins, kind=abi.BINS_UNIFORM, type=11, compute_type=10)},
        {"axes": 2, "operand_count": 2, "bins": changed(bins, count=2**30)},
    ]  # fmt: skip
    for arguments in bad:
        assert count(**arguments) == 1, arguments
        assert (counts_ == 7).all(), arguments
