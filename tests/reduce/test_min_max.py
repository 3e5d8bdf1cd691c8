"""Minima, maxima, truth and sums of short integers, for which the CPU engine has special loops."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import pycudakit as pk
from pycudakit._native.abi import TYPES

FLOATS = [dtype for dtype in TYPES if dtype.kind == "f"]
NAMES = ["max", "min", "argmax", "argmin", "ptp"]


def laid_out(a, layout):
    """Return an array's values in another layout."""
    if layout == "strided":
        wide = np.empty((a.shape[0], 2 * a.shape[1]), a.dtype)
        wide[:, ::2] = a
        return wide[:, ::2]
    return np.asarray(a, order="F" if layout == "columns" else "C")


def assert_same(got, wanted):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted), strict=True)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize("shape", [(1500, 1), (1500, 3), (1100, 70), (3, 1500)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinities_and_nan_of_either_sign(engine, dtype, shape, layout):
    values = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    nan = np.array([np.nan, -np.nan], dtype)
    nan[1] = np.copysign(nan[0], dtype.type(-1))
    assert np.signbit(nan).tolist() == [False, True]
    for special in (np.inf, -np.inf, nan[0], nan[1]):
        values[...] = np.where(np.isfinite(values), values, 0)
        values[shape[0] // 2, shape[1] // 2] = special
        a = laid_out(values, layout)
        for name, axis in itertools.product(NAMES, (None, 0, 1)):
            with np.errstate(invalid="ignore"):
                wanted = getattr(np, name)(a, axis=axis)
                assert_same(getattr(pk, name)(a, axis=axis), wanted)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_ends_of_a_type(engine, dtype, layout):
    ends = [False, True] if dtype.kind == "b" else [np.finfo, np.iinfo][dtype.kind in "iu"](dtype)
    least, most = ends if dtype.kind == "b" else (ends.min, ends.max)
    for first, second in ((least, most), (most, least)):
        values = np.full((1300, 5), first, dtype)
        values[700, 2] = second
        a = laid_out(values, layout)
        for name, axis in itertools.product(["max", "min", "argmax", "argmin", "any", "all"], (None, 0, 1)):
            assert_same(getattr(pk, name)(a, axis=axis), getattr(np, name)(a, axis=axis))


def test_bytes_of_truth(engine):
    """NumPy takes any nonzero byte for True, and returns it unchanged."""
    a = np.zeros((1200, 3), np.uint8)
    a[700, 1] = 2
    truth = a.view(bool)
    for name, axis in itertools.product(["any", "all", "count_nonzero", "sum"], (None, 0, 1)):
        assert_same(getattr(pk, name)(truth, axis=axis), getattr(np, name)(a != 0, axis=axis))
    assert_same(pk.max(truth, axis=0), [False, True, False])


@pytest.mark.parametrize("size", [255, 256, 257, 1024, 5000])
@pytest.mark.parametrize("dtype", [dtype for dtype in TYPES if dtype.kind in "iu"], ids=str)
def test_sums_of_the_greatest_and_the_least(engine, dtype, size):
    limits = np.iinfo(dtype)
    for number in (limits.min, limits.max):
        a = np.full((size, 2), number, dtype)
        for axis in (None, 0):
            assert_same(pk.sum(a, axis=axis), np.sum(a, axis=axis))
            assert_same(pk.sum(a[:, 0]), np.sum(a[:, 0]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products_of_the_least_numbers_and_the_largest(engine, dtype):
    least, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    rng = np.random.default_rng(2)
    a = np.concatenate([np.full(40, least), np.full(40, most), rng.uniform(0.5, 2, 3000).astype(dtype)])
    a[::7] *= -1
    rng.shuffle(a)
    exact = Fraction(1)
    for number in a.tolist():
        exact *= Fraction(number)
    while len(a) < 6000 and not float(np.finfo(dtype).tiny) < abs(float(exact)) < float(most):
        factor = dtype.type(2 if abs(float(exact)) < 1 else 0.5)
        a, exact = np.append(a, factor), exact * Fraction(float(factor))
    for got in (pk.prod(a), pk.prod(np.stack([a, a], axis=1), axis=0)[1]):
        assert abs(Fraction(float(got)) - exact) <= abs(exact) * Fraction(float(np.finfo(dtype).eps)) / 2
    for special, wanted in ((0.0, 0.0), (np.inf, np.inf), (np.nan, np.nan)):
        assert_same(abs(pk.prod(np.append(a, dtype.type(special)))), dtype.type(wanted))
