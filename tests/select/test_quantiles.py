"""Medians, quantiles and percentiles against NumPy, with equality."""

import functools
import os
import subprocess
import sys
import types
import warnings

import helpers.strategies as gen
import numpy as np
import pytest
from helpers.numpy_versions import has_numpy
from helpers.thorough_cases import thorough
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit import errors
from pycudakit._families.select import order_statistics
from pycudakit._families.select.quantile_interpolation import METHODS
from pycudakit._native import abi, loader
from pycudakit._runtime import cost_model

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

MEDIANS = ["median", "nanmedian"]
QUANTILES = ["quantile", "percentile", "nanquantile", "nanpercentile"]


SHORT = ("float16", "float32")


def near(got, want, array, context):
    """Accept our result if it is close: before 2.4, NumPy interpolates in the array's type."""
    bound = 8 * np.finfo(want.dtype).eps
    size = np.max(np.abs(array), where=np.isfinite(array), initial=0)
    np.testing.assert_allclose(got, want, bound, bound * float(size), err_msg=context)
    return type(want)(got) if isinstance(want, np.generic) else np.array(got, want.dtype)


def both(name, *arguments, strict=True, **keywords):
    """Compare a call's outcome with NumPy's; without the warnings if not `strict`."""
    outs = [keywords.get("out")] * 2
    if outs[0] is not None:
        outs = [outs[0], outs[0].copy()]
        keywords.pop("out")
    pairs = zip((pk, np), outs, strict=True)
    ours, numpys = (
        gen.outcome(
            functools.partial(getattr(kit, name), *arguments, **keywords, **({} if o is None else {"out": o}))
        )
        for kit, o in pairs
    )
    context = f"{name}({gen.describe(*arguments)}, {keywords})"
    if not strict:
        nan = "All-NaN slice encountered"
        assert (nan in ours[2]) == (nan in numpys[2]), context
        ours, numpys = ((*outcome[:2], set()) for outcome in (ours, numpys))
    if ours[0] == numpys[0] == "ok" and np.asarray(ours[1]).dtype in SHORT and not has_numpy("2.4"):
        numpys = (*numpys[:1], near(ours[1], numpys[1], arguments[0], context), *numpys[2:])
    gen.assert_same_outcome(ours, numpys, free_zero=True, strides=False, context=context)
    if outs[0] is not None:
        gen.assert_values(*outs, free_zero=True, context=context)
        assert ours[0] == "error" or ours[1] is outs[0]
    return ours[1]


def sprinkle(array, seed, share=0.3):
    """Put NaN among floats, and fill one row with it."""
    if array.dtype.kind != "f" or not array.flags.writeable or array.size == 0:
        return array
    rng = np.random.default_rng(seed)
    array[rng.random(array.shape) < share] = np.nan
    if array.ndim > 1 and seed % 2:
        array[seed % len(array)] = np.nan
    return array


axes = st.sampled_from([None, 0, -1, 1, (), (0,), (0, 1), (-1, 0), (0, 0), 7])
numbers = st.one_of(st.sampled_from([0, 1, 0.0, 1.0, 0.5]), st.floats(0, 1))
shares = st.one_of(
    numbers,
    numbers.map(np.float32),
    numbers.map(np.float64),
    st.sampled_from([[0.0, 0.5, 1.0], [], [0, 1], [[0.1], [0.9]], np.float16([0.25, 0.3]), [[[0.5]]]]),
    st.lists(st.floats(0, 1), max_size=12),
    st.lists(st.floats(0, 1, width=32), max_size=3).map(np.float32),
    st.sampled_from([-0.1, 1.5, np.nan, [0.5, np.nan], [0.1] * 11 + [2.0]]),
)
methods = st.sampled_from([*METHODS, "none such"])


@given(data=st.data())
@pytest.mark.parametrize("name", MEDIANS)
def test_medians(engine, name, data):
    array = data.draw(gen.arrays())
    if data.draw(st.booleans()):
        array = sprinkle(array, data.draw(gen.seeds))
    keywords = {"axis": data.draw(axes), "keepdims": data.draw(st.booleans())}
    both(name, array, strict=False, **keywords)


