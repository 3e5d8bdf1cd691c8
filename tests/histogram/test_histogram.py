"""`bincount`, `histogram`, `histogram2d` and `digitize` against NumPy: every bin, edge and warning."""

import contextlib
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.strategies import (
    DTYPES,
    FLOATS,
    INTEGERS,
    arrays,
    assert_same_outcome,
    build,
    describe,
    outcome,
    seeds,
)
from helpers.strategies import layouts as drawn_layouts
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

RUN = 65536


def same(name, *arguments, context="", **keywords):
    """Compare a function's outcome with NumPy's."""
    ours = outcome(getattr(pk, name), *arguments, **keywords)
    numpys = outcome(getattr(np, name), *arguments, **keywords)
    told = f"{name}({describe(*arguments)}, {keywords}) {context}"
    assert_same_outcome(ours, numpys, free_zero=True, strides=False, context=told)
    return ours[1]


@st.composite
def near_edges(draw, dtype, edges, size=None):
    """Values on edges, next to them, between and beyond them."""
    rng = np.random.default_rng(draw(seeds))
    size = draw(st.sampled_from([1, 5, 64, 1023, 1025, 3000])) if size is None else size
    dtype = np.dtype(dtype)
    edges = np.asarray(edges, np.float64)
    with np.errstate(all="ignore"):
        chosen = rng.choice(edges, size)
        span = edges[-1] - edges[0] or 1.0
        if dtype.kind == "f":
            values = chosen.astype(dtype)
            how = rng.integers(0, 5, size)
            values = np.where(how == 0, np.nextafter(values, dtype.type(np.inf)), values)
            values = np.where(how == 1, np.nextafter(values, dtype.type(-np.inf)), values)
            between = (edges[0] + (rng.random(size) * 1.2 - 0.1) * span).astype(dtype)
            return np.where(how == 2, between, values)
        info = np.iinfo(dtype)
        moved = np.clip(np.nan_to_num(chosen) + rng.integers(-2, 3, size), info.min, info.max)
        return np.where(moved >= float(info.max), info.max, moved.astype(dtype)).astype(dtype)


ranges = st.sampled_from(
    [(0, 1), (0.0, 1.0), (-1.5, 2.25), (0.1, 0.7), (0, 10), (1, 100), (-3, 3), (5.0, 5.0)]
)
counts = st.sampled_from([1, 2, 3, 7, 10, 49, 100, 1000])


# ---- Counts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_bincount(engine, dtype):
    for size in (0, 1, 7, 1000, 70_000):
        values = np.random.default_rng(size).integers(0, 2 if dtype == "bool" else 100, size).astype(dtype)
        for minlength in (0, 3, 200):
            same("bincount", values, minlength=minlength)
    same("bincount", values[::-3])
    same("bincount", [1.0, 2.0])
    same("bincount", [1.0, 2.0], [2, 3], 5)
    same("bincount", values.astype(values.dtype.newbyteorder()))


@given(data=st.data())
def test_bincount_of_anything(engine, data):
    values = data.draw(arrays(dtype=st.sampled_from(["bool", *INTEGERS[:2], *INTEGERS[4:6]])))
    same("bincount", values.ravel(), minlength=data.draw(st.sampled_from([0, 1, 300])))


@pytest.mark.parametrize("top", [127, 128, 4095, 4096, 5000, 70_000, 3_000_000])
def test_bincount_of_many(engine, top):
    values = np.random.default_rng(top).integers(0, top + 1, 200_000)
    values[1000:50_000] = top
    same("bincount", values)
    assert pk.last_call().engine == engine


def test_a_guess_at_the_number_of_bins_that_is_wrong(engine):
    values = np.random.default_rng(0).integers(0, 50, 20_000)
    same("bincount", values)
    for last in (4095, 4096, 9999, -1, 2**20):
        values[-1] = last
        same("bincount", values)


