"""Sorting, searching, taking and putting on resident operands.

A call has the same bits with and without resident operands.
"""

import itertools

import numpy as np
import pytest
from helpers.residency import KINDS, LARGE, SMALL, fail_each_call, fetched, in_plan, numbers, same_bits
from helpers.strategies import assert_values

from pycudakit import errors
from pycudakit._native import abi

RANGE = 16  # bytes that come down of indices: the least and the greatest


def key_of(array):
    return f"{array.dtype.kind}{8 * array.itemsize}"


def sort(scope, a, out):
    report, key = np.zeros(1, abi.REPORT), key_of(a)
    given = [each.view(abi.SORTED[key]) for each in (a, out)]
    getattr(scope.library, f"pk_sort_{key}")(*given, *a.shape, np.zeros(1, abi.OPTIONS), report)
    return report[0]


def argsort(scope, a, order, descending=0):
    report, key = np.zeros(1, abi.REPORT), key_of(a)
    getattr(scope.library, f"pk_argsort_{key}")(
        *(a.view(abi.SORTED[key]), order, *a.shape, order.shape[1], descending),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def search(scope, a, values, places, right=0):
    report, key = np.zeros(1, abi.REPORT), key_of(a)
    sorted_, sought = (each.view(abi.SORTED[key]) for each in (a, values))
    getattr(scope.library, f"pk_searchsorted_{key}")(
        *(sorted_, a.size, sought, places, values.size, right, np.zeros(1, abi.OPTIONS), report)
    )
    return report[0]


def take(scope, a, indices, out, each=0):
    """Take from the rows of `a`, with the same indices for all rows or with each row's own."""
    report = np.zeros(1, abi.REPORT)
    dense = [array.reshape(-1).view(np.uint8) for array in (a, out)]
    scope.library.pk_take(
        *(dense[0], *a.shape, a.itemsize, indices, indices.shape[-1], each, dense[1]),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def made(shape, dtype):
    """Return an array to sort, with equal elements, zeros of both signs and NaN."""
    a = numbers(*shape, dtype=dtype)
    if a.dtype.kind == "f":
        a.ravel()[::7] = -0.0
        a.ravel()[3::11] = 0.0
        a.ravel()[5::101] = np.nan
    return a


def moved(scope, report, up, down):
    scope.up(report, up)
    assert report["bytes_down"] == (down if scope.is_cuda else 0)


SHAPES = {
    "one": (1, 1),
    "a row": (1, SMALL),
    "a long row": (1, LARGE),
    "rows": (300, 70),
    "long rows": (3, 70_001),
}


# ---- Sorting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, np.float16])
@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_sorts(scope, shape, dtype, kind):
    x = made(SHAPES[shape], dtype)
    wanted, a, out = np.zeros_like(x), scope.keep(x.copy()), scope.keep(np.full_like(x, 77), KINDS[kind])
    sort(scope, x, wanted)
    for goes_up in (a.nbytes, 0):
        moved(scope, sort(scope, a, out), goes_up, out.nbytes if kind == "result" else 0)
    assert fetched(scope, out) == (out.nbytes if scope.is_cuda and kind != "result" else 0)
    assert same_bits(out, wanted)


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_orders(scope, shape, dtype, descending):
    x = made(SHAPES[shape], dtype)
    a = scope.keep(x.copy())
    for kept in sorted({x.shape[1], 1}):
        wanted = np.zeros((x.shape[0], kept), np.int64)
        argsort(scope, x, wanted, descending)
        order = scope.temporary(wanted.shape, np.int64)
        report = argsort(scope, a, order, descending)
        assert report["bytes_down"] == 0
        assert fetched(scope, order) == (order.nbytes if scope.is_cuda else 0)
        assert same_bits(order, wanted)
        scope.drop(order)
        order[...] = 77
        moved(scope, argsort(scope, a, order, descending), 0, order.nbytes)  # which has no home
        assert same_bits(order, wanted)


@pytest.mark.smoke
@in_plan
def test_computed_ranges_are_sorted(scope):
    x = made((200, 500), np.float32)
    t, s, out, wanted = scope.temporary(x.shape), scope.temporary(x.shape), np.zeros_like(x), np.zeros_like(x)
    scope.evaluate("add", t, x, x)
    moved(scope, sort(scope, t, s), 0, 0)
    scope.up(scope.evaluate("add", out, s, s), 0)
    sort(scope, x + x, wanted)
    assert_values(out, wanted + wanted)  # NaN of a sum has other bits on a GPU


@pytest.mark.parametrize("offset", [0, 1, 64])
@in_plan
def test_rows_within_a_range(scope, offset):
    memory = scope.keep(made((1, 40_000), np.float32).reshape(-1))
    a = memory[offset : offset + 20_000].reshape(40, 500)
    wanted, out = np.zeros_like(a), np.zeros_like(a)
    sort(scope, a.copy(), wanted)
    moved(scope, sort(scope, a, out), memory.nbytes, out.nbytes)
    assert same_bits(out, wanted)


@in_plan
def test_sorting_over_the_host(scope):
    """Inputs that are not resident, or only in part, are sorted on the host, which has the newer results."""
    x = made((1, 30_000), np.float32)
    wanted, out, twice = np.zeros_like(x), scope.temporary(x.shape), np.zeros_like(x)
    sort(scope, x, wanted)
    scope.evaluate("add", out, x, x)
    sort(scope, x, out)
    assert same_bits(out, wanted)
    scope.up(scope.evaluate("add", twice, out, out), out.nbytes)
    assert_values(twice, wanted + wanted)
    y = x.copy()
    half = scope.keep(y[:, :15_000], abi.RESIDENT_TEMPORARY)
    scope.evaluate("add", half, x[:, :15_000], np.array(-0.0, np.float32))
    sort(scope, y, out)
    assert same_bits(out, wanted)


# ---- Searching --------------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize(("size", "count"), [(1, 1), (50, SMALL), (90_001, LARGE)])
@in_plan
def test_searches(scope, size, count, resident):
    a, values = np.sort(numbers(size, dtype=np.float64)), numbers(count, dtype=np.float64) + 0.5
    wanted, places = np.searchsorted(a, values, "right"), np.full(count, 77, np.int64)
    for array, is_kept in zip((a, values, places), resident, strict=True):
        if is_kept:
            scope.keep(array, abi.RESIDENT_TEMPORARY if array is places else abi.RESIDENT_INPUT)
    down = 0 if resident[2] else places.nbytes
    moved(scope, search(scope, a, values, places, 1), a.nbytes + values.nbytes, down)
    again = sum(array.nbytes for array, kept in zip((a, values), resident, strict=False) if not kept)
    moved(scope, search(scope, a, values, places, 1), again, down)
    assert fetched(scope, places) == (places.nbytes if scope.is_cuda and resident[2] else 0)
    assert (places == wanted).all()


# ---- Taking -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("each", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
@in_plan
def test_takes(scope, dtype, each, resident):
    a = numbers(30, 7000, 1, dtype=dtype)
    indices = np.random.default_rng(2).integers(-7000, 7000, (30, 900) if each else 900)
    lines, chosen = a[..., 0], indices if each else np.broadcast_to(indices, (30, 900))
    wanted, out = np.take_along_axis(lines, chosen, 1), np.full((30, 900), 77, dtype)
    for array, is_kept in zip((a, indices, out), resident, strict=True):
        if is_kept:
            scope.keep(array, abi.RESIDENT_TEMPORARY if array is out else abi.RESIDENT_INPUT)
    down = (0 if resident[2] else out.nbytes) + RANGE * resident[1]
    given = a.reshape(30, 7000), indices
    moved(scope, take(scope, *given, out, each), a.nbytes + indices.nbytes, down)
    again = sum(array.nbytes for array, kept in zip((a, indices), resident, strict=False) if not kept)
    moved(scope, take(scope, *given, out, each), again, down)
    fetched(scope, out)
    assert same_bits(out, wanted)


@pytest.mark.smoke
@pytest.mark.parametrize("wrong", [None, SMALL, -SMALL - 1, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)])
@in_plan
def test_indices_that_only_the_device_has(scope, wrong):
    x, one = numbers(1, SMALL, dtype=np.float64), np.random.default_rng(3).integers(-SMALL, SMALL, 70_000)
    if wrong is not None:
        one[50_001] = wrong
    indices, out = scope.temporary(one.shape, np.int64), np.full((1, one.size), 77.0)
    scope.evaluate("bitwise_or", indices, one, np.zeros((), np.int64))
    if wrong is not None:
        with pytest.raises(
            errors.InvalidArgument, match=f"index {wrong} is out of bounds for {SMALL} elements"
        ):
            take(scope, x, indices, out)
        assert (out == 77).all()
        return
    report = take(scope, x, indices, out)
    moved(scope, report, x.nbytes, out.nbytes + RANGE)
    assert same_bits(out[0], x[0, one])


@in_plan
def test_refused_indices_leave_a_resident_result(scope):
    """Nothing is written, so a result that only the device has keeps its values."""
    x, one = scope.keep(numbers(1, SMALL, dtype=np.float64)), np.zeros(1000, np.int64)
    one[500] = SMALL
    indices, out = scope.temporary(one.shape, np.int64), scope.temporary((1, one.size), np.float64)
    scope.evaluate("bitwise_or", indices, one, np.zeros((), np.int64))
    values = numbers(1, one.size, dtype=np.float64)
    scope.evaluate("add", out, values, values)
    with pytest.raises(errors.InvalidArgument, match=f"index {SMALL} is out of bounds"):
        take(scope, x, indices, out)
    assert fetched(scope, out) == (out.nbytes if scope.is_cuda else 0)
    assert (out == values + values).all()


# ---- Putting ----------------------------------------------------------------------------------------


def put(scope, a, indices, values):
    """Put rows into `a`."""
    report, (dense, given) = np.zeros(1, abi.REPORT), [x.reshape(-1).view(np.uint8) for x in (a, values)]
    scope.library.pk_put(
        *(dense, len(a), a[0].nbytes, indices.reshape(-1), indices.size, given, len(values)),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


@pytest.mark.smoke
@pytest.mark.parametrize("resident", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("count", [1, 7, 9000])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@in_plan
def test_puts(scope, dtype, width, count, resident):
    """Of several values for one row the last one counts, as in NumPy."""
    a, values = numbers(30_000, width, dtype=dtype), numbers(count, width, dtype=dtype) + dtype(1)
    indices = np.random.default_rng(2).integers(-3000, 3000, 9000)
    wanted = a.copy()
    wanted[indices] = values[np.arange(9000) % count]
    for array, is_kept in zip((a, indices, values), resident, strict=True):
        if is_kept:
            scope.keep(array)
    put(scope, a, indices, values)
    fetched(scope, a)
    assert same_bits(a, wanted)


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("wrong", [SMALL, -SMALL - 1, 1 << 62, -(1 << 63)])
@in_plan
def test_put_out_of_bounds_writes_nothing(scope, wrong, resident):
    a, indices = numbers(SMALL, 1, dtype=np.float64), np.random.default_rng(3).integers(-SMALL, SMALL, 70_000)
    indices[50_001] = wrong
    before = a.copy()
    for array in (a, indices) if resident else ():
        scope.keep(array)
    with pytest.raises(errors.InvalidArgument, match=f"index {wrong} is out of bounds for {SMALL} elements"):
        put(scope, a, indices, np.ones((1, 1)))
    fetched(scope, a)
    assert same_bits(a, before)


def test_elements_that_are_not_put(scope):
    none = np.empty((0, 1))
    put(scope, np.ones((3, 1)), np.empty(0, np.int64), none)
    for a, values, text in (
        (np.ones((3, 1)), none, "nothing to put"),
        (none, np.ones((1, 1)), "to put into"),
    ):
        with pytest.raises(errors.InvalidArgument, match=text):
            scope.library.pk_put(
                *(a.reshape(-1).view(np.uint8), len(a), 8, np.zeros(2, np.int64), 2),
                *(values.reshape(-1).view(np.uint8), len(values)),
                *(np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)),
            )


# ---- Failures ---------------------------------------------------------------------------------------

FAULTS = """
import os
from helpers.residency import Scope
from abi.test_residency_sort import *
scope = Scope("cuda")
x, indices = made((1, 200_000), np.float32), np.random.default_rng(1).integers(-200_000, 200_000, 50_000)
wanted, order, chosen = np.zeros_like(x), np.zeros(x.shape, np.int64), np.zeros((1, 50_000), np.float32)
sort(scope, x, wanted)
argsort(scope, x, order)
take(scope, wanted, indices, chosen)
places = np.searchsorted(wanted[0], chosen[0])
failed = 0
def work(arrays):
    a, i, s, o, c, p = arrays
    sort(scope, a, s)
    argsort(scope, a, o)
    take(scope, s, i, c)
    search(scope, s.reshape(-1), c.reshape(-1), p)
    for mine, theirs in ((s, wanted), (o, order), (c, chosen), (p, places)):
        scope.fetch(mine)
        assert mine.tobytes() == theirs.tobytes()
def trial(call):
    global failed
    arrays = [scope.keep(x.copy()), scope.keep(indices.copy())]
    arrays += [scope.temporary(each.shape, each.dtype) for each in (wanted, order, chosen, places)]
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        work(arrays)
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    work(arrays)
    for array in arrays:
        scope.drop(array)
def body():
    for call in [*range(1, 60), 10_000]:
        trial(call)
scope.run(body)
print(failed > 5)
"""


def test_calls_that_fail(scope):
    fail_each_call(scope, FAULTS)


@in_plan
def test_places_that_are_known(scope):
    """With PK_TAKE_INDICES_IN_BOUNDS, indices are not checked."""
    a, indices = scope.keep(numbers(3, 1000)), np.arange(999, -1, -1)
    out = np.zeros((3, 1000), np.float32)
    take(scope, a, scope.keep(indices), out, abi.TAKE_INDICES_IN_BOUNDS)
    assert (out == a[:, ::-1]).all()
    each = np.stack([np.roll(indices, n) for n in range(3)])
    take(scope, a, each, out, abi.TAKE_INDICES_IN_BOUNDS | abi.TAKE_BATCHED_INDICES)
    assert (out == np.take_along_axis(a, each, 1)).all()
    with pytest.raises(errors.InvalidArgument, match="flags has an unknown bit"):
        take(scope, a, indices, out, 4)
