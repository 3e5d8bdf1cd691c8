"""`isclose`, `allclose` and `array_equal` against NumPy, for all types and layouts."""

import numpy as np
import pytest
from helpers.strategies import operands
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import pycudakit as pk

NUMBERS = [0, 1, -3, 1.0, 1 + 1e-6, 1e10, float("nan"), float("inf"), -float("inf")]
SIZE = 50_000


def assert_same(ours, numpys):
    assert type(ours) is type(numpys)
    assert_array_equal(ours, numpys, strict=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(data=st.data())
def test_any_operands(engine, data):
    a, b = data.draw(operands(2))
    equal_nan = data.draw(st.booleans())
    tolerances = data.draw(st.sampled_from([(), (1e-5,), (0.5, 0.25), (0, 0)]))
    for asked in (engine, "auto"):
        with pk.engine(asked):
            assert_same(
                pk.isclose(a, b, *tolerances, equal_nan=equal_nan),
                np.isclose(a, b, *tolerances, equal_nan=equal_nan),
            )
            assert pk.allclose(a, b, *tolerances, equal_nan=equal_nan) is np.allclose(
                a, b, *tolerances, equal_nan=equal_nan
            )
            assert pk.array_equal(a, b, equal_nan=equal_nan) is np.array_equal(a, b, equal_nan=equal_nan)


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
def test_numbers(engine, a, b):
    for x, y in ((a, b), (np.full(5, a), b), (a, np.full(5, b))):
        for equal_nan in (False, True):
            assert_same(pk.isclose(x, y, equal_nan=equal_nan), np.isclose(x, y, equal_nan=equal_nan))
            assert pk.allclose(x, y, equal_nan=equal_nan) is np.allclose(x, y, equal_nan=equal_nan)
            assert pk.array_equal(x, y, equal_nan=equal_nan) is np.array_equal(x, y, equal_nan=equal_nan)


def pair():
    a = np.random.default_rng(2).random(SIZE)
    b = a * (1 + 2e-5 * np.random.default_rng(3).random(SIZE))
    a[[5, 9]], b[[5, 9]] = np.nan, (np.nan, np.inf)
    return a, b


def test_large_ones_take_one_pass(engine):
    a, b = pair()
    assert_same(pk.isclose(a, b), np.isclose(a, b))
    assert pk.allclose(a, b) is False
    assert pk.allclose(a, a, equal_nan=True) is True
    call = pk.last_call()
    assert (call.function, call.engine) == ("allclose", engine)
    assert call.bytes_up in (0, a.nbytes, 2 * a.nbytes)
    assert pk.array_equal(a, a.copy()) is False
    assert pk.array_equal(a, a.copy(), equal_nan=True) is True
    assert pk.array_equal(a, a[:-1]) is False


def test_in_a_fused_function(engine):
    a, b = pair()
    near = pk.fuse(lambda x, y: np.where(np.isclose(x, y, equal_nan=True), x, 0.0))
    with np.errstate(invalid="raise"):
        got = near(a, b)
    assert_array_equal(got, np.where(np.isclose(a, b, equal_nan=True), a, 0.0))
    assert near.explain(a, b).breaks == ()
    assert pk.fuse(lambda x: pk.allclose(x, x))(a) is False  # NaN


def test_infinities_warn_of_nothing(engine):
    x = np.array([np.inf, -np.inf, np.nan])
    with np.errstate(all="raise"):
        assert pk.isclose(x, x).tolist() == [True, True, False]
        assert pk.allclose(x[:2], x[:2])


def test_calls_that_only_numpy_supports():
    assert pk.array_equal(["a", "b"], ["a", "b"]) is True
    assert pk.allclose([1j], [1j]) is True
    with pytest.raises(ValueError, match="could not be broadcast together"):
        pk.isclose(np.zeros(3), np.zeros(2))


BELOW_ONE = 1 - 2.0**-53  # rounds to 1 in float32


@pytest.mark.parametrize(
    ("b", "tolerances", "is_near"),
    [
        (BELOW_ONE, {"atol": 0, "rtol": 0}, True),
        (np.float64(BELOW_ONE), {"atol": 0, "rtol": 0}, False),
        (np.float32(0), {"atol": BELOW_ONE}, True),
        (np.float32(0), {"atol": np.float64(BELOW_ONE)}, False),
        (2, {"atol": 0, "rtol": BELOW_ONE / 2}, True),
        (2, {"atol": np.zeros(1, np.float32), "rtol": BELOW_ONE / 2}, True),
        (2, {"atol": np.zeros(1, np.int32), "rtol": BELOW_ONE / 2}, False),
        (2, {"atol": 0, "rtol": np.float64(BELOW_ONE / 2)}, False),
    ],
)
def test_python_numbers_take_the_types_of_others(engine, b, tolerances, is_near):
    a = np.ones(1, np.float32)
    assert np.isclose(a, b, **tolerances) == is_near
    assert pk.isclose(a, b, **tolerances) == is_near
    assert pk.allclose(a, b, **tolerances) is is_near


TOLERANCES = [{"atol": np.inf}, {"rtol": np.nan}, {"atol": [1, np.inf, 1]}]


@pytest.mark.parametrize("tolerances", TOLERANCES, ids=str)
def test_tolerances_that_are_no_numbers(engine, tolerances):
    a = np.arange(3)
    with pytest.warns(RuntimeWarning, match="One of rtol or atol is not valid") as numpys:
        want = np.isclose(a, a, **tolerances)
    for compare, wanted in ((pk.isclose, want), (pk.allclose, bool(want.all()))):
        with pytest.warns(RuntimeWarning) as ours:
            assert_same(compare(a, a, **tolerances), wanted)
        assert [str(each.message) for each in ours] == [str(numpys[0].message)]
        with np.errstate(invalid="ignore"):
            assert_same(compare(a, a, **tolerances), wanted)
        with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="is not valid"):
            compare(a, a, **tolerances)
