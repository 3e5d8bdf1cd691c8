"""Fused functions of pandas' objects have pandas' results, for any dtypes, indexes and operations."""

import copy
import operator
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

pd = pytest.importorskip("pandas")

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"]
OTHER_DTYPES = [
    "Int64",
    "Float32",
    "boolean",
    "object",
    "datetime64[ns]",
    "category",
    "str",
    "complex128",
    ">f8",
]
KEYS = {
    "same": [3, 1, 2, 9, 8, 7, 4],
    "shuffled": [1, 3, 2, 9, 8, 7, 4],
    "duplicates": [1, 1, 2, 3, 3, 5, 6],
    "strings": list("abcdefg"),
}
NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, -1, 3, 300, 2**40, 0.0, 1.0, 2.5, -0.5, float("nan"), float("inf")]),
    st.sampled_from([True, None, "x", np.float32(2), np.float64(0.5), np.int8(3), np.int64(-2)]),
    st.sampled_from([np.bool_(True), np.array(3.0)]),
)
BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.and_,
    operator.or_,
    operator.xor,
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
    divmod,
    np.add,
    np.divide,
    np.floor_divide,
    np.remainder,
    np.maximum,
    np.minimum,
    np.fmax,
    np.less,
    np.equal,
    np.logical_and,
    np.bitwise_and,
    np.copysign,
    lambda x, y: np.where(x > y, x, y),
    lambda x, y: x.where(x > 0, y),
    lambda x, y: x[x > 0] + y,
    lambda x, y: x.add(y, fill_value=1),
]
UNARY = [
    operator.neg,
    operator.pos,
    operator.abs,
    operator.invert,
    np.sqrt,
    np.abs,
    np.sign,
    np.floor,
    np.isnan,
    np.negative,
    np.square,
    np.logical_not,
    np.modf,
    np.cumsum,
    np.sum,
    lambda x: x**2,
    lambda x: x.sum(),
    lambda x: x.mean(),
    lambda x: x - x.mean(),
    lambda x: x / x.max(),
    lambda x: x.cumsum(),
    lambda x: x.rolling(2).sum(),
    lambda x: x[1:4],
    lambda x: x[x > 1],
    lambda x: x.iloc[::-1],
    lambda x: x.to_numpy(),
    lambda x: x.values + 1,
    lambda x: x.astype("float32"),
    lambda x: x.fillna(0),
    lambda x: x.isna(),
    lambda x: x.rename("other"),
    lambda x: x.shift(1),
    lambda x: x.groupby(x > 1).sum(),
    lambda x: np.where(x > 1, x, 0),
    len,
    lambda x: (x > 1).any(),
    lambda x: list(x)[:20],
    lambda x: x.to_frame(),
    lambda x: x.copy(),
]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.iand]
# With the second, operations are deferred; with the first, they are computed at once.
LENGTHS = st.shared(st.sampled_from([7, 1400]), key="length")


