"""`interp` against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pycudakit as pk
from pycudakit._native import abi, loader

RNG = np.random.default_rng(3)
# Equal to NumPy if its compiler made no fused operations, else within a few roundings.
EXACT = {"rtol": 0, "atol": 1e-13, "equal_nan": True}


def points(size):
    return np.sort(RNG.random(size)), RNG.standard_normal(size)


@pytest.mark.parametrize("size", [1, 2, 3, 100, 70_000])
@pytest.mark.parametrize("count", [0, 1, pytest.param(1000, marks=pytest.mark.smoke), 150_001])
def test_values_between_points(engine, size, count):
    xp, fp = points(size)
    x = RNG.random(count) * 1.2 - 0.1
    np.testing.assert_allclose(pk.interp(x, xp, fp), np.interp(x, xp, fp), **EXACT)
    np.testing.assert_allclose(pk.interp(np.sort(x), xp, fp), np.interp(np.sort(x), xp, fp), **EXACT)


def test_at_the_points(engine):
    xp, fp = points(1000)
    np.testing.assert_array_equal(pk.interp(xp, xp, fp), fp)


def test_values_outside_the_points(engine):
    x = np.array([-np.inf, -1, 0, 1, 2, np.inf, np.nan])
    xp, fp = [0.0, 1.0], [3.0, 4.0]
    np.testing.assert_array_equal(pk.interp(x, xp, fp), [3, 3, 3, 4, 4, 4, np.nan])
    np.testing.assert_array_equal(
        pk.interp(x, xp, fp, left=-5, right=np.inf), np.interp(x, xp, fp, -5, np.inf)
    )
    np.testing.assert_array_equal(pk.interp(x, [0.0], [3.0], 1, 2), np.interp(x, [0.0], [3.0], 1, 2))


@pytest.mark.parametrize("period", [1, 360.0, -360])
def test_period(engine, period):
    xp, fp = RNG.random(20) * 500 - 100, RNG.standard_normal(20)
    x = RNG.random(1000) * 2000 - 1000
    got = pk.interp(x, xp, fp, left=99, right=99, period=period)
    np.testing.assert_allclose(got, np.interp(x, xp, fp, period=period), rtol=0, atol=1e-9)


numbers = st.floats(-100, 100, width=16) | st.sampled_from([np.inf, -np.inf, 0.0])


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=9),
    st.lists(numbers | st.just(np.nan), max_size=9),
)
def test_as_numpy(engine, pairs, x):
    """Equal and infinite sample points, too."""
    xp, fp = np.array(sorted(pairs)).T
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(pk.interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "?", "u8"])
def test_types_and_layouts(engine, dtype):
    x = (RNG.random((40, 30)) * 20).astype(dtype)[::2, ::-3]
    x.flags.writeable = False
    xp, fp = np.arange(40.0)[::2], np.arange(20, dtype=np.int8)[::-1]
    got = pk.interp(x, xp, fp)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.interp(x, xp, fp), **EXACT)
    assert pk.last_call().engine == engine


def test_a_number_gives_a_number(engine):
    got = pk.interp(1.5, [1, 2], [10, 20])
    assert got == 15
    assert type(got) is np.float64


@pytest.mark.parametrize(
    ("xp", "fp", "error", "message"),
    [
        ([], [], ValueError, "sample points is empty"),
        ([1, 2], [1], ValueError, "not of the same length"),
        ([[1, 2]], [[1, 2]], ValueError, "too deep"),
    ],
)
def test_calls_that_numpy_refuses(engine, xp, fp, error, message):
    with pytest.raises(error, match=message):
        pk.interp([1.0], xp, fp)
    with pytest.raises(error):
        np.interp([1.0], xp, fp)


def test_a_number_in_a_period(engine):
    for x in (1, 2.5, np.float32(-7), np.array(3)):
        for points in (([6.0], [2.0]), ([6.0, 1.0], [2.0, 3.0])):
            got, want = (kit.interp(x, *points, period=4) for kit in (pk, np))
            assert type(got) is type(want)
            assert got == want


def test_a_period_of_zero(engine):
    with pytest.raises(ValueError, match="non-zero"):
        pk.interp([1.0], [1, 2], [3, 4], period=0)


def test_complex_values_are_numpys(engine):
    with pytest.raises(pk.errors.Unsupported, match=r"interp: not on the .* engine"):
        pk.interp([0.5], [0, 1], [1j, 2])
    with pk.engine("auto"):
        np.testing.assert_array_equal(pk.interp([0.5], [0, 1], [1j, 2]), [1 + 0.5j])


def test_both_engines_have_the_same_bits(both_engines):
    xp, fp = points(5000)
    x = RNG.random(300_000) * 1.2 - 0.1
    results = []
    for name in ("cpu", "cuda"):
        with pk.engine(name):
            results.append(pk.interp(x, xp, fp))
    np.testing.assert_array_equal(*results)


def test_the_abi_refuses(engine):

    library = loader.library(engine)
    array, report = np.ones(4), np.empty(1, abi.REPORT)
    for size, count, message in ((0, 4, "no points"), (4, -1, "count is negative")):
        with pytest.raises(pk.errors.InvalidArgument, match=message):
            library.pk_interp(
                *(array, array, size, 0.0, 1.0, array, np.zeros(4), count), np.zeros(1, abi.OPTIONS), report
            )
