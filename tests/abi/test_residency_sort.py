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


def sort(plan, a, out):
    report, key = np.zeros(1, abi.REPORT), key_of(a)
    given = [each.view(abi.SORTED[key]) for each in (a, out)]
    getattr(plan.library, f"pk_sort_{key}")(*given, *a.shape, np.zeros(1, abi.OPTIONS), report)
    return report[0]


def argsort(plan, a, order, descending=0):
    report, key = np.zeros(1, abi.REPORT), key_of(a)
    getattr(plan.library, f"pk_argsort_{key}")(
        *(a.view(abi.SORTED[key]), order, *a.shape, order.shape[1], descending),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def search(plan, a, values, places, right=0):
    report, key = np.zeros(1, abi.REPORT), key_of(a)
    sorted_, sought = (each.view(abi.SORTED[key]) for each in (a, values))
    getattr(plan.library, f"pk_searchsorted_{key}")(
        *(sorted_, a.size, sought, places, values.size, right, np.zeros(1, abi.OPTIONS), report)
    )
    return report[0]


def take(plan, a, indices, out, each=0):
    """Take from the rows of `a`, with the same indices for all rows or with each row's own."""
    report = np.zeros(1, abi.REPORT)
    dense = [array.reshape(-1).view(np.uint8) for array in (a, out)]
    plan.library.pk_take(
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


def moved(plan, report, up, down):
    plan.up(report, up)
    assert report["bytes_down"] == (down if plan.is_cuda else 0)


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
def test_sorts(plan, shape, dtype, kind):
    x = made(SHAPES[shape], dtype)
    wanted, a, out = np.zeros_like(x), plan.keep(x.copy()), plan.keep(np.full_like(x, 77), KINDS[kind])
    sort(plan, x, wanted)
    for goes_up in (a.nbytes, 0):
        moved(plan, sort(plan, a, out), goes_up, out.nbytes if kind == "result" else 0)
    assert fetched(plan, out) == (out.nbytes if plan.is_cuda and kind != "result" else 0)
    assert same_bits(out, wanted)


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_orders(plan, shape, dtype, descending):
    x = made(SHAPES[shape], dtype)
    a = plan.keep(x.copy())
    for kept in sorted({x.shape[1], 1}):
        wanted = np.zeros((x.shape[0], kept), np.int64)
        argsort(plan, x, wanted, descending)
        order = plan.temporary(wanted.shape, np.int64)
        report = argsort(plan, a, order, descending)
        assert report["bytes_down"] == 0
        assert fetched(plan, order) == (order.nbytes if plan.is_cuda else 0)
        assert same_bits(order, wanted)
        plan.drop(order)
        order[...] = 77
        moved(plan, argsort(plan, a, order, descending), 0, order.nbytes)  # which has no home
        assert same_bits(order, wanted)


@pytest.mark.smoke
@in_plan
def test_computed_ranges_are_sorted(plan):
    x = made((200, 500), np.float32)
    t, s, out, wanted = plan.temporary(x.shape), plan.temporary(x.shape), np.zeros_like(x), np.zeros_like(x)
    plan.evaluate("add", t, x, x)
    moved(plan, sort(plan, t, s), 0, 0)
    plan.up(plan.evaluate("add", out, s, s), 0)
    sort(plan, x + x, wanted)
    assert_values(out, wanted + wanted)  # NaN of a sum has other bits on a GPU


@pytest.mark.parametrize("offset", [0, 1, 64])
@in_plan
def test_rows_within_a_range(plan, offset):
    memory = plan.keep(made((1, 40_000), np.float32).reshape(-1))
    a = memory[offset : offset + 20_000].reshape(40, 500)
    wanted, out = np.zeros_like(a), np.zeros_like(a)
    sort(plan, a.copy(), wanted)
    moved(plan, sort(plan, a, out), memory.nbytes, out.nbytes)
    assert same_bits(out, wanted)


@in_plan
def test_sorting_over_the_host(plan):
    """Inputs that are not resident, or only in part, are sorted on the host, which has the newer results."""
    x = made((1, 30_000), np.float32)
    wanted, out, twice = np.zeros_like(x), plan.temporary(x.shape), np.zeros_like(x)
    sort(plan, x, wanted)
    plan.evaluate("add", out, x, x)
    sort(plan, x, out)
    assert same_bits(out, wanted)
    plan.up(plan.evaluate("add", twice, out, out), out.nbytes)
    assert_values(twice, wanted + wanted)
    y = x.copy()
    half = plan.keep(y[:, :15_000], abi.RESIDENT_TEMPORARY)
    plan.evaluate("add", half, x[:, :15_000], np.array(-0.0, np.float32))
    sort(plan, y, out)
    assert same_bits(out, wanted)


# ---- Searching --------------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize(("size", "count"), [(1, 1), (50, SMALL), (90_001, LARGE)])
@in_plan
def test_searches(plan, size, count, resident):
    a, values = np.sort(numbers(size, dtype=np.float64)), numbers(count, dtype=np.float64) + 0.5
    wanted, places = np.searchsorted(a, values, "right"), np.full(count, 77, np.int64)
    for array, is_kept in zip((a, values, places), resident, strict=True):
        if is_kept:
            plan.keep(array, abi.RESIDENT_TEMPORARY if array is places else abi.RESIDENT_INPUT)
    down = 0 if resident[2] else places.nbytes
    moved(plan, search(plan, a, values, places, 1), a.nbytes + values.nbytes, down)
    again = sum(array.nbytes for array, kept in zip((a, values), resident, strict=False) if not kept)
    moved(plan, search(plan, a, values, places, 1), again, down)
    assert fetched(plan, places) == (places.nbytes if plan.is_cuda and resident[2] else 0)
    assert (places == wanted).all()


# ---- Taking -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("each", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
@in_plan
def test_takes(plan, dtype, each, resident):
    a = numbers(30, 7000, 1, dtype=dtype)
    indices = np.random.default_rng(2).integers(-7000, 7000, (30, 900) if each else 900)
    lines, chosen = a[..., 0], indices if each else np.broadcast_to(indices, (30, 900))
    wanted, out = np.take_along_axis(lines, chosen, 1), np.full((30, 900), 77, dtype)
    for array, is_kept in zip((a, indices, out), resident, strict=True):
        if is_kept:
            plan.keep(array, abi.RESIDENT_TEMPORARY if array is out else abi.RESIDENT_INPUT)
    down = (0 if resident[2] else out.nbytes) + RANGE * resident[1]
    given = a.reshape(30, 7000), indices
    moved(plan, take(plan, *given, out, each), a.nbytes + indices.nbytes, down)
    again = sum(array.nbytes for array, kept in zip((a, indices), resident, strict=False) if not kept)
    moved(plan, take(plan, *given, out, each), again, down)
    fetched(plan, out)
    assert same_bits(out, wanted)


@pytest.mark.smoke
@pytest.mark.parametrize("wrong", [None, SMALL, -SMALL - 1, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)])
@in_plan
def test_indices_that_only_the_device_has(plan, wrong):
    x, one = numbers(1, SMALL, dtype=np.float64), np.random.default_rng(3).integers(-SMALL, SMALL, 70_000)
    if wrong is not None:
        one[50_001] = wrong
    indices, out = plan.temporary(one.shape, np.int64), np.full((1, one.size), 77.0)
    plan.evaluate("bitwise_or", indices, one, np.zeros((), np.int64))
    if wrong is not None:
        with pytest.raises(
            errors.InvalidArgument, match=f"index {wrong} is out of bounds for {SMALL} elements"
        ):
            take(plan, x, indices, out)
        assert (out == 77).all()
        return
    report = take(plan, x, indices, out)
    moved(plan, report, x.nbytes, out.nbytes + RANGE)
    assert same_bits(out[0], x[0, one])


@in_plan
def test_refused_indices_leave_a_resident_result(plan):
    """Nothing is written, so a result that only the device has keeps its values."""
    x, one = plan.keep(numbers(1, SMALL, dtype=np.float64)), np.zeros(1000, np.int64)
    one[500] = SMALL
    indices, out = plan.temporary(one.shape, np.int64), plan.temporary((1, one.size), np.float64)
    plan.evaluate("bitwise_or", indices, one, np.zeros((), np.int64))
    values = numbers(1, one.size, dtype=np.float64)
    plan.evaluate("add", out, values, values)
    with pytest.raises(errors.InvalidArgument, match=f"index {SMALL} is out of bounds"):
        take(plan, x, indices, out)
    assert fetched(plan, out) == (out.nbytes if plan.is_cuda else 0)
    assert (out == values + values).all()


# ---- Putting ----------------------------------------------------------------------------------------


def put(plan, a, indices, values):
    """Put rows into `a`."""
    report, (dense, given) = np.zeros(1, abi.REPORT), [x.reshape(-1).view(np.uint8) for x in (a, values)]
    plan.library.pk_put(
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
def test_puts(plan, dtype, width, count, resident):
    """Of several values for one row the last one counts, as in NumPy."""
    a, values = numbers(30_000, width, dtype=dtype), numbers(count, width, dtype=dtype) + dtype(1)
    indices = np.random.default_rng(2).integers(-3000, 3000, 9000)
    wanted = a.copy()
    wanted[indices] = values[np.arange(9000) % count]
    for array, is_kept in zip((a, indices, values), resident, strict=True):
        if is_kept:
            plan.keep(array)
    put(plan, a, indices, values)
    fetched(plan, a)
    assert same_bits(a, wanted)


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("wrong", [SMALL, -SMALL - 1, 1 << 62, -(1 << 63)])
@in_plan
def test_put_out_of_bounds_writes_nothing(plan, wrong, resident):
    a, indices = numbers(SMALL, 1, dtype=np.float64), np.random.default_rng(3).integers(-SMALL, SMALL, 70_000)
    indices[50_001] = wrong
    before = a.copy()
    for array in (a, indices) if resident else ():
        plan.keep(array)
    with pytest.raises(errors.InvalidArgument, match=f"index {wrong} is out of bounds for {SMALL} elements"):
        put(plan, a, indices, np.ones((1, 1)))
    fetched(plan, a)
    assert same_bits(a, before)


def test_elements_that_are_not_put(plan):
    none = np.empty((0, 1))
    put(plan, np.ones((3, 1)), np.empty(0, np.int64), none)
    for a, values, text in (
        (np.ones((3, 1)), none, "nothing to put"),
        (none, np.ones((1, 1)), "to put into"),
    ):
        with pytest.raises(errors.InvalidArgument, match=text):
            plan.library.pk_put(
                *(a.reshape(-1).view(np.uint8), len(a), 8, np.zeros(2, np.int64), 2),
                *(values.reshape(-1).view(np.uint8), len(values)),
                *(np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)),
            )


# ---- Failures ---------------------------------------------------------------------------------------

FAULTS = """
import os
from helpers.residency import Plan
from abi.test_residency_sort import *
plan = Plan("cuda")
x, indices = made((1, 200_000), np.float32), np.random.default_rng(1).integers(-200_000, 200_000, 50_000)
wanted, order, chosen = np.zeros_like(x), np.zeros(x.shape, np.int64), np.zeros((1, 50_000), np.float32)
sort(plan, x, wanted)
argsort(plan, x, order)
take(plan, wanted, indices, chosen)
places = np.searchsorted(wanted[0], chosen[0])
failed = 0
def work(arrays):
    a, i, s, o, c, p = arrays
    sort(plan, a, s)
    argsort(plan, a, o)
    take(plan, s, i, c)
    search(plan, s.reshape(-1), c.reshape(-1), p)
    for mine, theirs in ((s, wanted), (o, order), (c, chosen), (p, places)):
        plan.fetch(mine)
        assert mine.tobytes() == theirs.tobytes()
def trial(call):
    global failed
    arrays = [plan.keep(x.copy()), plan.keep(indices.copy())]
    arrays += [plan.temporary(each.shape, each.dtype) for each in (wanted, order, chosen, places)]
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        work(arrays)
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    work(arrays)
    for array in arrays:
        plan.drop(array)
def body():
    for call in [*range(1, 60), 10_000]:
        trial(call)
plan.run(body)
print(failed > 5)
"""


def test_calls_that_fail(plan):
    fail_each_call(plan, FAULTS)


@in_plan
def test_places_that_are_known(plan):
    """With PK_TAKE_INDICES_IN_BOUNDS, indices are not checked."""
    a, indices = plan.keep(numbers(3, 1000)), np.arange(999, -1, -1)
    out = np.zeros((3, 1000), np.float32)
    take(plan, a, plan.keep(indices), out, abi.TAKE_INDICES_IN_BOUNDS)
    assert (out == a[:, ::-1]).all()
    each = np.stack([np.roll(indices, n) for n in range(3)])
    take(plan, a, each, out, abi.TAKE_INDICES_IN_BOUNDS | abi.TAKE_BATCHED_INDICES)
    assert (out == np.take_along_axis(a, each, 1)).all()
    with pytest.raises(errors.InvalidArgument, match="flags has an unknown bit"):
        take(plan, a, indices, out, 4)