@given(data=st.data())
@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles(engine, name, data):
    array = data.draw(gen.arrays())
    if data.draw(st.booleans()):
        array = sprinkle(array, data.draw(gen.seeds))
    q = data.draw(shares)
    if name.endswith("percentile") and not isinstance(q, list):
        q = q * 100
    keywords = {
        "axis": data.draw(axes),
        "keepdims": data.draw(st.booleans()),
        "method": data.draw(methods),
    }
    both(name, array, q, strict=False, **keywords)


@pytest.mark.parametrize("dtype", gen.DTYPES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_type(engine, method, dtype):
    array = gen.build(dtype, (3, 40), "ordinary", 1)
    for q in (0.3, [0.0, 0.25, 1.0], np.float32(0.7), [0, 1]):
        for name in ("quantile", "nanquantile"):
            both(name, array, q, axis=1, method=method)
            both(name, array, q, method=method)


@pytest.mark.parametrize("dtype", gen.DTYPES)
def test_medians_of_every_type(engine, dtype):
    for kind in ("ordinary", "special", "bits", "small"):
        for shape in [(1,), (2,), (9, 7), (6, 8), (2, 601), (2, 3, 4)]:
            array = gen.build(dtype, shape, kind, 3)
            for axis in (None, 0, -1):
                both("median", array, axis=axis, strict=False)
                both("nanmedian", array, axis=axis, strict=False)
                both("nanmedian", sprinkle(array.copy(), 1), axis=axis, strict=False)


# Long rows use all threads: sizes around one thread's work, and around the limit.
@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 400_000])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float16", "float32", "float64"])
def test_long_rows(engine, dtype, size):
    for kind in ("ordinary", "bits"):
        array = gen.build(dtype, (size,), kind, size)
        both("median", array, strict=False)
        both("percentile", array, [0, 1, 25, 50, 75, 99, 100], method="lower")
        both("quantile", array, np.linspace(0, 1, 23), strict=False)
    both("nanquantile", sprinkle(array, 2), [0.1, 0.9], method="nearest")


SKEWED = {
    "constant": lambda _: np.full(300_000, 2.5),
    "two values": lambda rng: rng.choice([1.0, -1.0], 300_000),
    "outliers": lambda rng: np.r_[rng.random(300_000) * 1e-6 + 1, 1e300, -1e300, np.inf],
    "small integers": lambda rng: rng.integers(0, 100, 300_000),
    "low bits": lambda rng: rng.integers(0, 1 << 20, 300_000) + (1 << 60),
    "sorted": lambda _: np.arange(300_000.0),
    "zeros": lambda rng: np.where(rng.random(300_000) < 0.5, -0.0, 0.0),
    "wide": lambda rng: np.exp(rng.standard_normal(300_000) * 200),
    "mostly nan": lambda rng: np.where(rng.random(300_000) < 0.9, np.nan, rng.random(300_000)),
}


@pytest.mark.parametrize("size", [9000, 300_003, *thorough(100_000)])
@pytest.mark.parametrize("case", SKEWED)
def test_skewed(engine, case, size):
    values = SKEWED[case](np.random.default_rng(4))[:size]
    both("nanmedian", values)
    for q in (0.5, [0.01, 0.99], np.linspace(0, 1, 150), np.linspace(0, 1, 3000)):
        both("quantile", values, q, method="lower")
        both("nanquantile", values, q)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("width", [0, 1, 13, 17, 31])
