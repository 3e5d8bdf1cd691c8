"""Aliases, and functions that are compared with NumPy within a tolerance, not bit for bit."""

import numpy as np
import pytest
from helpers.numpy_versions import since
from helpers.strategies import FLOATS
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk

ALIASES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "around": "round",
    "bitwise_invert": "invert",
    "bitwise_not": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "pow": "power",
}


@pytest.mark.parametrize("alias", ALIASES)
def test_other_names(alias):
    assert getattr(pk, alias) is getattr(pk, ALIASES[alias])
    assert alias in pk.__all__
    assert hasattr(np, alias)


def _numbers(dtype):
    width = 8 * np.dtype(dtype).itemsize
    return st.lists(st.floats(width=width), min_size=1, max_size=50).map(lambda v: np.array(v, dtype))


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@given(data=st.data())
def test_logarithms_of_sums(engine, name, dtype, data):
    a, b = (data.draw(_numbers(dtype)) for _ in range(2))
    with np.errstate(all="ignore"):
        got = getattr(pk, name)(a[:, None], b)
        wide = np.longdouble
        want = getattr(np, name)(a[:, None].astype(wide), b.astype(wide))
        # Near zero the terms of the result cancel: there the tolerance is absolute.
        size = np.maximum(np.abs(want), 1)
        wrong = ~np.isclose(got.astype(wide), want, 0, 2.5 * np.finfo(dtype).eps * size, equal_nan=True)
        beyond = np.abs(want) > np.finfo(dtype).max
    assert got.dtype == dtype
    assert np.array_equal(got[beyond], want[beyond].astype(dtype))
    assert not (wrong & ~beyond).any()


@pytest.mark.parametrize(
    "dtype",
    [dtype if dtype != "float16" else pytest.param(dtype, marks=since("2.3")) for dtype in FLOATS]
    + ["int16", "bool"],
)
def test_sinc(engine, dtype):
    x = np.linspace(-3, 3, 61).astype(dtype)
    got, want = pk.sinc(x), np.sinc(x)
    assert got.dtype == want.dtype
    assert np.allclose(got, want, 4 * np.finfo(want.dtype).eps, 4 * np.finfo(want.dtype).eps)
    assert pk.sinc(0) == 1.0
    assert np.isnan(pk.sinc(np.nan))


def test_two_results(engine):
    x = np.array([6.0, -0.5, 0.0])
    fraction, exponent = np.empty(3), np.empty(3, np.int32)
    assert pk.frexp(x, fraction, exponent)[0] is fraction
    assert np.array_equal(np.ldexp(fraction, exponent), x)
    behind, before = pk.modf(x, out=(fraction, None))
    assert behind is fraction
    assert np.array_equal(behind + before, x)
    with pytest.raises(TypeError, match="cannot specify 'out' as both a positional and keyword argument"):
        pk.modf(x, fraction, out=(fraction, None))
    with pytest.raises(TypeError, match="'out' must be a tuple of arrays"):
        pk.frexp(x, out=fraction)


def test_division_by_zero_is_reported(engine):
    ones = np.ones(3, int)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in fmod"):
        assert np.array_equal(pk.fmod(ones, 0), [0, 0, 0])
    with pytest.warns(RuntimeWarning, match="invalid value encountered in fmod"):
        assert np.isnan(pk.fmod(1.0 * ones, 0.0)).all()
    with pytest.warns(RuntimeWarning, match="overflow encountered in ldexp"):
        assert np.isinf(pk.ldexp(np.ones(3, "f4"), 200)).all()


@pytest.mark.parametrize("name", ["frexp", "modf", "sinc", "degrees", "fmod", "logaddexp", "ldexp"])
def test_fused_calls_of_either_librarys_function(engine, name):
    x = np.linspace(0.1, 5, 40_000)
    second = {"ldexp": (np.arange(40_000) % 7,), "fmod": (x[::-1].copy(),), "logaddexp": (x[::-1].copy(),)}
    inputs = (x, *second.get(name, ()))
    numpys, ours = (getattr(xp, name) for xp in (np, pk))

    @pk.fuse
    def calling_numpy(*a):
        return numpys(*a)

    @pk.fuse
    def calling_pycudakit(*a):
        return ours(*a)

    want = ours(*inputs)
    for fused in (calling_numpy, calling_pycudakit):
        got = fused(*inputs)
        assert np.array_equal(np.asarray(got), np.asarray(want)), fused
