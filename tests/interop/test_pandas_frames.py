"""DataFrames: operators and ufuncs in fused functions, and single calls under `auto`."""

import operator
import warnings

import numpy as np
import pytest

import pycudakit as pk

pd = pytest.importorskip("pandas")

N = 5000
RNG = np.random.default_rng(3)
A = pd.DataFrame({name: RNG.random(N) + 0.5 for name in "xyz"})
B = pd.DataFrame({name: RNG.random(N) + 0.5 for name in "xyz"})
MIXED = A.assign(y=(A["y"] * 8).astype(np.int32), z=A["z"].astype(np.float32))
ROW = pd.Series([1.0, 2.0, 3.0], index=list("xyz"))
FRAMES = {
    "one": A,
    "mixed": MIXED,
    "array": pd.DataFrame(RNG.random((N, 3)).astype(np.float32), columns=list("xyz")),
    "blocks": A[["x", "y"]].assign(z=1.5),
    "integers": pd.DataFrame({name: RNG.integers(-4, 5, N) for name in "xyz"}),
    "bools": A > 1,
    "named": A.rename_axis("rows").rename_axis("names", axis=1),
}
OTHERS = {
    "attrs": A.copy(),
    "duplicates": A.set_axis(list("xxy"), axis=1),
    "levels": A.set_axis(pd.MultiIndex.from_product([["u"], list("xyz")]), axis=1),
    "object": A.astype(object),
    "Float64": A.astype("Float64"),
    "category": A.round().astype("category"),
    "dates": pd.DataFrame({name: pd.date_range("2026", periods=N) for name in "xyz"}),
    "empty": A[:0],
}
OTHERS["attrs"].attrs["unit"] = "m"
OPERATORS = [operator.add, operator.truediv, operator.mod, operator.pow, operator.lt, operator.and_]
UFUNCS = [np.multiply, np.maximum, np.hypot, np.greater_equal, np.logical_or]


@pytest.fixture(autouse=True)
def _raise_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        return type(error), str(error)


def assert_same(actual, expected):
    if not isinstance(expected, (pd.DataFrame, pd.Series, pd.Index)):
        assert type(actual) is type(expected)
        np.testing.assert_array_equal(actual, expected)
        return
    name = {pd.DataFrame: "frame", pd.Series: "series"}.get(type(expected), "index")
    check = getattr(pd.testing, f"assert_{name}_equal")
    check(
        actual,
        expected,
        check_exact=False,
        rtol=1e-6 if "float32" in str(getattr(expected, "dtypes", "")) else 1e-13,
    )
    assert getattr(actual, "attrs", None) == getattr(expected, "attrs", None)
    assert not hasattr(expected, "columns") or actual.columns.identical(expected.columns)


def is_by_values():
    return "overrides" not in pk.last_call().reason


# ---- Fused functions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FRAMES, *OTHERS])
@pytest.mark.parametrize("function", OPERATORS + UFUNCS)
def test_two_frames(engine, name, function):
    frame = (FRAMES | OTHERS)[name]
    with np.errstate(all="ignore"):
        for operands in ((frame, frame), (frame, 2), (1.5, frame), (frame, True)):
            assert_same(outcome(pk.fuse(function), *operands), outcome(function, *operands))
    del engine


@pytest.mark.parametrize("name", FRAMES)
def test_arrays_rows_and_numbers(engine, name):
    frame = FRAMES[name]

    def function(frame, array, row, number):
        return frame * array, array - frame, frame + row, row - frame, frame * number, abs(frame * 2)

    arguments = frame, RNG.random((N, 3)), ROW, np.float32(1.5)
    results = outcome(pk.fuse(function), *arguments)
    expected = outcome(function, *arguments)
    assert len(results) == len(expected)
    for ours, theirs in zip(results, expected, strict=True):
        assert_same(ours, theirs)
    del engine


def scaled(a, b):
    return np.sqrt(a * a + b * b) / (1 + np.exp(-a))


@pytest.mark.parametrize(("name", "passes"), [("one", 1), ("array", 1), ("mixed", 1), ("blocks", 1)])
def test_operations_are_fused(engine, name, passes):
    frame = FRAMES[name]
    fused = pk.fuse(scaled)
    assert_same(fused(frame, frame), scaled(frame, frame))
    assert_same(fused(A, frame), scaled(A, frame))
    plan = fused.explain(frame, frame)
    assert (len(plan.passes), plan.breaks, plan.engine) == (passes, (), engine)


def test_columns_of_results(engine):
    def function(frame):
        scaled = (frame - frame.mean()) / frame.std()
        scaled["w"] = scaled["x"] * scaled["y"]
        scaled += 1
        return scaled, scaled["w"].sum(), len(scaled), scaled.shape, list(scaled.columns), scaled > 0

    *ours, positive = pk.fuse(function)(A)
    *theirs, expected = function(A)
    assert_same(ours[0], theirs[0])
    assert ours[1] == pytest.approx(theirs[1], rel=1e-12)
    assert ours[2:] == theirs[2:]
    assert_same(positive, expected)
    del engine


