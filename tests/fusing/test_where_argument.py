"""`where=` and comparisons of whole arrays in a fused function give NumPy's results."""

import warnings

import numpy as np
import pytest
from helpers.strategies import assert_values
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

SIZE = 10_007
RNG = np.random.default_rng(1)
FLOATS = RNG.integers(-9, 9, SIZE).astype(np.float32)
UNARY = ["sqrt", "log", "exp", "negative", "reciprocal", "arccos", "floor", "arctanh"]
BINARY = ["add", "divide", "power", "remainder", "maximum", "less", "logical_and", "arctan2", "fmod"]


def met(function, *arguments):
    """Return a function's result, its written arguments, and its warnings."""
    given = [np.array(each) for each in arguments]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*given)
    return [result, *given], {str(each.message) for each in caught}


def compare(function, *arguments, ulp=2):
    ours, warned = met(pk.fuse(function, strict=True), *arguments)
    numpys, numpy_warned = met(function, *arguments)
    for mine, theirs in zip(ours, numpys, strict=True):
        assert_values(mine, theirs, ulp)
    assert warned == numpy_warned


@pytest.mark.parametrize("name", UNARY)
def test_one_argument(engine, name):
    ufunc = getattr(np, name)
    compare(lambda x, out: ufunc(x * 2, out=out, where=x > 0), FLOATS, np.full(SIZE, 7, np.float32))
    compare(lambda x: ufunc(x, out=x, where=(x > 0) & (x < 5)), FLOATS)


@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(engine, name):
    ufunc = getattr(np, name)
    old = np.full(SIZE, 7, np.float32)
    compare(lambda x, y, out: ufunc(x, y, out=out, where=y > 0), FLOATS, FLOATS[::-1], old)
    compare(lambda x, out: ufunc(x, 3, out=out, where=x > 0) + 1, FLOATS, old)


@given(data=st.data())
def test_shapes(engine, data):
    shape = (3, data.draw(st.integers(1, 5)), 700)
    mask_shape = tuple(data.draw(st.sampled_from([1, n])) for n in shape)[data.draw(st.integers(0, 3)) :]
    x_shape = tuple(data.draw(st.sampled_from([1, n])) for n in shape)
    dtype = data.draw(st.sampled_from([np.float32, np.float64, np.int32]))
    mask, x = RNG.random(mask_shape) < 0.5, RNG.integers(1, 9, x_shape).astype(dtype)
    compare(lambda x, m, out: np.multiply(x, 3, out=out, where=m), x, mask, np.zeros(shape, dtype))


def test_one_pass(engine):
    @pk.fuse
    def ratio(a, b):
        out = np.zeros_like(a)
        np.divide(a, b, out=out, where=b != 0)
        return out * 2

    a, b = np.ones(SIZE), np.arange(SIZE) % 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # masked elements raise no floating-point flags
        plan = ratio.explain(a, b)
    assert not plan.breaks
    assert engine == "auto" or {each.engine for each in plan.passes} == {engine}
    assert_values(ratio(a, b), np.where(b == 0, 0, 2 / np.where(b == 0, 1, b)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, out: np.add(x, 1, out=out, where=np.ones((2, x.size + 1), bool)),
        lambda x, out: np.add(x, 1, out=out, where=x),  # not a boolean mask
        lambda x, out: np.add(x[:, None], x, out=out, where=x > 0),
        lambda x, out: np.add(x, 1, out=out.astype(np.int32), where=x > 0),
    ],
    ids=["the mask's shape", "the mask's type", "the result's shape", "the result's type"],
)
def test_errors(engine, function):
    x, out = np.ones(9000), np.zeros(9000)
    with pytest.raises((TypeError, ValueError)) as numpys:
        function(x, out)
    with pytest.raises(type(numpys.value)) as ours:
        pk.fuse(function)(x, out)
    assert str(ours.value) == str(numpys.value)
    assert not out.any()


def test_integers_to_negative_powers_are_numpys(engine):
    def powers(x, y):
        np.power(x, y, out=x, where=y >= 0)

    x, y = np.full(9000, 3), np.arange(9000) % 5 - 1
    want = x.copy()
    powers(want, y)
    pk.fuse(powers)(x, y)
    np.testing.assert_array_equal(x, want)


# ---- Writes by a mask, and comparisons -----------------------------------------------------------------


@pytest.mark.parametrize("value", [3, 2.5, True, "an array", "a row"])
def test_copyto(engine, value):
    def copied(x, y):
        given = {"an array": y, "a row": y[0]}.get(value, value)
        np.copyto(x, given, where=y > 0)
        np.copyto(x, x[::-1], where=(y < 0)[:1])
        return x + 1

    compare(copied, FLOATS[:10_000].reshape(100, 100), FLOATS[7:10_007].reshape(100, 100), ulp=0)


def test_copyto_casts_as_numpy_does(engine):
    x = np.zeros(9000, np.float32)
    with pytest.raises(TypeError, match=r"Cannot cast"):
        pk.fuse(lambda x, y: np.copyto(x, y, where=y > 0, casting="safe"))(x, np.ones(9000))
    assert not x.any()
    pk.fuse(lambda x, y: np.copyto(x, y, where=y > 0))(x, np.ones(9000))
    assert x.all()


def test_comparisons(engine):
    def steps(x):
        for count in range(50):
            new = (x + 2 / x) / 2
            if np.allclose(new, x, rtol=1e-12):
                return count, np.array_equal(new, x), np.allclose(new, x + 1)
            x = new
        return None

    x = np.linspace(1, 9, SIZE)
    found = pk.fuse(steps, strict=True)(x)
    assert found == steps(x)
    assert all(type(one) is bool for one in found[1:])
