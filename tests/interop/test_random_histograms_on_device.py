"""Property test: order statistics, histograms and `interp` of device arrays; nothing is uploaded."""

import warnings

import numpy as np
import pytest
from helpers.strategies import DTYPES, FLOATS, INTEGERS, assert_values, build, outcome
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import pycudakit as pk

SHAPES = [(1,), (2,), (2000,), (7, 1), (40, 60), (3, 70, 9), (2, 601), (601, 3)]
METHODS = ["linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "inverted_cdf"]
METHODS += ["averaged_inverted_cdf", "closest_observation", "median_unbiased", "normal_unbiased"]
SHARES = [0, 0.0, 0.3, 0.5, 1.0, 1, [0.25, 0.5, 0.75], [[0.1, 0.9], [0.5, 0.5]], np.float64(0.7)]
REFUSED_SHARES = [-0.1, 1.5, [0.5, 2.0]]
drawn = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
silent = pytest.mark.filterwarnings("ignore")


def arrays(draw, dtypes, shape, kinds=("ordinary", "special", "small")):
    kind, dtype = draw(st.sampled_from(kinds)), draw(st.sampled_from(dtypes))
    array = build(dtype, shape, kind, draw(st.integers(0, 99)))
    if array.dtype.kind == "f" and draw(st.booleans()):
        array[np.random.default_rng(draw(st.integers(0, 9))).random(shape) < 0.4] = np.nan
    array[array == 0] = 0  # NumPy sorts zeros of both signs in any order
    return array


def check(cupy_library, function, given, keywords, goes_up=0, tolerance=0.0):
    """Compare three calls, the last of which may be replayed, with NumPy; all raise if NumPy does."""

    def down(result):
        parts = result if isinstance(result, tuple) else (result,)
        flat = [each for part in parts for each in (part if isinstance(part, (list, tuple)) else (part,))]
        return [
            cupy_library.down(x) if hasattr(x, "__cuda_array_interface__") else np.asarray(x) for x in flat
        ]

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, want, _ = outcome(lambda: getattr(np, function)(*given(np.copy), **keywords(np.copy)))
        for _ in range(3):
            device_status, got, _ = outcome(
                getattr(pk, function), *given(cupy_library.up), **keywords(cupy_library.up)
            )
            assume(type(got) is not pk.errors.Unsupported)
            assert device_status == status, (want, got)
            if status != "ok":
                assert type(got) is type(want)
                continue
            assert pk.last_call().bytes_up <= goes_up
            for one, other in zip(down(got), down(want), strict=True):
                if tolerance and other.dtype.kind == "f":
                    assert one.dtype == other.dtype
                    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
                else:
                    assert_values(one, other)


@st.composite
def statistics(draw):
    """Draw a function name, its array and its other arguments."""
    names = ["median", "nanmedian", "quantile", "percentile", "nanquantile", "nanpercentile"]
    name, shape = draw(st.sampled_from(names)), draw(st.sampled_from(SHAPES))
    axes = [None, 0, -1, (0, -1)] if len(shape) > 1 else [None, 0]
    keywords = {"axis": draw(st.sampled_from(axes)), "keepdims": draw(st.booleans())}
    if name.endswith("median"):
        return name, arrays(draw, DTYPES, shape), (), keywords
    shares = draw(st.sampled_from(SHARES + REFUSED_SHARES))
    is_deep = type(shares) is list and np.ndim(shares) == 2
    assume(
        not (is_deep and name.startswith("nan") and keywords["axis"] != 0)
    )  # NumPy's result has another shape
    if name.endswith("percentile"):
        shares = np.multiply(shares, 100).tolist() if type(shares) is list else shares * 100
    keywords["method"] = draw(st.sampled_from(METHODS))
    return name, arrays(draw, DTYPES, shape), (shares,), keywords


@silent
@drawn
@given(call=statistics())
def test_order_statistics(cupy_library, call):
    name, array, shares, keywords = call
    check(cupy_library, name, lambda up: (up(array), *shares), lambda _: keywords)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_first_row_of_nan_decides_the_type(cupy_library, dtype):
    """NumPy allocates the result for the dtype of the first row's quantiles."""
    rows = np.full((3, 5), np.nan, dtype)
    rows[1:] = np.arange(10).reshape(2, 5)
    for given_rows in (rows, rows[::-1].copy()):
        check(cupy_library, "nanquantile", lambda up, x=given_rows: (up(x), [0.2, 0.5], 1), lambda _: {})


@st.composite
def edges(draw):
    """Draw bins: a number, or edges as a list or an array."""
    count = draw(st.integers(1, 40))
    if draw(st.booleans()):
        return count
    own = np.unique(np.random.default_rng(count).standard_normal(count + 1) * 50)
    return draw(st.sampled_from([own.tolist(), own, own.astype(np.float32), np.unique(own.astype(int))]))


@st.composite
def histograms(draw):
    """Draw an array, bins, a range, weights and `density`."""
    values = arrays(draw, DTYPES, draw(st.sampled_from(SHAPES)), ("ordinary", "small"))
    bins, range = draw(edges()), draw(st.sampled_from([None, (-20, 30.5), (0, 1), (3, 3), (2, 1)]))
    weights = None
    if draw(st.booleans()):
        weights = build(draw(st.sampled_from([*INTEGERS, "float64"])), values.shape, "small", 3)
    return values, {"bins": bins, "range": range, "density": draw(st.sampled_from([None, True]))}, weights


@silent
@drawn
@given(call=histograms())
def test_histogram(cupy_library, call):
    values, keywords, weights = call
    goes_up = 4 * 8 * 41 if np.ndim(keywords["bins"]) else 0

    def named(up):
        return keywords if weights is None else {**keywords, "weights": up(weights)}

    check(cupy_library, "histogram", lambda up: (up(values),), named, goes_up, 1e-13)


@silent
@drawn
@given(data=st.data())
def test_histograms_of_points(cupy_library, data):
    points = [arrays(data.draw, DTYPES, (700,), ("ordinary", "small")) for _ in range(2)]
    bins = data.draw(st.sampled_from([5, [4, 7], [[-9.0, 0.0, 2.0, 30.0], 6]]))
    keywords = {
        "bins": bins,
        "range": data.draw(st.sampled_from([None, [(-20, 30), (0, 9)], [None, (0, 9)]])),
        "density": data.draw(st.sampled_from([None, True])),
    }
    goes_up = 500 if type(bins) is list and type(bins[0]) is list else 0
    check(cupy_library, "histogram2d", lambda up: [up(x) for x in points], lambda _: keywords, goes_up, 1e-13)
    check(cupy_library, "histogramdd", lambda up: ([up(x) for x in points],), lambda _: keywords, 1000, 1e-13)


@pytest.mark.parametrize(
    "types", [("uint16", "int8", "float32"), ("float32", "uint16", "int8"), ("int64", "float16", "bool")]
)
def test_columns_are_joined_one_by_one(cupy_library, types):
    """The common dtype of three may be narrower than that of two and then the third."""
    columns = [build(dtype, (200,), "ordinary", 3) for dtype in types]
    check(cupy_library, "histogramdd", lambda up: ([up(x) for x in columns], 3), lambda _: {}, 1000)


@pytest.mark.parametrize("freedom", ["ddof", "correction"])
@pytest.mark.parametrize("given_freedom", [-1, 0, 1])
def test_of_nothing_a_variance_is_nan_if_numpys_is(cupy_library, freedom, given_freedom):
    rows = np.array([[np.nan, np.nan], [1.0, np.nan], [1.0, 4.0]])
    keywords = {"axis": 1, freedom: given_freedom}
    check(cupy_library, "nanvar", lambda up: (up(rows),), lambda _: keywords, 0, 1e-15)


@silent
@drawn
@given(data=st.data())
def test_bincount(cupy_library, data):
    values = build(
        data.draw(st.sampled_from(INTEGERS)), (data.draw(st.sampled_from([1, 50, 3000])),), "small", 5
    )
    values += values.dtype.type(data.draw(st.sampled_from([0, 0, 100])))
    if data.draw(st.booleans()) and values.dtype.kind == "i":
        values[0] = -1
    weights = build("int32", values.shape, "ordinary", 3) if data.draw(st.booleans()) else None
    least = data.draw(st.sampled_from([0, 3, 300]))
    check(
        cupy_library,
        "bincount",
        lambda up: (up(values),),
        lambda up: {"minlength": least, "weights": None if weights is None else up(weights)},
    )


@silent
@drawn
@given(data=st.data())
def test_between_points_and_edges(cupy_library, data):
    count = data.draw(st.sampled_from([1, 2, 9, 300]))
    x = arrays(data.draw, [*FLOATS, "int16"], data.draw(st.sampled_from([(50,), (4, 7)])))
    places = np.sort(np.random.default_rng(count).standard_normal(count) * 20)
    keywords = {
        "left": data.draw(st.sampled_from([None, -3.5])),
        "right": data.draw(st.sampled_from([None, 2])),
    }
    keywords["period"] = data.draw(st.sampled_from([None, 12.5]))
    values = arrays(data.draw, ["float32", "float64", "int64"], (count,))
    check(cupy_library, "interp", lambda up: (up(x), up(places), up(values)), lambda _: keywords)
    order = data.draw(st.sampled_from([1, -1]))
    right = data.draw(st.booleans())
    check(
        cupy_library, "digitize", lambda up: (up(x), up(places[::order].copy())), lambda _: {"right": right}
    )


def test_edges_that_do_not_increase_are_refused(cupy_library):
    with pytest.raises(ValueError, match="monotonically"):
        pk.digitize(cupy_library.up(np.arange(5.0)), cupy_library.up(np.array([0.0, 2.0, 1.0])))
    with pytest.raises(ValueError, match="monotonically"):
        pk.histogram(cupy_library.up(np.arange(5.0)), [0.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="not finite"):
        pk.histogram(cupy_library.up(np.array([1.0, np.nan])), 5)
