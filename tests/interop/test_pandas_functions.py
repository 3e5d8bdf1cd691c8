"""Functions of Series and DataFrames that are no ufuncs: `auto` computes them by their values."""

import warnings

import numpy as np
import pytest

import pycudakit as pk

pd = pytest.importorskip("pandas")

N = 5000
RNG = np.random.default_rng(4)
INDEX = pd.Index(np.arange(N) * 2, name="key")
X = pd.Series(RNG.random(N) * 8 - 2, INDEX, name="x")
SERIES = {
    "float64": X,
    "float32": X.astype(np.float32),
    "int64": X.astype(np.int64),
    "uint8": X.abs().astype(np.uint8),
    "bool": X > 0,
    "inf": X.replace(X.iloc[5], np.inf),
}
LEFT = {
    "NaN": X.where(X > -1),
    "both infinities": X.replace({X.iloc[5]: np.inf, X.iloc[9]: -np.inf}),
    "float16": X.astype(np.float16),
    "small": X[:20],
    "Float64": X.astype("Float64").where(X > -1),
    "object": X.astype(object),
    "category": X.round().astype("category"),
    "dates": pd.Series(pd.date_range("2026", periods=N), INDEX),
}
SKIP_NAN = ["sum", "mean", "max", "min", "prod", "std", "var", "cumsum", "cumprod", "argmax", "any", "all"]
TAKE_VALUES = {
    "where": lambda kit, x: kit.where(x > 1, x, 0),
    "median": lambda kit, x: kit.median(x),
    "quantile": lambda kit, x: kit.quantile(x, [0.25, 0.5]),
    "sort": lambda kit, x: kit.sort(x),
    "unique": lambda kit, x: kit.unique(x),
    "nansum": lambda kit, x: kit.nansum(x),
    "diff": lambda kit, x: kit.diff(x),
    "dot": lambda kit, x: kit.dot(x, x),
    "interp": lambda kit, x: kit.interp(x, [0.0, 4.0], [1.0, 2.0]),
    "isclose": lambda kit, x: kit.isclose(x, 1.0),
    "norm": lambda kit, x: kit.linalg.norm(x),
    "count_nonzero": lambda kit, x: kit.count_nonzero(x),
}


@pytest.fixture(autouse=True)
def _auto():
    with pk.engine("auto"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def outcome(call, kit, *arguments):
    try:
        return call(kit, *arguments)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        return type(error), str(error)


def assert_same(actual, expected, rtol=1e-5):
    assert type(actual) is type(expected)
    if isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(actual, expected, rtol=rtol)
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(actual, expected, rtol=rtol)
    elif isinstance(expected, (np.ndarray, np.generic)) and expected.dtype.kind in "biuf":
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-9)
    else:
        np.testing.assert_array_equal(actual, expected)


def is_by_values():
    return "overrides" not in pk.last_call().reason


@pytest.mark.parametrize("kind", SERIES)
@pytest.mark.parametrize("name", SKIP_NAN)
def test_series(name, kind):
    series = SERIES[kind]
    for keywords in ({}, {"axis": 0}):
        assert_same(getattr(pk, name)(series, **keywords), getattr(np, name)(series, **keywords))
    is_left = (
        name in ("prod", "cumprod")  # another order of the factors might overflow
        or (name in ("any", "all") and series.dtype.kind == "f")
        or (kind == "inf" and name in ("std", "var"))
    )
    assert is_by_values() is not is_left


@pytest.mark.parametrize("kind", LEFT)
@pytest.mark.parametrize("name", SKIP_NAN)
def test_pandas_skips_nan_and_computes_other_types(name, kind):
    series = LEFT[kind]

    def call(kit, series):
        return getattr(kit, name)(series)

    if kind == "Float64" and name not in ("sum", "mean", "max", "std"):
        return  # nulls, which other tests cover
    assert_same(outcome(call, pk, series), outcome(call, np, series))
    if kind == "NaN":
        assert not is_by_values()


@pytest.mark.parametrize("kind", [*SERIES, "NaN"])
@pytest.mark.parametrize("name", TAKE_VALUES)
def test_values_are_read(name, kind):
    series, call = (SERIES | LEFT)[kind], TAKE_VALUES[name]
    assert_same(outcome(call, pk, series), outcome(call, np, series))
    if not (kind == "bool" and name in ("quantile", "norm", "interp")):
        assert is_by_values()


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint8", "NaN", "inf"])
@pytest.mark.parametrize(
    "bounds",
    [(0.25, 0.75), (1, 3), (None, 2), (2, None), (3, 1), (0.1, np.inf), (np.nan, 2), (300, 400), (1, 2.0)],
)
def test_clip(kind, bounds):
    series = (SERIES | LEFT)[kind]
    for each in (series, pd.DataFrame({"a": series, "b": series})):
        assert_same(pk.clip(each, *bounds), np.clip(each, *bounds))


def test_round():
    frame = pd.DataFrame({"a": X, "b": X})
    for each in (X, SERIES["float32"], SERIES["int64"], SERIES["bool"], LEFT["NaN"], frame):
        for decimals in (0, 2, -1):
            assert_same(pk.round(each, decimals), np.round(each, decimals))
    assert is_by_values()