@pytest.mark.parametrize("name", ["one", "mixed", "array"])
def test_writes_are_seen_and_results_share_no_memory(engine, name):
    def function(frame):
        before, twice = frame * 2, frame * 2
        column = twice["x"]
        frame.iloc[0, 0] = 9
        after = frame + 1
        before.iloc[1, 1] = 7
        twice.loc[2, "x"] = 5
        frame["x"] = frame["x"] * 2
        return before, twice, column, after, before + twice, frame + frame

    ours, theirs = FRAMES[name].copy(), FRAMES[name].copy()
    for one, other in zip(pk.fuse(function)(ours), function(theirs), strict=True):
        assert_same(one, other)
    assert_same(ours, theirs)
    results = pk.fuse(lambda frame: (frame * 2, frame * 2, (frame * 2)["x"]))(A)
    results[0].iloc[0, 0] = 100.0
    assert results[1].iloc[0, 0] == results[2].iloc[0] == A.iloc[0, 0] * 2
    del engine


def test_an_assigned_column_is_not_changed_by_later_writes(engine):
    def function(frame):
        own = frame["x"] + 1
        frame["w"] = own
        column = frame["w"]
        frame.loc[0, "w"] = 50.0
        return own, column, frame["w"] * 1

    for one, other in zip(pk.fuse(function)(A.copy()), function(A.copy()), strict=True):
        assert_same(one, other)
    del engine


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (B[["z", "y", "x"]], "DataFrames with different labels"),
        (B.set_axis(B.index + 1), "DataFrames with different labels"),
        (ROW[::-1], "a DataFrame and a Series with another index"),
    ],
)
def test_fused_alignment_is_pandas_with_one_warning(engine, other, words):
    fused = pk.fuse(lambda a, b: a + b * a)
    with pytest.warns(pd.errors.PerformanceWarning, match=rf"{words}.*\.to_numpy\(\)") as caught:
        result = fused(A, other)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_same(result, A + other * A)
    assert outcome(pk.fuse(operator.lt), A, B[["z", "y", "x"]]) == outcome(operator.lt, A, B[["z", "y", "x"]])
    del engine


# ---- Single calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FRAMES, *OTHERS])
@pytest.mark.parametrize("function", [*UFUNCS, np.add, np.remainder, np.bitwise_xor, np.exp, np.negative])
def test_single_calls(name, function):
    frame = (FRAMES | OTHERS)[name]
    ours = getattr(pk, function.__name__)
    cases = [(frame,)] if function.nin == 1 else [(frame, frame), (A, frame), (frame, 2), (frame, ROW)]
    if name in ("duplicates", "levels", "empty"):
        cases = [case for case in cases if not (case[0] is A or case[-1] is ROW)]
    with pk.engine("auto"), np.errstate(all="ignore"):
        for operands in cases:
            assert_same(outcome(ours, *operands), outcome(function, *operands))
    if name in OTHERS and name != "empty":
        assert pk.last_call() is None or not is_by_values() or cases == []


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "bools"])
def test_single_calls_are_by_values(name):
    with pk.engine("auto"):
        for operands in ((FRAMES[name], A), (FRAMES[name], 2.5), (0.5, FRAMES[name])):
            for function in ("subtract", "less"):
                assert_same(getattr(pk, function)(*operands), getattr(np, function)(*operands))
                assert is_by_values()


def test_alignment_is_pandas_with_one_warning():
    with pk.engine("auto"):
        for other in (B[["z", "y", "x"]], B.set_axis(B.index + 1), ROW[::-1]):
            with pytest.warns(
                pd.errors.PerformanceWarning, match=r"add: pandas aligns.*\.to_numpy\(\)"
            ) as caught:
                result = pk.add(A, other)
            assert len(caught) == 1
            assert caught[0].filename == __file__
            assert_same(result, np.add(A, other))
        assert outcome(pk.less, A, B[["z", "y", "x"]]) == outcome(np.less, A, B[["z", "y", "x"]])
        assert outcome(pk.add, ROW, A) == outcome(np.add, ROW, A)
        assert_same(pk.add(A[:9], B[:9][["z", "y", "x"]]), np.add(A[:9], B[:9][["z", "y", "x"]]))


def test_operators_of_an_index():
    one, other = pd.Index(A["x"], name="i"), pd.Index(A["y"], name="j")
    with pk.engine("auto"):
        for operands in ((one, one), (one, other), (one, 2), (0.5, one), (one, A["z"].to_numpy())):
            for name in ("add", "divide", "less_equal"):
                assert_same(getattr(pk, name)(*operands), getattr(np, name)(*operands))
                assert is_by_values()
        for operands in ((pd.RangeIndex(N), 2), (one.astype("Float64"), one), (one, one[:9])):
            assert_same(outcome(pk.add, *operands), outcome(np.add, *operands))
