"""Histograms and order statistics on resident operands: the same bits as without."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import python
from helpers.residency import LARGE, NOTES, SMALL, fetched, in_plan, numbers, same_bits, table

from pycudakit._families.histogram import binning
from pycudakit._native import abi

# ---- Counting ---------------------------------------------------------------------------------------

FIND_BINS = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p)
COUNT = 50


def by_value(count=COUNT):
    bins = np.zeros(1, abi.BINS)
    bins["kind"], bins["count"] = abi.BINS_INDEX, count
    return bins


def by_edges(edges):
    bins = np.zeros(1, abi.BINS)
    bins["kind"], bins["count"], bins["type"] = abi.BINS_EDGES, len(edges) - 1, abi.TYPES.index(edges.dtype)
    bins["edges"] = edges.ctypes.data
    return bins


def count_in(scope, bins, counts, *views):
    report = np.zeros(1, abi.REPORT)
    shape = np.array(views[0].shape, np.int64)
    scope.library.pk_histogram(
        *(table(*views), len(views), shape, len(shape), bins, len(bins), counts),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def count_over_min_max(scope, counts, view):
    kept = []

    def find(extent, row):
        ends = np.array(extent[:2], np.uint64).view(view.dtype)[:: 8 // view.itemsize]
        kept.append(np.linspace(float(ends[0]), float(ends[1]), COUNT + 1).astype(np.float64))
        kept.append(by_edges(kept[0]))
        ctypes.memmove(row, kept[1].ctypes.data, kept[1].nbytes)
        return 0

    callback, report = FIND_BINS(find), np.zeros(1, abi.REPORT)
    shape = np.array(view.shape, np.int64)
    scope.library.pk_histogram_of_extent(
        *(table(view), shape, len(shape), ctypes.cast(callback, ctypes.c_void_p).value, COUNT, counts),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def counted(size=COUNT):
    return np.full(size + 2, 77, np.int64)


def nearly_up(scope, report, wanted):
    """Check the bytes that were uploaded, apart from bins and tables."""
    if scope.is_cuda:
        assert wanted <= report["bytes_up"] <= wanted + 2 * NOTES


WAYS = {
    "all": lambda a: a,
    "rows": lambda a: a[3:-5],
    "turned": lambda a: a.T,
    "strided": lambda a: a[::2, 1:],  # over the host
    "within a word": lambda a: a.reshape(-1)[3:-2],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.float32, np.float64])
@in_plan
def test_counts(scope, dtype, way):
    x = np.abs(numbers(300, 700, dtype=dtype)) + np.arange(700).astype(dtype) % 3
    kept, edges = scope.keep(x.copy()), np.linspace(0, 45, COUNT + 1)
    choices = [by_edges(edges)] + ([by_value()] if dtype(0.5) == 0 else [])
    t = scope.temporary(x.shape, dtype)
    scope.evaluate("add", t, x, np.zeros((), dtype))
    scope.evaluate("add", np.zeros(x.shape, dtype), kept, kept)
    for bins in choices:
        wanted, counts = counted(), counted()
        count_in(scope, bins, wanted, WAYS[way](x))
        for array in (kept, t):
            report = count_in(scope, bins, counts, WAYS[way](array))
            if way in ("all", "rows", "turned"):
                nearly_up(scope, report, 0)
            assert (counts == wanted).all()
    wanted = counted()
    count_over_min_max(scope, wanted, WAYS[way](x))
    for array in (kept, t):
        counts = counted()
        report = count_over_min_max(scope, counts, WAYS[way](array))
        if way in ("all", "rows", "turned"):
            nearly_up(scope, report, 0)
        assert (counts == wanted).all()
    if scope.is_cuda and way in ("all", "rows", "turned"):
        assert fetched(scope, t) == t.nbytes  # nothing has come down


@in_plan
def test_counts_bring_an_input_up(scope):
    x, y = scope.keep(numbers(LARGE)), np.abs(numbers(LARGE, dtype=np.int32))
    edges, wanted, counts = np.linspace(-50, 50, 21), counted(20 * 30), counted(20 * 30)
    bins = np.concatenate([by_edges(edges), by_value(30)])
    count_in(scope, bins, wanted, x.copy(), y)
    for goes_up in (x.nbytes, 0):
        nearly_up(scope, count_in(scope, bins, counts, x, y), goes_up + y.nbytes)
        assert (counts == wanted).all()
    scope.keep(y)
    for goes_up in (y.nbytes, 0):
        nearly_up(scope, count_in(scope, bins, counts, x, y), goes_up)
        assert (counts == wanted).all()


@in_plan
def test_ranges_that_counting_accesses_on_the_host(scope):
    x, zeros = np.abs(numbers(SMALL, dtype=np.int64)), np.zeros(SMALL, np.int64)
    weights, edges = scope.temporary(SMALL, np.int64), scope.temporary(COUNT + 1, np.float64)
    counts, wanted = scope.temporary(COUNT + 2, np.int64), counted()
    even = np.linspace(0, 45, COUNT + 1)
    scope.evaluate("add", weights, x, x)
    scope.evaluate("add", edges, even, zeros[: COUNT + 1].astype(np.float64))
    scope.evaluate("add", counts, zeros[: COUNT + 2], zeros[: COUNT + 2])
    for mine, host in [((x,), (x,)), ((x, weights), (x, 2 * x))]:
        count_in(scope, by_edges(even), wanted, *host)
        count_in(scope, by_edges(edges), counts, *mine)
        assert (counts == wanted).all()
        out = np.zeros(COUNT + 2, np.int64)
        scope.evaluate("add", out, counts, counts)
        assert (out == 2 * wanted).all()


def weigh_in(scope, bins, *views):
    """Return the sum of each bin, the two out-of-range counts of pk_weighted_histogram, and the report."""
    report, shape = np.zeros(1, abi.REPORT), np.array(views[0].shape, np.int64)
    sums, outside = np.full(bins["count"].prod(), 77.0), np.full(2, 77)
    scope.library.pk_weighted_histogram(
        *(table(*views), len(views), shape, len(shape), bins, len(bins), sums, outside),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return sums, outside, report[0]


def weights_of(shape, dtype):
    """Return weights whose sum depends on the order of addition, if they are floats."""
    rng = np.random.default_rng(5)
    weights = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 5, shape)
    return (weights if dtype(0.5) else np.abs(weights)).astype(dtype)


@pytest.mark.parametrize("way", ["all", "rows", "turned", "strided"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, np.float16, np.float32, np.float64])
@in_plan
def test_weights(scope, dtype, way):
    check_weights(scope, dtype, way, (300, 700))


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
@in_plan
def test_few_weights(scope, dtype):
    check_weights(scope, dtype, "all", (200, 100))


def check_weights(scope, dtype, way, shape):
    edges = np.linspace(0, 45, COUNT + 1)
    x, y, weights = np.abs(numbers(*shape)), np.abs(numbers(*shape, dtype=np.int16)), weights_of(shape, dtype)
    there = [scope.temporary(shape, each.dtype.type) for each in (x, y, weights)]
    for t, each in zip(there, (x, y, weights), strict=True):
        scope.evaluate("maximum", t, each, each)
    host, mine = ([WAYS[way](each) for each in arrays] for arrays in ((x, y, weights), there))
    by_width = binning.uniform_bins(edges, 0.0, 45.0, x.dtype).row
    few = binning.uniform_bins(edges[:3], 0.0, float(edges[2]), x.dtype).row  # beyond which most are
    both = np.concatenate([by_edges(edges), by_value(30)])
    for bins, kept in (
        (by_width, [0]),
        (few, [0]),
        (by_edges(edges), [0]),
        (by_value(30), [1]),
        (both, [0, 1]),
    ):
        wanted = weigh_in(scope, bins, *(host[k] for k in (*kept, 2)))
        found = weigh_in(scope, bins, *(mine[k] for k in (*kept, 2)))
        assert same_bits(found[0], wanted[0])
        assert (found[1] == wanted[1]).all()
        if way in ("all", "rows"):
            nearly_up(scope, found[2], 0)
        if dtype(0.5):
            continue
        counts, same = counted(bins["count"].prod()), counted(bins["count"].prod())
        count_in(scope, bins, same, *(host[k] for k in (*kept, 2)))
        count_in(scope, bins, counts, *(mine[k] for k in (*kept, 2)))
        assert (counts == same).all()
    if scope.is_cuda and way in ("all", "rows"):
        assert fetched(scope, there[2]) == there[2].nbytes  # nothing has come down


@pytest.mark.parametrize("count", [1, 3000, 40_000])
@in_plan
def test_weights_of_many_and_few_bins(scope, count):
    """Weights are added one by one in a bin, and bins may be empty."""
    x = np.random.default_rng(count).integers(0, count, LARGE)
    x[1000:90_000] = 0
    weights = weights_of(LARGE, np.float64)
    wanted, outside, _ = weigh_in(scope, by_value(count), x, weights)
    kept = scope.keep(x.copy()), scope.keep(weights.copy())
    for goes_up in (x.nbytes + weights.nbytes, 0):
        sums, none, report = weigh_in(scope, by_value(count), *kept)
        assert same_bits(sums, wanted)
        assert (none == outside).all()
        nearly_up(scope, report, goes_up)


# ---- Order statistics -------------------------------------------------------------------------------


def select(scope, a, ranks, out, nans):
    report = np.zeros(1, abi.REPORT)
    entry = getattr(scope.library, f"pk_select_{a.dtype.kind}{8 * a.itemsize}")
    entry(a, *a.shape, ranks, *ranks.shape, out, nans, np.zeros(1, abi.OPTIONS), report)
    return report[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(40, 500, 3), (3, 500, 70), (2, 70_000, 2)], ids=["short", "many", "long"]
)
@in_plan
def test_order_statistics(scope, rows, columns, count, dtype):
    a = np.abs(numbers(rows, columns, dtype=dtype))
    if a.dtype.kind == "f":
        a[1, 7:20] = np.nan
    ranks = np.linspace(0, columns - 1, count).astype(np.int64).reshape(1, count)
    wanted, some = np.sort(a)[:, ranks[0]], a[1:]
    kept, t = scope.keep(a.copy()), scope.temporary(a.shape, dtype)
    scope.evaluate("add", t, a, np.zeros((), dtype))
    for goes_up in (a.nbytes, 0):
        out, nans = np.zeros(wanted.shape, dtype), np.zeros(rows, np.int64)
        nearly_up(scope, select(scope, kept, ranks, out, nans), goes_up)
        np.testing.assert_array_equal(out, wanted)
        assert (nans == np.isnan(a).sum(axis=1)).all()
    out, nans = scope.temporary((rows - 1, count), dtype), scope.temporary(rows - 1, np.int64)
    nearly_up(scope, select(scope, t[1:], ranks, out, nans), 0)
    np.testing.assert_array_equal(out, wanted[1:])
    assert (nans == np.isnan(some).sum(axis=1)).all()
    if scope.is_cuda:
        assert fetched(scope, t) == t.nbytes  # nothing has come down


MANY_BINS = """
import sys, time
sys.path[:0] = ["TESTS"]
import ctypes
from helpers.residency import Scope, table
from pycudakit._native import abi
cupy = __import__("cupy")
scope, stream = Scope("cuda"), cupy.cuda.Stream(non_blocking=True)
x, weights = np.arange(1000, dtype=np.int64), np.ones(1000)