@pytest.mark.parametrize("name", ["sum", "mean", "max", "std", "cumsum", "cumprod", "any", "argmax"])
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "bool", "NaN", "object", "mixed"])
def test_frames(name, kind):
    series = (SERIES | LEFT).get(kind, X)
    frame = pd.DataFrame({"a": series, "b": X.astype(np.int64) if kind == "mixed" else series}, copy=True)
    for keywords in ({"axis": 0}, {"axis": 1}, {}):

        def call(kit, frame, keywords=keywords):
            return getattr(kit, name)(frame, **keywords)

        assert_same(outcome(call, pk, frame), outcome(call, np, frame))
    if name in ("sum", "cumsum") and kind in ("float64", "float32", "int64"):
        getattr(pk, name)(frame, axis=0)
        assert is_by_values()


def test_keywords_are_pandas():
    for call in (
        lambda kit: kit.sum(X, dtype=np.float32),
        lambda kit: kit.std(X, ddof=1),
        lambda kit: kit.var(X, 0, ddof=2),
        lambda kit: kit.sum(X, keepdims=True),
        lambda kit: kit.sum(X, 1),
        lambda kit: kit.clip(X, X - 1, X + 1),
        lambda kit: kit.clip(X, a_min=0, a_max=1),
        lambda kit: kit.clip(X.to_list(), X, X),
        lambda kit: kit.sum(a=X),
        lambda kit: kit.median([X, X]),
        lambda kit: kit.where(X > 0, X, None),
    ):
        assert_same(outcome(call, pk), outcome(call, np))


@pytest.mark.parametrize("name", ["argsort", "flip", "ptp", "transpose", "squeeze", "repeat", "nanprod"])
def test_other_functions_are_left_to_pandas(name):
    if hasattr(pk, name):
        more = (2,) if name == "repeat" else ()
        assert_same(getattr(pk, name)(X, *more), getattr(np, name)(X, *more))
        assert not is_by_values()


def test_attributes_stay():
    series = X.copy()
    series.attrs["unit"] = "m"
    assert pk.cumsum(series).attrs == np.cumsum(series).attrs == {"unit": "m"}


def test_named_engines_read_the_values_of_a_series(engine):
    with pk.engine(engine):
        assert pk.sum(X) == pytest.approx(np.sum(X))
        assert_same(pk.cumsum(X), np.cumsum(X))
        with pytest.raises(pk.errors.Unsupported, match="DataFrame has labels"):
            pk.sum(pd.DataFrame({"a": X}), axis=0)


@pytest.mark.parametrize(
    "columns",
    [
        {"a": pd.array([1, 2, 3], "Int64"), "b": [1.5, 2.5, 0.25]},
        {"a": pd.array([1, 2, 3], "Int8"), "b": [1000, 2000, 3]},
        {"a": pd.array([1.5, 2, 3], "Float32"), "b": [16777217, 2, 3]},
        {"a": pd.array([1, 2, 3], "UInt8"), "b": pd.array([300, 2, 3], "Int16")},
    ],
)
def test_columns_of_extension_types_and_others(engine, columns):
    """The values are read in the type that holds those of all columns."""
    frame = pd.DataFrame(columns)
    values = np.stack([np.asarray(column, float) for column in columns.values()], 1)
    with pk.engine(engine):
        assert pk.median(frame) == np.median(values)
        np.testing.assert_array_equal(pk.unique(frame), np.unique(values))


def test_nulls_of_other_columns():
    """Those of a column of NumPy's floats are numbers; those of an extension type are refused."""
    frame = pd.DataFrame({"name": ["x"] * 6000, "price": np.r_[np.nan, np.ones(5999)]})
    assert pk.count_nonzero(frame) == np.count_nonzero(frame)
    mask = np.ones((6000, 1), bool)
    ours, numpys = (kit.where(mask, frame, 0) for kit in (pk, np))
    assert ours.dtype == numpys.dtype
    assert list(map(repr, ours.flat)) == list(map(repr, numpys.flat))
    frame["name"] = pd.array([None] * 6000, "Int64")
    with pytest.raises(pk.errors.Unsupported, match=r"DataFrame of Int64 has nulls"):
        pk.count_nonzero(frame)


def test_a_number_of_numpys_and_a_series_of_an_extension_type():
    series = pd.Series(np.arange(6000), dtype="Int64")
    for name in ("add", "multiply", "divide", "power", "greater"):
        for number in (np.float64(2.0), np.int32(3)):
            ours, numpys = (getattr(kit, name)(number, series) for kit in (pk, np))
            assert_same(ours, numpys)


@pytest.mark.parametrize("name", ["std", "var"])
@pytest.mark.parametrize("ddof", [5000, 5001])
def test_no_degrees_of_freedom(name, ddof):
    series = pd.Series(np.arange(5000.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = getattr(pk, name)(series, ddof=ddof)
    assert np.isnan(ours)
    assert np.isnan(getattr(np, name)(series, ddof=ddof))