@pytest.mark.parametrize("at", ["least", "zero", "most"])
def test_integers_that_are_near_each_other(engine, dtype, width, at):
    info, rng = np.iinfo(dtype), np.random.default_rng(width)
    start = {"least": info.min, "most": info.max - (1 << width) + 1}.get(
        at, max(info.min, -(1 << width) // 2)
    )
    array = (start + rng.integers(0, 1 << width, 140_001).astype(object)).astype(dtype)
    ranks = [0, 7, 35_000, 140_000]
    assert np.array_equal(pk.partition(array, ranks)[ranks], np.sort(array)[ranks])
    assert pk.median(array) == np.median(array)


def test_many_ranks(engine):
    rng = np.random.default_rng(5)
    array = rng.standard_normal(200_000)
    both("quantile", array, rng.random(70_000))
    both("quantile", array.reshape(200, 1000), rng.random(2000), axis=1)


@pytest.mark.parametrize("name", MEDIANS + QUANTILES)
def test_out(engine, name):
    array = sprinkle(gen.build("float32", (5, 6, 7), "ordinary", 1), 3, 0.02)
    q = () if name in MEDIANS else ([0.1, 0.5, 0.9],)
    lead = () if name in MEDIANS else (3,)
    for dtype in ("float64", "float32", "float16", "int32"):
        both(name, array, *q, axis=1, out=np.zeros((*lead, 5, 7), dtype))
        both(name, array, *q, axis=(0, 2), keepdims=True, out=np.zeros((*lead, 1, 6, 1), dtype))
        both(name, array, *q, out=np.zeros(lead, dtype))
    both(name, array, *q, axis=0, out=np.zeros((2, 2)))
    both(name, array, *q, axis=0, keepdims=True, out=np.zeros((*lead, 1, 6, 7))[..., ::-1])


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_keepdims_that_is_handed_on(engine, name):
    a = np.arange(12.0).reshape(3, 4)
    for out in (None, np.empty(3)):
        result = getattr(pk, name)(a, 1, out, keepdims=np._NoValue)
        np.testing.assert_array_equal(result, getattr(np, name)(a, 1))


def test_out_may_be_the_array(engine):
    array = gen.build("float64", (4, 5), "ordinary", 1)
    want = np.median(array, axis=1, keepdims=True)
    got = array.copy()
    pk.median(got, axis=1, keepdims=True, out=got[:, :1])
    assert np.array_equal(got[:, :1], want)


@pytest.mark.parametrize("layout", gen.LAYOUTS)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (2, 1), -3])
def test_layouts(engine, layout, axis):
    array = gen.build("int16", (6, 5, 8), "ordinary", 1, [layout])
    before = array.copy()
    both("median", array, axis=axis)
    both("quantile", array, [0.2, 0.7], axis=axis, method="higher", overwrite_input=array.flags.writeable)
    assert np.array_equal(np.sort(array, axis=None), np.sort(before, axis=None))


@pytest.mark.parametrize("name", MEDIANS + QUANTILES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1,), (1, 1), (2, 0, 3)])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_small_shapes(engine, name, shape, axis):
    for dtype in ("float32", "int64"):
        array = np.ones(shape, dtype)
        for keepdims in (False, True):
            both(name, array, *(() if name in MEDIANS else (0.5,)), axis=axis, keepdims=keepdims)


def test_arguments_of_other_kinds(engine):
    assert pk.median([3, 1, 2]) == 2
    assert type(pk.median((1.0, 4.0))) is np.float64
    assert pk.median(7) == 7
    both("quantile", [[1, 2], [3, 4]], (0.5, 1), axis=1)
    both("percentile", np.float32(3), np.int64(50))
    both("percentile", range(10), True)


@pytest.mark.parametrize(
    ("arguments", "keywords", "error", "words"),
    [
        (([1.0], 1.5), {}, ValueError, r"Quantiles must be in the range \[0, 1\]"),
        (([1.0], [0.5, -1]), {}, ValueError, r"Quantiles must be in the range"),
        (([1.0], 0.5), {"method": "middle"}, ValueError, "'middle' is not a valid method"),
        (([1.0], [[[0.5]]]), {}, ValueError, "q must be a scalar or 1d"),
        (([1.0], 0.5), {"axis": 1}, ValueError, "axis 1 is out of bounds"),
        (([True, False], 0.5), {}, TypeError, "boolean subtract"),
    ],
)
def test_errors(engine, arguments, keywords, error, words):
    out = np.full((), 7.0)
    for name in ("quantile", "nanquantile"):
        with pytest.raises(error, match=words):
            getattr(pk, name)(*arguments, **keywords, out=out)
    assert out == 7
    with pytest.raises(ValueError, match=r"Percentiles must be in the range \[0, 100\]"):
        pk.percentile([1.0], 101)


