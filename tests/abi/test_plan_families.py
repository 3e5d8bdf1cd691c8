"""Families other than programs in plans: random numbers, products of matrices, counting, order statistics.

What a call computes is the same, to the bit, with and without homes.
"""

import ctypes

import numpy as np
import pytest
from helpers.plans import KINDS, LARGE, NOTES, SMALL, fail_each_call, in_plan, numbers
from helpers.sanitized import SANITIZED

from pycudakit._families.histogram import binning
from pycudakit._families.matmul.matmul import cublas
from pycudakit._library import abi


def same_bits(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def fetched(plan, array):
    """Bring an array to the host, and return how many bytes that took."""
    return plan.fetch(array)[1]


# ---- Random numbers ---------------------------------------------------------------------------------


def draw(plan, what, out, *parameters, half=False):
    draws = np.zeros(1, abi.DRAWS)
    draws["key"], draws["counter"], draws["what"], draws["word"] = (3, 5), (7, 0, 1, 0), what, 2
    draws["has_half"], draws["half"] = half, 12345
    operands = np.zeros(1 + len(parameters), abi.OPERAND)
    for row, array in zip(operands, [out, *parameters], strict=True):
        view = np.broadcast_to(array, out.shape)
        row["address"], row["type"] = (
            view.__array_interface__["data"][0],
            abi.TYPES.index(view.dtype.newbyteorder("=")),
        )
        row["flags"] = 0 if view.dtype.isnative else abi.BYTE_SWAPPED
        row["strides"][: out.ndim] = view.strides
    report = np.zeros(1, abi.REPORT)
    shape = np.array(out.shape, np.int64)
    plan.library.pk_random(
        *(draws, operands, len(operands), shape, out.ndim, np.zeros(1, abi.OPTIONS), report)
    )
    return report[0]


DRAWN = {
    "bits": (abi.RANDOM_BITS, np.uint32, ()),
    "uniforms": (abi.RANDOM_UNIFORM, np.float64, ()),
    "normals": (abi.RANDOM_NORMAL, np.float32, ()),
    "scaled": (abi.RANDOM_NORMAL, np.float64, (np.array(3.0), np.array(0.5))),
    "exponential": (abi.RANDOM_EXPONENTIAL, np.float64, (np.array(2.0),)),
    "bytes": (abi.RANDOM_INTEGERS, np.uint8, (np.array(3, np.uint64), np.array(90, np.uint64))),
    "counts": (abi.RANDOM_POISSON, np.int64, (np.array(4.5),)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, pytest.param(SMALL, marks=pytest.mark.smoke), LARGE])
@pytest.mark.parametrize("drawn", DRAWN)
@in_plan
def test_draws(plan, drawn, size, kind):
    what, dtype, parameters = DRAWN[drawn]
    wanted, out = np.zeros(size, dtype), plan.keep(np.full(size, 77, dtype), KINDS[kind])
    half = dtype in (np.uint32, np.float32)
    draw(plan, what, wanted, *parameters, half=half)
    report = draw(plan, what, out, *parameters, half=half)
    plan.up(report, 0)
    down = out.nbytes if kind == "result" else 0
    assert report["bytes_down"] == (down if plan.is_cuda else 0)
    if down == 0 and plan.is_cuda:
        assert (out == 77).all()
        assert fetched(plan, out) == out.nbytes
    assert fetched(plan, out) == 0
    assert same_bits(out, wanted)


@pytest.mark.parametrize("kind", KINDS)
@in_plan
def test_draws_into_a_part(plan, kind):
    out = plan.keep(np.full(LARGE, 77, np.float32), KINDS[kind])
    zeros, wanted = np.zeros(LARGE, np.float32), np.zeros(LARGE, np.float32)
    if kind != "input":
        plan.evaluate("add", out, zeros, zeros)
    else:
        wanted[:] = 77
    part = slice(1001, LARGE - 3)
    report = draw(plan, abi.RANDOM_NORMAL, out[part])
    plan.up(report, out.nbytes if kind == "input" else 0)
    draw(plan, abi.RANDOM_NORMAL, wanted[part])
    fetched(plan, out)
    assert same_bits(out, wanted)


@in_plan
def test_draws_are_read_at_home(plan):
    t, out, wanted = plan.temporary((70, 90)), np.zeros((70, 90), np.float32), np.zeros((70, 90), np.float32)
    draw(plan, abi.RANDOM_UNIFORM, t.T[::-1])
    draw(plan, abi.RANDOM_UNIFORM, wanted.T[::-1])
    plan.up(plan.evaluate("add", out, t, t), 0)
    assert same_bits(out, wanted + wanted)


@pytest.mark.parametrize("size", [1, SMALL, LARGE])
@in_plan
def test_parameters_at_home(plan, size):
    mean, scale = plan.temporary(size, np.float64), plan.keep(numbers(size, dtype=np.float64) + 60)
    one, out = np.ones(size), plan.temporary(size, np.float64)
    plan.evaluate("add", mean, one, one)
    wanted = np.zeros(size)
    draw(plan, abi.RANDOM_NORMAL, wanted, 2 * one, scale.copy())
    report = draw(plan, abi.RANDOM_NORMAL, out, mean, scale)
    if size != 1:  # one is read on the host
        plan.up(report, scale.nbytes)
        plan.up(draw(plan, abi.RANDOM_NORMAL, out, mean, scale), 0)
        plan.up(draw(plan, abi.RANDOM_NORMAL, out, 2 * one, scale), one.nbytes)
    fetched(plan, out)
    assert same_bits(out, wanted)


@in_plan
def test_parameters_that_go_over_the_host(plan):
    t, out = plan.temporary(2 * SMALL, np.float64), plan.temporary(SMALL, np.float64)
    x = numbers(2 * SMALL, dtype=np.float64) + 60
    plan.evaluate("add", t, x, x)
    wanted = np.zeros(SMALL)
    draw(plan, abi.RANDOM_NORMAL, wanted, 2 * x[7:8], 2 * x[::2])
    draw(plan, abi.RANDOM_NORMAL, out, t[7:8], t[::2])
    fetched(plan, out)
    assert same_bits(out, wanted)


@pytest.mark.parametrize("view", [lambda a: a[::2], lambda a: a[1:].view(">f4"), lambda a: a[:-1]])
@in_plan
def test_draws_over_the_host(plan, view):
    raw = plan.temporary(4 * SMALL + 5, np.uint8)  # from one byte on, nothing is aligned in the home
    zeros = np.zeros(raw.size, np.uint8)
    plan.evaluate("bitwise_or", raw, zeros, zeros)
    out, wanted = view(raw[1:].view(np.float32)), view(np.zeros(SMALL + 1, np.float32))
    draw(plan, abi.RANDOM_NORMAL, out)
    draw(plan, abi.RANDOM_NORMAL, wanted)
    assert same_bits(out, wanted)
    plan.up(plan.evaluate("bitwise_or", zeros, raw, raw), raw.nbytes)
    assert (zeros == raw).all()


# ---- Products of matrices ---------------------------------------------------------------------------

TYPES = {"bool": np.bool_} | {f"{t.kind}{8 * t.itemsize}": t.type for t in abi.TYPES if t.kind in "iuf"}


def multiply(plan, a, b, c, *, turned=0, places=None, precision=abi.HIGHEST):
    """Multiply stacks of matrices: `c[i] = a[places[i, 0]] @ b[places[i, 1]]`."""
    if plan.is_cuda:
        cublas()
    dtype = c.dtype
    name = "bool" if dtype == np.bool_ else f"{dtype.kind}{8 * dtype.itemsize}"
    batch, m, n = c.shape
    k = a.shape[1 if turned & abi.TRANSPOSED_A else 2]
    if places is None:
        places = np.stack([np.arange(batch), np.arange(batch)], -1)
    stored = abi.MULTIPLIED[name]
    report, method = np.zeros(1, abi.REPORT), ctypes.c_int64()
    getattr(plan.library, f"pk_matmul_{name}")(
        *(a.view(stored), b.view(stored), c.view(stored), m, n, k, np.ascontiguousarray(places, np.int64)),
        *(batch, turned, precision, ctypes.byref(method), np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def factors(m, n, k, turned=0, dtype=np.float32, stack=(1, 1)):
    random = np.random.default_rng(5)
    shapes = [
        (k, m) if turned & abi.TRANSPOSED_A else (m, k),
        (n, k) if turned & abi.TRANSPOSED_B else (k, n),
    ]
    made = [random.normal(size=(count, *shape)) for count, shape in zip(stack, shapes, strict=True)]
    return [(x * 3).astype(dtype) if dtype != np.bool_ else x > 0.5 for x in made]


SHAPES = {
    "one": (1, 1, 1),
    "small": (70, 33, 50),
    "a row": (1, 300, 40),
    "a column": (500, 1, 129),
    # Longer than a part or a panel.
    "tall": (450_000, 5, 3),
    "wide": (3, 450_000, 4),
    "deep": (30, 20, 450_000),
}
PRECISE = {"": abi.HIGHEST, " exact": abi.EXACT}


def check_product(plan, x, y, shape, kind, **given):
    """Multiply kept factors into a kept range, twice, and look at what went over the link."""
    wanted = np.zeros(shape, x.dtype)
    met = multiply(plan, x, y, wanted, **given)["exceptions"]
    a, b = plan.keep(x.copy()), plan.keep(y.copy())
    c = plan.keep(np.full(shape, 1, x.dtype), KINDS[kind])
    sums = (
        8
        if given.get("precision") == abi.EXACT
        else max(4, x.itemsize)
        if x.dtype.kind == "f"
        else x.itemsize
    )
    for goes_up in (a.nbytes + b.nbytes, 0):
        report = multiply(plan, a, b, c, **given)
        plan.up(report, goes_up)
        assert report["bytes_down"] == (c.size * sums if plan.is_cuda and kind == "result" else 0)
        assert report["exceptions"] == met
    if kind != "result" and plan.is_cuda:
        assert (c == 1).all()
        assert fetched(plan, c) == c.nbytes
    assert fetched(plan, c) == 0
    assert same_bits(c, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", range(4))
@pytest.mark.parametrize("name", TYPES)
@in_plan
def test_products(plan, name, turned, kind):
    x, y = factors(70, 33, 50, turned, TYPES[name])
    check_product(plan, x, y, (1, 70, 33), kind, turned=turned)


@pytest.mark.parametrize("kind", ["temporary", "result"])
@pytest.mark.parametrize("turned", range(4))
@pytest.mark.parametrize("precision", PRECISE)
@pytest.mark.parametrize("shape", SHAPES)
@in_plan
def test_shapes(plan, shape, precision, turned, kind):
    if SANITIZED and shape == "deep" and precision:
        pytest.skip("sanitizers take long for it")
    m, n, k = SHAPES[shape]
    x, y = factors(m, n, k, turned)
    check_product(plan, x, y, (1, m, n), kind, turned=turned, precision=PRECISE[precision])


@pytest.mark.parametrize("has_infinity", [False, True])
@in_plan
def test_split_products(plan, has_infinity):
    x, y = factors(1024, 1025, 1030)
    if has_infinity:
        x[0, 3, 4] = np.inf
    check_product(plan, x, y, (1, 1024, 1025), "temporary")


@pytest.mark.smoke
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0, 1, 4, 64])
@in_plan
def test_matrices_within_a_range(plan, offset, kind):
    x, y = factors(60, 30, 40)
    memory = numbers(10_000)
    a_at, b_at, c_at = (slice(i + offset, i + offset + s) for i, s in ((0, 2400), (3000, 1200), (5000, 1800)))
    memory[a_at], memory[b_at] = x.ravel(), y.ravel()
    wanted = memory.copy()
    multiply(plan, x, y, wanted[c_at].reshape(1, 60, 30))
    kept, zeros = plan.keep(memory.copy(), KINDS[kind]), np.zeros(memory.size, np.float32)
    if kind != "input":
        plan.evaluate("add", kept, memory, zeros)
    a, b = kept[a_at].reshape(x.shape), kept[b_at].reshape(y.shape)
    report = multiply(plan, a, b, kept[c_at].reshape(1, 60, 30))
    plan.up(report, kept.nbytes if kind == "input" else 0)
    fetched(plan, kept)
    assert same_bits(kept, wanted)


PLACES = {
    "in order": [[0, 0], [1, 1], [2, 2], [3, 3]],
    "one with all": [[0, 2], [1, 2], [2, 2], [3, 2]],
    "some": [[1, 3], [2, 1], [3, 2]],
    "backwards": [[3, 3], [2, 2], [1, 1]],
}


@pytest.mark.parametrize("kind", ["temporary", "result"])
@pytest.mark.parametrize("places", PLACES)
@in_plan
def test_stacks(plan, places, kind):
    x, y = factors(20, 31, 17, stack=(4, 4))
    pairs = np.array(PLACES[places])
    wanted = np.zeros((len(pairs), 20, 31), np.float32)
    multiply(plan, x, y, wanted, places=pairs)
    a, b = plan.keep(x.copy()), plan.keep(y.copy())
    c = plan.keep(np.zeros(wanted.shape, np.float32), KINDS[kind])
    plan.up(multiply(plan, a, b, c, places=pairs), a.nbytes + b.nbytes)
    plan.up(multiply(plan, a, b, c, places=pairs), 0)
    fetched(plan, c)
    assert same_bits(c, wanted)


@pytest.mark.parametrize("shape", ["small", "tall", "deep"])
@in_plan
def test_one_operand_at_home(plan, shape):
    m, n, k = SHAPES[shape]
    x, y = factors(m, n, k)
    wanted, c = np.zeros((1, m, n), np.float32), np.zeros((1, m, n), np.float32)
    up = multiply(plan, x, y, wanted)["bytes_up"]
    a = plan.keep(x.copy())
    multiply(plan, a, y, c)
    report = multiply(plan, a, y, c)
    plan.up(report, up - x.nbytes)
    assert same_bits(c, wanted)
    c[...] = 0
    plan.drop(a)
    b = plan.keep(y.copy())
    multiply(plan, x, b, c)
    plan.up(multiply(plan, x, b, c), x.nbytes)
    assert same_bits(c, wanted)
    t = plan.temporary((1, m, n))
    report = multiply(plan, x, y, t)
    plan.up(report, up)
    assert report["bytes_down"] == 0
    fetched(plan, t)
    assert same_bits(t, wanted)


@in_plan
def test_products_of_temporaries(plan):
    x, y = factors(60, 30, 40)
    a, b, c = plan.temporary(x.shape), plan.temporary(y.shape), plan.temporary((1, 60, 30))
    wanted, out = np.zeros((1, 60, 30), np.float32), np.zeros((1, 60, 30), np.float32)
    plan.evaluate("add", a, x, x)
    plan.evaluate("add", b, y, y)
    multiply(plan, x + x, y + y, wanted)
    plan.up(multiply(plan, a, b, c), 0)
    plan.up(plan.evaluate("add", out, c, c), 0)
    assert same_bits(out, wanted + wanted)


@in_plan
def test_products_without_depth(plan):
    c, out = plan.temporary((1, 20, 30)), np.ones((1, 20, 30), np.float32)
    plan.evaluate("add", c, out, out)
    empty = np.zeros((1, 20, 0), np.float32), np.zeros((1, 0, 30), np.float32)
    multiply(plan, *empty, c)
    plan.evaluate("add", out, c, c)
    assert (out == 0).all()


@in_plan
def test_products_over_the_host(plan):
    x, y = factors(20, 30, 40)
    whole, c = np.full(1200, 77, np.float32), plan.temporary((1, 20, 30))
    wanted = np.zeros((1, 20, 30), np.float32)
    for half in (whole[:500], whole[500:]):
        plan.keep(half, abi.KEEP_TEMPORARY)
    plan.evaluate("add", whole[:500], y.ravel()[:500], y.ravel()[:500])
    plan.evaluate("add", whole[500:], y.ravel()[500:], y.ravel()[500:])
    multiply(plan, x, y + y, wanted)
    multiply(plan, x, whole.reshape(y.shape), c)
    fetched(plan, c)
    assert same_bits(c, wanted)
    multiply(plan, x, y, wanted)
    multiply(plan, x, y, whole[300:900].reshape(1, 20, 30))
    assert same_bits(whole[300:900].reshape(1, 20, 30), wanted)
    out = np.zeros(1200, np.float32)
    plan.evaluate("add", out, whole, whole)
    assert (out == whole + whole).all()


# ---- Counting ---------------------------------------------------------------------------------------

FIND_BINS = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p)
COUNT = 50


def by_value(count=COUNT):
    bins = np.zeros(1, abi.BINS)
    bins["how"], bins["count"] = abi.BY_VALUE, count
    return bins


def by_edges(edges):
    bins = np.zeros(1, abi.BINS)
    bins["how"], bins["count"], bins["type"] = abi.BY_EDGES, len(edges) - 1, abi.TYPES.index(edges.dtype)
    bins["edges"] = edges.ctypes.data
    return bins


def table(*views):
    operands = np.zeros(len(views), abi.OPERAND)
    for row, view in zip(operands, views, strict=True):
        row["address"] = view.__array_interface__["data"][0]
        row["type"], row["strides"][: view.ndim] = abi.TYPES.index(view.dtype), view.strides
    return operands


def count_in(plan, bins, counts, *views):
    report = np.zeros(1, abi.REPORT)
    shape = np.array(views[0].shape, np.int64)
    plan.library.pk_histogram(
        *(table(*views), len(views), shape, len(shape), bins, len(bins), counts),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def count_of_extent(plan, counts, view):
    kept = []

    def find(extent, row):
        ends = np.array(extent[:2], np.uint64).view(view.dtype)[:: 8 // view.itemsize]
        kept.append(np.linspace(float(ends[0]), float(ends[1]), COUNT + 1).astype(np.float64))
        kept.append(by_edges(kept[0]))
        ctypes.memmove(row, kept[1].ctypes.data, kept[1].nbytes)
        return 0

    callback, report = FIND_BINS(find), np.zeros(1, abi.REPORT)
    shape = np.array(view.shape, np.int64)
    plan.library.pk_histogram_of_extent(
        *(table(view), shape, len(shape), ctypes.cast(callback, ctypes.c_void_p).value, COUNT, counts),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return report[0]


def counted(size=COUNT):
    return np.full(size + 2, 77, np.int64)


def nearly_up(plan, report, wanted):
    """Look at what went up, but for bins and tables."""
    if plan.is_cuda:
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
def test_counts(plan, dtype, way):
    x = np.abs(numbers(300, 700, dtype=dtype)) + np.arange(700).astype(dtype) % 3
    kept, edges = plan.keep(x.copy()), np.linspace(0, 45, COUNT + 1)
    choices = [by_edges(edges)] + ([by_value()] if dtype(0.5) == 0 else [])
    t = plan.temporary(x.shape, dtype)
    plan.evaluate("add", t, x, np.zeros((), dtype))
    plan.evaluate("add", np.zeros(x.shape, dtype), kept, kept)
    for bins in choices:
        wanted, counts = counted(), counted()
        count_in(plan, bins, wanted, WAYS[way](x))
        for array in (kept, t):
            report = count_in(plan, bins, counts, WAYS[way](array))
            if way in ("all", "rows", "turned"):
                nearly_up(plan, report, 0)
            assert (counts == wanted).all()
    wanted = counted()
    count_of_extent(plan, wanted, WAYS[way](x))
    for array in (kept, t):
        counts = counted()
        report = count_of_extent(plan, counts, WAYS[way](array))
        if way in ("all", "rows", "turned"):
            nearly_up(plan, report, 0)
        assert (counts == wanted).all()
    if plan.is_cuda and way in ("all", "rows", "turned"):
        assert fetched(plan, t) == t.nbytes  # nothing has come down


@in_plan
def test_counts_bring_an_input_up(plan):
    x, y = plan.keep(numbers(LARGE)), np.abs(numbers(LARGE, dtype=np.int32))
    edges, wanted, counts = np.linspace(-50, 50, 21), counted(20 * 30), counted(20 * 30)
    bins = np.concatenate([by_edges(edges), by_value(30)])
    count_in(plan, bins, wanted, x.copy(), y)
    for goes_up in (x.nbytes, 0):
        nearly_up(plan, count_in(plan, bins, counts, x, y), goes_up + y.nbytes)
        assert (counts == wanted).all()
    plan.keep(y)
    for goes_up in (y.nbytes, 0):
        nearly_up(plan, count_in(plan, bins, counts, x, y), goes_up)
        assert (counts == wanted).all()


@in_plan
def test_what_counting_reads_and_writes_on_the_host(plan):
    x, zeros = np.abs(numbers(SMALL, dtype=np.int64)), np.zeros(SMALL, np.int64)
    weights, edges = plan.temporary(SMALL, np.int64), plan.temporary(COUNT + 1, np.float64)
    counts, wanted = plan.temporary(COUNT + 2, np.int64), counted()
    even = np.linspace(0, 45, COUNT + 1)
    plan.evaluate("add", weights, x, x)
    plan.evaluate("add", edges, even, zeros[: COUNT + 1].astype(np.float64))
    plan.evaluate("add", counts, zeros[: COUNT + 2], zeros[: COUNT + 2])
    for mine, host in [((x,), (x,)), ((x, weights), (x, 2 * x))]:
        count_in(plan, by_edges(even), wanted, *host)
        count_in(plan, by_edges(edges), counts, *mine)
        assert (counts == wanted).all()
        out = np.zeros(COUNT + 2, np.int64)
        plan.evaluate("add", out, counts, counts)
        assert (out == 2 * wanted).all()


def weigh_in(plan, bins, *views):
    """Return the weight in each bin, pk_weighted_histogram's two numbers, and the report."""
    report, shape = np.zeros(1, abi.REPORT), np.array(views[0].shape, np.int64)
    sums, outside = np.full(bins["count"].prod(), 77.0), np.full(2, 77)
    plan.library.pk_weighted_histogram(
        *(table(*views), len(views), shape, len(shape), bins, len(bins), sums, outside),
        *(np.zeros(1, abi.OPTIONS), report),
    )
    return sums, outside, report[0]


def weights_of(shape, dtype):
    """Return weights whose sum depends on the order, if they are floats."""
    rng = np.random.default_rng(5)
    weights = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 5, shape)
    return (weights if dtype(0.5) else np.abs(weights)).astype(dtype)


@pytest.mark.parametrize("way", ["all", "rows", "turned", "strided"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, np.float16, np.float32, np.float64])
@in_plan
def test_weights(plan, dtype, way):
    shape, edges = (300, 700), np.linspace(0, 45, COUNT + 1)
    x, y, weights = np.abs(numbers(*shape)), np.abs(numbers(*shape, dtype=np.int16)), weights_of(shape, dtype)
    there = [plan.temporary(shape, each.dtype.type) for each in (x, y, weights)]
    for t, each in zip(there, (x, y, weights), strict=True):
        plan.evaluate("maximum", t, each, each)
    host, mine = ([WAYS[way](each) for each in arrays] for arrays in ((x, y, weights), there))
    by_width = binning.by_width(edges, 0.0, 45.0, x.dtype).row
    few = binning.by_width(edges[:3], 0.0, float(edges[2]), x.dtype).row  # beyond which most are
    both = np.concatenate([by_edges(edges), by_value(30)])
    for bins, kept in (
        (by_width, [0]),
        (few, [0]),
        (by_edges(edges), [0]),
        (by_value(30), [1]),
        (both, [0, 1]),
    ):
        wanted = weigh_in(plan, bins, *(host[k] for k in (*kept, 2)))
        found = weigh_in(plan, bins, *(mine[k] for k in (*kept, 2)))
        assert same_bits(found[0], wanted[0])
        assert (found[1] == wanted[1]).all()
        if way in ("all", "rows"):
            nearly_up(plan, found[2], 0)
        if dtype(0.5):
            continue
        counts, same = counted(bins["count"].prod()), counted(bins["count"].prod())
        count_in(plan, bins, same, *(host[k] for k in (*kept, 2)))
        count_in(plan, bins, counts, *(mine[k] for k in (*kept, 2)))
        assert (counts == same).all()
    if plan.is_cuda and way in ("all", "rows"):
        assert fetched(plan, there[2]) == there[2].nbytes  # nothing has come down


@pytest.mark.parametrize("count", [1, 3000, 40_000])
@in_plan
def test_weights_of_many_and_few_bins(plan, count):
    """In a bin they are added one by one, and there may be bins that have none."""
    x = np.random.default_rng(count).integers(0, count, LARGE)
    x[1000:90_000] = 0
    weights = weights_of(LARGE, np.float64)
    wanted, outside, _ = weigh_in(plan, by_value(count), x, weights)
    kept = plan.keep(x.copy()), plan.keep(weights.copy())
    for goes_up in (x.nbytes + weights.nbytes, 0):
        sums, none, report = weigh_in(plan, by_value(count), *kept)
        assert same_bits(sums, wanted)
        assert (none == outside).all()
        nearly_up(plan, report, goes_up)


# ---- Order statistics -------------------------------------------------------------------------------


def select(plan, a, ranks, out, nans):
    report = np.zeros(1, abi.REPORT)
    entry = getattr(plan.library, f"pk_select_{a.dtype.kind}{8 * a.itemsize}")
    entry(a, *a.shape, ranks, *ranks.shape, out, nans, np.zeros(1, abi.OPTIONS), report)
    return report[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
@pytest.mark.parametrize(
    ("rows", "columns", "count"), [(40, 500, 3), (3, 500, 70), (2, 70_000, 2)], ids=["short", "many", "long"]
)
@in_plan
def test_order_statistics(plan, rows, columns, count, dtype):
    a = np.abs(numbers(rows, columns, dtype=dtype))
    if a.dtype.kind == "f":
        a[1, 7:20] = np.nan
    ranks = np.linspace(0, columns - 1, count).astype(np.int64).reshape(1, count)
    wanted, some = np.sort(a)[:, ranks[0]], a[1:]
    kept, t = plan.keep(a.copy()), plan.temporary(a.shape, dtype)
    plan.evaluate("add", t, a, np.zeros((), dtype))
    for goes_up in (a.nbytes, 0):
        out, nans = np.zeros(wanted.shape, dtype), np.zeros(rows, np.int64)
        nearly_up(plan, select(plan, kept, ranks, out, nans), goes_up)
        np.testing.assert_array_equal(out, wanted)
        assert (nans == np.isnan(a).sum(axis=1)).all()
    out, nans = plan.temporary((rows - 1, count), dtype), plan.temporary(rows - 1, np.int64)
    nearly_up(plan, select(plan, t[1:], ranks, out, nans), 0)
    np.testing.assert_array_equal(out, wanted[1:])
    assert (nans == np.isnan(some).sum(axis=1)).all()
    if plan.is_cuda:
        assert fetched(plan, t) == t.nbytes  # nothing has come down


# ---- What fails -------------------------------------------------------------------------------------

FAULTS = """
import os
from helpers.plans import Plan
from abi.test_plan_families import draw, factors, multiply
from pycudakit import errors
from pycudakit._library import abi
plan = Plan("cuda")
x, y = factors(450_000, 5, 3)
wanted, drawn = np.zeros((1, 450_000, 5), np.float32), np.zeros(300_000, np.float32)
multiply(plan, x, y, wanted)
draw(plan, abi.RANDOM_NORMAL, drawn)
failed = 0
def trial(call):
    global failed
    a, b = plan.keep(x.copy()), plan.keep(y.copy())
    t, c = plan.temporary(300_000), plan.keep(np.zeros(wanted.shape, np.float32), abi.KEEP_RESULT)
    os.environ["PYCUDAKIT_FAIL_CUDA_CALL"] = str(call)
    try:
        draw(plan, abi.RANDOM_NORMAL, t)
        multiply(plan, a, b, c)
        assert c.tobytes() == wanted.tobytes()
    except errors.Error:
        failed += 1
    del os.environ["PYCUDAKIT_FAIL_CUDA_CALL"]
    multiply(plan, a, b, c)
    draw(plan, abi.RANDOM_NORMAL, t)
    assert c.tobytes() == wanted.tobytes()
    plan.fetch(t)
    assert t.tobytes() == drawn.tobytes()
    for array in (a, b, c, t):
        plan.drop(array)
def body():
    for call in [*range(1, 40), 10_000]:
        trial(call)
plan.run(body)
print(failed > 5)
"""


def test_calls_that_fail(plan):
    fail_each_call(plan, FAULTS)
