"""Fused functions of Series and DataFrames: fused operations, and those that pandas computes."""

import operator
import warnings

import numpy as np
import pytest

import pycudakit as pk
from pycudakit import errors

pd = pytest.importorskip("pandas")

N = 5000
A = np.random.default_rng(0).random(N) + 0.5
B = np.random.default_rng(1).random(N)


def distance(a, b):
    return np.sqrt(a * a + b * b) / (1 + np.exp(-a))


def pair(index=None, names=("x", "x")):
    return tuple(pd.Series(v, index, name=name, copy=True) for v, name in zip((A, B), names, strict=True))


def assert_same(actual, expected):
    kind = (
        pd.testing.assert_frame_equal
        if isinstance(expected, pd.DataFrame)
        else pd.testing.assert_series_equal
    )
    kind(actual, expected, rtol=1e-14)


@pytest.fixture(autouse=True)
def _raise_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("names", [("x", "x"), ("x", "y"), (None, None)])
def test_series_of_one_index_are_fused(engine, names):
    a, b = pair(pd.date_range("2026", periods=N), names)
    fused = pk.fuse(distance)
    result = fused(a, b)
    assert type(result) is pd.Series
    assert_same(result, distance(a, b))
    assert result.index is a.index or result.index.is_(a.index)
    plan = fused.explain(a, b)
    assert (len(plan.passes), plan.breaks, plan.engine) == (1, (), engine)


def test_equal_indexes(engine):
    a, b = pair(pd.Index(np.arange(N) * 2, name="one"))
    b.index = pd.Index(np.arange(N) * 2, name="other")
    fused = pk.fuse(lambda a, b: (a - b) / (b + a))
    assert_same(fused(a, b), fused.__wrapped__(a, b))
    assert len(fused.explain(a, b).passes) == 1
    del engine


def test_different_indexes_are_aligned_with_one_warning(engine):
    a, b = pair()
    b.index = b.index[::-1]
    fused = pk.fuse(lambda a, b: (a + b) * a - b)
    with pytest.warns(
        pd.errors.PerformanceWarning, match=r"<lambda>: add of Series.*\.to_numpy\(\)"
    ) as caught:
        result = fused(a, b)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_same(result, fused.__wrapped__(a, b))
    with pytest.warns(pd.errors.PerformanceWarning, match="maximum of Series with different indexes"):
        assert_same(pk.fuse(np.maximum)(a, b), np.maximum(a, b))
    with pytest.raises(ValueError, match="identically-labeled"):
        pk.fuse(lambda a, b: a < b)(a, b)
    del engine


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "boolean"])
def test_extension_types_are_pandas_with_one_warning(engine, dtype):
    a = pd.Series(np.arange(N) % 2).astype(dtype)
    fused = pk.fuse(lambda a, b: a + a + b)
    with pytest.warns(pd.errors.PerformanceWarning, match=rf"Series of {dtype}.*\.to_numpy\(\)") as caught:
        result = fused(a, pd.Series(B))
    assert len(caught) == 1
    assert_same(result, fused.__wrapped__(a, pd.Series(B)))
    del engine


def test_columns(engine):
    frame = pd.DataFrame({"a": A, "b": B, "text": "x"})

    @pk.fuse
    def function(frame):
        frame["c"] = frame["a"] * frame["b"] + 1
        frame["a"] = -frame["a"]
        return np.sqrt(frame["c"]) + frame["b"] * frame["a"]

    expected = frame.copy()
    plan = function.explain(frame)
    if int(pd.__version__.partition(".")[0]) >= 3:  # where columns are copied on a write
        assert (len(plan.passes), plan.breaks) == (1, ())
    assert list(frame) == ["a", "b", "text"]  # explain works on a copy
    assert_same(function(frame), function.__wrapped__(expected))
    assert_same(frame, expected)
    del engine


