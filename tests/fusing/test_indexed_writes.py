"""NumPy functions that write to selected elements (`put`, `place`, ...): values and errors."""

import contextlib
import warnings

import numpy as np
import pytest
from helpers import fake_gpu
from helpers.strategies import assert_values
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit.fusing.memory import residency

DTYPES = ["bool", "uint8", "int32", "int64", "float32", "float64"]
SHAPES = [(12,), (7, 5), (5, 7), (4, 4), (3, 3, 3), (9, 2), (1200,), (40, 30), (0,), (1,)]
TARGETS = {  # the written arrays
    "argument": lambda x: x,
    "reversed": lambda x: x[::-1],
    "rows": lambda x: x[1:],
    "own": lambda x: x.copy(),
}


@contextlib.contextmanager
def a_gpu():
    """Install a fake GPU that makes even the smallest array resident."""
    if pk.engines()["cuda"]:
        pytest.skip("there is a GPU")
    with pytest.MonkeyPatch.context() as patched, pk.engine("cuda"):
        made = fake_gpu.put(patched)
        patched.setattr(residency, "MIN_RESIDENT_BYTES", 1)
        yield made


def outcome(function, arguments):
    """Return the result of a function, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            return type(error), str(error)


def copies(arguments):
    made = [np.copy(a, "K") if type(a) is np.ndarray else a for a in arguments]
    made[0].flags.writeable = arguments[0].flags.writeable
    return made


def check(body, *arguments, strict=True):
    """Compare with NumPy; after a failed write, the array's contents are not compared."""
    for name, target in TARGETS.items():

        def function(x, *rest, target=target):
            before = x + x
            y = target(x)
            result = body(y, *rest)
            return result, y, before, y + y

        ours, theirs = copies(arguments), copies(arguments)
        want, got = outcome(function, theirs), outcome(pk.fuse(function, strict=strict), ours)
        if isinstance(want[0], type):
            assert got == want, name
            continue
        assert got[0] is want[0] is None, name
        for one, other in zip([*got[1:], *ours], [*want[1:], *theirs], strict=True):
            if type(other) is np.ndarray:
                assert_values(one, other)
            else:
                assert one == other


def numbers(rng, shape, dtype, into=""):
    """Return numbers that both dtypes can hold."""
    return rng.integers(0 if "uint8" in (dtype, into) else -3, 4, shape).astype(dtype)