def test_warnings(engine):
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(pk.median([]))
    for call in (
        lambda: pk.nanmedian([np.nan, np.nan]),
        lambda: pk.nanmedian(np.full((2, 3), np.nan), axis=0),
        lambda: pk.nanquantile(np.full((2, 700), np.nan), [0.1, 0.2], axis=1),
    ):
        with pytest.warns(RuntimeWarning, match="All-NaN slice encountered") as caught:
            assert np.isnan(call()).all()
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(pk.median([np.nan, 1.0]))
        with pytest.raises(RuntimeWarning, match="All-NaN"):
            pk.nanmedian([np.nan])


def raw_call(name, **changes):
    """Call pk_select_f32 with valid arguments except for the changes; return its results."""
    out, nans = np.full((2, 2), -7.0, np.float32), np.full(2, -7)
    given = {
        "in": np.float32([[3, 1, 2], [np.nan, 5, 4]]),
        "rows": 2,
        "columns": 3,
        "ranks": np.array([0, 2]),
        "rank_rows": 1,
        "rank_count": 2,
        **changes,
    }
    try:
        loader.library(name).pk_select_f32(
            *given.values(), out, nans, np.zeros(1, abi.OPTIONS), np.empty(1, abi.REPORT)
        )
    except errors.Error:
        assert (out == -7).all()
        assert (nans == -7).all()
        raise
    return out.tolist(), nans.tolist()


def test_entry(engine):
    (first, second), nans = raw_call(engine)
    assert first == [1, 3]
    assert second[0] == 4
    assert np.isnan(second[1])
    assert nans == [0, 1]
    each = {"ranks": np.array([1, 1, 0, 1]), "rank_rows": 2}
    assert raw_call(engine, **each) == ([[2, 2], [4, 5]], [0, 1])
    assert raw_call(engine, ranks=np.empty(0, np.int64), rank_count=0) == ([[-7, -7]] * 2, [0, 1])


def test_no_rows(engine):
    """Without rows nothing is written, and no memory is taken for the ranks and columns."""
    nothing = {"rows": 0, "ranks": np.empty(0, np.int64)}
    assert raw_call(engine, **nothing, rank_count=2**59) == ([[-7, -7]] * 2, [-7, -7])
    assert raw_call(engine, **nothing, columns=2**59) == ([[-7, -7]] * 2, [-7, -7])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": 0, "rank_count": 2**62}, "rows times rank_count is too large"),
        ({"rows": 0, "columns": 2**62}, "rows times columns is too large"),
        ({"rows": -1}, "a count is negative"),
        ({"rank_count": -1}, "a count is negative"),
        ({"columns": 2**62}, "rows times columns is too large"),
        ({"rank_rows": 3}, "neither 1 nor rows"),
        ({"ranks": np.array([0, 3])}, "a rank is not from 0 to columns - 1"),
        ({"ranks": np.array([-1, 0])}, "a rank is not from 0"),
        ({"ranks": np.array([2, 0])}, "not in ascending order"),
        ({"ranks": np.array([0, 1, 1, 3]), "rank_rows": 2}, "a rank is not from 0"),
        ({"in": np.zeros(25, np.uint8)[1:].view(np.float32)}, "in is not aligned to its elements"),
    ],
)
def test_entry_refuses(engine, changes, words):
    with pytest.raises(errors.InvalidArgument, match=words):
        raw_call(engine, **changes)