def test_reductions_skip_nan(engine):
    a = pd.Series(A)
    a[3] = np.nan
    fused = pk.fuse(lambda a: (a.sum(), a.mean(), np.max(a), (a - a.mean()) / a.std()))
    *numbers, scaled = fused(a)
    *expected, expected_scaled = fused.__wrapped__(a)
    assert numbers == expected
    assert not np.isnan(numbers).any()
    assert_same(scaled, expected_scaled)
    del engine


def test_operators_do_not_warn_and_ufuncs_do(engine):
    a = pd.Series(np.tile([0.0, 1.0, -1.0], N))
    fused = pk.fuse(lambda a: (a / (a - a), a + 1))
    quotient, _ = fused(a)
    assert_same(quotient, a / (a - a))
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log"):
        pk.fuse(lambda a: np.log(a * a))(a)
    with np.errstate(all="raise"):
        assert_same(fused(a)[0], quotient)
        with pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
            pk.fuse(lambda a: np.log(a * a))(a)
    del engine


def test_division_by_zero_is_pandas(engine):
    a, b = pd.Series(np.arange(N)), pd.Series(np.arange(N) % 3)
    for operate in (operator.floordiv, operator.mod):
        for other in (b, 0):
            assert_same(pk.fuse(operate)(a, other), operate(a, other))
    fused = pk.fuse(lambda a, b: (a // 7) * 7 + a % 7 - b)
    assert_same(fused(a, b), a - b)
    assert len(fused.explain(a, b).passes) == 1
    del engine


def test_strict_names_what_pandas_computes(engine):
    fused = pk.fuse(lambda a: a - a.mean(), strict=True)
    with pytest.raises(errors.Unsupported, match=r"Series\.mean\(\).*pandas computes it"):
        fused(pd.Series(A))
    assert_same(pk.fuse(lambda a: a * 2 + 1, strict=True)(pd.Series(A)), pd.Series(A) * 2 + 1)
    del engine


def test_in_place_operators_change_the_callers_series(engine):
    def function(a):
        alias, before = a, a * 2
        a += 1
        a *= before
        own = a + 1
        same = own
        own -= a
        return alias is a, before, same

    ours, theirs = pd.Series(A, copy=True), pd.Series(A, copy=True)
    is_alias, *results = pk.fuse(function)(ours)
    assert is_alias
    _, *expected = function(theirs)
    for one, other in zip([*results, ours], [*expected, theirs], strict=True):
        assert_same(one, other)
    del engine


def test_writes_by_pandas_are_seen(engine):
    def function(a):
        later, view = a * 2, a.rename("view")
        a.iloc[0] = 9  # pandas copies the memory first, since the view shares it
        seen = a + 1
        a.iloc[1] = 8
        return later, view - 1, seen, a + 2

    ours, theirs = pd.Series(A, copy=True), pd.Series(A, copy=True)
    for one, other in zip(pk.fuse(function)(ours), function(theirs), strict=True):
        assert_same(one, other)
    assert_same(ours, theirs)
    del engine


def test_arrays_that_share_memory(engine):
    def function(array, a):
        before = a * 2
        array[:3] = 7
        return before, a * 2

    ours, theirs = A.copy(), A.copy()
    results = pk.fuse(function)(ours, pd.Series(ours, copy=False))
    for one, other in zip(results, function(theirs, pd.Series(theirs, copy=False)), strict=True):
        assert_same(one, other)
    del engine


class _Keeper:
    """An object whose method keeps results."""


def test_results_that_escape_are_series(engine):
    keeper, kept = _Keeper(), []

    def function(a, frame):
        keeper.twice = a * 2
        keeper.frame = frame
        kept.append(a + 1)
        return {"sum": a + a, "list": [frame["a"] * 3, a]}

    a, frame = pd.Series(A), pd.DataFrame({"a": A})
    result = pk.fuse(function)(a, frame)
    assert_same(keeper.twice, a * 2)
    assert keeper.frame is frame
    assert type(kept[0]) is pd.Series
    assert_same(kept[0], a + 1)
    assert_same(result["sum"], a + a)
    assert_same(result["list"][0], frame["a"] * 3)
    assert result["list"][1] is a
    del engine


CAPTURED = pd.Series(B)


def test_a_captured_series(engine):
    def function(a):
        return CAPTURED * a + CAPTURED

    assert_same(pk.fuse(function)(pd.Series(A)), function(pd.Series(A)))
    del engine


def test_an_exception_leaves_what_was_assigned(engine):
    def function(frame):
        frame["b"] = frame["a"] * 2
        frame["a"] += 1
        raise KeyError("stop")

    ours, theirs = pd.DataFrame({"a": A}), pd.DataFrame({"a": A})
    for call, frame in ((pk.fuse(function), ours), (function, theirs)):
        with pytest.raises(KeyError, match="stop"):
            call(frame)
    assert_same(ours, theirs)
    with pytest.raises(KeyError, match="missing"):
        pk.fuse(lambda frame: frame["missing"])(ours)
    with pytest.raises(AttributeError, match="'Series' object has no attribute 'missing'"):
        pk.fuse(lambda frame: frame["a"].missing)(ours)
    del engine


def test_the_body_sees_pandas_types(engine):
    def function(a, frame):
        return (
            isinstance(a, pd.Series),
            type(a) is pd.Series,
            isinstance(a * 2, pd.Series),
            isinstance(frame, pd.DataFrame),
            isinstance(a, np.ndarray),
            a.name,
            (a + 1).dtype == np.float64,
            a.index.equals(frame.index),
            repr(a[:2]),
            hasattr(a, "nothing"),
        )

    arguments = pd.Series(A, name="x"), pd.DataFrame({"a": A})
    assert pk.fuse(function)(*arguments) == function(*arguments)
    del engine


class _Own(pd.Series):
    """A user's Series, whose operators keep its type."""

    @property
    def _constructor(self):
        return _Own


def test_subclasses_and_attributes_are_left_to_pandas(engine):
    own = _Own(A)
    assert type(pk.fuse(lambda a: a * 2)(own)) is _Own
    a = pd.Series(A)
    a.attrs["unit"] = "m"
    result = pk.fuse(lambda a: a * 2)(a)
    assert result.attrs == {"unit": "m"}
    assert_same(result, a * 2)
    del engine


def test_numpy_scalars_are_numbers_to_pandas(engine):
    a = pd.Series(A.astype(np.float32))
    for number in (np.float64(1.5), np.float32(1.5), np.int64(3)):
        result = pk.fuse(lambda a, number: a * number + number)(a, number)
        assert_same(result, a * number + number)
        assert_same(pk.fuse(np.maximum)(a, number), np.maximum(a, number))
    del engine


def test_functions_of_pycudakit_in_the_body(engine):
    a, b = pair()
    assert_same(pk.fuse(lambda a, b: pk.add(a, b) * 2)(a, b), (a + b) * 2)
    assert_same(pk.fuse(lambda a, b: pk.cumsum(a + b))(a, b), (a + b).cumsum())
    result = pk.fuse(lambda a, b: pk.evaluate("a * b + 1", {"a": a, "b": b}) - a)(a, b)
    assert_same(result, a * b + 1 - a)
    array = pk.fuse(lambda a, b: pk.where(a > b, a, b) + 1)(a, b)
    np.testing.assert_array_equal(array, np.where(a > b, a, b) + 1)
    del engine


FRAME = pd.DataFrame(
    {"a": A, "b": B, "k": np.arange(N) % 5 - 1, "j": np.arange(N) % 3, "is_odd": np.arange(N) % 2 == 1},
    index=pd.Index(np.arange(N) + 3, name="key"),
)


@pytest.mark.parametrize(
    "expression",
    [
        "a * b + 1",
        "a * 2",
        "-k",
        "k & j",
        "a > b",
        "(a > b) & is_odd",
        "sqrt(a) - b",
        "k // 2",
        "a if a > b else b",
    ],
)
def test_evaluate_takes_a_frame(engine, expression):
    names = {"sqrt": np.sqrt, **FRAME}
    if "if" in expression:
        expected = FRAME["a"].where(FRAME["a"] > FRAME["b"], FRAME["b"]).rename(None)
    else:
        expected = eval(expression, names)
    for name in (engine, "auto"):
        with pk.engine(name):
            assert_same(pk.evaluate(expression, FRAME), expected)


def test_evaluate_is_pandas_where_it_differs(engine):
    a, b = pair()
    b.index = b.index[::-1]
    with pk.engine("auto"):
        for expression in ("k // j", "k % j", "is_odd & j", "is_odd | k"):
            expected = eval(expression, dict(FRAME))
            assert_same(pk.evaluate(expression, FRAME), expected)
        with pytest.warns(pd.errors.PerformanceWarning, match=r"evaluate: pandas aligns.*\.to_numpy\(\)"):
            assert_same(pk.evaluate("a + b", {"a": a, "b": b}), a + b)
        assert_same(pk.evaluate("a + b", {"a": a[:9], "b": b[:9]}), a[:9] + b[:9])
    with pytest.raises(errors.Unsupported, match="different indices"):
        pk.evaluate("a + b", {"a": a, "b": b})
    with pytest.raises(NameError, match=r"name 'z' is not defined \(at column 5\)"):
        pk.evaluate("a + z", FRAME)
    with pytest.raises(TypeError, match="a mapping of names, or a DataFrame, not a Series"):
        pk.evaluate("a", a)
    del engine


def test_calls_are_not_replayed(engine):
    on_series = pk.fuse(lambda a, b: a * b + a)
    of_arrays = pk.fuse(lambda x: (pd.Series(x) * 2 + 1, x + 1))
    for turn in range(5):
        a, b = (each + turn for each in pair())
        assert_same(on_series(a, b), a * b + a)
        series, array = of_arrays(a.to_numpy(copy=True))
        assert_same(series, pd.Series(a.to_numpy()) * 2 + 1)
        np.testing.assert_array_equal(array, a.to_numpy() + 1)
    del engine


def test_other_packages_get_objects_of_pandas(engine):
    def function(a, b):
        both = pd.concat([a * 2, b], axis=1, keys=["a", "b"])
        return both.corr(), pd.to_numeric(a + b) - a

    a, b = pair()
    ours, theirs = pk.fuse(function)(a, b), function(a, b)
    assert_same(ours[0], theirs[0])
    assert_same(ours[1], theirs[1])
    del engine


@pytest.mark.usefixtures("gpu")
def test_columns_of_one_block_on_a_gpu():
    frame = pd.DataFrame(np.stack([A, B, A + B], axis=1), columns=list("abc"))

    def function(frame):
        b = frame["b"]
        array = np.where(b > 0.5, b, 0)
        total = float(array.max())
        largest = float(np.where(b > 0.25, b, array).min())
        c = frame["c"] * total - b
        a = frame["a"] + c
        frame.loc[0, "a"] = 5.0
        return array, c, a * largest, frame["c"] * frame["a"] - a, frame["a"] + total

    ours = frame.copy()
    array, *results = pk.fuse(function)(ours)
    expected_array, *expected = function(frame)
    np.testing.assert_array_equal(array, expected_array)
    for one, other in zip(results, expected, strict=True):
        assert_same(one, other)
    assert_same(ours, frame)


def test_an_index_as_an_operand(engine):
    index = pd.Index(A, name="key")
    fused = pk.fuse(lambda index, b: (np.sqrt(index), b * index))
    root, product = fused(index, pd.Series(B))
    pd.testing.assert_index_equal(root, np.sqrt(index))
    assert_same(product, pd.Series(B) * index)
    del engine


def test_auto_fuses_large_series_and_leaves_small_ones_to_pandas():
    long = [pd.Series(np.tile(each, 200)) for each in (A, B)]
    fused = pk.fuse(distance)
    for _ in range(3):
        assert_same(fused(*long), distance(*long))
    a, b = (each[:20] for each in pair())
    b.index = b.index[::-1]
    assert_same(pk.fuse(lambda a, b: a + b)(a, b), a + b)  # without a warning