def index_of(kind, length):
    """Return an index; of one kind, but for the name, they are equal."""
    if kind == "range":
        return pd.RangeIndex(length)
    if kind == "dates":
        return pd.date_range("2026-01-01", periods=length)
    if kind == "multi":
        return pd.MultiIndex.from_arrays([np.arange(length) // 3, np.resize(list("abcabca"), length)])
    keys = pd.Index(np.resize(KEYS[kind.partition(" ")[0]], length), name="key" if " " in kind else None)
    return keys + np.arange(length) // 7 * 10 if kind.startswith(("same", "shuffled")) else keys


INDEXES = [
    "range",
    "range",
    "same",
    "same",
    "same named",
    "shuffled",
    "duplicates",
    "strings",
    "dates",
    "multi",
]


@st.composite
def series(draw):
    """Draw a Series."""
    dtype = draw(st.sampled_from(DTYPES * 3 + OTHER_DTYPES))
    numbers = draw(
        st.sampled_from([[0, 1, 2, 3, 4, 1, 5], [1, 0, 1, 1, 0, 1, 1], [5, 7, 0, 1, 2, 9, 3], [3]])
    )
    numbers = np.resize(np.array(numbers, float), draw(LENGTHS))
    if dtype.startswith(("float", "complex", ">")) and draw(st.booleans()):
        numbers[1:4] = np.nan, np.inf, -2.5
    if dtype in ("bool", "boolean"):
        numbers = numbers > 1
    values = pd.Series(numbers.astype("int64") if dtype.startswith("datetime") else numbers).astype(dtype)
    values.index = index_of(draw(st.sampled_from(INDEXES)), len(values))
    return values.rename(draw(st.sampled_from([None, "x", "y", 1, ("a", 1), np.nan])))


def same(actual, expected):
    """Compare results, with their types and labels."""
    if isinstance(expected, (tuple, list)):
        assert type(actual) is type(expected)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, pd.Series):
        assert type(actual) is pd.Series
        pd.testing.assert_series_equal(actual, expected, check_exact=True, check_index_type="exact")
        pd.testing.assert_index_equal(actual.index, expected.index, exact=True)
    elif isinstance(expected, pd.DataFrame):
        assert type(actual) is pd.DataFrame
        pd.testing.assert_frame_equal(actual, expected, check_exact=True)
    elif isinstance(expected, pd.Index):
        pd.testing.assert_index_equal(actual, expected, exact=True)
    elif isinstance(expected, np.ndarray):
        assert type(actual) is np.ndarray
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    elif expected is pd.NA:
        assert actual is pd.NA
    else:
        assert type(actual) is type(expected)
        is_nan = expected != expected  # noqa: PLR0124
        assert actual != actual if is_nan else actual == expected  # noqa: PLR0124


def outcome(function, arguments):
    """Return a call's result or exception, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(*arguments), None
        except Exception as raised:  # noqa: BLE001
            result, error = None, raised
    texts = {str(each.message) for each in caught if each.category is not pd.errors.PerformanceWarning}
    return result, error, texts


def check(function, *arguments):
    """Compare a fused function with the function itself."""
    ours, theirs = copied(arguments), copied(arguments)
    expected, error, texts = outcome(function, theirs)
    actual, raised, our_texts = outcome(pk.fuse(function), ours)
    if error is not None or raised is not None:
        assert type(raised) is type(error), (raised, error)
        assert str(raised) == str(error)
    else:
        same(actual, expected)
    assert our_texts == texts
    same(list(ours), list(theirs))


def copied(arguments):
    """Copy the arguments; those with one index still have one, and one argument stays one."""
    copies = {id(each): copy.copy(each) for each in arguments}
    return tuple(copies[id(each)] for each in arguments)


@given(st.sampled_from(BINARY), series(), st.one_of(series(), NUMBERS), st.booleans())
def test_binary(engine, function, x, y, swapped):
    del engine
    if swapped:
        check(lambda x, y: function(y, x), x, y)
    else:
        check(function, x, y)


@given(st.sampled_from(BINARY), series(), st.one_of(series(), NUMBERS))
def test_binary_with_arrays(engine, function, x, y):
    del engine
    array = y.to_numpy() if isinstance(y, pd.Series) else y
    check(lambda x, y: function(y, x), x, array)
    check(function, x, array)


@given(st.sampled_from(UNARY), series())
def test_unary(engine, function, x):
    del engine
    check(function, x)


STEPS = st.lists(st.tuples(st.sampled_from(BINARY[:20]), st.integers(0, 3), st.integers(0, 3)), max_size=5)
LAST = st.lists(st.sampled_from(UNARY), max_size=2)


@given(STEPS, LAST, st.sampled_from(IN_PLACE), series(), series(), NUMBERS)
def test_programs(engine, steps, last, in_place, x, y, number):
    del engine

    def program(x, y, number):
        values = [x, y, number]
        for function, i, j in steps:
            values.append(function(values[-1 - i % len(values)], values[j % len(values)]))
        values[-1] = in_place(values[-1], values[0])
        for function in last:
            values.append(function(values[-1]))
        return values

    check(program, x, y, number)


def set_item(frame, key, value):
    frame[key] = value


def set_columns(frame):
    frame.columns = [f"{name}_" if name == "c" else name for name in frame.columns]


def change_column(frame):
    column = frame["a"]
    column += 1
    return column


def change_element(frame):
    column = frame["b"] * 2
    before = column.rename("before")
    column.iloc[1] = 7
    return before, column, column + frame["a"]


def change_after_use(frame):
    column = frame["a"]
    later = column * 2
    frame.loc[frame["k"] > 0, "a"] = 5
    return later, column + 1, frame["a"] - column


def set_slice(frame):
    array = frame["a"].to_numpy() + 1
    array[1:3] = frame["b"][1:3]
    return array


CHANGES = [
    lambda frame: set_item(frame, "c", frame["a"] * frame["b"]),
    lambda frame: set_item(frame, "a", frame["a"] + 1),
    lambda frame: set_item(frame, "d", frame["b"] / frame["a"]),
    lambda frame: set_item(frame, "c", 5),
    lambda frame: set_item(frame, "d", frame["a"].to_numpy()),
    lambda frame: set_item(frame, "d", frame["a"].to_numpy() * 2),
    lambda frame: set_item(frame, "c", frame["a"].iloc[::-1]),
    lambda frame: set_item(frame, "c", np.where(frame["a"] > 2, frame["b"], 0)),
    lambda frame: set_item(frame, "k", frame["k"] % 2),
    lambda frame: set_item(frame, "e", frame["c"].fillna(0)),
    lambda frame: set_item(frame, frame["a"] > 3, 1),
    lambda frame: set_item(frame.loc, (frame["a"] > 2, "b"), 0),
    lambda frame: set_item(frame.loc, (frame["a"] > 2, "b"), frame["a"] * 2),
    lambda frame: set_item(frame.iloc, (0, 0), -1),
    lambda frame: operator.delitem(frame, "c"),
    lambda frame: frame.insert(0, "z", frame["a"] - 1),
    lambda frame: frame.drop(columns="c", inplace=True),
    lambda frame: frame.rename(columns={"c": "d"}, inplace=True),
    lambda frame: frame.fillna(0, inplace=True),
    set_columns,
]
READS = [
    lambda frame: frame["c"] - frame["a"],
    lambda frame: frame.a * frame.b,
    lambda frame: frame["text"].str.upper(),
    lambda frame: frame.groupby("k")["a"].transform("mean") - frame["a"],
    lambda frame: frame[["a", "b"]].sum(axis=1) * frame["a"],
    lambda frame: frame["a"].mean(),
    lambda frame: frame["a"].rolling(3).mean() + frame["a"],
    lambda frame: np.sqrt(frame[["a", "b"]]),
    lambda frame: frame[["a", "b"]] * 2 + frame[["a", "b"]],
    lambda frame: pd.concat([frame["a"], frame["b"] * 2]),
    lambda frame: pd.DataFrame({"p": frame["a"], "q": frame["a"] + 1}),
    lambda frame: (len(frame), frame.shape, "c" in frame, list(frame)),
    lambda frame: frame.index,
    lambda frame: frame.eval("a + b"),
    lambda frame: frame.apply(lambda row: row["k"], axis=1),
    change_column,
    change_element,
    change_after_use,
    set_slice,
]
FRAMES = [
    lambda frame: frame.sort_values("k"),
    lambda frame: frame[frame["a"] > 1],
    lambda frame: frame.assign(d=lambda each: each["a"] * 2),
    lambda frame: frame.reset_index(drop=True),
    lambda frame: frame.copy(),
]
STATEMENTS = [
    (kind, each) for kind, some in (("set", CHANGES), ("get", READS), ("new", FRAMES)) for each in some
]


@given(st.lists(st.sampled_from(STATEMENTS), max_size=6), LENGTHS, st.sampled_from(["range", "strings"]))
def test_frames(engine, statements, length, index):
    del engine
    frame = pd.DataFrame(
        {
            "a": np.resize([1.0, 2.0, np.nan, 3.0, 0.5], length),
            "b": np.arange(float(length))[::-1],
            "k": np.arange(length) % 3,
            "text": np.resize(["x", "yy", "z"], length),
        },
        index=index_of(index, length),
    )

    def program(frame):
        kept = []
        for kind, statement in statements:
            value = statement(frame)
            if kind == "new":
                frame = value
            elif kind == "get":
                kept.append(value)
        return frame, kept

    check(program, frame)