def seconds(count):
    bins = np.zeros(1, abi.BINS)
    bins["kind"], bins["count"] = abi.BINS_INDEX, count
    sums, outside, took = np.empty(count), np.empty(2, np.int64), []
    def body():
        scope.library.pk_residency_set_stream(stream.ptr)
        for each in (x, weights):
            scope.keep(each)
            scope.send(each)
        scope.keep(sums, abi.RESIDENT_TEMPORARY)
        scope.keep(outside, abi.RESIDENT_TEMPORARY)
        for _ in range(3):
            began = time.perf_counter()
            scope.library.pk_weighted_histogram(
                *(table(x, weights), 2, np.array(x.shape), 1, bins, 1, sums, outside),
                *(np.zeros(1, abi.OPTIONS), np.zeros(1, abi.REPORT)),
            )
            stream.synchronize()
            took.append(time.perf_counter() - began)
    scope.run(body)
    return min(took)

print(seconds(1 << 28) < 3 * seconds((1 << 28) - 1) + 0.05)
"""


def test_bins_whose_bytes_do_not_fit_an_int32(scope):
    """As many threads add up the segments of 2^28 bins as of one bin less."""
    if not scope.is_cuda:
        pytest.skip("it has no blocks of threads")
    pytest.importorskip("cupy")
    code = MANY_BINS.replace("TESTS", str(Path(__file__).parents[1]))
    memory = {"PYCUDAKIT_DEVICE_MEMORY": str(12 << 30), "PYCUDAKIT_PLAN_MEMORY": str(8 << 30)}
    assert python(code, env=memory) == "True"
