"""Scans of operands that are resident, uploaded during the call, or on the host, in every memory layout.

A call has the same bits with and without resident operands.
"""

import numpy as np
import pytest
from helpers.residency import LARGE, devices_of_spans, in_plan, numbers

from pycudakit._native import abi

SHAPES = {
    "a column": ((LARGE // 3,), 0),
    "a short one": ((900,), 0),
    "one element": ((1,), 0),
    "all of a matrix": ((300, 517), None),
    "short columns": ((40, 33, 50), 1),
    "columns": ((700, 130), 0),
    "long columns": ((2500, 37), 0),
    "several long ones": ((2, 1100, 19), 1),
    "wide ones": ((1100, 200), 0),
    "rows": ((77, 801), 1),
    "long rows": ((3, 2300), 1),
}
OPERATIONS = {
    "sum": abi.SCAN_SUM,
    "product": abi.SCAN_PROD,
    "maximum": abi.SCAN_MAX,
    "minimum": abi.SCAN_MIN,
}
TYPES = [("f4", "f4"), ("f8", "f8"), ("f2", "f2"), ("i4", "i8"), ("u1", "u8"), ("i8", "f8"), ("?", "?")]


def scan(scope, a, out, axis=0, operation=abi.SCAN_SUM, flags=0, options=None):
    operands = np.zeros(2, abi.OPERAND)
    for row, array in zip(operands, (a, out), strict=True):
        row["address"] = array.__array_interface__["data"][0]
        row["type"] = abi.TYPES.index(array.dtype.newbyteorder("="))
        row["flags"] = 0 if array.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
        row["strides"][: a.ndim] = array.strides
    report = np.zeros(1, abi.REPORT)
    outer, rows = (0, a.ndim) if axis is None else (axis, 1)
    scope.library.pk_scan(
        *(operation, flags, operands, np.array(a.shape, np.int64), a.ndim, outer, rows),
        *(np.zeros(1, abi.OPTIONS) if options is None else options, report),
    )
    return report[0]


def truth(scope, a, dtype, *given):
    """Return the result of a scan without resident operands, and its report."""
    out = np.zeros(a.shape, dtype)
    return out, scan(scope, a.copy(), out, *given)


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_homes(scope, shape):
    size, axis = SHAPES[shape]
    a, t, u = scope.keep(numbers(*size)), scope.temporary(size), scope.temporary(size)
    wanted, _ = truth(scope, a, np.float32, axis)
    for out, goes_up in ((t, a.nbytes), (u, 0)):
        report = scan(scope, a, out, axis)
        scope.up(report, goes_up)
        scope.down(report, 0)
        if scope.is_cuda:
            assert (out == 77).all()
        scope.fetch(out)
        assert same_bits(out, wanted)
    result = scope.keep(np.zeros(size, np.float32), abi.RESIDENT_OUTPUT)
    again, _ = truth(scope, wanted, np.float32, axis)
    report = scan(scope, t, result, axis)
    scope.up(report, 0)
    scope.down(report, a.nbytes)
    assert same_bits(result, again)
    out = np.zeros(size, np.float32)
    scope.up(scope.evaluate("add", out, result, result), 0)
    assert same_bits(out, 2 * again)


@pytest.mark.parametrize("shape", ["a column", "long columns", "short columns", "long rows"])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("operation", OPERATIONS)
@in_plan
def test_kinds(scope, shape, types, operation):
    size, axis = SHAPES[shape]
    size = tuple(min(n, 5000) for n in size)
    a = numbers(*size, dtype=types[0])
    if a.dtype.kind == "f":
        a += a.dtype.type(0.1)
        a[(0,) * a.ndim] = np.nan
        a[tuple(n // 2 for n in size)] = 60000
    scope.keep(a)
    for flags in (0, abi.SCAN_EXCLUSIVE, abi.SCAN_SKIP_NAN):
        wanted, expected = truth(scope, a, types[1], axis, OPERATIONS[operation], flags)
        out = scope.temporary(size, types[1])
        report = scan(scope, a, out, axis, OPERATIONS[operation], flags)
        scope.fetch(out)
        assert same_bits(out, wanted)
        assert report["exceptions"] == expected["exceptions"]
        scope.drop(out)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@in_plan
def test_in_place(scope, shape, dtype):
    size, axis = SHAPES[shape]
    a = scope.keep(numbers(*size, dtype=dtype))
    if dtype == np.float64 and a.size > 1:
        a.reshape(-1)[a.size // 3] = np.inf  # totals that tell nothing: parts are run through again
    wanted, _ = truth(scope, a, dtype, axis)
    again, _ = truth(scope, wanted, dtype, axis)
    scan(scope, a, a, axis)
    scan(scope, a, a, axis)
    scope.fetch(a)
    assert same_bits(a, again)


@pytest.mark.parametrize("shape", ["a column", "long columns", "rows"])
@pytest.mark.parametrize("kept", ["the input", "the result"])
@in_plan
def test_one_of_both_is_resident(scope, shape, kept):
    size, axis = SHAPES[shape]
    a, out = numbers(*size), np.zeros(size, np.float32)
    wanted, _ = truth(scope, a, np.float32, axis)
    if kept == "the input":
        scope.keep(a)
    else:
        scope.keep(out, abi.RESIDENT_TEMPORARY)
    stays = kept == "the result" and shape != "long columns"  # of several, both are at home or none
    for _ in range(2):
        out[...] = 0
        scope.down(scan(scope, a, out, axis), 0 if stays else out.nbytes)
        scope.fetch(out)
        assert same_bits(out, wanted)


VIEWS = {
    "a part": (lambda a: a[3:9], 0),
    "a part of the columns": (lambda a: a[:, 5:], 0),
    "backwards": (lambda a: a[::-1], 0),
    "transposed": (lambda a: a.T, 1),
    "turned": (lambda a: a.T, 0),
    "rows": (lambda a: a[4:], 1),
}


@pytest.mark.parametrize("view", VIEWS)
@in_plan
def test_views(scope, view):
    way, axis = VIEWS[view]
    a, t, u = numbers(1200, 60), scope.temporary((1200, 60)), scope.temporary((1200, 60))
    wanted, _ = truth(scope, way(a + a), np.float32, axis)
    scope.evaluate("add", t, a, a)
    scope.evaluate("add", u, a, a)
    scan(scope, way(t), way(u), axis)
    scope.fetch(u)
    expected = a + a
    way(expected)[...] = wanted
    assert same_bits(u, expected)


@in_plan
def test_part_of_a_result(scope):
    a, result = scope.keep(numbers(3000)), scope.keep(np.zeros(4000, np.float32), abi.RESIDENT_OUTPUT)
    wanted, _ = truth(scope, a, np.float32)
    scope.down(scan(scope, a, result[:3000]), a.nbytes)
    assert same_bits(result[:3000], wanted)
    columns = a.reshape(50, 60)
    wanted, _ = truth(scope, columns, np.float32)
    scope.down(scan(scope, columns, result[1000:].reshape(50, 60)), a.nbytes)
    assert same_bits(result[1000:].reshape(50, 60), wanted)


@in_plan
def test_overlapping_operands_are_as_without_homes(scope):
    t = scope.temporary(4000)
    zeros, ones = np.zeros(4000, np.float32), np.ones(4000, np.float32)
    scope.evaluate("add", t, zeros, ones)
    scan(scope, t[:1000], t[2000:3000])
    scan(scope, t[2000:3000], t[2500:3500][:1000].view("i4"), 0, abi.SCAN_MAX)
    scope.fetch(t)
    assert (t[2000:2500] == np.arange(1, 501)).all()
    assert (t[:2000] == 1).all()


@in_plan
def test_swapped_and_unaligned_operands(scope):
    raw = scope.keep(np.zeros(4001, np.uint8))
    zeros, out = np.zeros(4001, np.uint8), scope.temporary(1000)
    for view in (raw[1:].view("f4"), raw[:4000].view(">f4")):
        scope.evaluate("bitwise_or", raw, zeros, zeros)
        scope.fetch(raw)
        view[...] = numbers(1000)
        scope.changed(raw)
        wanted, _ = truth(scope, view, np.float32)
        scan(scope, view, out)
        scope.fetch(out)
        assert same_bits(out, wanted)


def test_a_result_comes_from_its_own_gpu(scope):
    """The result of many columns is copied back by the GPU that computed it."""
    x, out = numbers(700, 130), np.zeros((700, 130), np.float32)

    def run(options):
        scope.keep(x)
        scope.keep(out, abi.RESIDENT_OUTPUT)
        scope.evaluate("add", x, x, x, options=options)  # uploads it
        scan(scope, x, out, options=options)

    assert devices_of_spans(scope, 1, run) == {1}
    assert same_bits(out, np.cumsum(2 * numbers(700, 130), axis=0, dtype=np.float32))