def test_bincount_of_whole_types(engine):
    for dtype in ("int8", "uint8", "int16", "uint16"):
        info = np.iinfo(dtype)
        values = np.resize(np.arange(max(info.min, 0), info.max + 1), 300_000).astype(dtype)
        same("bincount", values)
        same("bincount", values[values < 100])
        if info.min:
            values[12345] = -1
            same("bincount", values)


@pytest.mark.parametrize("constants", [{}, {"in_place_bytes": 0, "chunk_bytes": 256 << 10}])
def test_bytes_that_are_no_whole_words(engine, constants):
    values = np.random.default_rng(0).integers(0, 256, 300_007, np.uint8)
    with pk.tuned(**constants) if engine == "cuda" else contextlib.nullcontext():
        for size in [*range(10), *range(1021, 1029), values.size]:
            same("bincount", values[:size])
            same("bincount", values[values.size - size :])


@given(data=st.data())
def test_histogram(engine, data):
    """Uniform bins: values around each edge, in every type."""
    dtype = data.draw(st.sampled_from([*INTEGERS, *FLOATS, *FLOATS]))
    count, span = data.draw(counts), data.draw(ranges)
    try:
        edges = np.histogram_bin_edges(np.empty(0, dtype), count, span)
    except ValueError:  # too many bins for float16
        edges = np.linspace(*span, 3)
    values = data.draw(near_edges(dtype, edges))
    same("histogram", values, count, span)
    same("histogram", values, count)
    given_range = tuple(
        data.draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64]))(e) for e in span
    )
    same("histogram", values, count, given_range)
    same("histogram", values, count, span, density=True)


@given(data=st.data())
def test_histogram_by_edges(engine, data):
    dtype = data.draw(st.sampled_from([*INTEGERS, *FLOATS]))
    edges = sorted(data.draw(st.lists(st.sampled_from([-3, 0, 0.1, 1, 1.5, 2, 7, 100, 127]), max_size=9)))
    edges = np.array(edges, data.draw(st.sampled_from(["f8", "f4", "f2", "i8", "i1"])))
    values = data.draw(near_edges(dtype, edges if edges.size else [0.0, 1.0]))
    same("histogram", values, np.sort(edges))
    same("histogram", values, np.sort(edges), weights=np.ones(values.shape, "i4"))


@given(data=st.data())
def test_histogram_of_anything(engine, data):
    """Every type, shape and layout, with NaN and infinities."""
    values = data.draw(arrays())
    how = data.draw(st.sampled_from(["count", "range", "edges"]))
    if how == "count":
        same("histogram", values, 10)
    elif how == "range":
        same("histogram", values, 30, (-5, 12.5))
    else:
        same("histogram", values, [-10, -1, 0, 0.5, 3, 20])


@pytest.mark.parametrize("dtype", DTYPES)
def test_histogram_of_every_type(engine, dtype):
    values = build(dtype, (70_007,), "ordinary", 1)
    same("histogram", values, 20)
    same("histogram", values.reshape(7, -1)[:, ::-2], 20, (0, 5))
    same("histogram", values, np.array([-50, -1, 0, 1, 7, 60]))


@pytest.mark.parametrize("rule", ["auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt"])
def test_rules(engine, rule):
    values = build("float32", (2000,), "ordinary", 3)
    same("histogram", values, rule)
    same("histogram", values, rule, (-5.0, 5.0))
    same("histogram", (values * 10).astype("i2"), rule)
    same("histogram", np.zeros(5), rule)
    same("histogram", [], rule)