FOREIGN = {
    "weights": lambda kit: kit.nanquantile(
        [1.0, 2.0, 4.0], 0.5, weights=np.array([1, 2, 3], np.longdouble), method="inverted_cdf"
    ),
    "longdouble": lambda kit: kit.median(np.longdouble([1, 2])),
    "objects": lambda kit: kit.median(np.array([1, 2, 3], object)),
    "datetime": lambda kit: kit.nanquantile(
        np.array(["2020-01-01", "2020-01-03"], "M8[D]"), 0.5, method="lower"
    ),
    "masked": lambda kit: kit.median(np.ma.array([1.0, 2.0, 3.0])),
    "foreign quantiles": lambda kit: kit.quantile(np.array([1.0, 2.0]), np.longdouble(0.5)),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_calls_that_only_numpy_supports(case):
    got, want = FOREIGN[case](pk), FOREIGN[case](np)
    assert got == want
    assert type(got) is type(want)
    assert pk.last_call().engine == "numpy"
    for name in ("cpu", "cuda"):
        if pk.engines()[name]:
            with pk.engine(name), pytest.raises(errors.Unsupported, match=f"not on the {name} engine"):
                FOREIGN[case](pk)


@pytest.mark.parametrize(("nanoseconds", "is_numpys"), [(0.01, True), (100.0, False)])
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", ">i8"])
def test_auto_sees_how_quick_numpy_is(monkeypatch, dtype, nanoseconds, is_numpys):
    array = (np.arange(301 * 301) * 7919 % 1000).astype(dtype).reshape(301, 301)
    ticks = iter(range(100))
    monkeypatch.delenv("PYCUDAKIT_TUNED")
    clock = types.SimpleNamespace(
        perf_counter=lambda: next(ticks) * cost_model.MEASURED_ELEMENTS * nanoseconds * 1e-9
    )
    cost_model.numpy_partition_ns.cache_clear()
    try:
        with monkeypatch.context() as patch, pk.engine("auto"):
            patch.setattr(cost_model, "time", clock)
            # Otherwise the dispatch cache would answer.
            plans = [
                order_statistics.plan_selection("median", array, 0.5, (1, None, False))[0] for _ in range(2)
            ]
            assert {plan.engine == "numpy" for plan in plans} == {is_numpys}
            assert next(ticks) == 6  # start and end of three measurements
    finally:
        cost_model.numpy_partition_ns.cache_clear()


def test_auto():
    small = pk.median([1.0, 2.0, 3.0])
    assert small == 2
    assert pk.last_call().engine == "numpy"
    large = np.random.default_rng(0).random(2_000_000, np.float32)
    assert pk.median(large) == np.median(large)
    assert pk.last_call().function == "median"
    assert pk.last_call().engine != "numpy"
    with pk.engine("numpy"):
        assert pk.quantile(large, 0.1) == np.quantile(large, 0.1)
        assert pk.last_call().engine == "numpy"


def test_last_call(engine):
    pk.quantile(np.arange(10.0), [0.5])
    call = pk.last_call()
    assert (call.function, call.engine) == ("quantile", engine)
    assert call.seconds > 0
    with pytest.warns(RuntimeWarning):
        pk.median([])
    assert (pk.last_call().function, pk.last_call().engine) == ("median", "numpy")


def test_same_bits(both_engines):
    for dtype in gen.DTYPES:
        for shape in [(300_001,), (50, 999), (7, 140_000)]:
            array = sprinkle(gen.build(dtype, shape, "special", 1), 1, 0.01)
            results = []
            for name in ("cpu", "cuda"):
                with pk.engine(name):
                    kept = pk.nanpercentile(array, [3, 50, 97], axis=-1, method="lower")
                    results.append((kept, pk.median(array, axis=-1)))
            for ours, theirs in zip(*results, strict=True):
                gen.assert_values(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("threads", ["1", "7"])
def test_threads(threads, tmp_path):
    array = gen.build("float32", (400_000,), "special", 1)
    np.save(tmp_path / "a.npy", array)
    code = (
        "import sys, numpy as np, pycudakit as pk\n"
        "a = np.load(sys.argv[1])\n"
        "with pk.engine('cpu'), np.errstate(all='ignore'):\n"
        "    np.save(sys.argv[2], np.r_[pk.nanquantile(a, [.1, .9], method='lower'), pk.nanmedian(a[::2])])\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.npy"), str(tmp_path / "b.npy")],
        env={**os.environ, "PYCUDAKIT_THREADS": threads},
        check=True,
        timeout=300,
    )
    with pk.engine("cpu"):
        want = np.r_[pk.nanquantile(array, [0.1, 0.9], method="lower"), pk.nanmedian(array[::2])]
    gen.assert_values(np.load(tmp_path / "b.npy"), want)
