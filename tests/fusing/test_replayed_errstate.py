"""Replays of functions that set NumPy's error handling by `with np.errstate(...)`, and that raise."""

import warnings

import numpy as np
import pytest
from helpers.nested import assert_parts

import pycudakit as pk

pytestmark = pytest.mark.usefixtures("really_replayed")


def quotient(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        result = x / y
        logarithm = np.log(x)
    result[~np.isfinite(result)] = 0
    return result, logarithm


def checked(x, y):
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"x has {x.ndim} dimensions, and y has {y.ndim}, not 1")
    with np.errstate(all="ignore"):
        most = (x / y).max()
    return np.sqrt(x) * 2, most


def outside_too(x, y):
    with np.errstate(divide="ignore"):
        inside = x / y
    return inside, 1 / (y - 1)


def in_a_loop(x, y):
    """Its last operation may overflow, and none of the earlier ones may hide that."""
    for _ in range(3):
        with np.errstate(divide="ignore", over="ignore"):
            x = x / y * 1e300
        x = np.minimum(x, 1e200) * y
    return x


def reads_a_sum(x, y):
    with np.errstate(over="ignore"):
        total = (x * y * 1e300).sum()
    return total, y.sum()


def with_a_scan(x, y):
    """The flags of a scan are not known apart from those of the division."""
    with np.errstate(divide="ignore"):
        quotient = x / y
    return quotient, np.cumsum(x)


def until_close(x, y):
    turns = 0
    while not np.allclose(x, y):
        with np.errstate(divide="ignore"):
            inverse = 1 / x
        x = 0.5 * (x + y) + 0 * (inverse == 0)
        turns += 1
    return x, turns


def louder(x, y):
    with np.errstate(over="raise"):
        return x * y


def tried(x, y):
    try:
        return x / y
    except ValueError:
        return x


def tried_inside(x, y):
    with np.errstate(divide="ignore"):
        try:
            return x / y
        except:  # noqa: E722
            return x


def finally_changed(x, y):
    try:
        result = x / y
    finally:
        result = x + 1
    return result


REPLAYED = (quotient, checked, outside_too, in_a_loop, reads_a_sum, with_a_scan, until_close)
TRACED = (louder, tried, tried_inside, finally_changed)
ONES = np.random.default_rng(0).integers(2, 5, 300).astype("f8")


def some(value):
    array = ONES.copy()
    array[::7] = value
    return array


def outcome(function, *arguments):
    """Return a call's result or exception, its warnings, and whether it was replayed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments)
        except (ArithmeticError, ValueError) as error:
            result = repr(error)
    call = pk.last_call()
    return result, {str(each.message) for each in caught}, call is not None and "replayed" in call.reason


def assert_close(one, other):
    if isinstance(one, str):
        assert one == other
    else:
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("body", [*REPLAYED, *TRACED], ids=lambda body: body.__name__)
def test_results_and_warnings_are_numpys(engine, body):
    """Whatever the caller's settings are, and whether the function's own are needed."""
    fused, x = pk.fuse(body), np.arange(1.0, 301)
    for state in ({}, {"all": "ignore"}, {"divide": "raise"}, {"over": "ignore"}, {}):
        for y in (ONES, ONES, ONES, some(0), some(0), ONES, some(1), some(1e307), ONES, ONES):
            with np.errstate(**state):
                result, messages, is_replayed = outcome(fused, x, y)
                expected, wanted, _ = outcome(body, x, y)
            assert_parts(result, expected, assert_close)
            assert messages == wanted
            assert not is_replayed or body in REPLAYED


@pytest.mark.parametrize("body", REPLAYED, ids=lambda body: body.__name__)
def test_they_are_replayed(engine, body):
    fused, x = pk.fuse(body), np.arange(1.0, 301)
    y = some(0) if body in (quotient, checked) else ONES
    for _ in range(5):
        _, messages, is_replayed = outcome(fused, x, y)
        assert not messages
    assert is_replayed or engine != "cpu"  # a GPU does not tell which request raised a flag


def test_refusals_are_the_functions_own(engine):
    fused = pk.fuse(checked)
    for _ in range(4):
        fused(ONES, ONES)
        with pytest.raises(ValueError, match="x has 2 dimensions, and y has 1, not 1"):
            fused(ONES.reshape(10, 30), ONES)


def test_assertions(engine):
    """Of a function whose assertion pytest does not rewrite."""
    names = {}
    exec("def halved(x):\n    assert x.ndim == 1, f'{x.ndim} dimensions'\n    return x / 2", names)
    fused = pk.fuse(names["halved"])
    for _ in range(4):
        result, _, is_replayed = outcome(fused, ONES)
        np.testing.assert_array_equal(result, ONES / 2)
        with pytest.raises(AssertionError, match="2 dimensions"):
            fused(ONES.reshape(10, 30))
    assert is_replayed == (engine != "auto")