def test_integers_that_floats_cannot_hold(engine):
    limits = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
    for dtype, (low, high) in limits.items():
        for first, last in [
            (low, high),
            (high - 3000, high),
            (2**62 + 511, 2**62 + 513),
            (2**53 - 4, 2**53 + 4),
        ]:
            values = np.array([first + (last - first) * i // 49 for i in range(50)], dtype=object)
            values = np.clip(values, low, high).astype(dtype)
            for bins in (1, 2, 7):
                same("histogram", values, bins)
                same("histogram", values, bins, (first, last))
                same("histogram", values, bins, (float(first), float(last)))
            same("histogram", values, np.array(sorted({first, (first + last) // 2, last}), dtype))
            same("histogram", values, np.array([float(first), float(last)]))


def test_extremes(engine):
    """The range is from the least to the greatest element, at any position."""
    for dtype in DTYPES:
        for size in (1, 2, 100, 100_000):
            values = build(dtype, (size,), "ordinary", size)
            for at in (0, size // 2, size - 1):
                moved = values.copy()
                moved[at] = (
                    True if dtype == "bool" else np.iinfo(dtype).max // 2 if dtype in INTEGERS else 9999
                )
                same("histogram", moved, 9)
                if dtype in INTEGERS[:4] or dtype in FLOATS:
                    same("histogram", -moved, 9)
    same("histogram", np.array([-0.0, 0.0, -1e-300, 1e-300, -5e-324]), 4)
    same("histogram", np.array([np.nan, 1.0]), 4)
    same("histogram", np.array([-np.nan, 1.0], "f4"), 4)
    same("histogram", np.array([-np.inf, 1.0], "f2"), 4)
    same("histogram", np.linspace(-30000, 30000, 999).astype("f2"), 5000)


def test_near_every_edge(engine):
    """An index by the bin width is corrected by at most one, by comparing with the real edges."""
    for dtype in FLOATS:
        for count, span in [(100, (0, 1)), (77, (0.1, 0.7)), (500, (-1.0, 1e3)), (3, (1e-3, 1.1e-3))]:
            try:
                edges = np.histogram_bin_edges(np.empty(0, dtype), count, span)
            except ValueError:
                continue
            typed = edges.astype(dtype)
            values = [typed]
            for towards in (np.inf, -np.inf):
                beside = typed
                for _ in range(3):
                    beside = np.nextafter(beside, typed.dtype.type(towards))
                    values.append(beside)
            values = np.concatenate(values)
            for size in (values.size, 200_000):
                given_values = np.resize(values, size)
                same("histogram", given_values, count, span)
                same("histogram", given_values, edges)


# ---- Weights ----------------------------------------------------------------------------------------


def in_runs(values, weights, count):
    """Add weights in the order of pk_weighted_histogram: run by run."""
    total, run = np.zeros(count), RUN
    while run < 4 * count:
        run *= 2
    for start in range(0, len(values), run):
        total += np.bincount(values[start : start + run], weights[start : start + run], count)
    return total


@pytest.mark.parametrize("count", [10, 5000, 40_000])
def test_weights_are_added_in_one_order(engine, count):
    rng = np.random.default_rng(count)
    values = rng.integers(0, count, 300_001)
    values[-1] = count - 1
    weights = rng.standard_normal(values.size) * 10.0 ** rng.integers(-8, 9, values.size)
    expected = in_runs(values, weights, count)
    assert np.array_equal(pk.bincount(values, weights), expected)
    assert ("added on the host" in pk.last_call().reason) == (engine == "cuda")
    assert np.array_equal(
        pk.bincount(values[::-1], weights[::-1]), in_runs(values[::-1], weights[::-1], count)
    )
    doubled = np.repeat(weights, 2)[::2]
    assert np.array_equal(pk.bincount(values, doubled), expected)


@given(data=st.data())
def test_bincount_with_weights(engine, data):
    values = data.draw(arrays(dtype=st.sampled_from(["uint8", "int64"]), kind=st.just("small"))).ravel()
    weights = build(data.draw(st.sampled_from(DTYPES)), values.shape, "ordinary", 5, data.draw(drawn_layouts))
    same("bincount", values, weights, minlength=data.draw(st.sampled_from([0, 40])))


@pytest.mark.parametrize("dtype", DTYPES)
def test_histogram_with_weights(engine, dtype):
    values = build("float32", (3, 20_000), "ordinary", 1)
    weights = build(dtype, values.shape, "ordinary", 2)
    for density in (None, True):
        same("histogram", values, 20, (-15, 15), weights=weights, density=density)
    if dtype not in FLOATS:
        same("histogram", values, [-100, -1, 0, 2.5, 100], weights=weights)
    else:  # NumPy subtracts sums over all elements
        got = pk.histogram(values, [-100, -1, 0, 2.5, 100], weights=weights)[0]
        assert got.dtype == weights.dtype
        where = np.digitize(values, [-100, -1, 0, 2.5, 100]).ravel()
        expected = np.bincount(where, weights.ravel().astype("f8"), 6)[1:5]
        assert np.allclose(got, expected, rtol=2e-3 if dtype == "float16" else 1e-6)
    longer = np.resize(weights, 400_000)
    if dtype not in ("float16", "float32"):
        same("histogram", np.resize(values, 400_000), 20, (-15, 15), weights=longer)


def test_weights_are_in_the_order_of_the_shape(engine):
    rng = np.random.default_rng(3)
    values, weights = rng.random((2, 400, 500))
    expected = pk.histogram(values, 7, (0, 1), weights=weights)[0]
    turned = np.asfortranarray(values), np.asfortranarray(weights)
    assert np.array_equal(pk.histogram(turned[0], 7, (0, 1), weights=turned[1])[0], expected)
    assert np.array_equal(pk.histogram(values, 7, (0, 1), weights=turned[1])[0], expected)
    back = values[::-1, ::-1].copy()[::-1, ::-1], weights[::-1, ::-1].copy()[::-1, ::-1]
    assert np.array_equal(pk.histogram(back[0], 7, (0, 1), weights=back[1])[0], expected)
    spread = np.broadcast_to(weights[0], values.shape)
    same("histogram", values, 7, (0, 1), weights=spread)


def digest():
    """Print a hash of results that threads and instruction sets must not change."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1_000_003).astype("f4")
    w = rng.standard_normal(x.size)
    k = (np.abs(x) * 1000).astype("i4")
    results = [
        *(pk.histogram(x, 100), pk.histogram(x, 100, (-1, 1)), pk.histogram(x.astype("f2"), 30, (-2, 2))),
        *(pk.histogram(x, 100, weights=w), pk.histogram(x.astype("f8"), 1000, weights=w)),
        *(pk.histogram(x, np.sort(x[:50])), pk.histogram(x, np.sort(x[:50]), weights=w)),
        *((pk.bincount(k),), (pk.bincount(k, w),), (pk.bincount(k.astype("u1")),), (pk.digitize(x, x[:1]),)),
        pk.histogram2d(x, -x, 20, weights=w),
    ]
    for result in results:
        whole = hashlib.sha256()
        for array in result:
            whole.update(np.ascontiguousarray(array).tobytes())
        print(whole.hexdigest())  # noqa: T201


@pytest.mark.skipif(not pk.engines()["cpu"], reason="needs the cpu engine")
def test_threads_and_instruction_sets_change_nothing():
    def lines(**settings):
        paths = [os.path.dirname(__file__), *sys.path]
        code = f"import sys; sys.path[:0] = {paths!r}; import pycudakit as pk, test_histogram as t\n"
        done = subprocess.run(
            [sys.executable, "-c", code + "pk.set_engine('cpu'); t.digest()"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **settings},
        )
        return done.stdout.splitlines()

    expected = lines(PYCUDAKIT_THREADS="1", PYCUDAKIT_ISA="baseline")
    assert len(set(expected)) == len(expected) == 12
    assert lines(PYCUDAKIT_THREADS="2") == expected
    assert lines(PYCUDAKIT_THREADS="7") == expected


# ---- Two axes, and indices --------------------------------------------------------------------------


def test_histogram2d(engine):
    rng = np.random.default_rng(1)
    x, y = rng.random(3000), rng.random(3000).astype("f4") * 10
    for bins in (10, [3, 40], [0, 0.2, 0.7, 1], [np.array([0, 0.5, 1]), 7], [[0.1, 0.2], [1, 2, 2, 3]]):
        for span in (None, [[0, 1], [2, 7]], [None, (0.5, 3)]):
            for density in (None, True):
                same("histogram2d", x, y, bins, span, density)
    weights = rng.standard_normal(3000)
    for density in (None, True):
        same("histogram2d", x, y, 5, weights=weights, density=density)
        same("histogram2d", x, y, 5, weights=(weights * 10).astype("i4"), density=density)
    same("histogram2d", [], [])
    same("histogram2d", [], [], [3, 4], density=True)
    same("histogram2d", x, y, [[0.5], [0, 1]])


@given(data=st.data())
def test_histogram2d_of_every_type(engine, data):
    edges = np.linspace(*data.draw(ranges), data.draw(counts) + 1)
    size = data.draw(st.sampled_from([1, 33, 1025]))
    x = data.draw(near_edges(data.draw(st.sampled_from(DTYPES[1:])), edges, size))
    y = data.draw(near_edges(data.draw(st.sampled_from(DTYPES[1:])), edges, size))
    same("histogram2d", x, y, 8)
    same("histogram2d", x, y, [8, 3], [[0, 1], [-1, 5.5]])
    same("histogram2d", x, y, [5, [-2, 0, 0, 1, 4]])


@pytest.mark.parametrize("right", [False, True])
def test_digitize(engine, right):
    values = build("float32", (70_007,), "ordinary", 1)
    for edges in ([0.0], [-5, 0, 1, 1, 3], [3, 1, 1, 0, -5], np.linspace(-20, 20, 1000), [2.5, 2.5], []):
        same("digitize", values, edges, right)
        same("digitize", values.reshape(-1, 7)[::-2], edges, right)
    same("digitize", 1.5, [1, 2], right)
    same("digitize", np.float32(2), [2, 1], right)
    same("digitize", [[np.nan, np.inf, -np.inf, -0.0]], [-1.0, 0.0, 1.0], right)
    same("digitize", [[np.nan, np.inf, -np.inf, -0.0]], [1.0, 0.0, -1.0], right)


@given(data=st.data())
def test_digitize_anything(engine, data):
    values = data.draw(arrays())
    edges = np.sort(data.draw(arrays(shape=st.sampled_from([(1,), (5,), (64,)]))))
    if edges.dtype.kind == "f":
        edges = edges[~np.isnan(edges)]
    same("digitize", values, edges, data.draw(st.booleans()))
    same("digitize", values, edges[::-1], data.draw(st.booleans()))


# ---- Around the counting ------------------------------------------------------------------------------


def test_operands_are_left_alone(engine):
    values, weights = np.arange(5000) % 7, np.ones(5000)
    before = values.copy()
    for array in (values, weights):
        array.flags.writeable = False
    pk.bincount(values, weights)
    pk.histogram(values, 3, weights=weights)
    pk.histogram2d(values, values)
    pk.digitize(values, [1, 2])
    assert np.array_equal(values, before)
    assert (weights == 1).all()


def test_edges_given_are_returned(engine):
    edges = np.array([0.0, 1.0, 2.0])
    assert pk.histogram([0.5], edges)[1] is edges
    assert np.histogram([0.5], edges)[1] is edges


def test_auto_and_numpy():
    values = np.random.default_rng(0).random(2_000_000)
    with pk.engine("auto"):
        same("histogram", values[:10], 3)
        assert pk.last_call().engine == "numpy"
        same("histogram", values, 100)
        assert pk.last_call().engine in ("cpu", "cuda")
    with pk.engine("numpy"):
        same("histogram", values[:100], 3)
        assert pk.last_call().engine == "numpy"


# ---- Both engines -----------------------------------------------------------------------------------


@given(data=st.data())
def test_both_engines(both_engines, data):
    values = data.draw(arrays(kind=st.sampled_from(["ordinary", "small", "special"])))
    weights = build(data.draw(st.sampled_from(DTYPES)), values.shape, "ordinary", 4)
    edges = [-10, -1, 0, 0.5, 3, 20]
    calls = [
        ("histogram", (values, 30, (-5, 12.5)), {}),
        ("histogram", (values, 30, (-5, 12.5)), {"weights": weights}),
        ("histogram", (values, edges), {"weights": weights}),
        ("histogram2d", (values.ravel(), weights.ravel(), [3, edges]), {"range": [(0, 7), (0, 1)]}),
        ("digitize", (values, edges), {}),
        ("bincount", (np.abs(values.ravel().astype("i1")) & 127, weights.ravel()), {}),
    ]
    with np.errstate(all="ignore"):
        for name, arguments, keywords in calls:
            answers = []
            for engine in ("cpu", "cuda"):
                with pk.engine(engine):
                    answers.append(outcome(getattr(pk, name), *arguments, **keywords))
            assert_same_outcome(*answers, context=name)


def test_long_on_both_engines(both_engines):
    lines = []
    for engine in ("cpu", "cuda"):
        with pk.engine(engine):
            rng = np.random.default_rng(0)
            x = rng.standard_normal(3_000_000).astype("f4")
            k = rng.integers(0, 2_000_000, x.size)
            results = [pk.histogram(x, n, (-3, 3)) for n in (10, 1000, 5000, 100_000)]
            results += [(pk.bincount(k),), (pk.bincount(k.astype("u1")),), (pk.digitize(x, np.sort(x[:99])),)]
            results += [pk.histogram(x, np.sort(x[:99])), pk.histogram2d(x, x[::-1], 30)]
            lines.append([np.ascontiguousarray(a).tobytes() for result in results for a in result])
    assert lines[0] == lines[1]


def test_more_bins_than_the_gpu_has_room_for(both_engines):
    code = """if True:
        import numpy as np, pycudakit as pk
        pk.set_engine("cuda")
        values = np.random.default_rng(0).integers(0, 1_000_000, 500_000)
        assert np.array_equal(pk.bincount(values), np.bincount(values))
        assert "counted on the host" in pk.last_call().reason
        with pk.profile() as p:
            pk.bincount(values)
        assert ["counted on the host" in call.reason for call in p.calls] == [True]
        few = values % 1000
        assert np.array_equal(pk.bincount(few), np.bincount(few))
        assert "on the host" not in pk.last_call().reason
    """
    env = {**os.environ, "PYCUDAKIT_DEVICE_MEMORY": "8M"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_chunks_and_layouts_change_nothing(both_engines):
    values = np.random.default_rng(0).standard_normal((700, 1000)).astype("f4")
    expected, whole = np.histogram(values, 200, (-2, 2))[0], np.histogram(values, 200)[0]
    with pk.engine("cuda"):
        for constants in (
            {},
            {"in_place_bytes": 0},
            {"chunk_bytes": 256 << 10, "threads": 3, "worth_a_thread": 1},
        ):
            with pk.tuned(**constants):
                for laid in (values, values.T, values[::-1], np.asfortranarray(values), values.astype(">f4")):
                    assert np.array_equal(pk.histogram(laid, 200, (-2, 2))[0], expected)
                    assert np.array_equal(pk.histogram(laid, 200)[0], whole)
        pinned = pk.pinned_copy(values)
        assert np.array_equal(pk.histogram(pinned, 200, (-2, 2))[0], expected)


def test_bincount_of_nothing_takes_any_weights(engine):
    for kit in (pk, np):
        counts = kit.bincount(np.empty(0, int), [1.5, 2.5], 3)
        assert counts.dtype == np.intp
        np.testing.assert_array_equal(counts, [0, 0, 0])
