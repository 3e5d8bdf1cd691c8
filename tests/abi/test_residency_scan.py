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


def scan(plan, a, out, axis=0, operation=abi.SCAN_SUM, flags=0, options=None):
    operands = np.zeros(2, abi.OPERAND)
    for row, array in zip(operands, (a, out), strict=True):
        row["address"] = array.__array_interface__["data"][0]
        row["type"] = abi.TYPES.index(array.dtype.newbyteorder("="))
        row["flags"] = 0 if array.dtype.isnative else abi.OPERAND_BYTE_SWAPPED
        row["strides"][: a.ndim] = array.strides
    report = np.zeros(1, abi.REPORT)
    outer, rows = (0, a.ndim) if axis is None else (axis, 1)
    plan.library.pk_scan(
        *(operation, flags, operands, np.array(a.shape, np.int64), a.ndim, outer, rows),
        *(np.zeros(1, abi.OPTIONS) if options is None else options, report),
    )
    return report[0]


def truth(plan, a, dtype, *given):
    """Return the result of a scan without resident operands, and its report."""
    out = np.zeros(a.shape, dtype)
    return out, scan(plan, a.copy(), out, *given)


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_homes(plan, shape):
    size, axis = SHAPES[shape]
    a, t, u = plan.keep(numbers(*size)), plan.temporary(size), plan.temporary(size)
    wanted, _ = truth(plan, a, np.float32, axis)
    for out, goes_up in ((t, a.nbytes), (u, 0)):
        report = scan(plan, a, out, axis)
        plan.up(report, goes_up)
        plan.down(report, 0)
        if plan.is_cuda:
            assert (out == 77).all()
        plan.fetch(out)
        assert same_bits(out, wanted)
    result = plan.keep(np.zeros(size, np.float32), abi.RESIDENT_OUTPUT)
    again, _ = truth(plan, wanted, np.float32, axis)
    report = scan(plan, t, result, axis)
    plan.up(report, 0)
    plan.down(report, a.nbytes)
    assert same_bits(result, again)
    out = np.zeros(size, np.float32)
    plan.up(plan.evaluate("add", out, result, result), 0)
    assert same_bits(out, 2 * again)


@pytest.mark.parametrize("shape", ["a column", "long columns", "short columns", "long rows"])
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("operation", OPERATIONS)
@in_plan
def test_kinds(plan, shape, types, operation):
    size, axis = SHAPES[shape]
    size = tuple(min(n, 5000) for n in size)
    a = numbers(*size, dtype=types[0])
    if a.dtype.kind == "f":
        a += a.dtype.type(0.1)
        a[(0,) * a.ndim] = np.nan
        a[tuple(n // 2 for n in size)] = 60000
    plan.keep(a)
    for flags in (0, abi.SCAN_EXCLUSIVE, abi.SCAN_SKIP_NAN):
        wanted, expected = truth(plan, a, types[1], axis, OPERATIONS[operation], flags)
        out = plan.temporary(size, types[1])
        report = scan(plan, a, out, axis, OPERATIONS[operation], flags)
        plan.fetch(out)
        assert same_bits(out, wanted)
        assert report["exceptions"] == expected["exceptions"]
        plan.drop(out)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@in_plan
def test_in_place(plan, shape, dtype):
    size, axis = SHAPES[shape]
    a = plan.keep(numbers(*size, dtype=dtype))
    if dtype == np.float64 and a.size > 1:
        a.reshape(-1)[a.size // 3] = np.inf  # totals that tell nothing: parts are run through again
    wanted, _ = truth(plan, a, dtype, axis)
    again, _ = truth(plan, wanted, dtype, axis)
    scan(plan, a, a, axis)
    scan(plan, a, a, axis)
    plan.fetch(a)
    assert same_bits(a, again)


@pytest.mark.parametrize("shape", ["a column", "long columns", "rows"])
@pytest.mark.parametrize("kept", ["the input", "the result"])
@in_plan
def test_one_of_both_is_resident(plan, shape, kept):
    size, axis = SHAPES[shape]
    a, out = numbers(*size), np.zeros(size, np.float32)
    wanted, _ = truth(plan, a, np.float32, axis)
    if kept == "the input":
        plan.keep(a)
    else:
        plan.keep(out, abi.RESIDENT_TEMPORARY)
    stays = kept == "the result" and shape != "long columns"  # of several, both are at home or none
    for _ in range(2):
        out[...] = 0
        plan.down(scan(plan, a, out, axis), 0 if stays else out.nbytes)
        plan.fetch(out)
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
def test_views(plan, view):
    way, axis = VIEWS[view]
    a, t, u = numbers(1200, 60), plan.temporary((1200, 60)), plan.temporary((1200, 60))
    wanted, _ = truth(plan, way(a + a), np.float32, axis)
    plan.evaluate("add", t, a, a)
    plan.evaluate("add", u, a, a)
    scan(plan, way(t), way(u), axis)
    plan.fetch(u)
    expected = a + a
    way(expected)[...] = wanted
    assert same_bits(u, expected)


@in_plan
def test_part_of_a_result(plan):
    a, result = plan.keep(numbers(3000)), plan.keep(np.zeros(4000, np.float32), abi.RESIDENT_OUTPUT)
    wanted, _ = truth(plan, a, np.float32)
    plan.down(scan(plan, a, result[:3000]), a.nbytes)
    assert same_bits(result[:3000], wanted)
    columns = a.reshape(50, 60)
    wanted, _ = truth(plan, columns, np.float32)
    plan.down(scan(plan, columns, result[1000:].reshape(50, 60)), a.nbytes)
    assert same_bits(result[1000:].reshape(50, 60), wanted)


@in_plan
def test_overlapping_operands_are_as_without_homes(plan):
    t = plan.temporary(4000)
    zeros, ones = np.zeros(4000, np.float32), np.ones(4000, np.float32)
    plan.evaluate("add", t, zeros, ones)
    scan(plan, t[:1000], t[2000:3000])
    scan(plan, t[2000:3000], t[2500:3500][:1000].view("i4"), 0, abi.SCAN_MAX)
    plan.fetch(t)
    assert (t[2000:2500] == np.arange(1, 501)).all()
    assert (t[:2000] == 1).all()


@in_plan
def test_swapped_and_unaligned_operands(plan):
    raw = plan.keep(np.zeros(4001, np.uint8))
    zeros, out = np.zeros(4001, np.uint8), plan.temporary(1000)
    for view in (raw[1:].view("f4"), raw[:4000].view(">f4")):
        plan.evaluate("bitwise_or", raw, zeros, zeros)
        plan.fetch(raw)
        view[...] = numbers(1000)
        plan.changed(raw)
        wanted, _ = truth(plan, view, np.float32)
        scan(plan, view, out)
        plan.fetch(out)
        assert same_bits(out, wanted)


def test_a_result_comes_from_its_own_gpu(plan):
    """The result of many columns is copied back by the GPU that computed it."""
    x, out = numbers(700, 130), np.zeros((700, 130), np.float32)

    def run(options):
        plan.keep(x)
        plan.keep(out, abi.RESIDENT_OUTPUT)
        plan.evaluate("add", x, x, x, options=options)  # uploads it
        scan(plan, x, out, options=options)

    assert devices_of_spans(plan, 1, run) == {1}
    assert same_bits(out, np.cumsum(2 * numbers(700, 130), axis=0, dtype=np.float32))