@st.composite
def writes(draw):
    """Draw a body that writes, and its arguments."""
    choose = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape, dtype = choose(*SHAPES), choose(*DTYPES)
    x = np.array(numbers(rng, shape, dtype), order=choose("C", "F"))
    x.flags.writeable = choose(*[True] * 7, False)
    of = choose(dtype, *DTYPES)
    count = choose(0, 1, 2, 3, x.size // 2, x.size, x.size + 3)
    values = choose(*(numbers(rng, size, of, dtype) for size in (count, shape, ())), 2, 1.5, True, [1, 0], -1)
    mask = rng.random(shape) < choose(0, 0.3, 1)
    kind = choose("put", "method", "along", "place", "putmask", "diagonal", "copyto", "fill")
    if kind in ("put", "method"):
        mode = choose("raise", "wrap", "clip", "other")
        furthest = max(x.size, 1) + (choose(0, 0, 3) if mode == "raise" else 9)
        at = rng.integers(-furthest, furthest, choose(0, 1, 5, 30)).astype(choose("i8", "i4", "i2", "f8"))
        at = choose(at, at.reshape(1, -1), at.tolist())
        if kind == "put":
            return (lambda x, i, v: np.put(x, i, v, mode)), x, at, values
        return (lambda x, i, v: x.put(i, v, mode=mode)), x, at, values
    if kind == "along":
        axis, lengths = choose(0, -1, 1, None), list(shape)
        if axis is not None and axis < len(shape):
            lengths[axis] = choose(1, 3)
        if choose(True, False):
            lengths[draw(st.integers(0, len(shape) - 1))] = 1
        longest = max(1, shape[axis if axis is not None and axis < len(shape) else 0])
        at = rng.integers(-longest - choose(0, 0, 2), longest, lengths)
        values = choose(values, 2, *(numbers(rng, size, of, dtype) for size in (lengths, lengths[-1:])))
        return (lambda x, i, v: np.put_along_axis(x, i, v, axis)), x, at, values
    if kind == "diagonal":
        wrap = choose(True, False)
        return (lambda x, v: np.fill_diagonal(x, v, wrap)), x, values
    if kind == "copyto":
        casting = choose("no", "safe", "same_kind", "unsafe")
        where = choose(True, mask, mask[..., :1], mask.astype(np.uint8), False)
        return (lambda x, v, m: np.copyto(x, v, casting, where=m)), x, values, where
    if kind == "fill":
        return (lambda x, v: x.fill(v)), x, values
    return getattr(np, kind), x, choose(mask, mask, mask.reshape(-1), mask.astype(np.int8)), values


@given(writes())
def test_random_writes(engine, case):
    check(*case)


@given(writes())
def test_random_writes_on_a_device(case):
    with a_gpu():
        check(*case)


UFUNCS = ["add", "subtract", "multiply", "maximum", "minimum", "logical_or", "bitwise_xor"]


@pytest.mark.parametrize("name", UFUNCS)
def test_at(engine, name):
    rng = np.random.default_rng(1)
    x, v = numbers(rng, (2, 5000), "int64")
    check(lambda x, i, v: getattr(np, name).at(x, i, v), x, rng.integers(-100, 100, 300), v[:300])
    check(np.negative.at, x, rng.permutation(100))
    check(lambda x, i, v: getattr(np, name).at(x, i, v), x, np.array([0, 5000]), v[:2])


def with_places(x, i, v):
    np.put(x, i, v)
    np.put(x, i[:3], 7)
    x.put(i, v[:5], mode="wrap")


def with_places_along_rows(x, i, v):
    np.put_along_axis(x.reshape(50, 100), i.reshape(50, 60), v[0], axis=1)
    np.put_along_axis(x.reshape(50, 100), i.reshape(30, 100) % 50, v[:100], axis=0)


def with_masks(x, i, v):
    np.putmask(x, x > 0, v)
    np.putmask(x, x < 0, v[:7])
    np.place(x, x > 1, v[:9])
    np.place(x, x == 2, [5.0])
    np.copyto(x, i[7], where=v > 1, casting="unsafe")


def with_diagonals(x, i, v):
    np.fill_diagonal(x.reshape(50, 100), v[:50])
    np.fill_diagonal(x.reshape(100, 50), v[:30], wrap=True)
    np.fill_diagonal(x[:1000].reshape(10, 10, 10), 3)


@pytest.mark.parametrize("body", [with_places, with_places_along_rows, with_masks, with_diagonals])
def test_written_arrays_stay_on_the_device(body):
    def function(x, i, v):
        y = np.sqrt(np.abs(x)) - 1
        body(y, i, v)
        return y.max(), y.min(), y.sum()

    rng = np.random.default_rng(2)
    x, v = rng.standard_normal((2, 5000))
    i = rng.integers(0, 100, 3000)
    with a_gpu() as gpu:
        plan = pk.fuse(function, strict=True).explain(x, i, v)
        assert {each.engine for each in plan.passes} == {"cuda"}
        assert gpu.bytes_down == 0
        np.testing.assert_allclose(pk.fuse(function)(x, i, v), function(x, i, v), rtol=1e-12)


def test_explain_tells_of_the_host(engine):
    def function(x, i, v):
        np.put(x, i, v)
        np.add.at(x, i, 1)

    x, i, v = np.zeros(5000), np.arange(10), np.ones(10)
    with pk.engine("cpu"):
        plan = pk.fuse(function, strict=True).explain(x, i, v)
    assert [(each.function, each.engine, each.writes) for each in plan.passes] == [
        ("put", "numpy", ("x",)),
        ("at", "numpy", ("x",)),
    ]


def test_arrays_that_are_no_arguments(engine):
    table = np.zeros((30, 40))

    def function(x, i):
        np.put(table, i, x + 1)
        np.copyto(table[20:], x[:10, None] * 2)
        np.fill_diagonal(table, x[0])
        np.putmask(table, table == 2, x[1])
        return table.sum()

    rng = np.random.default_rng(3)
    x, i = rng.standard_normal(900), rng.permutation(900)
    got = pk.fuse(function)(x, i), table.copy()
    table[...] = 0
    want = function(x, i), table
    np.testing.assert_allclose(got[0], want[0])
    assert_values(got[1], want[1])


def test_a_number_is_no_array(engine):
    def function(x):
        total = x.sum()
        np.put(total, [0], 1)

    assert outcome(pk.fuse(function), [np.ones(5000)]) == outcome(function, [np.ones(5000)])


def test_numbers_that_a_type_has_not(engine):
    def function(x, value):
        x[...] = value

    for value in (float("nan"), float("inf"), 1e30, 300, -1):
        ours, theirs = np.zeros(5000, np.uint8), np.zeros(5000, np.uint8)
        assert outcome(pk.fuse(function), [ours, value]) == outcome(function, [theirs, value])
        assert_values(ours, theirs)
