"""Elementwise functions of pandas' objects under `auto`: by their values where pandas computes the same."""

import operator
import warnings

import numpy as np
import pytest

import pycudakit as pk

pd = pytest.importorskip("pandas")

N = 5000
RNG = np.random.default_rng(5)
FLOATS, OTHERS, INTEGERS = RNG.random(N) + 0.5, RNG.random(N) + 0.5, RNG.integers(-4, 5, N)
INDEX = pd.MultiIndex.from_arrays([np.arange(N) // 7, np.arange(N) % 3], names=["a", "b"])


@pytest.fixture(autouse=True)
def _auto():
    with pk.engine("auto"), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def assert_same(actual, expected):
    assert type(actual) is type(expected)
    if isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(actual, expected, rtol=1e-14)
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(actual, expected, rtol=1e-14)
    elif isinstance(expected, pd.Index):
        pd.testing.assert_index_equal(actual, expected, exact=True, check_exact=False, rtol=1e-14)
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-14)


def is_by_values():
    return "overrides" not in pk.last_call().reason


@pytest.mark.parametrize("name", ["exp", "sqrt", "negative", "isnan", "floor"])
@pytest.mark.parametrize("index", [None, INDEX, np.arange(N) // 2])
def test_one_series(name, index):
    series = pd.Series(FLOATS, index, name="x")
    assert_same(getattr(pk, name)(series), getattr(np, name)(series))
    assert is_by_values()


@pytest.mark.parametrize("name", ["add", "hypot", "less", "divide", "power", "maximum"])
@pytest.mark.parametrize("names", [("x", "x"), ("x", "y"), (None, None)])
def test_two_series_of_one_index(name, names):
    a, b = pd.Series(FLOATS, INDEX, name=names[0]), pd.Series(OTHERS, INDEX, name=names[1])
    for args in ((a, b), (a, OTHERS), (FLOATS, b), (a, 2), (0.5, b)):
        assert_same(getattr(pk, name)(*args), getattr(np, name)(*args))
        assert is_by_values()


def test_operators_report_no_errors_as_in_pandas():
    a, b = pd.Series(INTEGERS), pd.Series(INTEGERS[::-1].copy())
    with np.errstate(all="raise"):
        assert_same(pk.divide(a, b), np.divide(a, b))
        assert is_by_values()
        with pytest.raises(FloatingPointError, match="encountered in log"):
            pk.log(a.astype(float))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "bitwise_and"])
def test_pandas_computes_what_differs_from_numpy(name):
    a, b = pd.Series(INTEGERS), pd.Series(INTEGERS[::-1].copy())
    if name == "bitwise_and":
        b = b > 0
    assert_same(getattr(pk, name)(a, b), getattr(np, name)(a, b))
    assert not is_by_values()


def test_different_indexes_are_aligned_with_one_warning():
    a, b = pd.Series(FLOATS), pd.Series(OTHERS, np.arange(N) + 1)
    for name in ("add", "hypot"):
        with pytest.warns(
            pd.errors.PerformanceWarning, match=rf"{name}: pandas aligns.*\.to_numpy\(\)"
        ) as caught:
            result = getattr(pk, name)(a, b)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert_same(result, getattr(np, name)(a, b))
    with pytest.raises(ValueError, match="identically-labeled"):
        pk.less(a, b)


def test_frames_of_one_type():
    frame = pd.DataFrame({"x": FLOATS, "y": OTHERS}, INDEX)
    for name in ("exp", "isnan", "absolute"):
        assert_same(getattr(pk, name)(frame), getattr(np, name)(frame))
        assert is_by_values()
    mixed = frame.assign(z=INTEGERS)
    assert_same(pk.absolute(mixed), np.absolute(mixed))
    assert_same(pk.add(frame, frame), np.add(frame, frame))


def test_indexes():
    for index in (pd.Index(FLOATS, name="i"), pd.Index(INTEGERS.astype(np.int64)), pd.RangeIndex(1, N)):
        for name in ("sin", "isnan", "negative"):
            assert_same(getattr(pk, name)(index), getattr(np, name)(index))
    pk.exp(pd.Index(FLOATS))
    assert is_by_values()


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(FLOATS[:10]),
        pd.Series([], dtype=float),
        pd.Series(FLOATS, dtype="Float64"),
        pd.Series(FLOATS > 1),
        pd.Series(["a", "b"] * N),
        pd.Series(pd.date_range("2026", periods=N)),
    ],
    ids=lambda series: str(series.dtype),
)
def test_what_pandas_computes(series):
    for call in (operator.methodcaller("positive", series), operator.methodcaller("equal", series, series)):
        assert_same(_outcome(call, pk), _outcome(call, np))


def _outcome(call, module):
    try:
        return call(module)
    except TypeError as error:
        return pd.Series(str(error))


def test_keywords_are_pandas():
    series, out = pd.Series(FLOATS), np.empty(N)
    assert_same(pk.add(series, 1, dtype=np.float32), np.add(series, 1, dtype=np.float32))
    pk.add(series, 1, out=out)
    np.testing.assert_array_equal(out, FLOATS + 1)


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_the_index_of_a_keyword_argument_stays(name):
    series = pd.Series([1.0, 2.0, 3.0], index=list("abc"), name="x")
    if not pk.engines()["cpu"]:
        pytest.skip("needs the cpu engine")
    with pk.engine(name):
        assert_same(pk.cumsum(a=series), series.cumsum())
        assert_same(pk.clip(a_max=2, a_min=0, a=series), series.clip(0, 2))
        if name == "cpu":
            with pytest.raises(pk.errors.Unsupported, match="flip: Series has labels"):
                pk.flip(m=series)
